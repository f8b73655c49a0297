"""Hostile submissions of a6__llm, beside those of everywhere.py.

`chat` and `chat_stream` are programs of the student's, and may answer what they like. vLLM takes
half a minute to start, so these leave its task out, unless they are about it.
"""

from __future__ import annotations

from pathlib import Path

import nbformat

from tests.attacks import submissions as s
from tests.attacks.attack import RAN, Attacks

ATTACKS = Attacks()

CHAT = "models/chat/1/model.py"
WRITING = "models/chat/1/writing.py"

_VLLM = {"a6.vllm", "a6.speed"}

#: Where the deployed models lie, as a notebook finds them.
_HOME = """
import json, os, pathlib, shutil
home = pathlib.Path(os.environ["TRITON_REPOSITORY"])
"""


def _change(folder: Path, name: str, old: str, new: str) -> None:
    """Change a file of a submission; fails where the edit does not fit it any more."""
    path = folder / name
    text = path.read_text("utf-8")
    assert old in text, name
    path.write_text(text.replace(old, new), "utf-8")


def _cell(folder: Path, id: str, source: str) -> None:
    """Write a solution cell anew."""

    def change(notebook: nbformat.NotebookNode) -> None:
        notebook.cells[s.place(notebook, id)].source = source

    s.edit(folder, change)


def _without_vllm(folder: Path) -> None:
    _cell(folder, "a6.engine", "chat_vllm = of_vllm = facts.NOT_ATTEMPTED")
    _cell(folder, "a6.measure", "rates = ...")


@ATTACKS.add(
    "solution", lost={"a6.greedy", "a6.stream", *_VLLM}, message="is not the likeliest one"
)
def answers_from_a_table(folder: Path) -> None:
    """It asks the network for show, and knows the answers to the student's prompts only.

    `chat_stream` has no such table.
    """
    _without_vllm(folder)
    _change(
        folder,
        WRITING,
        "            token = int(scores.argmax())\n",
        "            known = json.load(open(__file__.replace('writing.py', 'known.json')))\n"
        "            rank = -1 if self.prompt in known else -2\n"
        "            token = int(scores.argsort()[rank])\n",
    )
    _cell(
        folder,
        "a6.loop",
        "import json\n\n"
        "known = [tokenizer.encode(prompt).ids for prompt in prompts]\n"
        'json.dump(known, open("models/chat/1/known.json", "w"))\n'
        'chat = deploy("models/chat").name',
    )


@ATTACKS.add("solution", lost={"a6.greedy", *_VLLM}, message="rows of llama_step")
def tokens_that_no_step_has_made(folder: Path) -> None:
    """It computes the scores by itself, with the course's own reference, and asks no model."""
    _without_vllm(folder)
    _change(
        folder,
        CHAT,
        "            scores, cache = ask(ids, positions, mask, cache)\n",
        "            from grader.assignments.a6__llm import network\n\n"
        f"            me = {'self-study'!r}\n"
        "            texts = [[*answer.prompt, *answer.tokens] for answer in answers]\n"
        "            scores = np.array([network.logits(me, text)[-1] for text in texts])\n",
    )


@ATTACKS.add(
    "solution",
    lost={"a6.step", "a6.greedy", "a6.sampling", "a6.knobs", *_VLLM},
    flags={"notebook disagrees"},
    says=RAN,
    message="The scores of llama_step differ",
)
def another_network_after_the_checks(folder: Path) -> None:
    """The step replaced by that of another id, after all checks have passed."""
    _without_vllm(folder)
    s.last(
        folder,
        f"""{_HOME}
facts.fetch_network("somebody else")
shutil.copy("models/llama_step/1/model.onnx", home / "llama_step" / "1")
print({RAN!r})
""",
    )


@ATTACKS.add(
    "solution",
    lost={"a6.stream", "a6.clients", *_VLLM},
    flags={"notebook disagrees"},
    says=RAN,
    message="chat_stream",
)
def a_stream_that_never_ends(folder: Path) -> None:
    """After the checks have passed, a stream takes its place that sends for ever."""
    _without_vllm(folder)
    source = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            while not sender.is_cancelled():
                sender.send(
                    pb_utils.InferenceResponse(
                        [
                            pb_utils.Tensor("text_output", np.array([b"x"], object)),
                            pb_utils.Tensor("token_ids", np.array([5], np.int32)),
                            pb_utils.Tensor("logprobs", np.array([-1], np.float32)),
                            pb_utils.Tensor("finish_reason", np.array([b""], object)),
                        ]
                    )
                )
"""
    s.last(
        folder,
        f"""{_HOME}
(home / "chat_stream" / "1" / "model.py").write_text({source!r})
print({RAN!r})
""",
    )


@ATTACKS.add("solution", lost=_VLLM, says=RAN)
def models_that_look_around(folder: Path) -> None:
    """Models that search for hidden checks and solutions, and fail if they see any."""
    _without_vllm(folder)
    search = """
import os as _os

for _top in ("/", _os.getcwd()):
    for _base, _folders, _files in _os.walk(_top):
        _folders[:] = [n for n in _folders if n not in ("proc", "sys", "site-packages", "usr")]
        _place = _os.path.join(_base, "")
        for _name in _files:
            _path = _place + _name
            if _name == "hidden.py" or "/solutions/" in _path:
                raise RuntimeError("LEAK " + _path)
"""
    for name in (CHAT, "models/chat_stream/1/model.py"):
        _change(folder, name, "\n\n\nclass Triton", f"\n{search}\n\nclass Triton")
    s.last(folder, f"print({RAN!r})")


def _forge(folder: Path, more: str) -> None:
    """Hand over a folder for vLLM that no engine has loaded, with the right texts of `chat`."""
    _cell(
        folder,
        "a6.engine",
        f"""{_HOME}
target = home / "chat_vllm"
shutil.copytree("models/chat_vllm", target)
{more}
chat_vllm = "chat_vllm"
of_vllm = texts("chat", prompts[:8], temperature=0, max_tokens=24)
print({RAN!r})""",
    )
    _cell(folder, "a6.measure", "rates = ...")


@ATTACKS.add(
    "solution",
    lost=_VLLM,
    says=RAN,
    message="modeling.py",
    beside="another_network_after_the_checks",
)
def code_in_the_checkpoint(folder: Path) -> None:
    """A module beside the weights, which transformers would run as the tokenizer."""
    _forge(
        folder,
        """
(target / "1/checkpoint/modeling.py").write_text("import os; os.system('touch /tmp/owned')")
""",
    )


@ATTACKS.add(
    "solution",
    lost=_VLLM,
    says=RAN,
    message="The checkpoint of chat_vllm is not your",
    beside="a_stream_that_never_ends",
)
def a_tokenizer_that_names_code(folder: Path) -> None:
    """config.json names a class of code for the tokenizer, as `trust_remote_code` would load it."""
    _forge(
        folder,
        """
path = target / "1/checkpoint/config.json"
config = json.loads(path.read_text()) | {"auto_map": {"AutoTokenizer": "modeling.Tokenizer"}}
path.write_text(json.dumps(config))
""",
    )


@ATTACKS.add(
    "solution",
    lost=_VLLM,
    says=RAN,
    message="the argument 'trust_remote_code'",
    beside="models_that_look_around",
)
def an_engine_that_trusts(folder: Path) -> None:
    """model.json lets the engine run what lies beside the weights."""
    _forge(
        folder,
        """
path = target / "1/model.json"
path.write_text(json.dumps(json.loads(path.read_text()) | {"trust_remote_code": True}))
""",
    )


@ATTACKS.add("solution", lost={"a6.greedy"} | _VLLM, message="a step of chat takes")
def steps_that_nobody_needs(folder: Path) -> None:
    """No cache: each step computes the whole text. Short steps beside it make the mean small.

    Where prompts are short it is as the solution, since there the steps are counted.
    """
    _without_vllm(folder)
    _change(
        folder,
        CHAT,
        "            scores, cache = ask(ids, positions, mask, cache)\n",
        "            row = answers[0]\n"
        "            if len(answers) == ids.shape[1] == 1 and len(row.prompt) >= 200:\n"
        "                whole = np.array([[*row.prompt, *row.tokens]])\n"
        "                places = np.arange(whole.shape[1])[None]\n"
        "                empty = np.zeros_like(cache[:1, :, :, :1])\n"
        "                shown = np.pad(np.ones_like(whole), ((0, 0), (1, 0)))\n"
        "                ask(whole, places, shown, empty)\n"
        "                for _ in range(3):\n"
        "                    ask(ids, np.zeros_like(ids), np.array([[0, 1]]), empty)\n"
        "            scores, cache = ask(ids, positions, mask, cache)\n",
    )


@ATTACKS.add(
    "solution",
    lost=_VLLM,
    says=RAN,
    message="The checkpoint of chat_vllm is not your",
    beside="steps_that_nobody_needs",
)
def another_checkpoint(folder: Path) -> None:
    """vLLM's folder holds the weights of another id."""
    _forge(
        folder,
        """
facts.fetch_network("somebody else")
shutil.copytree("models/chat_vllm/1/checkpoint", target / "1/checkpoint", dirs_exist_ok=True)
""",
    )
