"""The results of grading one submission, as data that is written and read as JSON.

pydantic checks every field when JSON is read. `version` numbers the layout: it changes, with a line
in the changelog, when a field does.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from . import alias as aliases
from .failure import UNDECIDED

Status = (
    Literal["passed", "partial", "failed", "not attempted", "waits", "error", "no server"]
    | Literal["stopped", "unfinished", "unreadable"]
)

#: Control characters, marks that turn the direction of writing, and halves of a character. JSON,
#: CSV or a terminal takes them for something else than text.
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _readable(text: Any) -> Any:
    """A text with "\ufffd" in place of what is no text. A model's answer can hold anything."""
    if not isinstance(text, str):
        return text
    return _NO_TEXT.sub("\ufffd", text.replace("\r\n", "\n"))


#: Long enough for any sentence of a check, and a limit for what a model's output can add to it.
Text = Annotated[str, BeforeValidator(_readable), Field(max_length=4_000)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Standing(_Record):
    """A figure of a submission for the class's leaderboard (classroom/leaderboard.py).

    Attributes:
        value: the figure. The highest is the best.
        text: how it is shown, such as `×11.2`.
        alias: the name under which the student wants to stand there; "" for none. The student chose
            it. What does not follow the rule (alias.py) becomes "".
    """

    value: float = Field(allow_inf_nan=False)
    text: Annotated[Text, Field(min_length=1, max_length=40)]
    alias: Annotated[str, BeforeValidator(aliases.fit)] = ""


class CheckResult(_Record):
    """The result of one check.

    Attributes:
        id: the check's id, such as `a2.probabilities`.
        sentence: what the check demands, as the student reads it.
        status: `passed` (all credit), `partial`, `failed` (none), `not attempted`, `waits` (it
            fails, and so does a check that it needs), `no server` (only in a notebook), or `error`
            (the check itself has a bug, which an instructor has to fix). Pages know more than the
            judge and say `stopped`, `unfinished` or `unreadable` in place of `not attempted`
            (classroom/causes.py).
        credit: the share of the points, from 0 to 1.
        rationale: what was found; where it passed, what was measured, if anything. A student reads
            it. Of a hidden variant it is a text that stands in the check, word for word.
        help: what to look at next.
        hidden: whether a hidden variant gave this result.
        found: what the hidden variant found, or a check that waits. It is for instructors only: it
            can quote what a model answered, and a model can repeat the hidden inputs.
        seconds: how long it took.
        standing: what the check measured for the leaderboard, if anything. A check that earned
            nothing has none.
    """

    id: str
    sentence: Text
    status: Status
    credit: float = Field(ge=0, le=1, allow_inf_nan=False)
    rationale: Text = ""
    help: Text = ""
    hidden: bool = False
    found: Text = ""
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    standing: Standing | None = None
    _is_late: bool = PrivateAttr(default=False)

    @property
    def is_undecided(self) -> bool:
        """Whether a busy machine kept the check from a result: nothing broke."""
        return self.rationale == UNDECIDED

    @property
    def is_late(self) -> bool:
        """Whether a model did not answer in time. The JSON does not have it."""
        return self._is_late

    def late(self) -> CheckResult:
        """The same result of a check to which a model did not answer in time."""
        copy = self.model_copy()
        copy._is_late = True
        return copy


class Flag(_Record):
    """Something that a person should look at. A flag by itself takes no points.

    Attributes:
        kind: a short, fixed name, such as `edited cell` or `stopped`.
        detail: one or two sentences.
    """

    kind: str
    detail: Text


class Verdict(_Record):
    """What the judge found: one result per check, in the assignment's order.

    Attributes:
        assignment: such as `a2__forest`.
        checks: the results.
        flags: what a person should look at.
        log: the end of the log of the judge's server. It is for instructors only: a model can
            print the hidden inputs into it.
        seconds: how long the judge took.
        me: the ids by which the checks drew the student's data (own.py), as the notebook gave them.
        version: 2 since checks may have a `standing`; else 1 is the same.
    """

    version: Literal[1, 2] = 2
    assignment: str
    checks: tuple[CheckResult, ...]
    flags: tuple[Flag, ...] = ()
    log: str = Field(default="", max_length=200_000)
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    me: tuple[Text, ...] = Field(default=(), max_length=100)

    def of(self, check: str) -> CheckResult | None:
        """The result of one check, by its id; None where the judge was not asked for it."""
        return next((result for result in self.checks if result.id == check), None)


class Stopped(_Record):
    """A cell of the student's notebook that raised.

    Attributes:
        cell: its position in the notebook, counted from 1.
        name: the exception's class.
        message: the exception's message, shortened.
    """

    cell: int
    name: str
    message: Text


class Graded(_Record):
    """Everything that is kept of one submission.

    Attributes:
        key: the hash of all that the result depends on (`grader.judge.grade_submission.key`).
        assignment: such as `a2__forest`.
        verdict: the judge's results, with the flags of every step before it.
        notebook: the executed notebook as nbformat JSON text.
        errors: cells that raised.
        log: the end of the log of the server that the student's notebook used.
        sandbox: the protection that it ran under, in words (`sandbox.Protection.level`).
        executed: seconds that the notebook took.
        judged: seconds that the judge took.
    """

    version: Literal[1] = 1
    key: str
    assignment: str
    verdict: Verdict
    notebook: str
    errors: tuple[Stopped, ...] = ()
    log: str = ""
    sandbox: str
    executed: float = 0.0
    judged: float = 0.0
