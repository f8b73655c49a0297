"""Tests for a1__classifier only. test_assignments.py has the tests for every assignment."""

from __future__ import annotations

import ast
import json
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from ruff import find_ruff_bin

from grader.assignments.a1__classifier import answers as a1_answers
from grader.assignments.a1__classifier import batches, deep
from grader.assignments.a1__classifier import checks as a1
from grader.assignments.a1__classifier import facts as a1_facts
from grader.assignments.a1__classifier import hidden as secret
from grader.assignments.a1__classifier.examples import read_examples
from grader.assignments.a1__classifier.unsure import Counts, compare_counts
from grader.authoring import mutants
from grader.vocabulary import own, python_style
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Probe, Refusal
from workbook import assignments
from workbook.common.errors import WorkbookError
from workbook.zoo import data

ASSIGNMENT = assignments.named("a1")
SOLUTION = ASSIGNMENT.solution / "models/classifier/1/model.py"
#: Where a checkpoint lies.
HOME = Path("models", "classifier", "1", "checkpoint")


def test_mutants_are_many() -> None:
    assert len(mutants.load(ASSIGNMENT)) >= 30


# -- what is drawn for a student -------------------------------------------------------------------


def test_each_student_has_languages_and_texts_of_their_own() -> None:
    """An id in any case gives the same languages, another id others; the rest are foreign."""
    anna, berta = a1_facts.own_languages("anna"), a1_facts.own_languages("berta")
    assert anna == a1_facts.own_languages(" Anna ") != berta
    for me in ("anna", "berta", own.DEFAULT):
        known, (texts, truth) = a1_facts.own_languages(me), a1_facts.own_texts(me)
        others, theirs = a1_facts.foreign_texts(me)
        assert len(set(known)) == a1_facts.CLASSES
        assert len(set(texts)) == len(set(others)) == len(texts) == a1_facts.ROWS
        assert sorted(truth) == sorted(known * a1_facts.TEXTS)
        assert set(theirs) == set(data.LANGUAGES) - set(known)
        assert all(len(text) <= a1_facts.LONGEST for text in (*texts, *others))
    assert a1_facts.own_texts("anna") != a1_facts.own_texts("berta")
    for wrong in ("", 7, None):
        with pytest.raises(Failure, match="no student's id"):
            a1_facts.own_texts(wrong)  # type: ignore[arg-type]
    assert sum(a1_facts.SIZES) == a1_facts.ROWS


# -- the checkpoint --------------------------------------------------------------------------------


def probe_of(repository: Path) -> Probe:
    """A probe of a server that serves whatever is in a folder."""
    found = SimpleNamespace(
        server=SimpleNamespace(repository=repository / "models"),
        require=lambda name: None,
        allow_batches=lambda name, rows: None,
    )
    return cast(Probe, found)


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a1_facts.fetch_checkpoint("anna", tmp_path_factory.mktemp("a1") / HOME)


@pytest.fixture
def deployed(fetched: Path, tmp_path: Path) -> Path:
    """The checkpoint in a repository; returns its folder there."""
    folder = tmp_path / HOME
    folder.mkdir(parents=True)
    for path in fetched.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.server
def test_the_checkpoint_has_the_student_s_classes(deployed: Path, tmp_path: Path) -> None:
    """It names most texts' languages, as the zoo's does; a second call changes nothing."""
    probe = probe_of(tmp_path)
    assert a1_answers.checkpoint(probe, "classifier") == deployed
    labels = a1_answers.labels(deployed)
    assert tuple(labels) == a1_facts.own_languages("anna")
    texts, truth = a1_facts.own_texts("anna")
    table = secret.reference(probe, "classifier")(texts)
    named = [labels[best] for best in table.argmax(axis=1)]
    right = sum(one == other for one, other in zip(named, truth, strict=True))
    assert right >= a1_facts.RIGHT * len(texts)
    before = a1_answers.digest(deployed)
    a1_facts.fetch_checkpoint(" Anna", deployed)
    assert a1_answers.digest(deployed) == before
    a1_facts.fetch_checkpoint("berta", deployed)
    with pytest.raises(Failure, match="not those that are drawn"):
        a1_answers.is_own(a1_answers.labels(deployed), "anna")


@pytest.mark.parametrize(
    "folder", ["models/classifier/checkpoint", "checkpoint", "models/1/checkpoint", "1/checkpoint"]
)
def test_a_checkpoint_that_the_model_would_not_find(folder: str, tmp_path: Path) -> None:
    with pytest.raises(WorkbookError, match="would not find a checkpoint there"):
        a1_facts.fetch_checkpoint("anna", tmp_path / folder)
    assert not list(tmp_path.iterdir())


def change(path: Path, **settings: Any) -> None:
    """Set fields of a JSON file."""
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**content, **settings}), "utf-8")


@pytest.mark.server
@pytest.mark.parametrize("name", ["pytorch_model.bin", "modeling_own.py", "tf_model.h5"])
def test_a_checkpoint_holds_data_only(name: str, deployed: Path, tmp_path: Path) -> None:
    (deployed / name).write_bytes(b"")
    with pytest.raises(Failure, match=f"holds '{name}'"):
        a1_answers.checkpoint(probe_of(tmp_path), "classifier")


@pytest.mark.server
def test_a_checkpoint_is_a_folder_of_files(deployed: Path, tmp_path: Path) -> None:
    (deployed / "vocab.txt").symlink_to("/etc/passwd")
    with pytest.raises(Failure, match=r"holds 'vocab\.txt'"):
        a1_answers.checkpoint(probe_of(tmp_path), "classifier")
    with pytest.raises(Failure, match="is missing"):
        a1_answers.checkpoint(probe_of(tmp_path), "other")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"auto_map": {"AutoConfig": "own.Config"}}, "has an auto_map"),
        ({"model_type": "gpt2"}, "model_type is 'gpt2'"),
        ({"num_hidden_layers": 10_000_000}, "num_hidden_layers = 10000000"),
        ({"num_hidden_layers": 3}, "The checkpoint cannot be read"),
        ({"hidden_size": 4_000_000}, "hidden_size = 4000000"),
        ({"hidden_size": 128}, "The checkpoint cannot be read"),
        ({"hidden_act": "os.system"}, "The checkpoint cannot be read"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_config_that_is_not_of_these_weights(
    settings: dict[str, Any], words: str, deployed: Path, tmp_path: Path
) -> None:
    change(deployed / "config.json", **settings)
    with pytest.raises(Failure, match=words):
        secret.reference(probe_of(tmp_path), "classifier")


@pytest.mark.parametrize("named", [None, {}, {"0": "a"}, {"0": "a", "2": "b"}, {"0": 1, "1": 2}])
def test_labels_of_a_checkpoint_that_names_no_classes(named: Any, deployed: Path) -> None:
    change(deployed / "config.json", id2label=named)
    with pytest.raises(Failure, match="names no classes"):
        a1_answers.labels(deployed)


# -- one call for a batch ------------------------------------------------------------------------


@pytest.mark.server
def test_the_deep_network_is_the_same_each_time_and_reads_texts(
    deployed: Path, tmp_path: Path
) -> None:
    """Of a student's checkpoint it keeps tokens and classes; a loop takes longer than its limit."""
    assert deep.files(deployed) == deep.files(deployed)
    texts, _ = a1_facts.own_texts("anna")
    with secret.deep_reference(probe_of(tmp_path), "classifier") as network:
        table = network(texts)
        assert network.seconds(texts) > 0
    assert table.shape == (len(texts), a1_facts.CLASSES)
    a1_answers.tells_apart(table, "The deep network")


@pytest.mark.parametrize("size", [-1, "4000", 1 << 40, None])
def test_a_deep_network_needs_the_number_of_tokens(size: Any, deployed: Path) -> None:
    change(deployed / "config.json", vocab_size=size)
    with pytest.raises(Failure, match="says vocab_size"):
        deep.files(deployed)


def test_the_shortest_time_of_each_counts() -> None:
    assert batches.share_of([0.5, 0.1, 0.3], [2.0, 1.0]) == pytest.approx(0.1)
    assert batches.share_of([], [1.0]) == np.inf


# -- what tools say of model.py --------------------------------------------------------------------


def test_nothing_is_found_in_the_solution() -> None:
    assert python_style.faults(SOLUTION.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("import numpy as np\n", "import os\nimport numpy as np  # noqa\n", "`os` imported but"),
        ('"""Make the response that carries an error and no tensors."""', "pass", "Missing docstr"),
        ("class Reading", "class reading", "CapWords"),
        ("LONGEST = 1000", "# LONGEST = 1000\nLONGEST = 1000", "commented-out code"),
        ("        return responses\n", "        print(1)\n        return responses\n", "`print`"),
        ("except BadTextError as error:", "except:", "bare `except`"),
        ("        del self.network", "        exec('')\n        del self.network", "`exec`"),
        (
            "        return responses\n",
            "        a = 1\n" * 40 + "        return responses\n",
            "lines",
        ),
    ],
    ids=lambda value: value[:25],
)
def test_findings_name_the_line(old: str, new: str, words: str) -> None:
    source = SOLUTION.read_text("utf-8")
    assert old in source
    found = python_style.faults(source.replace(old, new))
    assert any(words in one and one.startswith("line ") for one in found), found


@pytest.mark.parametrize("source", ["def", "\0", "(" * 500])
def test_what_is_no_python(source: str) -> None:
    with pytest.raises(Failure, match="not Python"):
        python_style.faults(source)


@pytest.mark.server
def test_students_have_the_rules_of_the_check() -> None:
    """style.toml in their folder, and what `ruff check --config style.toml` finds with it."""
    path = ASSIGNMENT.starter / "style.toml"
    rules = tomllib.loads(path.read_text("utf-8"))
    assert rules["line-length"] == python_style.CHARACTERS
    assert set(rules["lint"]["select"]) == set(",".join(python_style.RULES).split(","))
    assert set(rules["lint"]["ignore"]) == set(python_style.LEFT_OUT)
    assert rules["lint"]["mccabe"]["max-complexity"] == python_style.BRANCHES
    command = [find_ruff_bin(), "check", "--no-cache", "--output-format", "json"]
    file = ASSIGNMENT.starter / "models/classifier/1/model.py"
    done = subprocess.run(
        [*command, "--config", str(path), str(file)], capture_output=True, check=False
    )
    seen = [f"line {one['location']['row']}: {one['message']} ({one['code']})"
            for one in json.loads(done.stdout)]  # fmt: skip
    assert seen
    assert sorted(seen) == sorted(python_style.faults(file.read_text("utf-8")))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("NAMES = ['de', 'el', 'pl', 'fi']", True),
        ("NAMES = {b'de': 0, b'el': 1, b'pl': 2, b'fi': 3}", True),
        ("NAMES = 'de el, pl fi'.split()", True),
        ("NAMES = ['de', 'el', 'pl']", False),
        ("raise ValueError('de, el, pl or fi are wanted')", False),
        ("NAMES = network.config.id2label", False),
    ],
)
def test_labels_in_the_code(code: str, found: bool) -> None:
    labels = ["de", "el", "pl", "fi", "cs", "hu", "nl", "tr"]
    findings = a1._written_labels(ast.parse(f"import os\n{code}\n"), labels)
    assert bool(findings) == found
    assert all(one.startswith("line 2: the labels stand in the code") for one in findings)


def test_where_an_exception_was_raised() -> None:
    """The message shows the student's line, and no code of libraries."""
    message = (
        "Failed to process the request(s) for model 'classifier_0_0', message: RuntimeError: no\n"
        "\nAt:\n  /lib/torch/nn.py(12): forward\n  /models/classifier/1/model.py(67): predict\n"
        "  /models/classifier/1/model.py(44): execute\n"
    )
    with pytest.raises(Failure) as raised:
        a1_answers.require_answer("classifier", Refusal(message, "INTERNAL"))
    assert "RuntimeError: no" in raised.value.rationale
    assert "It was raised in line 67 of model.py, in predict." in raised.value.rationale
    assert "nn.py" not in raised.value.rationale
    assert raised.value.help
    assert a1_answers.with_line(Refusal("blank", "INVALID_ARGUMENT")) == "blank"


# -- examples and counts ---------------------------------------------------------------------------


def example(*texts: str) -> dict[str, Any]:
    return {"texts": [*texts], "labels": ["a"] * len(texts), "scores": [0.5] * len(texts)}


def test_examples_are_different_requests() -> None:
    five = [example("a"), example("b"), example("c"), example("d"), example("e", "f")]
    assert len(read_examples(five)) == 5
    for wrong, words in (
        ([*five[1:], example(" B ")], "4 of your examples are different"),
        ([*five[:4], example("f")], "holds one text"),
        ([*five[:4], {"texts": []}], "has no 'labels'"),
        ([*five[:4], {**example("a"), "scores": [1, 2]}], "1 texts, 1 labels and 2 scores"),
        ([*five[:4], {**example("a"), "texts": "a"}], "is a str, and each of its letters"),
        ([*five[:4], 7], "no list of dicts"),
    ):
        with pytest.raises(Failure, match=words):
            read_examples(wrong)


def test_a_score_at_the_threshold_may_count_on_either_side() -> None:
    known, foreign = np.array([0.2, 0.5, 0.9]), np.array([0.5, 0.6])
    for kept, caught in ((2, 0), (1, 1), (2, 1), (1, 0)):
        counts = Counts(np.array([0.5]), np.array([kept]), np.array([caught]))
        compare_counts(counts, known, foreign, "the scores")
    for kept, caught, name in ((3, 0, "kept"), (0, 0, "kept"), (2, 2, "caught")):
        counts = Counts(np.array([0.5]), np.array([kept]), np.array([caught]))
        with pytest.raises(Failure, match=f"in `{name}`"):
            compare_counts(counts, known, foreign, "the scores")
