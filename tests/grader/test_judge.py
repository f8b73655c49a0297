"""The judge gives a verdict whatever models do, and no model deceives it.

The assignment `zz` of these tests lets its models run Python, so that they can attack.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import grader
from grader import sandbox
from grader.judge import judge
from grader.judge.judge import Line, Order
from grader.sandbox.mounts import course
from grader.vocabulary import reported
from grader.vocabulary.define import Check
from grader.vocabulary.results import CheckResult

pytestmark = pytest.mark.server

CHECKS = '''
import numpy as np
from grader.vocabulary.define import Failure, define

@define("zz.first")
def first(server, model: str):
    """The model doubles its numbers."""
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    answer = server.infer(model, {"IN": x}, outputs=["OUT"], timeout=5)["OUT"]
    if answer.shape != x.shape or not (answer == 2 * x).all():
        raise Failure("It does not.")

@define("zz.number")
def number(server, value: float):
    """The value is above 1."""
    if not value > 1:
        earned = {1: 0.5, 0.89: 0.89, 0.95: 0.95}.get(value, 0)
        raise Failure("It is not.", help="Try 2.", credit=earned)

@define("zz.broken")
def broken(server, value: float):
    """A check with a mistake of its own."""
    raise ZeroDivisionError("of its own")

@define("zz.second", after=("zz.number",))
def second(server, model: str):
    """The model doubles its numbers, still."""
    first(server, model)
'''
HIDDEN = """
import numpy as np
from grader.vocabulary.define import Failure, hidden

@hidden("zz.second")
def other_numbers(server, model: str):
    '''Other numbers are doubled.'''
    x = server.rng.normal(size=(1, 4)).astype(np.float32)
    if not (server.infer(model, {"IN": x})["OUT"] == 2 * x).all():
        raise Failure("Other numbers are not doubled.", credit=0.25)
"""
CONFIG = """
backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: [ -1, 4 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1, 4 ] }
instance_group { count: 1 kind: KIND_CPU }
"""
MODEL = """
import os, signal, time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            y = 2 * x
            {line}
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", y)]))
        return answers
"""

#: Stops the process that watches the server, ends the server, and answers in its place.
IMPOSTOR = """
import os, signal, time
from http.server import BaseHTTPRequestHandler, HTTPServer
def command(pid):
    try:
        return open("/proc/" + pid + "/cmdline").read()
    except OSError:
        return ""
pids = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
for p in pids:
    if "grader.judge.serve" in command(p) or "guard.py" in command(p):
        os.kill(int(p), signal.SIGSTOP)
for p in pids:
    if command(p).split(chr(0))[0].endswith("tritonserver"):
        os.kill(int(p), signal.SIGKILL)
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    do_POST = do_GET
while True:
    try:
        HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
    except OSError:
        time.sleep(0.05)
"""


class Class:
    """An assignment, a repository and reported values in a folder, and a judge on them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.own = home / "own"
        self.own.mkdir()
        (self.own / "checks.py").write_text(CHECKS)
        (self.own / "hidden.py").write_text(HIDDEN)
        self.repository = home / "repository"
        self.reported = home / "reported"
        self.repository.mkdir()
        self.reported.mkdir()

    def model(self, line: str = "pass", *, name: str = "double") -> None:
        """Write a Python model that doubles its input, and also runs one line of code."""
        folder = self.repository / name
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text(CONFIG)
        (folder / "1" / "model.py").write_text(MODEL.replace("{line}", line))

    def report(self, check: str, **values: Any) -> None:
        """Hand values to a check, as a notebook would."""
        said = CheckResult(id=check, sentence="", status="passed", credit=1)
        reported.write(check, values, said, self.reported)

    def judge(
        self, *, secret: str = "s", limits: sandbox.Limits | None = None
    ) -> tuple[dict[str, CheckResult], list[str], list[Line]]:
        """The results by check, the kinds of the flags, and all lines."""
        order = Order(
            assignment="zz", repository=self.repository, reported=self.reported, secret=secret
        )
        bound, environment = course(hidden=True)
        here: Mapping[str, Path] = {
            str(Path(grader.__file__).parents[1] / "solutions" / "zz__toy"): self.own,
            str(self.repository): self.repository,
            str(self.reported): self.reported,
        }
        outcome = sandbox.run(
            [sys.executable, "-m", "grader.judge.judge"],
            read_only={**bound, **here},
            stdin=order.model_dump_json().encode(),
            environment=environment,
            limits=limits or sandbox.Limits(wall_s=120, memory_bytes=4 << 30),
            nesting=True,
        )
        lines = [Line.model_validate_json(text) for text in outcome.stdout.splitlines()]
        assert lines, outcome.stderr
        assert lines[-1].kind == "end", outcome.stderr
        results = {line.check.id: line.check for line in lines if line.check}
        return results, [line.flag.kind for line in lines if line.flag], lines


@pytest.fixture
def zz(tmp_path: Path) -> Class:
    return Class(tmp_path)


@pytest.mark.quick
def test_each_status_is_told(zz: Class) -> None:
    """Passed, partial, failed, waiting, not attempted and a broken check, with their words."""
    zz.model()
    zz.report("zz.first", model="double")
    zz.report("zz.number", value=1)
    zz.report("zz.broken", value=3)
    results, flags, _ = zz.judge()
    assert {id: (r.status, r.credit) for id, r in results.items()} == {
        "zz.first": ("passed", 1.0),
        "zz.number": ("partial", 0.5),
        "zz.broken": ("error", 0.0),
        "zz.second": ("not attempted", 0.0),
    }
    assert results["zz.number"].help == "Try 2."
    assert "of its own" in results["zz.broken"].rationale
    # The notebook claimed that both had passed.
    assert flags == ["notebook disagrees", "notebook disagrees"]


@pytest.mark.parametrize(("value", "kinds"), [(0.89, ["notebook disagrees"]), (0.95, [])])
def test_up_to_a_tenth_is_no_disagreement(value: float, kinds: list[str], zz: Class) -> None:
    """What is measured differs a little each time: nobody need look at it."""
    zz.report("zz.number", value=value)
    results, flags, _ = zz.judge()
    assert results["zz.number"].credit == value
    assert flags == kinds


def test_a_check_waits_for_another(zz: Class) -> None:
    """It fails as one that it needs, which is no disagreement; the flag says what was found."""
    zz.model("y = x")
    zz.report("zz.number", value=0)
    zz.report("zz.second", model="double")
    results, _, lines = zz.judge()
    assert results["zz.second"].status == "waits"
    assert "zz.number" in results["zz.second"].rationale
    (flag,) = (line.flag for line in lines if line.flag)
    assert flag.kind == "notebook disagrees"
    assert "reported zz.number as passed" in flag.detail
    assert "failed: It is not." in flag.detail


@pytest.mark.quick
def test_a_hidden_variant_decides(zz: Class) -> None:
    """Right on the visible numbers, wrong on others: the hidden variant's credit counts."""
    zz.model("y = np.where(x == np.floor(x), y, 0).astype(np.float32)")
    zz.report("zz.number", value=2)
    zz.report("zz.first", model="double")
    zz.report("zz.second", model="double")
    results, flags, _ = zz.judge()
    assert results["zz.first"].status == "passed"
    second = results["zz.second"]
    assert (second.status, second.credit, second.hidden) == ("partial", 0.25, True)
    assert flags == []  # a notebook cannot have claimed the result of a hidden variant


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("raise ValueError('mine')", "mine"),
        ("time.sleep(30)", "within 5 s"),
        ("y = np.full((1, 4), np.nan, np.float32)", "does not"),
        ("y = y.astype(np.float64)", "as FP64; its config says TYPE_FP32"),
        ("y = np.zeros((300_000_000 // 4, 4), np.float32)", ""),
    ],
    ids=["raises", "sleeps", "nan", "dtype", "huge"],
)
def test_a_bad_answer_is_a_failure(zz: Class, line: str, words: str) -> None:
    """Whatever a model answers, the check fails with a sentence, and the next one goes on."""
    zz.model(line)
    zz.model(name="good")
    zz.report("zz.first", model="double")
    zz.report("zz.number", value=2)
    zz.report("zz.second", model="good")
    results, _, _ = zz.judge()
    assert results["zz.first"].status == "failed"
    assert re.search(words, results["zz.first"].rationale)
    assert results["zz.second"].status == "passed"


@pytest.mark.quick
@pytest.mark.parametrize(
    "line",
    [
        "os.kill(os.getppid(), signal.SIGKILL)",  # in its sandbox that is 0: its process group
        "[os.kill(int(p), 9) for p in os.listdir('/proc') if p.isdigit() and p != '1' "
        "and int(p) != os.getpid()]",
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {IMPOSTOR!r}], "
        "start_new_session=True); time.sleep(3)",
    ],
    ids=["kills its server", "kills everything", "takes its server's place"],
)
def test_a_model_cannot_reach_its_server(zz: Class, line: str) -> None:
    """A model runs in a sandbox within the server's: what it kills or takes is its own."""
    zz.model(line)
    zz.model(name="good")
    zz.report("zz.first", model="double")
    zz.report("zz.number", value=2)
    zz.report("zz.second", model="good")
    results, flags, _ = zz.judge()
    assert {id: r.status for id, r in results.items()}["zz.second"] == "passed"
    assert flags == []
    assert results["zz.first"].status == "passed"  # the numbers were right


def test_sixteen_instances_are_served(zz: Class) -> None:
    """The server has about 35 threads per instance. Their stacks must not use up its memory."""
    zz.model()
    config = zz.repository / "double" / "config.pbtxt"
    config.write_text(CONFIG.replace("count: 1", "count: 16"))
    zz.report("zz.first", model="double")
    results, flags, _ = zz.judge()
    assert (results["zz.first"].status, flags) == ("passed", [])


def test_a_model_that_does_not_load_is_explained(zz: Class) -> None:
    """The explanation points into the config, and the log holds the model's own words."""
    zz.model()
    config = zz.repository / "double" / "config.pbtxt"
    config.write_text(CONFIG.replace("TYPE_FP32", "FP32", 1))
    zz.model(name="raises")
    (zz.repository / "raises" / "1" / "model.py").write_text("raise RuntimeError('at import')\n")
    zz.report("zz.first", model="double")
    zz.report("zz.number", value=2)
    zz.report("zz.second", model="raises")
    results, _, lines = zz.judge()
    assert "TYPE_FP32" in results["zz.first"].rationale
    assert "at import" in results["zz.second"].rationale
    assert any("at import" in line.log for line in lines)


def test_the_same_secret_gives_the_same_inputs(zz: Class) -> None:
    """Hidden inputs depend only on the secret."""
    (zz.own / "hidden.py").write_text(
        HIDDEN.replace(
            'raise Failure("Other numbers are not doubled.", credit=0.25)',
            "raise Failure(repr(float(x[0, 0])), credit=0.25)",
        )
    )
    zz.model("y = np.where(x == np.floor(x), y, 0).astype(np.float32)")
    zz.report("zz.number", value=2)
    zz.report("zz.second", model="double")
    seen = [zz.judge(secret=s)[0]["zz.second"].found for s in ("one", "one", "two")]
    assert seen[0] == seen[1] != seen[2]


def test_a_model_that_keeps_hidden_inputs_tells_no_student(zz: Class) -> None:
    """It repeats them in the next answer that a public message would quote, and in an error.

    If hidden variants ran between the public functions, zz.third would quote a hidden input.
    """
    (zz.own / "checks.py").write_text(
        CHECKS
        + '''
@define("zz.third")
def third(server, model: str):
    """The model doubles its numbers, once more."""
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    answer = server.infer(model, {"IN": x})["OUT"]
    raise Failure(f"It answers {answer.tolist()}.", credit=0.5)

@define("zz.fourth", after=("zz.second",))
def fourth(server, model: str):
    """It needs a check whose hidden variant fails, and is right itself."""
'''
    )
    (zz.own / "hidden.py").write_text(
        HIDDEN.replace(", credit=0.25", "")
        + """
@hidden("zz.third")
def third(server, model: str):
    '''It doubles other numbers, once more.'''
    server.infer(model, {"IN": np.full((1, 4), 98765, np.float32)})
"""
    )
    zz.model(
        "kept = getattr(TritonPythonModel, 'kept', None)\n"
        "            if kept is not None: y = kept\n"
        "            if x[0, 1] != 1: TritonPythonModel.kept = y = x.copy()\n"
        "            if x[0, 1] == 98765: raise ValueError('asked for 98765')"
    )
    for check in ("zz.second", "zz.third", "zz.fourth"):
        zz.report(check, model="double")
    zz.report("zz.number", value=2)
    results, _, lines = zz.judge()
    assert results["zz.third"].found.count("98765")
    assert results["zz.third"].rationale == (
        "A hidden variant of this check failed. A request to the model failed."
    )
    assert results["zz.second"].rationale == (
        "A hidden variant of this check failed. It demands: Other numbers are doubled."
    )
    assert (results["zz.fourth"].status, results["zz.fourth"].credit) == ("passed", 1)
    told = [line.check.model_dump_json(exclude={"found"}) for line in lines if line.check]
    assert not any("98765" in text for text in told)
    # The same model, with nothing hidden that takes points: the public message quotes an answer.
    (zz.own / "hidden.py").write_text(HIDDEN.replace("if not", "if False and not"))
    results, _, _ = zz.judge()
    assert results["zz.second"].status == "passed"
    assert results["zz.third"].rationale == "It answers [[0.0, 2.0, 4.0, 6.0]]."


def test_nothing_but_the_server_sees_a_model(zz: Class, tmp_path: Path) -> None:
    """A model sees no hidden checks and no reported values, and cannot write its repository."""
    line = dedent(
        f"""
        seen = [p for p in ({str(zz.own)!r}, {str(zz.reported)!r},
            {str(Path(grader.__file__).parents[1] / "solutions")!r}) if os.path.exists(p)]
        try:
            open(os.path.join({str(zz.repository)!r}, "x"), "w")
            seen.append("wrote")
        except OSError:
            pass
        if seen:
            raise ValueError(str(seen))
        """
    ).strip()
    zz.model(line.replace("\n", "\n            "))
    zz.report("zz.first", model="double")
    zz.report("zz.number", value=2)
    zz.report("zz.second", model="double")
    results, _, _ = zz.judge()
    assert results["zz.first"].status == "passed", results["zz.first"].rationale
    assert np.isclose(results["zz.first"].credit, 1)


def test_values_of_another_check_are_refused(zz: Class) -> None:
    """A file that was copied from another check counts as unreadable."""
    zz.model()
    zz.report("zz.number", value=2)
    shutil.copy(zz.reported / "zz.number.json", zz.reported / "zz.first.json")
    results, flags, _ = zz.judge()
    assert results["zz.first"].status == "not attempted"
    assert flags == ["unreadable values"]


def test_a_check_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it catches every exception."""

    def stubborn(server: Any, value: int) -> None:
        while True:
            with contextlib.suppress(Exception):
                time.sleep(0.05)

    found = SimpleNamespace(values={"value": 1}, result=None)
    monkeypatch.setattr(judge.reported, "read", lambda id, folder: found)
    monkeypatch.setattr(judge, "CHECK_S", 0.3)
    nobody: Any = SimpleNamespace(probe=lambda id: None, close_if_lost=lambda: True)
    order = Order(assignment="zz", repository=tmp_path, reported=tmp_path, secret="s")
    judged = judge._public(Check("zz.slow", stubborn), order, nobody, {})
    assert (judged.result.status, judged.result.credit, judged.flags) == ("failed", 0, [])
    assert "longer than" in judged.result.rationale
    secret = Check("zz.slow", stubborn, variants=(stubborn,))
    judged.result = judged.result.model_copy(update={"status": "passed", "credit": 1.0})
    judged = judge._with_variants(secret, nobody, {}, judged)
    assert (judged.result.status, judged.result.credit) == ("failed", 0)
    assert "longer than" in judged.result.rationale
