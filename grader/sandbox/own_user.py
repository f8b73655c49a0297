"""A user of its own for each sandbox that root starts.

A command that runs as root, even without capabilities and in a user namespace of its own, owns what
root owns on the machine: it could change the mode of a device node, and write to the settings in
/proc/sys. So the command runs as another user, whose number is chosen at random per sandbox. On the
machine nobody has this number. Inside, it is user 1000, as for an ordinary user.

Bubblewrap itself still runs as root while it makes the sandbox, because it has to find the files to
bind. The order is:

1. Bubblewrap makes the user namespace, and waits (option --userns-block-fd).
2. `map_users` writes which numbers inside stand for which numbers outside.
3. Bubblewrap makes the sandbox. In it, `command` changes the user and then starts the command.

See user_namespaces(7) and setpriv(1).
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from workbook.common.errors import WorkbookError

#: The number of the user inside each sandbox, and of its group.
INSIDE = 1000
#: What bubblewrap must leave to the first programs of the sandbox: the right to change the user.
CAPABILITIES = ("CAP_SETUID", "CAP_SETGID")
#: The right to mount a /proc, for `command`.
MOUNTING = "CAP_SYS_ADMIN"

_HIGHEST = 2_100_000_000  # systemd and container programs use numbers above this, and small ones
_MOST = 1 << 27


def choose() -> int | None:
    """A random user number for a sandbox; None where the caller is not root.

    It is also None for root of a user namespace that has no other user. On the machine, this root
    is an ordinary user.
    """
    if os.getuid() != 0:
        return None
    users, groups = (_high_numbers(f"/proc/self/{kind}_map") for kind in ("uid", "gid"))
    numbers = range(max(users.start, groups.start), min(users.stop, groups.stop))
    return secrets.choice(numbers) if numbers else None


def map_users(pid: int, user: int) -> None:
    """Tell the kernel which users and groups a new user namespace has: root and the sandbox's own.

    Args:
        pid: the first process of the namespace.
        user: what `choose` returned. The group has the same number.
    """
    for kind in ("uid", "gid"):
        Path(f"/proc/{pid}/{kind}_map").write_text(f"0 0 1\n{INSIDE} {user} 1\n")


def command(*, nesting: bool) -> list[str]:
    """The start of a command line that changes the user to the sandbox's own.

    The user keeps the machine's group root, so that it may read what this group may read.

    Args:
        nesting: mount another /proc before. Bubblewrap covers parts of the first one, and then the
            kernel allows no /proc in a sandbox within this one (mount_too_revealing in Linux).
    """
    words = ["/usr/bin/unshare", "--mount-proc", "--"] if nesting else []
    return [
        *words,
        *("/usr/bin/setpriv", f"--reuid={INSIDE}", f"--regid={INSIDE}", "--groups=0"),
        *("--inh-caps=-all", "--"),
    ]


def check_readable(places: Iterable[Path]) -> None:
    """Raise an error if the sandbox's own user may not read a file or folder that will be bound.

    Only the file or folder itself is looked at, not what is in it.

    Raises:
        WorkbookError: it may not, with what to do.
    """
    for place in places:
        try:
            found = place.stat()
        except OSError:
            continue  # bubblewrap reports what is missing
        needed = 0o5 if stat.S_ISDIR(found.st_mode) else 0o4
        if found.st_mode & needed == needed:
            continue
        if found.st_gid == 0 and (found.st_mode >> 3) & needed == needed:
            continue
        raise WorkbookError(
            "Only root may read something that the sandbox should see.",
            where=str(place),
            todo="What students hand in does not run as root. Let others read this: "
            f"`chmod -R go+rX {place}`, and `umask 022` before you begin.",
        )


def _high_numbers(file: str) -> range:
    """The upper half of the numbers that the caller's user namespace has, without the very high."""
    first, _, count = max(
        (tuple(map(int, line.split())) for line in Path(file).read_text().splitlines()),
        key=lambda row: row[2],
    )
    stop = min(first + count, _HIGHEST)
    return range(max(stop - _MOST, first + 1 + (stop - first) // 2), stop)
