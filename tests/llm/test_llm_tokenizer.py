"""Prompts and counts of tokens without transformers equal those of transformers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbook import zoo
from workbook.llm import tokenizer

pytestmark = pytest.mark.server

TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is a coroutine?\n<b>&"},
    {"role": "assistant", "content": "A function that waits."},
    {"role": "user", "content": "Über 5 €?"},
]
#: Features of templates on the hub: blocks, loops with `continue`, tokens, JSON.
TEMPLATES = [
    "{{ bos_token }}{% for m in messages %}\n    {% if loop.first %}\n[{{ m.role }}]\n"
    "    {% endif %}\n{{ m['content'] | trim }}{% endfor %}"
    "{% if add_generation_prompt %}>{{ eos_token }}{% endif %}",
    "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m | tojson }}"
    "{% endfor %}",
    "{% if tools is defined and tools %}tools{% endif %}{{ messages[-1].content.split()[0] }}",
]


@pytest.fixture(scope="module")
def checkpoint() -> Path:
    return zoo.checkpoint("llama_tiny")


def transformers_reads(checkpoint: Path) -> Any:
    """Its tokenizer, by transformers: the import takes seconds, so only these tests do it."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(checkpoint)


def model(at: Path, checkpoint: Path, template: str | None) -> Path:
    """A model's folder with the checkpoint and another chat template."""
    home = at / "model" / "1" / "checkpoint"
    shutil.copytree(checkpoint, home)
    (home / "chat_template.jinja").unlink(missing_ok=True)
    file = home / "tokenizer_config.json"
    settings = json.loads(file.read_text("utf-8"))
    settings.pop("chat_template", None)
    settings |= {"bos_token": "<pad>"} | ({} if template is None else {"chat_template": template})
    file.write_text(json.dumps(settings), "utf-8")
    return at / "model"


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_prompt_is_the_same(tmp_path: Path, checkpoint: Path, template: str) -> None:
    folder = model(tmp_path, checkpoint, template)
    theirs = transformers_reads(folder / "1" / "checkpoint")
    ours = tokenizer.read(folder)
    want = theirs.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=True)
    assert ours is not None
    assert ours.prompt(TURNS) == want
    assert ours.count(want) == len(theirs(want).input_ids)
    assert ours.context == 512


def test_the_course_s_own_template(tmp_path: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "model" / "1" / "checkpoint")
    theirs = transformers_reads(checkpoint)
    ours = tokenizer.read(tmp_path / "model")
    assert ours is not None
    assert ours.prompt(TURNS[1:]) == theirs.apply_chat_template(
        TURNS[1:], tokenize=False, add_generation_prompt=True
    )


def test_without_a_template_the_contents_are_the_prompt(tmp_path: Path, checkpoint: Path) -> None:
    ours = tokenizer.read(model(tmp_path, checkpoint, None))
    assert ours is not None
    assert ours.prompt(TURNS[:1]) == "Be brief."
    assert tokenizer.read(tmp_path) is None


def test_a_template_that_refuses_says_why(tmp_path: Path, checkpoint: Path) -> None:
    ours = tokenizer.read(model(tmp_path, checkpoint, "{{ raise_exception('no system turns') }}"))
    assert ours is not None
    with pytest.raises(ValueError, match="no system turns"):
        ours.prompt(TURNS)


def test_a_slow_tokenizer_is_left_to_transformers(tmp_path: Path, checkpoint: Path) -> None:
    """BERT's vocabulary in a text file: there is no tokenizer.json."""
    home = tmp_path / "model" / "1"
    home.mkdir(parents=True)
    (home / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]), "utf-8"
    )
    (home / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}', "utf-8")
    ours = tokenizer.read(tmp_path / "model")
    assert ours is not None
    assert ours.count("a b") == 4
    assert ours.context is None


def test_it_does_not_import_transformers(tmp_path: Path, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "model" / "1" / "checkpoint")
    program = (
        "import sys; from pathlib import Path; from workbook.llm import chat, tokenizer; "
        "print(tokenizer.read(Path(sys.argv[1])).count('a b c')); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
