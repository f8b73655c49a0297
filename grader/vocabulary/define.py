"""Define checks, and run them. A check is a function.

Its docstring is the sentence that the student reads. Its first parameter is a `Probe`, which sends
requests to the server with the student's models. The other parameters are the values that the
notebook passes to `check(...)`::

    @define("a2.probabilities", needs=("a2.forest",), hints=("First …", "Then …"))
    def probabilities(server: Probe, model: str, library: Array) -> None:
        '''The server gives the probabilities that the library gives.'''
        answer = server.infer(model, {"input__0": rows})["output__0"]
        require.shape(model, answer, (114, 2), output="output__0", help="Look at its dims.")
        if ...:
            raise Failure("Row 3 differs by 0.2.", help="Look at output_class.")

If the work is right, the function returns. If it is wrong, the function raises `Failure`, itself or
through a function of require.py. If there is no work to look at yet, it raises `NotAttempted`. The
same function runs in two places: in the notebook, where the student reads the result (notebook.py),
and in the judge, which gives the marks.

A check may have hidden variants, with inputs that the notebook does not show. Only the judge runs
them; students do not get them. The public function and each variant give a credit from 0 to 1. The
lowest of these credits counts: the mark is this credit times the points of the check::

    @hidden("a2.probabilities", help="Is the model that you deployed the one of the recipe?")
    def secret_rows(server: Probe, model: str) -> None:
        '''Other rows get the probabilities of a model trained by the recipe.'''

**What a student learns of the hidden inputs.** A submitted model sees them, and decides what it
answers. So no text that quotes an answer, an error, a shape, a time or a count of a hidden variant
reaches a student: `evaluate_hidden` puts a sentence of the check in its place, and keeps the other
text for instructors (`CheckResult.found`). All public functions of a submission run before the
first hidden variant (judge.py), so that no model can keep a hidden input for a public message. What
remains is the mark itself: of each check a credit in twentieths, and which of the check's few
sentences. These are less than eight bits per check and submission. A check with a leaderboard gives
the digits of its figure, too (`collect.standing`): that of ×11.2 has three.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from workbook.common.errors import WorkbookError

from .. import assignments
from . import one_thread
from .collect import noted, placed
from .failure import UNDECIDED, Failure, NotAttempted, Undecided
from .probe import Probe
from .results import CheckResult, Standing, Status

__all__ = [
    "Check",
    "Failure",
    "NotAttempted",
    "Probe",
    "backends",
    "define",
    "evaluate",
    "evaluate_hidden",
    "evaluate_public",
    "hidden",
    "load",
    "reserved",
    "without_hints",
]

Function = Callable[..., None]

#: How a student's text of a failed hidden variant begins.
HIDDEN_FAILED = "A hidden variant of this check failed."
#: What a student reads of a hidden variant that crashed.
HIDDEN_CRASHED = "A hidden variant of this check could not do its work."
#: The folders of checks, and of the vocabulary that they use.
_CHECKS = {"solutions", "assignments", "vocabulary"}
#: What a check that crashed tells a student to do.
TELL = "Tell your instructor."
#: The same of a check that is undecided (failure.py).
_AGAIN = "Run the check again when the machine is quieter. In grading, the next run does that."


@dataclasses.dataclass(frozen=True)
class Check:
    """A check: its public function and, on an instructor's machine, its hidden variants.

    `load` makes them; an author writes functions. Example::

        check = load("a2")["a2.probabilities"]
        check.sentence      # "The server gives the probabilities that the library gives."
        check.parameters    # ("model", "library", "served")

    Attributes:
        id: such as `a2.probabilities`; the part before the dot names the assignment.
        run: the public function. It takes a `Probe` and the values that the notebook passes.
        needs: the ids of checks. This check runs only after each of them has earned points.
        after: the ids of checks. If this check earns nothing, and one of them has earned nothing
            either, the student reads that this check waits for it. What is right in this one earns
            its points whatever the others earn.
        hints: the first one gives an idea, the last one nearly the answer.
        read: where to read on after the last hint.
        server: whether the public function asks the server. Where it does not, the notebook runs it
            without one.
        variants: the hidden functions. Each takes the server, and those of the public function's
            parameters that it uses.
    """

    id: str
    run: Function
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    read: str = ""
    server: bool = True
    variants: tuple[Function, ...] = ()

    @property
    def sentence(self) -> str:
        """The sentence that the student reads: the docstring's first paragraph, on one line."""
        return _sentence(self.run)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the values that the notebook must pass to `check(...)`."""
        return _parameters(self.run)


def define(
    id: str,
    *,
    needs: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
    hints: tuple[str, ...] = (),
    read: str = "",
    server: bool = True,
) -> Callable[[Function], Function]:
    """Make a function the public part of a check.

    Example::

        @define(
            "a2.labels",
            needs=("a2.forest",),
            hints=("Which file …", "Line 0 is …"),
            read="lecture 1, notebook 02, section …",
        )
        def labels(server: Probe, model: str, answers: list[str]) -> None:
            '''Asked for the top class, the server answers with its name.'''

    Args:
        id: the assignment's short name, a dot, the check's name.
        needs: ids of checks that are defined above this one. This check runs only after each of
            them has earned points: without them there is nothing that it could judge.
        after: ids of checks that are defined above this one. If they earn nothing, this one
            probably fails for the same reason, and says that it waits for them. It is judged all
            the same: what is right in it earns its points. So it must not take for granted what
            they test.
        hints: the texts that `hint("a2.labels")` shows: each call shows one more.
        read: what `hint` shows after the last one: where to read on.
        server: False where the function does not ask the server: it looks at values alone. A reader
            needs no server for it then.
    """

    def mark(function: Function) -> Function:
        check = Check(id, function, needs, after, hints, read, server)
        function.__check__ = check  # type: ignore[attr-defined]
        return function

    return mark


def hidden(*ids: str, help: str = "") -> Callable[[Function], Function]:
    """Make a function a hidden variant of the checks with these ids.

    Example::

        @hidden("a2.labels", help="Is the model that you deployed the one of the recipe?")
        def secret_labels(server: Probe, model: str) -> None:
            '''The labels of other rows are those of the recipe's classes.'''
            rows = server.rng.random((10, 30), dtype=np.float32)

    It takes those parameters of the public function that it uses. For the same class and check,
    `server.rng` always gives the same random numbers.

    If it fails, the student reads the first paragraph of its docstring, and `help`. If the
    `Failure` has a text `safe`, the student reads that in place of the docstring, and nothing else
    of the `Failure`. Instructors read all of it; a `Failure` without a help gets this one. It must
    not contain an expected value.

    Args:
        ids: those of the checks.
        help: what to look at if it fails. It must be a literal text, like all that students read.
    """

    def mark(function: Function) -> Function:
        function.__variant_of__ = ids  # type: ignore[attr-defined]
        function.__help__ = help  # type: ignore[attr-defined]
        return function

    return mark


def load(assignment: str, *, variants: bool = False) -> dict[str, Check]:
    """The checks of an assignment, by id, in the order of their definition.

    Only checks whose id begins with the assignment's name are taken. A module may import functions
    of another assignment's module; their checks stay where they are.

    Args:
        assignment: its short name, such as `a2`.
        variants: load the hidden variants too.

    Raises:
        WorkbookError: the assignment has no checks; a check in its module has another assignment's
            name; a check needs one that is not defined before it; or a hidden variant belongs to
            no check.
    """
    module = _module(assignment, "checks")
    checks = {
        value.__check__.id: value.__check__
        for value in _functions(module, "__check__")
        if _belongs(value.__check__.id, value, assignment, module)
    }
    if not checks:
        raise WorkbookError(
            f"There are no checks for {assignment!r}.",
            todo="A check's name begins with its assignment's, such as a2.probabilities.",
        )
    for check in checks.values():
        for need in (*check.needs, *check.after):
            if need not in checks or list(checks).index(need) >= list(checks).index(check.id):
                raise WorkbookError(
                    f"{check.id} needs {need}, which is not defined before it.",
                    where=_place(assignment, "checks"),
                    todo=f"Correct the name in needs= or after=, or define {need} above it.",
                )
    if not variants:
        return checks
    module = _module(assignment, "hidden")
    variants_of = [
        (id, one) for one in _functions(module, "__variant_of__") for id in one.__variant_of__
    ]
    for id, value in variants_of:
        if not _belongs(id, value, assignment, module):
            continue
        where = _place(assignment, "hidden")
        if id not in checks:
            raise WorkbookError(
                f"{value.__name__} is a hidden variant of no check: {id}.",
                where=where,
                todo=f"Correct the name in @hidden(…). The checks are {', '.join(checks)}.",
            )
        public = checks[id]
        if unknown := [name for name in _parameters(value) if name not in public.parameters]:
            raise WorkbookError(
                f"{value.__name__} takes {', '.join(unknown)}, which {id} does not get.",
                where=where,
                todo=f"It may take any of these: {', '.join(public.parameters) or 'none'}.",
            )
        checks[id] = dataclasses.replace(public, variants=(*public.variants, value))
    return checks


def _sentence(function: Function) -> str:
    """The first paragraph of a function's docstring, on one line."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def _parameters(function: Function) -> tuple[str, ...]:
    """The values that a check's function takes from the notebook: all parameters after `server`."""
    return tuple(inspect.signature(function).parameters)[1:]


def _functions(module: ModuleType | None, mark: str) -> Iterator[Any]:
    """The functions in a module that carry a decorator's mark."""
    for value in vars(module).values() if module else ():
        if inspect.isfunction(value) and hasattr(value, mark):
            yield value


def _belongs(id: str, function: Any, assignment: str, module: ModuleType | None) -> bool:
    """Whether a check is the assignment's; raises WorkbookError if it stands in a wrong module."""
    if id.startswith(f"{assignment}."):
        return True
    if module is not None and function.__module__ == module.__name__:
        raise WorkbookError(
            f"{id} is defined among the checks of {assignment}.",
            where=f"{module.__name__}.{function.__name__}",
            todo=f"Begin its name with {assignment}., or define it in its own assignment's module.",
        )
    return False


def backends(assignment: str) -> tuple[str, ...]:
    """The backends that an assignment's models may use: `BACKENDS` in its module of checks.

    If the module has no `BACKENDS`, the result is empty, and every backend is allowed.
    """
    return tuple(getattr(_module(assignment, "checks"), "BACKENDS", ()))


def reserved(assignment: str) -> tuple[str, ...]:
    """The models that an assignment's checks put into the repository themselves (`Probe.place`).

    They are `RESERVED` in its module of checks; empty if the module has none. What a submission
    holds under these names is not served.
    """
    return tuple(getattr(_module(assignment, "checks"), "RESERVED", ()))


def without_hints(assignment: str) -> dict[str, str]:
    """What to read for tasks that have no hints: `NO_HINTS` in the assignment's module of checks.

    They are written answers and bonus tasks. By id; empty if the module has no `NO_HINTS`.
    """
    return dict(getattr(_module(assignment, "checks"), "NO_HINTS", {}))


def imported_late(assignment: str, program: str) -> tuple[str, ...]:
    """The modules that a program of an assignment needs without naming them.

    They are in `IMPORTED_LATE` in the assignment's module of checks, if it has one. A fork server
    imports them once, and not every submission anew.

    Args:
        assignment: its short name.
        program: "checks", or "notebook" for what the notebook needs beside.
    """
    late = getattr(_module(assignment, "checks"), "IMPORTED_LATE", {})
    return tuple(late.get(program, ()))


def _module(assignment: str, name: str) -> ModuleType | None:
    """A module of an assignment; None if there is none."""
    name = assignments.module(assignment, name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return None


def _place(assignment: str, name: str) -> str:
    """Where an instructor finds a module of an assignment: `solutions/a2__forest/checks.py`."""
    return f"solutions/{'/'.join(assignments.module(assignment, name).split('.')[2:])}.py"


def evaluate(
    check: Check,
    server: Callable[[], Probe],
    values: Mapping[str, Any] | None,
    earned: Mapping[str, CheckResult],
) -> CheckResult:
    """Run a check and its hidden variants; the lowest credit among them counts.

    Args:
        check: the check.
        server: returns the `Probe`. It is called only when a function of the check will run.
        values: the values that the notebook passed, by parameter; None if the notebook did not
            reach this check.
        earned: the results of the checks before this one, by id.
    """
    public = evaluate_public(check, server, values, earned)
    return evaluate_hidden(check, server, values, earned, public)


def evaluate_public(
    check: Check,
    server: Callable[[], Probe],
    values: Mapping[str, Any] | None,
    earned: Mapping[str, CheckResult],
) -> CheckResult:
    """Run a check's public function; the arguments are those of `evaluate`."""
    if (obstacle := _obstacle(check, values)) is not None:
        status, *text = obstacle
        return _result(check, status, 0, *text)
    # A model that does not answer would make each check wait as long as the first one.
    need = _missing_need(check, earned)
    if need and (need in check.needs or earned[need].is_late):
        return _waits(check, need)
    outcome = _call(check.run, server, values)
    error = outcome.error
    if error is None:
        result = _result(check, "passed", 1, "\n".join(outcome.notes))
    elif isinstance(error, NotAttempted):
        result = _result(check, "not attempted", 0, str(error))
    elif isinstance(error, Failure):
        result = _result(check, _status(error.credit), error.credit, error.rationale, error.help)
    elif isinstance(error, WorkbookError):  # of the server or the repository: it is explained
        where = f" ({error.where})" if error.where else ""
        result = _result(check, "failed", 0, f"{error.what}{where}", error.todo)
    elif isinstance(error, Undecided):
        result = _result(check, "error", 0, UNDECIDED, f"{error.found} {_AGAIN}".strip())
    else:
        # A check should give a result for all values that a student can pass. If it raises another
        # error, the check is wrong, and a person has to look at it.
        what = f"This check could not do its work: {type(error).__name__}: {error}"
        result = _result(check, "error", 0, what, TELL)
    more = {"seconds": outcome.seconds, "standing": outcome.standing if result.credit else None}
    result = _blame(check, result.model_copy(update=more), earned)
    return result.late() if outcome.is_late else result


def evaluate_hidden(
    check: Check,
    server: Callable[[], Probe],
    values: Mapping[str, Any] | None,
    earned: Mapping[str, CheckResult],
    public: CheckResult,
) -> CheckResult:
    """Run a check's hidden variants, unless it has earned nothing; the lowest credit counts.

    This is the only place where a text about a hidden variant is made. The student's text stands in
    the source of the check; `found` is for instructors.

    Args:
        check, server, values, earned: as for `evaluate`.
        public: the result of the public function.
    """
    need = _missing_need(check, earned)
    if public.credit and need in check.needs and need is not None:
        return _waits(check, need)  # a hidden variant of that check has failed
    lowest, seconds, standing = public, public.seconds, public.standing
    for function in check.variants:
        if lowest.credit == 0:
            break
        outcome = _call(function, server, values)
        seconds += outcome.seconds
        standing = outcome.standing or standing
        if outcome.error is not None:
            lowest = min(lowest, _hidden(check, function, outcome.error), key=lambda r: r.credit)
    more = {"seconds": seconds, "standing": standing if lowest.credit else None}
    return _blame(check, lowest.model_copy(update=more), earned)


def _blame(check: Check, result: CheckResult, earned: Mapping[str, CheckResult]) -> CheckResult:
    """The result; if it is worth nothing, and a check that it needs too, that it waits for this.

    So a student reads of one fault once. A check that crashed waits as well: it may have taken for
    granted what the other one tests.
    """
    need = _missing_need(check, earned)
    if need is None or result.credit or result.status not in ("failed", "error"):
        return result
    found = result.found or result.rationale
    return _waits(check, need).model_copy(update={"found": found, "seconds": result.seconds})


def _waits(check: Check, need: str) -> CheckResult:
    """The result of a check that waits for another one."""
    return _result(check, "waits", 0, f"This check waits for {need}, which has not passed yet.")


def _missing_need(check: Check, earned: Mapping[str, CheckResult]) -> str | None:
    """The first check of `needs` or `after` that has earned nothing; None if there is none."""
    before = (*check.needs, *check.after)
    return next((id for id in before if id in earned and earned[id].credit == 0), None)


def _hidden(check: Check, variant: Function, error: Exception) -> CheckResult:
    """The result of a hidden variant that raised."""
    demands = f"{HIDDEN_FAILED} It demands: {_sentence(variant)}"
    help: str = getattr(variant, "__help__", "")
    if isinstance(error, Failure):
        # A student's model can choose the credit. In twentieths, a credit carries little.
        credit = math.floor(20 * error.credit + 1e-9) / 20
        text = f"{HIDDEN_FAILED} {error.safe}" if error.safe else demands
        todo = error.help or help
        found = f"{error.rationale} → {todo}" if todo else error.rationale
        result = _result(check, _status(credit), credit, text, help)
    elif isinstance(error, WorkbookError | NotAttempted):
        result, found = _result(check, "failed", 0, demands, help), str(error)
    elif isinstance(error, Undecided):
        result, found = _result(check, "error", 0, UNDECIDED, _AGAIN), error.found
    else:
        result = _result(check, "error", 0, HIDDEN_CRASHED, TELL)
        found = f"{type(error).__name__} in line {_line(error)}: {error}"
    return CheckResult.model_validate(
        {**result.model_dump(), "hidden": True, "found": found[:4_000]}
    )


@dataclasses.dataclass(frozen=True)
class _Outcome:
    """What a function of a check raised, if anything; what it noted; how long it took; its
    `standing`, if any; and whether a model did not answer in time."""

    error: Exception | None
    notes: list[str]
    seconds: float
    standing: Standing | None
    is_late: bool


def _call(
    function: Function, server: Callable[[], Probe], values: Mapping[str, Any] | None
) -> _Outcome:
    """Run one function of a check."""
    began = time.monotonic()
    probe: Probe | None = None
    raised: Exception | None = None
    with noted() as notes, placed() as standings, one_thread.limit_numpy():
        try:
            before = time.monotonic()
            probe = server()
            began += time.monotonic() - before  # the judge's first check waits for its server
            function(probe, **{name: (values or {})[name] for name in _parameters(function)})
        except Exception as error:  # any: a check that has a mistake must not end the judge
            raised = error
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of a library in Rust (PyO3)
                raise
            raised = RuntimeError(f"a library panicked: {error}")
    standing = standings[-1] if standings else None
    is_late = bool(getattr(probe, "is_late", False))
    return _Outcome(raised, notes, time.monotonic() - began, standing, is_late)


def _status(credit: float) -> Status:
    return "partial" if credit else "failed"


def _result(check: Check, status: Status, credit: float, *text: str) -> CheckResult:
    rationale, help, *_ = (*(part[:4_000] for part in text), "", "")
    return CheckResult(
        id=check.id,
        sentence=check.sentence,
        status=status,
        credit=credit,
        rationale=rationale,
        help=help,
    )


def _line(error: Exception) -> str:
    """Where in an assignment's checks an error was raised; an error's own text may hold inputs."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = (f for f in reversed(frames) if _CHECKS.intersection(Path(f.filename).parts))
    place = next(ours, frames[-1])
    return f"{place.lineno} of {Path(place.filename).name}"


def _obstacle(check: Check, values: Mapping[str, Any] | None) -> tuple[Status, str, str] | None:
    """Why a check cannot run: status, rationale and help; None where it can."""
    if values is None:
        return "not attempted", "The notebook did not get to this check.", ""
    missing = [name for name in check.parameters if values.get(name) is None]
    if missing:
        names = ", ".join(f"`{name}=`" for name in missing)
        one = len(missing) == 1
        return (
            "not attempted",
            f"{names} {'has' if one else 'have'} no value yet: this cell hands over `...` or "
            "None there.",
            f"Run the cell that sets {'it' if one else 'them'}, once you have written it. If that "
            "cell ended with an error, correct the error first.",
        )
    if unknown := [name for name in values if name not in check.parameters]:
        what = f"This check takes no {', '.join(unknown)}."
        return "failed", what, f"It takes {', '.join(check.parameters)}."
    return None
