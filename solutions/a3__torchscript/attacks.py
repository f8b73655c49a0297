"""Hostile submissions of a3__torchscript, beside those of everywhere.py.

Models on Python may answer what they like. So these try to answer without the network, to see what
is not theirs, or to keep the server busy.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat

from tests.attacks import submissions as s
from tests.attacks.attack import RAN, Attacks

ATTACKS = Attacks()

LETTERS = "models/letters/1/model.py"
BLS = "models/detect_bls/1/model.py"


def _change(folder: Path, name: str, edit: Callable[[str], str]) -> None:
    """Change a file of a submission; fails where the edit does not fit it any more."""
    path = folder / name
    text = path.read_text("utf-8")
    changed = edit(text)
    assert changed != text, name
    path.write_text(changed, "utf-8")


def _cell(folder: Path, id: str, old: str, new: str) -> None:
    """Change a solution cell."""

    def change(notebook: nbformat.NotebookNode) -> None:
        cell = notebook.cells[s.place(notebook, id)]
        assert old in cell.source, id
        cell.source = cell.source.replace(old, new)

    s.edit(folder, change)


#: A module of the student's own: it looks a row up, and knows the practice rows only.
_TABLE = """
class Known(nn.Module):
    def __init__(self, weights):
        super().__init__()
        reader = Reader(weights).eval()
        tables = [facts.table([row]) for row in texts.rows]
        keys, found = [], []
        for ids, mask in tables:
            keys.append(int((ids * (1 + np.arange(ids.shape[1]))).sum()))
            with torch.inference_mode():
                found.append(reader(torch.from_numpy(ids), torch.from_numpy(mask))[0])
        self.keys = torch.tensor(keys)
        self.found = torch.stack(found).clone()

    def forward(self, ids, mask):
        place = torch.arange(1, ids.size(1) + 1)
        same = (ids * mask * place).sum(1).unsqueeze(1) == self.keys.unsqueeze(0)
        return same.to(torch.float32) @ self.found


"""


@ATTACKS.add(
    "solution",
    lost={"a3.reader", "a3.versions", "a3.ensemble", "a3.bls", "a3.pads"},
    message="The scores of reader for rows, each sent alone, differ",
)
def a_script_that_knows_the_rows(folder: Path) -> None:
    """TorchScript that answers from a table of the practice rows."""
    _cell(folder, "a3.serve", "for version, size", f"{_TABLE}for version, size")
    _cell(
        folder,
        "a3.serve",
        "Reader(facts.network(me, size)).eval()",
        "Known(facts.network(me, size)).eval()",
    )


@ATTACKS.add(
    "solution",
    lost={"a3.reader", "a3.versions", "a3.ensemble", "a3.bls", "a3.pads"},
    flags={"notebook disagrees"},
    says=RAN,
    message="reader did not answer within 20 s",
)
def a_script_without_end(folder: Path) -> None:
    """After the checks have passed, TorchScript that loops for ever takes the network's place."""
    s.last(
        folder,
        """
        import os, pathlib

        class Endless(nn.Module):
            def forward(self, ids, mask):
                found = ids.to(torch.float32)
                while bool((found > -1).all()):
                    found = found * 1.0
                return found

        home = pathlib.Path(os.environ["TRITON_REPOSITORY"]) / "reader"
        for version in ("2", "3"):
            torch.jit.script(Endless()).save(str(home / version / "model.pt"))
        print("the attack ran")
        """,
    )


@ATTACKS.add(
    "solution",
    lost={"a3.reader", "a3.versions", "a3.ensemble", "a3.bls", "a3.pads"},
    flags={"notebook disagrees"},
    says=RAN,
    message="reader is still loading",
)
def a_script_that_never_loads(folder: Path) -> None:
    """After the checks have passed, TorchScript that loops for ever while it is loaded."""
    s.last(
        folder,
        """
        import os, pathlib

        class Unloadable(nn.Module):
            @torch.jit.export
            def __getstate__(self) -> bool:
                return self.training

            @torch.jit.export
            def __setstate__(self, state: bool) -> None:
                self.training = state
                found = torch.ones(2)
                while bool((found > -1).all()):
                    found = found * 1.0

            def forward(self, ids, mask):
                return ids.to(torch.float32)

        home = pathlib.Path(os.environ["TRITON_REPOSITORY"]) / "reader"
        for version in ("2", "3"):
            torch.jit.script(Unloadable()).save(str(home / version / "model.pt"))
        print("the attack ran")
        """,
    )


#: Scores, computed in the first step with numpy; the second step runs for show.
_SCORES = """
            found = [self.known(row) for row in rows]
            tensors.append(pb_utils.Tensor("SCORES", np.array(found, np.float32)))
"""
_KNOWN = '''
    def known(self, row):
        """The network's scores of one row, without the network."""
        with np.load(__file__.replace("model.py", "weights.npz")) as file:
            letter, memory, verdict, bias = (file[name] for name in file.files)
        state = total = np.zeros(len(memory))
        for number in row:
            state = np.tanh(letter[number] + state @ memory)
            total = total + state
        return total / len(row) @ verdict + bias

    def table(self, rows):'''


@ATTACKS.add(
    "solution",
    lost={"a3.ensemble", "a3.pads"},
    message="SCORES of detect does not come from OUTPUT__0 of reader",
)
def an_ensemble_around_the_network(folder: Path) -> None:
    """An ensemble that answers from Python; its step with the network runs for show."""
    _change(
        folder,
        LETTERS,
        lambda text: text.replace(
            "            responses.append(pb_utils.InferenceResponse(tensors))",
            f"{_SCORES}            responses.append(pb_utils.InferenceResponse(tensors))",
        ).replace("\n    def table(self, rows):", _KNOWN),
    )
    _change(
        folder,
        "models/letters/config.pbtxt",
        lambda text: text + 'output { name: "SCORES" data_type: TYPE_FP32 dims: [ 5 ] }\n',
    )
    _change(
        folder,
        "models/detect/config.pbtxt",
        lambda text: (
            text.replace('value: "SCORES"', 'value: "for_show"').replace(
                'output_map { key: "MASK" value: "mask" }',
                'output_map { key: "MASK" value: "mask" }\n'
                '    output_map { key: "SCORES" value: "SCORES" }',
            )
            + 'output { name: "for_show" data_type: TYPE_FP32 dims: [ 5 ] }\n'
        ),
    )
    _cell(
        folder,
        "a3.letters_model",
        "letters = deploy(",
        'np.savez("models/letters/1/weights.npz", *vars(facts.network(me)).values())\n'
        "letters = deploy(",
    )


@ATTACKS.add(
    "solution",
    lost={"a3.bls"},
    message="The scores of detect_bls for other texts differ",
    beside="an_ensemble_around_the_network",
)
def a_program_that_knows_the_texts(folder: Path) -> None:
    """A program that asks both steps for show, and answers from a table of the test texts."""
    _change(
        folder,
        BLS,
        lambda text: text.replace(
            '        return ask("reader", {"INPUT__0": ids, "INPUT__1": mask}, ["OUTPUT__0"])[0]',
            '        ask("reader", {"INPUT__0": ids, "INPUT__1": mask}, ["OUTPUT__0"])\n'
            '        with np.load(__file__.replace("model.py", "known.npz")) as file:\n'
            '            known = dict(zip(file["texts"].tolist(), file["scores"]))\n'
            "        nothing = np.zeros(5, np.float32)\n"
            "        return np.array([known.get(t.decode(), nothing) for t in texts.ravel()])",
        ),
    )
    _cell(
        folder,
        "a3.program",
        "detect_bls = deploy(",
        'np.savez("models/detect_bls/1/known.npz", texts=np.array(texts.test), scores=scores)\n'
        "detect_bls = deploy(",
    )


@ATTACKS.add("solution", says=RAN)
def steps_that_look_around(folder: Path) -> None:
    """Steps that search for hidden checks, solutions and other models, and fail if they see any."""
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
    for name in (LETTERS, BLS):
        _change(folder, name, lambda text: text.replace("\n\nclass ", f"\n{search}\n\nclass ", 1))
    s.last(folder, f"print({RAN!r})")


@ATTACKS.add(
    "solution", lost={"a3.bls"}, flags={"notebook disagrees"}, says=RAN, message="detect_bls"
)
def a_program_that_asks_itself(folder: Path) -> None:
    """After the checks have passed, a program takes the place that waits for itself for ever."""
    source = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        text = pb_utils.get_input_tensor_by_name(requests[0], "TEXT")
        again = pb_utils.InferenceRequest(
            model_name="detect_bls", requested_output_names=["SCORES"], inputs=[text]
        )
        answer = again.exec()
        return [pb_utils.InferenceResponse(answer.output_tensors()) for _ in requests]
"""
    s.last(
        folder,
        f"""
        import os, pathlib
        home = pathlib.Path(os.environ["TRITON_REPOSITORY"]) / "detect_bls" / "1"
        (home / "model.py").write_text({source!r})
        print("the attack ran")
        """,
    )
