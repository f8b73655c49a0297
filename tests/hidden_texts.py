"""The texts of a hidden variant that a student may read: texts in the checks' source."""

from __future__ import annotations

import ast
import functools
import inspect
from pathlib import Path

from grader.judge import judge
from grader.vocabulary import define
from grader.vocabulary.failure import UNDECIDED
from grader.vocabulary.results import CheckResult
from workbook import assignments

#: The judge's own messages: a check's time is over, its server has ended, the machine is too busy.
_OF_THE_JUDGE = (
    UNDECIDED,
    f"It took longer than {judge.CHECK_S:.0f} s.",
    "The server ended while this check was asking your model.",
)


def sources() -> list[Path]:
    """The modules of all checks and of the vocabulary that they use."""
    found = list(Path(define.__file__).parent.glob("*.py"))
    for one in assignments.find():
        other = (one.short, "mutants", "attacks")
        found += [path for path in one.folder.glob("*.py") if path.stem not in other]
    return sorted(found)


@functools.cache
def safe_texts() -> frozenset[str]:
    """Every text that an author has marked as safe.

    Raises:
        AssertionError: one of them is not a plain text: it could hold a value of the run.
    """
    found = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for keyword in node.keywords if isinstance(node, ast.Call) else ():
                if keyword.arg != "safe":
                    continue
                value, where = keyword.value, f"{path.name}, line {keyword.value.lineno}"
                if isinstance(value, ast.Attribute) and value.attr == "safe":
                    continue  # the text of another Failure is passed on
                assert isinstance(value, ast.Constant), f"{where}: not a text in quotation marks"
                assert isinstance(value.value, str), where
                assert value.value, where
                found.add(value.value)
    return frozenset(found)


def texts(check: define.Check) -> frozenset[tuple[str, str]]:
    """What a student can read of a check's hidden variants: all pairs of rationale and help."""
    pairs = {(define.HIDDEN_CRASHED, define.TELL)}
    for variant in check.variants:
        sentence = " ".join((inspect.getdoc(variant) or "").split("\n\n")[0].split())
        help = variant.__help__  # type: ignore[attr-defined]
        sentences = {f"It demands: {sentence}", *safe_texts()}
        pairs |= {(f"{define.HIDDEN_FAILED} {text}", help) for text in sentences}
    return frozenset(pairs)


def assert_tells_nothing(result: CheckResult, check: define.Check) -> None:
    """Fail if a result of a hidden variant holds a text that does not stand in the source."""
    if not result.hidden or result.rationale in _OF_THE_JUDGE:
        return
    assert (result.rationale, result.help) in texts(check), (result.rationale, result.help)
    assert result.found
    assert result.sentence == check.sentence
    assert 20 * result.credit == int(20 * result.credit)
