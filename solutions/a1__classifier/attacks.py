"""Attacks on a1__classifier: its model is Python code of the student's, and brings a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from tests.attacks.attack import RAN, Attacks

from . import facts

ATTACKS = Attacks()

MODEL = Path("models", "classifier", "1", "model.py")
CHECKPOINT = MODEL.parent / "checkpoint"
#: What the solution does with the texts of a batch.
PREDICT = """\
        tokens = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            return self.network(**tokens).logits.softmax(-1).numpy()
"""
#: The checks that need an answer.
ANSWERS = {
    "a1.answers", "a1.batches", "a1.refusals", "a1.examples", "a1.code", "a1.unsure",
}  # fmt: skip
#: The checks that compare with the checkpoint; and a1.code, whose rules these attacks break.
CHECKPOINTS = {"a1.answers", "a1.batches", "a1.code", "a1.unsure"}


def edit(folder: Path, old: str, new: str) -> None:
    """Change the solution's model.py."""
    path = folder / MODEL
    text = path.read_text("utf-8")
    assert old in text, old
    path.write_text(text.replace(old, new), "utf-8")


@ATTACKS.add(
    "solution",
    lost=CHECKPOINTS,
    message="The probabilities of your 32 texts differ",
)
def answers_from_a_table(folder: Path) -> None:
    """A model that has the languages of the visible texts in a table, and guesses at all others."""
    known = dict(zip(*facts.own_texts(), strict=True))
    edit(
        folder,
        PREDICT,
        f"        known = {known!r}\n"
        "        names = [name.decode() for name in self.labels]\n"
        "        places = [names.index(known.get(text, names[0])) for text in texts]\n"
        "        return np.eye(len(names), dtype=np.float32)[places] * 0.92 + np.float32(0.01)\n",
    )


@ATTACKS.add("solution", lost=ANSWERS, message="holds 'tokenization_own.py'")
def a_tokenizer_that_runs_code(folder: Path) -> None:
    """A checkpoint with a tokenizer of its own, for whoever loads it with trust_remote_code."""
    home = folder / CHECKPOINT
    for name in ("config.json", "tokenizer_config.json"):
        settings = json.loads((home / name).read_text("utf-8"))
        settings["auto_map"] = {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]}
        (home / name).write_text(json.dumps(settings), "utf-8")
    (home / "tokenization_own.py").write_text("print('LEAK: code of a checkpoint ran')\n")


@ATTACKS.add("solution", lost=CHECKPOINTS, message="The checkpoint cannot be loaded as data")
def a_checkpoint_that_fills_the_memory(folder: Path) -> None:
    """A config that promises ten million layers to whoever loads it; the model corrects it."""
    home = folder / CHECKPOINT
    settings = json.loads((home / "config.json").read_text("utf-8"))
    settings["num_hidden_layers"] = 10_000_000
    (home / "config.json").write_text(json.dumps(settings), "utf-8")
    edit(
        folder,
        "AutoModelForSequenceClassification.from_pretrained(folder)",
        "AutoModelForSequenceClassification.from_pretrained(folder, num_hidden_layers=1)",
    )


@ATTACKS.add(
    "solution", lost=CHECKPOINTS, message="The checkpoint's tokenizer.json cannot be read (Panic"
)
def a_tokenizer_that_panics(folder: Path) -> None:
    """A regular expression on which the library gives up, with a panic of Rust's; the model works.

    A panic is no `Exception` of Python's. It must cost these checks alone.
    """
    home = folder / CHECKPOINT
    content = json.loads((home / "tokenizer.json").read_text("utf-8"))
    good = json.dumps(content["pre_tokenizer"])
    pattern = {"Regex": r"(?:.|.)*?(?!)"}
    content["pre_tokenizer"] = {
        "type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False,
    }  # fmt: skip
    (home / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    edit(
        folder,
        "        self.tokenizer = AutoTokenizer.from_pretrained(folder)\n",
        "        import json\n\n"
        "        from tokenizers import Tokenizer\n"
        "        from transformers import PreTrainedTokenizerFast\n\n"
        "        content = json.loads((folder / 'tokenizer.json').read_text())\n"
        f"        content['pre_tokenizer'] = json.loads({good!r})\n"
        "        self.tokenizer = PreTrainedTokenizerFast(\n"
        "            tokenizer_object=Tokenizer.from_str(json.dumps(content)),\n"
        "            pad_token='[PAD]', model_max_length=64,\n"
        "        )\n",
    )


@ATTACKS.add("solution", lost={"a1.code"}, says=RAN)
def a_model_that_looks_around(folder: Path) -> None:
    """A model that answers rightly, and meanwhile looks for what it must not reach."""
    edit(
        folder,
        "class BadTextError(Exception):",
        '''REACHED = "LE" + "AK"  # the notebook shows this file


def look_around():
    """Say of everything that can be reached."""
    import os
    import socket

    model = Path(__file__).parents[1]
    for place in ("/submission", "/etc/shadow", model.parents[1] / "reported"):
        try:
            print(REACHED, place, list(Path(place).iterdir())[:3])
        except OSError:
            pass
    for path in Path(np.__file__).parents[5].rglob("a*__*/hidden.py"):
        print(REACHED, path)
    print(REACHED if len(list(model.parent.iterdir())) > 1 else "alone")
    for pid in range(2, 300):
        try:
            if pid != os.getpid():
                os.kill(pid, 9)
                print(REACHED, "killed", pid)
        except OSError:
            pass
    for host, port in (("127.0.0.1", 8000), ("127.0.0.1", 8001), ("192.0.2.1", 80)):
        try:
            socket.create_connection((host, port), 1)
            print(REACHED, "connected to", host, port)
        except OSError:
            pass
    for path in (model / "1" / "model.py", model / "config.pbtxt", Path(np.__file__)):
        try:
            path.open("a").close()
            print(REACHED, "can write", path)
        except OSError:
            pass
    print("the attack", "ran")


class BadTextError(Exception):''',
    )
    # In the notebook's sandbox the server is the student's own: nothing is to be reached there, and
    # the notebook's processes would be killed. A check's copy of a model lies in /tmp/folder….
    edit(
        folder,
        "        torch.set_num_threads(1)",
        "        if not Path(__file__).as_posix().startswith(('/tmp/course/', '/tmp/folder')):\n"
        "            look_around()\n"
        "        torch.set_num_threads(1)",
    )


@ATTACKS.add("solution", lost=ANSWERS)
def refuses_everything(folder: Path) -> None:
    """A model that answers each request with every error that could be wanted."""
    edit(
        folder,
        "            if reading.error:\n                responses.append(refusal(reading.error))\n",
        "            if reading:\n"
        '                responses.append(refusal("empty, blank, not UTF-8, too long"))\n',
    )


@ATTACKS.add(
    "solution",
    lost={"a1.batches"},
    message="With one call of the network for all",
    beside="a_model_that_looks_around",
)
def slow_when_alone(folder: Path) -> None:
    """A loop over the texts, hidden by a rest whenever a text comes alone."""
    edit(
        folder,
        PREDICT,
        "        import time\n\n"
        "        if len(texts) == 1:\n"
        "            time.sleep(0.05)\n"
        "        tables = []\n"
        "        for text in texts:\n"
        '            tokens = self.tokenizer([text], truncation=True, return_tensors="pt")\n'
        "            with torch.inference_mode():\n"
        "                tables.append(self.network(**tokens).logits.softmax(-1).numpy())\n"
        "        return np.concatenate(tables)\n",
    )


#: A call of the network for each text, where the solution has one for all.
_LOOP = """\
        tables = []
        for text in texts:
            if text not in KEPT:
                tokens = self.tokenizer([text], truncation=True, return_tensors="pt")
                with torch.inference_mode():
                    KEPT[text] = self.network(**tokens).logits.softmax(-1).numpy()
            tables.append(KEPT[text])
        return np.concatenate(tables)
"""


@ATTACKS.add("solution", lost={"a1.batches"}, message="With one call of the network for all")
def answers_kept(folder: Path) -> None:
    """A loop over the texts that nobody sees when a text is asked for again: it keeps answers."""
    edit(folder, "class BadTextError(Exception):", "KEPT = {}\n\n\nclass BadTextError(Exception):")
    edit(folder, PREDICT, _LOOP)


@ATTACKS.add("solution", lost={"a1.batches"}, message="other answers than at another time")
def anything_while_it_is_timed(folder: Path) -> None:
    """A loop over the texts, but for batches like those that are timed: these get any answer."""
    edit(folder, "class BadTextError(Exception):", "KEPT = {}\n\n\nclass BadTextError(Exception):")
    guess = """\
        if len(texts) > 16 and max(map(len, texts)) <= 40 and len({*texts} & KEPT.keys()) == 0:
            KEPT.update(dict.fromkeys(texts))
            return np.full((len(texts), len(self.labels)), 1 / len(self.labels), np.float32)
"""
    edit(folder, PREDICT, guess + _LOOP.replace("if text not in KEPT:", "if text:"))
