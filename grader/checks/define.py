"""Checks: functions whose docstring is the sentence that the student reads.

A check looks at a served model through a `Probe` and at the values that the notebook hands over::

    @define("a2.probabilities", needs=("a2.config",), hints=("First …", "Then …"))
    def probabilities(probe: Probe, model: str, library: Array) -> None:
        '''Your model gives the probabilities that the library gives.'''
        if ...:
            raise Failure("Row 3 differs by 0.2.", help="Look at output_class.")

It returns when all is well, raises `Failure` when not, and `NotAttempted` when there is nothing to
look at yet. The same function runs twice: in the notebook, for the student (notebook.py), and
outside it, for marks (the judge). What decides the marks beyond that are the hidden variants, which
the student's machine never sees::

    @hidden("a2.probabilities")
    def unseen_rows(probe: Probe, model: str, library: Array) -> None: ...
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from workbook.common.errors import WorkbookError

from .failure import Failure, NotAttempted
from .probe import Probe
from .results import CheckResult, Status

__all__ = [
    "Check",
    "Failure",
    "NotAttempted",
    "Probe",
    "backends",
    "define",
    "evaluate",
    "hidden",
    "load",
    "require_close",
]

Function = Callable[..., None]


@dataclasses.dataclass(frozen=True)
class Check:
    """A check with its public function and, where the instructor's folder is there, hidden ones.

    Attributes:
        id: e.g. `a2.probabilities`; the part before the dot names the assignment.
        run: the public function; it takes a `Probe` and the values that the notebook hands over.
        needs: checks that must have earned something first.
        hints: a ladder, from a nudge to nearly the answer.
        variants: the hidden functions; they take the same values.
    """

    id: str
    run: Function
    needs: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    variants: tuple[Function, ...] = ()

    @property
    def sentence(self) -> str:
        """What the check says: the first paragraph of its docstring, on one line."""
        return " ".join((inspect.getdoc(self.run) or "").split("\n\n")[0].split())

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the values that the notebook must hand over."""
        return tuple(inspect.signature(self.run).parameters)[1:]


def define(
    id: str, *, needs: tuple[str, ...] = (), hints: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """Make a function the public form of a check; see the module's text."""

    def mark(function: Function) -> Function:
        function.__check__ = Check(id, function, needs, hints)  # type: ignore[attr-defined]
        return function

    return mark


def hidden(id: str) -> Callable[[Function], Function]:
    """Make a function a hidden variant of the check with this id."""

    def mark(function: Function) -> Function:
        function.__variant_of__ = id  # type: ignore[attr-defined]
        return function

    return mark


def load(assignment: str, *, variants: bool = False) -> dict[str, Check]:
    """The checks of an assignment, by id, in the order of their definition.

    Args:
        assignment: its short name, e.g. `a2`.
        variants: take the hidden ones too.

    Raises:
        WorkbookError: there are no checks of this name, or they do not fit together.
    """
    module = _module(f"grader.checks.{assignment}")
    if module is None:
        raise WorkbookError(
            f"There are no checks for {assignment!r}.",
            todo="A check's name begins with its assignment's, such as a2.probabilities.",
        )
    checks = {
        value.__check__.id: value.__check__
        for value in vars(module).values()
        if inspect.isfunction(value) and hasattr(value, "__check__")
    }
    for check in checks.values():
        for need in check.needs:
            if need not in checks or list(checks).index(need) >= list(checks).index(check.id):
                raise WorkbookError(f"{check.id} needs {need}, which is not defined before it.")
    if variants and (module := _module(f"grader.checks.hidden.{assignment}")) is not None:
        for value in vars(module).values():
            if inspect.isfunction(value) and (id := getattr(value, "__variant_of__", None)):
                if id not in checks:
                    raise WorkbookError(f"{value.__name__} is a hidden variant of no check: {id}.")
                public = checks[id]
                checks[id] = dataclasses.replace(public, variants=(*public.variants, value))
    return checks


def backends(assignment: str) -> tuple[str, ...]:
    """The backends that an assignment's models may name: `BACKENDS` of its checks; empty: any."""
    return tuple(getattr(_module(f"grader.checks.{assignment}"), "BACKENDS", ()))


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return None


def evaluate(
    check: Check,
    probe: Callable[[], Probe],
    values: Mapping[str, Any] | None,
    earned: Mapping[str, CheckResult],
) -> CheckResult:
    """Run a check and its hidden variants; the least of their credits counts.

    Args:
        probe: gives the server to ask; not called where there is nothing to ask about.
        values: what the notebook handed over, by name; None: it never reached this check.
        earned: the results of the checks before this one.
    """
    began = time.monotonic()

    def result(status: Status, credit: float, *text: str, hidden: bool = False) -> CheckResult:
        rationale, help, *_ = (*(part[:4_000] for part in text), "", "")
        return CheckResult(
            id=check.id,
            sentence=check.sentence,
            status=status,
            credit=credit,
            rationale=rationale,
            help=help,
            hidden=hidden,
            seconds=time.monotonic() - began,
        )

    if values is None:
        return result("not attempted", 0, "The notebook did not get to this check.")
    missing = [name for name in check.parameters if values.get(name) is None]
    unknown = [name for name in values if name not in check.parameters]
    if missing:
        names = ", ".join(f"`{name}=`" for name in missing)
        one = len(missing) == 1
        return result(
            "not attempted",
            0,
            f"{names} {'has' if one else 'have'} no value yet: what this cell hands over there is "
            "still `...`.",
            f"Run the cell that sets {'it' if one else 'them'}, once you have written it.",
        )
    if unknown:
        what = f"This check takes no {', '.join(unknown)}."
        return result("failed", 0, what, f"It takes {', '.join(check.parameters)}.")
    for need in check.needs:
        if need in earned and earned[need].credit == 0:
            return result("waits", 0, f"This check waits for {need}, which has not passed yet.")

    least = result("passed", 1)
    for function in (check.run, *check.variants):
        secret = function is not check.run
        try:
            function(probe(), **values)
        except NotAttempted as error:
            return result("not attempted", 0, str(error))
        except Failure as failure:
            if failure.credit < least.credit:
                status: Status = "partial" if failure.credit else "failed"
                least = result(
                    status, failure.credit, failure.rationale, failure.help, hidden=secret
                )
        except WorkbookError as error:  # the server's or the repository's no, already explained
            where = f" ({error.where})" if error.where else ""
            least = result("failed", 0, f"{error.what}{where}", error.todo, hidden=secret)
        except Exception as error:
            # Whatever a student hands over, a check should answer; where one does not, it is the
            # check that is at fault, and a person has to look.
            what = f"This check could not do its work: {type(error).__name__}: {error}"
            least = result("error", 0, what, "Tell your instructor.", hidden=secret)
        if least.credit == 0:
            break
    return least.model_copy(update={"seconds": time.monotonic() - began})


def require_close(
    got: Any, expected: Any, *, what: str, tolerance: float, because: str, help: str = ""
) -> None:
    """Fail unless two arrays agree.

    Args:
        got: the student's array, any shape and dtype.
        expected: the array that it should equal.
        what: what the arrays hold, for the sentence: "the probabilities".
        tolerance: the largest absolute difference that is no mistake.
        because: what the tolerance is derived from; the message says it.
        help: what to look at.

    Raises:
        Failure: the shapes differ, a value is not a finite number, or a difference is too large.
            The message tells how many rows differ and by how much, never the expected values.
    """
    expected = np.asarray(expected)
    try:
        values = np.asarray(got)
        if values.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise Failure(f"{_upper(what)} are not numbers.", help=help) from None
    if values.shape != expected.shape:
        raise Failure(
            f"{_upper(what)} have the shape {list(values.shape)}; "
            f"expected is {list(expected.shape)}.",
            help=help,
        )
    if not values.size:
        return
    if not np.isfinite(values).all():
        raise Failure(f"{_upper(what)} hold values that are not finite numbers.", help=help)
    off = np.abs(values.astype(np.float64) - expected.astype(np.float64))
    wrong = (off > tolerance).reshape(len(off) if off.ndim else 1, -1).any(axis=1)
    if wrong.any():
        raise Failure(
            f"{_upper(what)} differ in {int(wrong.sum())} of {len(wrong)} rows, by up to "
            f"{float(off.max()):.3g}. Allowed is {tolerance:.1g}: {because}.",
            help=help,
        )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
