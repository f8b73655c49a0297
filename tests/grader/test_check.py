"""Checks, the probe that they use, the values that notebooks report, and result panels."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import json
import re
import shutil
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn
from IPython.core.interactiveshell import InteractiveShell

from grader.vocabulary import define as defining
from grader.vocabulary import deploying, notebook, reported
from grader.vocabulary.define import Check, define, evaluate, hidden, load, without_hints
from grader.vocabulary.failure import UNDECIDED, Failure, NotAttempted, Undecided
from grader.vocabulary.panel import LOOKS, Hint, Panel
from grader.vocabulary.probe import Counts, Probe
from grader.vocabulary.results import CheckResult
from workbook.assignments import Assignment, find
from workbook.common.errors import LoadError, WorkbookError
from workbook.server import Deployment, Server, Triton
from workbook.server.catalogue import LOADS
from workbook.server.explain import load_error

WriteModel = Callable[..., Path]
DONE = CheckResult(id="a9.thing", sentence="It works.", status="passed", credit=1)


# -- evaluate --------------------------------------------------------------------------------------


def _check(run: Callable[..., None], *variants: Callable[..., None], **more: Any) -> Check:
    return dataclasses.replace(Check("a9.thing", run), variants=variants, **more)


def passes(server: Probe, value: Any) -> None:
    """It works,
    on two lines.

    And more that nobody sees.
    """


def fails(server: Probe, value: Any) -> None:
    """It never works."""
    raise Failure("No.", help="Look.")


def three_quarters(server: Probe, value: Any) -> None:
    raise Failure("SECRET", credit=0.777, safe="It works for the most part.")


def half(server: Probe, value: Any) -> None:
    """It half works."""
    raise Failure("Half.", credit=0.5)


def absent(server: Probe, value: Any) -> None:
    raise NotAttempted("Nothing there.")


def breaks(server: Probe, value: Any) -> None:
    raise KeyError("oops")


class PanicException(BaseException):
    """Has the name of a Rust panic in libraries that are made with pyo3."""


def panics(server: Probe, value: Any) -> None:
    raise PanicException("no entry found for key")


class OutOfTime(BaseException):
    """Raised as the judge raises it; it must reach the judge."""


def test_what_ends_a_check_from_outside_passes_through() -> None:
    def late(server: Probe, value: Any) -> None:
        raise OutOfTime

    probe: Any = None
    with pytest.raises(OutOfTime):
        evaluate(_check(late), lambda: probe, {"value": 1}, {})


def explained(server: Probe, value: Any) -> None:
    raise WorkbookError("The server is gone.", todo="Start it.")


@pytest.mark.parametrize(
    ("functions", "status", "credit", "hidden", "words"),
    [
        ((passes,), "passed", 1, False, ""),
        ((passes, passes), "passed", 1, False, ""),
        ((fails,), "failed", 0, False, "No."),
        ((fails, breaks), "failed", 0, False, "No."),
        ((passes, fails), "failed", 0, True, "It demands: It never works."),
        ((half,), "partial", 0.5, False, "Half."),
        ((half, passes), "partial", 0.5, False, "Half."),
        ((half, fails), "failed", 0, True, "It demands: It never works."),
        ((passes, half, half), "partial", 0.5, True, "It demands: It half works."),
        ((passes, three_quarters), "partial", 0.75, True, "It works for the most part."),
        ((absent,), "not attempted", 0, False, "Nothing there."),
        ((breaks,), "error", 0, False, "KeyError"),
        ((panics,), "error", 0, False, "a library panicked"),
        ((passes, breaks), "error", 0, True, "could not do its work"),
        ((explained,), "failed", 0, False, "The server is gone."),
    ],
)
def test_the_lowest_credit_counts(
    functions: tuple[Callable[..., None], ...],
    status: str,
    credit: float,
    hidden: bool,
    words: str,
) -> None:
    probe: Any = None  # none of these functions asks a server
    result = evaluate(_check(*functions), lambda: probe, {"value": 1}, {})
    assert (result.status, result.credit, result.hidden) == (status, credit, hidden)
    assert words in result.rationale


def quotes(server: Probe, value: Any) -> None:
    raise Failure("The server says: SECRET", help="SECRET", safe="A request failed.")


def quotes_where_nothing_is_safe(server: Probe, value: Any) -> None:
    raise Failure("SECRET", help="SECRET")


def has_no_work(server: Probe, value: Any) -> None:
    raise NotAttempted("SECRET")


def breaks_with_inputs(server: Probe, value: Any) -> None:
    raise ValueError("SECRET")


def quotes_the_server(server: Probe, value: Any) -> None:
    raise WorkbookError("SECRET", where="SECRET", todo="SECRET")


@pytest.mark.parametrize(
    "function",
    [
        quotes, quotes_where_nothing_is_safe, breaks_with_inputs, quotes_the_server, has_no_work,
    ],
)  # fmt: skip
def test_a_hidden_check_quotes_nobody(function: Callable[..., None]) -> None:
    """Words of the server may be those of a model, which could repeat the hidden inputs in them."""
    probe: Any = None
    shown = evaluate(_check(function), lambda: probe, {"value": 1}, {})
    assert "SECRET" in shown.model_dump_json()
    hidden = evaluate(_check(passes, function), lambda: probe, {"value": 1}, {})
    assert hidden.hidden
    assert hidden.rationale
    assert "SECRET" not in hidden.model_dump_json(exclude={"found"})
    assert "SECRET" in hidden.found  # for instructors


def test_what_keeps_a_check_from_running() -> None:
    probe: Any = None
    check = _check(breaks, needs=("a9.before",))
    assert evaluate(check, lambda: probe, None, {}).status == "not attempted"
    assert evaluate(check, lambda: probe, {}, {}).status == "not attempted"
    assert "value" in evaluate(check, lambda: probe, {"value": None}, {}).rationale
    assert "other" in evaluate(check, lambda: probe, {"value": 1, "other": 2}, {}).rationale
    before = DONE.model_copy(update={"id": "a9.before", "status": "failed", "credit": 0.0})
    assert evaluate(check, lambda: probe, {"value": 1}, {"a9.before": before}).status == "waits"
    before = before.model_copy(update={"status": "partial", "credit": 0.5})
    assert evaluate(check, lambda: probe, {"value": 1}, {"a9.before": before}).status == "error"


def test_what_is_right_earns_its_points_though_an_earlier_check_failed() -> None:
    """A check that fails as one that it needs waits for it; its own words are for instructors."""
    probe: Any = None
    before = DONE.model_copy(update={"id": "a9.before", "status": "failed", "credit": 0.0})
    earned, values = {"a9.before": before}, {"value": 1}

    def judged(*functions: Callable[..., None]) -> CheckResult:
        check = _check(*functions, after=("a9.before",))
        return evaluate(check, lambda: probe, values, earned)

    assert (judged(passes).status, judged(passes).credit) == ("passed", 1)
    for functions in ((fails,), (passes, fails)):
        result = judged(*functions)
        assert (result.status, result.credit, result.found.split(" → ")[0]) == ("waits", 0, "No.")
        assert result.rationale == "This check waits for a9.before, which has not passed yet."
    assert judged(has_no_work).status == "not attempted"
    earned = {"a9.before": before.model_copy(update={"seconds": 999})}
    assert judged(passes).status == "passed"  # on a busy machine the marks are the same
    probe, earned = SimpleNamespace(is_late=True), {}
    late = judged(fails)
    earned = {"a9.before": late.model_copy(update={"id": "a9.before"})}
    assert judged(passes).status == "waits"  # it would wait as long for the model's answer
    assert "late" not in late.model_dump_json()


def test_sentence_and_parameters() -> None:
    check = _check(passes)
    assert check.sentence == "It works, on two lines."
    assert check.parameters == ("value",)


@pytest.mark.parametrize("name", ["a99", "require", "notebook", "values"])
def test_load_says_what_is_not_there(name: str) -> None:
    with pytest.raises(WorkbookError, match=f"no checks for '{name}'"):
        load(name)


def test_load_takes_the_public_part_alone() -> None:
    assert all(check.variants == () for check in load("a2").values())
    assert all(check.variants for check in load("a2", variants=True).values())


def _module(name: str, *functions: Callable[..., None], own: bool = True) -> types.ModuleType:
    """A module with functions that are its own, or that it has imported."""
    module = types.ModuleType(name)
    for number, function in enumerate(functions):
        copy = types.FunctionType(function.__code__, {}, f"f{number}")
        copy.__dict__.update(function.__dict__)
        copy.__module__ = name if own else "grader.assignments.a2__forest.checks"
        setattr(module, f"f{number}", copy)
    return module


def _marked(id: str) -> Callable[..., None]:
    return define(id)(types.FunctionType(passes.__code__, {}))


def test_load_takes_only_checks_of_its_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a module imports from another assignment's module does not become its own."""
    public = _module("a9", _marked("a9.one"))
    vars(public).update(
        vars(_module("x", _marked("a2.forest"), hidden("a2.forest")(passes), own=False))
    )
    public.f1 = _module("a9", _marked("a9.two")).f0
    secret = _module("x", hidden("a2.forest")(fails), own=False)
    found = {"checks": public, "hidden": secret}
    monkeypatch.setattr(defining, "_module", lambda assignment, name: found[name])
    assert list(load("a9", variants=True)) == ["a9.two"]
    assert load("a9", variants=True)["a9.two"].variants == ()


@pytest.mark.parametrize(
    ("public", "secret", "words"),
    [
        (("a9.one", "a2.two"), (), "a2.two is defined among the checks of a9"),
        (("a9.one",), ("a2.one",), "a2.one is defined among the checks of a9"),
        (("a9.one",), ("a9.two",), "is a hidden variant of no check: a9.two"),
        (("a2.two",), (), "a2.two is defined among the checks of a9"),
        ((), (), "There are no checks for 'a9'"),
    ],
)
def test_a_check_in_a_wrong_place_is_refused(
    public: tuple[str, ...], secret: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {
        "checks": _module("a9", *map(_marked, public)),
        "hidden": _module("a9.hidden", *(hidden(id)(passes) for id in secret)),
    }
    monkeypatch.setattr(defining, "_module", lambda assignment, name: found[name])
    with pytest.raises(WorkbookError, match=words):
        load("a9", variants=True)


def test_define_keeps_the_function() -> None:
    marked = define("a9.thing", hints=("One.",))(passes)
    assert marked is passes


# -- check() and hint() ----------------------------------------------------------------------------


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of its own with no server; returns the folder of a2's reported values."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    monkeypatch.setenv("TRITON_URL", "http://localhost:9")
    monkeypatch.setattr(notebook, "_shown", {})
    monkeypatch.setattr(notebook, "_earned", {})
    return tmp_path / ".workbook" / "reported" / "a2"


def test_check_without_a_server(nobody: Path) -> None:
    panel = notebook.check("a2.forest", model="forest")
    assert panel.result.status == "no server"
    assert "No server answers" in str(panel)
    found = reported.read("a2.forest", nobody)
    assert found is not None
    assert found.values == {"model": "forest"}


def test_no_server_is_said_before_a_missing_value(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkout's own server is found by its files, even if it does not answer."""
    assert notebook.check("a2.forest", model=...).result.status == "no server"
    monkeypatch.setattr(notebook, "connect", lambda: Server("http://localhost:9"))
    panel = notebook.check("a2.forest", model=...)
    assert panel.result.status == "no server"
    assert "No server answers at http://localhost:9" in panel.result.rationale
    assert "workbook serve --detach" in panel.result.help


def test_a_check_that_asks_no_server_needs_none(nobody: Path) -> None:
    panel = notebook.check("a4.weights", me="anna", pth=...)
    assert panel.result.status == "not attempted"
    assert "`pth=` has no value yet" in panel.result.rationale
    panel = notebook.check("a4.weights", me="anna", pth=np.zeros(9, np.uint8))
    assert panel.result.status == "failed"
    assert "is not a file that torch.save writes" in panel.result.rationale
    panel = notebook.check("a4.threshold", me="anna", pth=1, logits_pth=1, threshold=1)
    assert panel.result.status == "waits"
    assert "Run that check's cell until it passes" in panel.result.help


def test_a_value_is_missing_since_a_cell_failed(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check reads from the kernel how the cell before it ended."""
    shell = InteractiveShell()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    check = 'panel = notebook.check("a4.weights", me="anna", pth=...)'
    shell.user_ns["notebook"] = notebook
    for before, expected in (("1 / 0", "ended with an error"), ("1 +", "ended with an error"),
                             ("1 + 1", "once you have written it")):  # fmt: skip
        shell.run_cell(before, store_history=True)
        shell.run_cell(check, store_history=True)
        result = shell.user_ns["panel"].result
        assert result.status == "not attempted"
        assert expected in result.help


@pytest.mark.parametrize("assignment", find(), ids=lambda a: a.name)
def test_a_check_says_whether_it_asks_the_server(assignment: Assignment) -> None:
    """`server=False` stands at the checks whose code does not use their first parameter."""
    for check in load(assignment.short).values():
        names = ast.walk(ast.parse(inspect.getsource(check.run)))
        first = next(iter(inspect.signature(check.run).parameters))
        uses = any(isinstance(node, ast.Name) and node.id == first for node in names)
        assert check.server == uses, check.id


def test_check_of_nothing_or_of_what_no_check_takes(nobody: Path) -> None:
    with pytest.raises(WorkbookError, match=r"There is no check 'a2\.nothing'"):
        notebook.check("a2.nothing")
    with pytest.raises(WorkbookError, match="model is a set"):
        notebook.check("a2.forest", model={1})
    with pytest.raises(WorkbookError, match="keys are not all texts"):
        notebook.check("a2.threshold", missed={0.05: 1})
    frame = pd.DataFrame({"model": ["forest"], "requests": [114]})
    with pytest.raises(WorkbookError, match="requests is a DataFrame of mixed columns"):
        notebook.check("a2.batching", requests=frame)
    with pytest.raises(WorkbookError, match="takes the model's name") as caught:
        notebook.check("a2.forest", model=Deployment("forest", (1,), "fil", True, 0.1))
    assert "'forest'" in caught.value.todo


def test_a_folder_that_was_edited_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for home in ("models", "repository"):
        folder = tmp_path / home / "forest" / "1"
        folder.mkdir(parents=True)
        (folder / "xgboost.json").write_text("{}")
    repository = tmp_path / "repository"
    assert notebook._explain_edit("forest", repository) == ""
    for value in (["forest"], np.zeros(3), 0.5, None, "", "."):
        assert notebook._explain_edit(value, repository) == ""
    assert notebook._explain_edit("verdict", repository) == ""
    (tmp_path / "models/forest/1/xgboost.json").write_text("[]")
    note = notebook._explain_edit("forest", repository)
    assert "`models/forest/1/xgboost.json` differs from what is deployed." in note
    result = CheckResult(id="a2.forest", sentence="It does.", status="failed", credit=0)
    panel = Panel(result, note=note)
    assert "differs from what is deployed" in str(panel)
    assert "differs from what is deployed" in panel._repr_html_()


@pytest.mark.parametrize("gone", ["1/xgboost.json", "config.pbtxt", "1"])
def test_a_file_that_is_deployed_and_gone_is_noted(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, staged, deployed = (
        tmp_path / n for n in ("models/forest", "copy", "repository/forest")
    )
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "xgboost.json").write_text("{}")
    (folder / "config.pbtxt").write_text('backend: "fil"\n')
    shutil.copytree(folder, staged, copy_function=shutil.copy)
    deployed.parent.mkdir()
    staged.rename(deployed)
    (folder / gone).rename(tmp_path / "aside")
    note = notebook._explain_edit("forest", deployed.parent)
    assert "is deployed, and is not in your folder any more" in note
    assert gone in note
    (tmp_path / "aside").rename(folder / gone)
    time.sleep(0.02)
    (deployed / "1" / "counts.txt").write_text("7")  # written by the model itself
    (folder / ".gitkeep").touch()
    assert notebook._explain_edit("forest", deployed.parent) == ""


@pytest.mark.parametrize(("credit", "says"), [(1, "passes"), (0.5, "earns a part"), (0, "")])
def test_nothing_passes_while_the_folder_is_another_one(
    monkeypatch: pytest.MonkeyPatch, credit: float, says: str
) -> None:
    """Green in the notebook must not mean marks lost: the folder is handed in, not the copy."""
    status: Any = {1: "passed", 0.5: "partial"}.get(credit, "failed")
    found = load("a2")["a2.forest"]
    result = CheckResult(id=found.id, sentence="It does.", status=status, credit=credit)
    server = MagicMock(repository=Path())
    server.__enter__.return_value = server
    probe = types.SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(notebook, "connect", lambda: server)
    monkeypatch.setattr(notebook, "Probe", lambda *_, **__: probe)
    monkeypatch.setattr(notebook, "evaluate", lambda *_: result)
    monkeypatch.setattr(notebook, "_explain_edit", lambda *_: "`models/x` differs.")
    shown, note = notebook._run(found, {"model": 7})
    assert (shown.status, shown.credit) == ("failed", 0)
    assert says in shown.rationale
    assert bool(note) == (credit == 0)


def test_a_model_that_is_not_handed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of the course would pass every check here, but the judge does not have it."""
    monkeypatch.chdir(tmp_path)
    assert (
        notebook._not_in_models("forest_xgboost") is None
    )  # no models/, so no assignment's folder
    (tmp_path / "models" / "forest").mkdir(parents=True)
    assert notebook._not_in_models("forest") is None
    assert notebook._not_in_models(7) is None
    said = notebook._not_in_models("forest_xgboost")
    assert said is not None
    assert said[0].startswith("forest_xgboost is not in models/")
    assert said[0].endswith("There are: forest.")


@pytest.mark.parametrize(
    ("rule", "kept"),
    [("fil-output-dims", False), ("fil-shap-dims", False), ("not-an-integer", True)],
)
def test_a_deploy_error_names_the_rule_and_not_the_answer(
    monkeypatch: pytest.MonkeyPatch, rule: str, kept: bool
) -> None:
    refused = LoadError(
        "forest did not load. It has dims [ 1 ], and 2 values.",
        model="forest",
        message="write dims: [ 2 ]",
        rule=rule,
        where="config.pbtxt, line 3",
        todo="Write dims: [ 2 ].",
    )

    def deploy(folder: Path) -> None:
        raise refused

    monkeypatch.setattr(deploying.server, "deploy", deploy)
    with pytest.raises(WorkbookError, match="forest did not load") as caught:
        notebook.deploy("models/forest")
    assert caught.value.where == "config.pbtxt, line 3"
    assert ("[ 2 ]" in str(caught.value)) == kept
    assert caught.value.todo


def _refused_path(path: str) -> str:
    """The server's message if Hugging Face's library gets a path that does not exist."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(path)
    except HFValidationError as error:
        said = str(error)
    else:
        said = (
            "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find "
            "them in the cached files.\nCheck your internet connection."
        )
    return (
        f"version 1 is at UNAVAILABLE state: Internal: OSError: {said}\n\nAt:\n"
        "  /venv/transformers/utils/hub.py(595): cached_files\n"
        "  /models/classifier/1/model.py(2): initialize\n"
    )


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "/repository/classifier/checkpoint",
            "The folder '/repository/classifier/checkpoint' does not exist where model.py looks "
            "for it. So from_pretrained takes the path for a name on Hugging Face's hub, and says: "
            "Repo id must be in the form 'repo_name' or 'namespace/repo_name'.",
        ),
        ("models/classifier/1/checkpoint", "says: Repo id must be in the form 'repo_name'"),
        ("./checkpoint", "The folder './checkpoint' does not exist where model.py looks for it."),
        ("checkpoint", "The folder does not exist where model.py looks for it. So from_pretrained"),
    ],
)
def test_a_checkpoint_that_is_not_where_model_py_looks(
    path: str, says: str, has_checkpoint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice says relative to what a path is, and where the folder's place stands."""
    folder = tmp_path / "classifier"
    (folder / "1" / "__pycache__").mkdir(parents=True)
    (folder / "1" / "model.py").write_text("import transformers\nload(path)\n")
    (folder / "config.pbtxt").write_text('backend: "python"\n')
    if has_checkpoint:
        (folder / "1" / "weights").mkdir()

    def deploy(folder: Path) -> None:
        raise load_error("classifier", _refused_path(path), Path(folder))

    monkeypatch.setattr(deploying.server, "deploy", deploy)
    with pytest.raises(WorkbookError) as caught:
        notebook.deploy(folder)
    error = caught.value
    assert error.what.startswith("classifier did not load. The folder")
    assert says in error.what
    assert error.where == "1/model.py, line 2, in initialize: load(path)"
    held = "holds weights: does the path end with this name?"
    assert (held if has_checkpoint else "holds no folder: the checkpoint must be put") in error.todo
    for words in ("the folder in which the server runs", 'args["model_repository"]', '"model_v'):
        assert words in error.todo
    assert "Path(args" not in str(error)


@pytest.mark.parametrize(
    ("message", "what", "todo"),
    [
        (
            "model 'eights', tensor 'image': the model expects 4 dimensions (shape [-1,1,8,8]) but "
            "the model configuration specifies 4 dimensions (an initial batch dimension because "
            "max_batch_size > 0 followed by the explicit tensor shape, making complete shape "
            "[-1,8,8,1])",
            "With the batch, it is [-1, 1, 8, 8] in the file and [-1, 8, 8, 1] by the config.",
            "max_batch_size",
        ),
        (
            "unexpected inference input 'image', allowed inputs are: x",
            "",
            "Either may be wrong, the config or the file.",
        ),
    ],
)
def test_a_tensor_that_differs_is_told_from_both_sides(
    message: str, what: str, todo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "eights"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(
        'platform: "onnxruntime_onnx"\nmax_batch_size: 8\n'
        'input [ { name: "image" data_type: TYPE_FP32 dims: [ 8, 8, 1 ] } ]\n'
    )

    def deploy(folder: Path) -> None:
        said = f"load failed for model 'eights': version 1 is at UNAVAILABLE state: {message};"
        raise load_error("eights", said, Path(folder))

    monkeypatch.setattr(deploying.server, "deploy", deploy)
    with pytest.raises(WorkbookError) as caught:
        notebook.deploy(folder)
    assert what in caught.value.what
    assert todo in caught.value.todo


def test_rules_are_of_the_catalogue() -> None:
    known = {rule.id for catalogue in LOADS for rule in catalogue}
    assert set(deploying._RULES) <= known


def test_hints_come_one_by_one(nobody: Path) -> None:
    total = len(load("a2")["a2.forest"].hints)
    for number in range(1, total + 2):
        shown = notebook.hint("a2.forest")
        assert len(shown.steps) == min(number, total)
    assert "There are no more hints." in str(shown)
    assert "hint(" not in str(notebook.check("a2.forest", model="forest"))


@pytest.mark.parametrize("assignment", find(), ids=lambda a: a.name)
def test_what_has_no_hints_says_so(assignment: Assignment, nobody: Path) -> None:
    """Each written answer, and a bonus task, says what to read in place of hints."""
    texts = without_hints(assignment.short)
    assert {*assignment.written} <= {*texts}
    assert not {*texts} & {*load(assignment.short)}
    tasks = {cell.id for cell in assignment.manifest.cells}
    for id, read in texts.items():
        assert id in tasks
        shown = notebook.hint(id)
        for text in (str(shown), shown._repr_html_()):
            assert f"{id} has no hints. Only tasks with a check have some." in text
        assert str(shown).endswith(read)
        assert read.endswith(".")


def test_hint_of_nothing(nobody: Path) -> None:
    with pytest.raises(WorkbookError, match=r"There is no check 'a4\.bonus'") as caught:
        notebook.hint("a4.bonus")
    assert "a4.weights" in caught.value.todo
    assert "Written answers and bonus tasks have neither a check nor hints" in caught.value.todo
    with pytest.raises(WorkbookError, match="7 is not the name of a check"):
        notebook.hint(7)  # type: ignore[arg-type]


# -- panels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", list(LOOKS))
def test_panel_shows_everything_and_runs_nothing(status: Any) -> None:
    evil = "<script>alert(1)</script>"
    result = CheckResult(
        id="a9.thing", sentence=evil, status=status, credit=0, rationale=evil, help=evil
    )
    panel = Panel(result, hints=2, points=(2.5, 10))
    html = panel._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 3
    for text in (html, str(panel)):
        assert LOOKS[status][1] in text
        assert "2.5 of 10 points" in text
        assert ("2 hints" in text) == (status in ("failed", "partial", "not attempted"))


def test_a_busy_machine_broke_no_check() -> None:
    def compare(server: Probe, value: Any) -> None:
        """One is faster."""
        raise Undecided("So far, ×1.02.")

    panel = str(Panel(evaluate(_check(compare), MagicMock, {"value": 1}, {})))
    assert panel.startswith("◌ a9.thing: undecided. One is faster.")
    assert UNDECIDED in panel
    assert "→ So far, ×1.02. Run the check again" in panel


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\r\nb\x00", "a\ufffd[31mred\nb\ufffd"),
        ("right \u202eleft", "right \ufffdleft"),
        ("half \ud800", "half \ufffd"),
        ("tab\tand ümlaut ✓ 🎉", "tab\tand ümlaut ✓ 🎉"),
    ],
)
def test_a_result_holds_text_only(text: str, shown: str) -> None:
    """What a model answered may stand in a message, whatever it is."""

    def says(server: Probe, value: Any) -> None:
        raise Failure(text, help=text)

    probe: Any = None
    result = evaluate(_check(says), lambda: probe, {"value": 1}, {})
    assert (result.status, result.rationale, result.help) == ("failed", shown, shown)
    assert CheckResult.model_validate_json(result.model_dump_json()) == result


def test_hint_panel() -> None:
    assert "<b>" not in Hint("a9.thing", ("<b>bold</b>",), 2)._repr_html_()
    assert "1 more" in str(Hint("a9.thing", ("One.",), 2))
    assert "no hints" in Hint("a9.thing", (), 0)._repr_html_()


# -- reported values -------------------------------------------------------------------------------

PLAIN = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
ARRAYS = stn.arrays(
    st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_]),
    stn.array_shapes(max_dims=3, max_side=4),
)
KEYS = st.text(max_size=8).filter(lambda key: key != "$array")
VALUES = st.recursive(
    PLAIN | st.floats(allow_nan=False, allow_infinity=False) | ARRAYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return bool(
            isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other and type(one) is type(other))


@settings(max_examples=60)
@given(values=st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=3))
def test_reported_values_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    home = tmp_path_factory.mktemp("reported")
    reported.write("a9.thing", values, DONE, home)
    found = reported.read("a9.thing", home)
    assert found is not None
    assert found.result == DONE
    assert _same(values, found.values)


def test_reported_values_may_be_what_notebooks_have(tmp_path: Path) -> None:
    import pandas as pd
    import torch

    reported.write(
        "a9.thing",
        {
            "frame": pd.DataFrame({"a": [1.0, 2.0]}),
            "tensor": torch.ones(2, requires_grad=True),
            "scalar": np.float32(0.5),
            "texts": np.array(["one", "two"]),
            "bytes": np.array([b"one", "zw\u00f6lf".encode()], dtype=object),
            "pair": (1, np.int64(2)),
        },
        DONE,
        tmp_path,
    )
    found = reported.read("a9.thing", tmp_path)
    assert found is not None
    assert found.values["frame"].tolist() == [[1.0], [2.0]]
    assert found.values["tensor"].tolist() == [1.0, 1.0]
    rest = {key: found.values[key] for key in ("scalar", "texts", "bytes", "pair")}
    assert rest == {
        "scalar": 0.5,
        "texts": ["one", "two"],
        "bytes": ["one", "zw\u00f6lf"],
        "pair": [1, 2],
    }


def _values(make: Callable[[Any], Any]) -> dict[str, Any]:
    """Values of a notebook, with what `make` makes of numbers at several places."""
    return {
        "alone": make([1.0, 2.0]),
        "list": ["text", make([1.0])],
        "tuple": (make([1.0]), 2),
        "dict": {"fp16": make([[1.0]]), "deep": [[make([2.0])], {"x": (make(3.0),)}]},
    }


def test_tensors_are_arrays_in_the_notebook_as_for_the_judge(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a gradient and in lists too: notebook and judge get the same. The rest is unchanged."""
    import torch

    given: dict[str, Any] = {}

    def sees(found: Check, values: dict[str, Any]) -> tuple[CheckResult, str]:
        given.update(values)
        return DONE, ""

    monkeypatch.setattr(notebook, "_run", sees)
    rest = [1, (2.0, "x"), {"y": [None]}]
    tensors = _values(lambda numbers: torch.tensor(numbers, requires_grad=True))
    notebook.check("a2.forest", **tensors, rest=rest)
    assert given.pop("rest") is rest
    arrays = _values(lambda numbers: np.array(numbers, np.float32))
    written = reported.read("a2.forest", nobody)
    assert written is not None
    del written.values["rest"]
    assert _same(_lists(arrays), _lists(given))
    assert _same(_lists(arrays), written.values)


def _lists(value: Any) -> Any:
    """A value with lists in place of tuples, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value


def test_values_that_only_look_like_tensors(nobody: Path, tmp_path: Path) -> None:
    """A tensor without an array, an open file, and a list that contains itself get a message."""
    import torch

    for odd, words in (
        (torch.ones(2, dtype=torch.bfloat16), "model holds a torch tensor that cannot become"),
        ([torch.ones(2).to_sparse()], "model holds a torch tensor that cannot become an array"),
        ((tmp_path / "x").open("w+b"), "model is a BufferedRandom, which a check cannot take"),
        (_endless(), "cannot be written"),
    ):
        with pytest.raises(WorkbookError, match=words):
            notebook.check("a2.forest", model=odd)


def test_reported_values_keep_what_is_not_finite(tmp_path: Path) -> None:
    """NaN is a wrong answer. It must not become None, which counts as no answer."""
    reported.write("a9.thing", {"x": float("nan"), "y": [float("-inf")]}, DONE, tmp_path)
    found = reported.read("a9.thing", tmp_path)
    assert found is not None
    assert np.isnan(found.values["x"])
    assert found.values["y"] == [float("-inf")]


def test_reported_arrays_of_every_make(tmp_path: Path) -> None:
    """Wide floats, big-endian numbers, views and empty arrays are read with the same numbers."""
    makes = {
        "wide": np.arange(3, dtype=np.longdouble),
        "big": np.arange(3, dtype=">f4"),
        "view": np.arange(12.0).reshape(3, 4).T[::2],
        "empty": np.zeros((0, 4)),
        "scalar": np.array(1.5),
    }
    reported.write("a9.thing", makes, DONE, tmp_path)
    found = reported.read("a9.thing", tmp_path)
    assert found is not None
    for name, array in makes.items():
        assert np.array_equal(found.values[name], array), name
        assert found.values[name].dtype.itemsize <= 8


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(reported.LARGEST + 1, np.uint8), "too large"),
        ("x" * reported.LARGEST_JSON, "too large"),
        ("half a character: \ud800", "cannot be written"),
        (_endless(), "cannot be written"),
    ],
    ids=["array", "text", "surrogate", "endless"],
)
def test_what_cannot_be_reported_is_refused(tmp_path: Path, value: Any, words: str) -> None:
    with pytest.raises(WorkbookError, match=words):
        reported.write("a9.thing", {"x": value}, DONE, tmp_path)
    assert reported.read("a9.thing", tmp_path) is None


def _array(dtype: Any = "float64", shape: Any = (3,), **more: Any) -> dict[str, Any]:
    return {"$array": {"dtype": dtype, "shape": shape, **more}}


def _spoil_json(text: str) -> Callable[[Path], None]:
    return lambda home: (home / "a9.thing.json").write_text(text) and None


def _spoil_bytes(data: bytes) -> Callable[[Path], None]:
    return lambda home: (home / "a9.thing.bin").write_bytes(data) and None


def _as_json(**changes: Any) -> str:
    return json.dumps({"check": "a9.thing", "values": {}, **changes})


def _spoil_values(*values: Any) -> Callable[[Path], None]:
    return _spoil_json(_as_json(values={f"x{number}": x for number, x in enumerate(values)}))


@pytest.mark.parametrize(
    "spoil",
    [
        _spoil_json("not json"),
        _spoil_json(""),
        _spoil_json("[]"),
        _spoil_json(_as_json(check="a9.other")),
        _spoil_json(_as_json(version=1)),
        _spoil_json(_as_json(extra=1)),
        _spoil_json('{"check": "a9.thing", "values": {"x": ' + "[" * 5000 + "]" * 5000 + "}}"),
        _spoil_json('{"check": "a9.thing", "values": {"x": ' + "9" * 5000 + "}}"),
        _spoil_json(r'{"check": "a9.thing", "values": {"x": "\ud800"}}'),
        _spoil_json(_as_json(values={"x": "y" * reported.LARGEST_JSON})),
        _spoil_bytes(b""),
        _spoil_bytes(b"\0" * 23),
        _spoil_bytes(b"\0" * 25),
        _spoil_bytes(b"\0" * (reported.LARGEST + 1)),
        lambda home: (home / "a9.thing.bin").unlink(),
        _spoil_values(_array(), _array()),  # more than there are bytes
        _spoil_values(_array(shape=[10**15])),
        _spoil_values(_array(shape=[2**62, 4])),
        _spoil_values(_array(shape=[2**31] * 32)),
        _spoil_values(_array(shape=[1] * 31 + [3, 1])),
        _spoil_values(_array(shape=[0, 2**63])),
        _spoil_values(_array(shape=[-3])),
        _spoil_values(_array(shape=[3.0])),
        _spoil_values(_array(shape=["3"])),
        _spoil_values(_array(shape=[True])),
        _spoil_values(_array(shape=3)),
        _spoil_values(_array(dtype="object")),
        _spoil_values(_array(dtype="V0")),
        _spoil_values(_array(dtype="<M8[s]")),
        _spoil_values(_array(dtype=[["a", "<f8"]])),
        _spoil_values(_array(extra=1)),
        _spoil_values({"$array": "x"}),
        _spoil_values({"$array": None}),
    ],
)
def test_reported_values_that_are_none_are_refused(
    tmp_path: Path, spoil: Callable[[Path], Any]
) -> None:
    """What cannot be read is refused in words, whatever it is."""
    reported.write("a9.thing", {"x": np.ones(3)}, DONE, tmp_path)
    spoil(tmp_path)
    with pytest.raises(WorkbookError, match=r"The values reported to a9\.thing"):
        reported.read("a9.thing", tmp_path)


#: Parts of JSON files that the reader of reported values knows, for any combination.
PIECES = st.sampled_from(
    [*'[]{}:,"\\', "$array", "dtype", "shape", "values", "check", "result", "a9.thing", "null"]
) | st.sampled_from(["true", "bool", "NaN", "1e999", "-1", "9" * 40, r"\ud800", r"\u0000"])


@settings(max_examples=300)
@given(data=st.data())
def test_no_file_makes_reading_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Right files with pieces put in, taken out and exchanged: read, or refused in words."""
    home = tmp_path_factory.mktemp("reported")
    values = {"x": np.ones((2, 3)), "y": [np.zeros(2, bool), "text"], "z": {"a": 1.5}}
    reported.write("a9.thing", values, DONE, home)
    for name in ("a9.thing.json", "a9.thing.bin"):
        content = (home / name).read_bytes()
        for _ in range(data.draw(st.integers(0, 3))):
            begin = data.draw(st.integers(0, len(content)))
            end = begin + data.draw(st.integers(0, 12))
            piece = data.draw(PIECES.map(str.encode) | st.binary(max_size=8))
            content = content[:begin] + piece + content[end:]
        (home / name).write_bytes(content)
    with contextlib.suppress(WorkbookError):
        found = reported.read("a9.thing", home)
        assert found is not None
        assert found.check == "a9.thing"


def test_reported_values_are_not_read_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    reported.write("a9.thing", {}, DONE, elsewhere)
    (tmp_path / "a9.thing.json").symlink_to(elsewhere / "a9.thing.json")
    assert reported.read("a9.thing", tmp_path) is None


# -- the probe, on a real server -------------------------------------------------------------------

DOUBLE = """
import time

import numpy as np
import pandas as pd
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            if (x == 13).any():
                time.sleep(2)
            if (x == 66).any():
                raise ValueError("no sixty-six")
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * x)]))
        return answers
"""
CONFIG = """
backend: "python"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
version_policy { all { } }
parameters { key: "word" value: { string_value: "hello" } }
"""


@pytest.fixture(scope="module")
def probe(server: Triton) -> Iterator[Probe]:
    """A probe that loads on demand; `double` and `broken` lie in its repository."""
    for name, config in (("double", CONFIG), ("broken", CONFIG.replace("max_batch_size: 8", "?"))):
        for version in (1, 3):
            folder = server.repository / name / str(version)
            folder.mkdir(parents=True)
            (folder / "model.py").write_text(DOUBLE)
        (server.repository / name / "config.pbtxt").write_text(config)
    probe = Probe(server, load=True)
    yield probe
    probe.close()


def _x(*values: float) -> dict[str, Any]:
    return {"x": np.float32([[value] for value in values])}


@pytest.mark.server
@pytest.mark.quick
def test_probe_asks(probe: Probe) -> None:
    assert probe.infer("double", _x(1, 2))["y"].tolist() == [[2.0], [4.0]]
    assert probe.infer("double", _x(5), outputs=["y"], version=1)["y"].tolist() == [[10.0]]
    assert probe.config("double")["max_batch_size"] == 8
    assert probe.parameter("double", "word") == "hello"
    assert probe.parameter("double", "nothing") is None
    assert probe.versions("double") == (1, 3)


@pytest.mark.server
@pytest.mark.quick
def test_probe_allows_batches_in_the_judge_only(probe: Probe, server: Triton) -> None:
    """The server gets another max_batch_size; a check of the config still reads the student's."""
    shutil.copytree(server.repository / "double", server.repository / "small")
    rows = _x(*range(12))
    in_notebook = Probe(server)
    probe.require("small")
    in_notebook.allow_batches("small", 12)
    assert "batch" in probe.refusal("small", rows)
    probe.allow_batches("small", 12)
    assert probe.infer("small", rows)["y"].shape == (12, 1)
    assert probe.config("small")["max_batch_size"] == 8
    in_notebook.close()


@pytest.mark.server
@pytest.mark.quick
def test_probe_counts(probe: Probe) -> None:
    before = probe.counts("double")
    probe.infer("double", _x(1, 2, 3))
    probe.infer("double", _x(1))
    change = probe.counts("double") - before
    assert change == Counts(requests=2, failures=0, inferences=4, executions=2)


@pytest.mark.server
@pytest.mark.quick
def test_probe_keeps_the_order(probe: Probe) -> None:
    answers = probe.together("double", [_x(float(n)) for n in range(100, 150)], outputs=["y"])
    assert [answer["y"].item() for answer in answers] == [2.0 * n for n in range(100, 150)]


@pytest.mark.server
@pytest.mark.quick
@pytest.mark.parametrize(
    ("model", "inputs", "options", "words"),
    [
        ("nothing", _x(1), {}, "nothing"),
        ("../etc", _x(1), {}, "'../etc' cannot be a model's name"),
        (7, _x(1), {}, "7 is not the name of a model"),
        ("broken", _x(1), {}, "broken"),
        ("double", _x(1), {"version": 2}, "A request to double failed"),
        ("double", {"x": np.float64([[1]])}, {}, "A request to double failed"),
        ("double", {"z": np.float32([[1]])}, {}, "A request to double failed"),
        ("double", _x(*range(9)), {}, "A request to double failed"),
        ("double", _x(1), {"outputs": ["z"]}, "A request to double failed"),
        ("double", _x(66), {}, "no sixty-six"),
        ("double", _x(13), {"timeout": 0.5}, "double did not answer within"),
    ],
)
def test_probe_fails_in_words(
    probe: Probe, model: Any, inputs: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(Failure, match=re.escape(words)):
        probe.infer(model, inputs, **options)


def test_probe_says_what_to_do_when_the_server_ended() -> None:
    ended = Probe(MagicMock(live=lambda: False))
    error = MagicMock(message=lambda: "Socket closed", status=lambda: "StatusCode.UNAVAILABLE")
    with pytest.raises(Failure, match="The server ended while it was asked for double") as caught:
        ended._refusal("double", error, 5.0)
    assert "`workbook status` says whether it runs again" in caught.value.help


@pytest.mark.server
@pytest.mark.quick
def test_probe_refusal(probe: Probe) -> None:
    assert probe.refusal("double", _x(1)) == ""
    assert "no sixty-six" in probe.refusal("double", _x(66))


@pytest.mark.server
@pytest.mark.quick
def test_probe_loads_no_other_backend(probe: Probe, server: Triton) -> None:
    strict = Probe(server, load=True, backends=("fil",))
    with pytest.raises(Failure, match="names 'python'"):
        strict.config("double")
    strict.close()


@pytest.mark.server
@pytest.mark.quick
def test_probe_draws_the_same_again(probe: Probe) -> None:
    probe.seed(5)
    first = probe.rng.random(4).tolist()
    probe.seed(5)
    assert probe.rng.random(4).tolist() == first
