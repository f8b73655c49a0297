"""The seccomp filter of a sandbox: it allows the system calls of ordinary programs, and no others.

system_calls.py lists what is allowed. A call that is not listed fails with "function not
implemented" (ENOSYS), an error that programs and the C library expect. `flock` does nothing and
reports success: programs need it (torch.compile), and a lock on a file of the machine could be a
signal to another sandbox, or make a program of the machine wait. Other locks work, since they need
a file that may be written. Seven calls depend on their arguments:

- `socket`, `socketpair`: only Unix sockets, TCP, UDP, and the netlink protocol that lists network
  devices, as torch.distributed does. Other families reach the machine's hypervisor (vsock), or
  kernel code that few people test.
- `clone`: no new namespace. `clone3` is refused, since a filter cannot read its flags; the C
  library then calls `clone`.
- `fcntl`: no lease and no notice on a file, and no question about another process's lock. Two
  sandboxes see the same files of the machine, and could signal each other with these.
- `ioctl`: nothing that types into a terminal.
- `mmap`: no page of the pool of huge pages, if the machine has one. Nobody counts these.

Where sandboxes are made within a sandbox (`nesting`), the calls for namespaces and mounts are
allowed, too.

The kernel runs the filter, a program in classic BPF, at each call. See seccomp(2).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable

from .system_calls import ALWAYS, BY_ARGUMENTS, IGNORED, MACHINES, NESTING

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000  # numbers from here on are the x32 variants of the system calls

# Instructions of classic BPF, and the offsets in struct seccomp_data. An argument has 64 bits; the
# kernel uses the lower 32 of those that are compared here.
_LOAD, _RETURN = 0x20, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ABOVE, _IF_ANY_BIT = 0x15, 0x35, 0x25, 0x45
_NUMBER, _ARCH = 0, 4
_FIRST, _SECOND, _THIRD, _FOURTH = 16, 24, 32, 40

#: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
_NAMESPACES = 0x7E020000
_F_GETLK, _F_OFD_GETLK, _F_SETLEASE, _F_NOTIFY = 5, 36, 1024, 1026
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_MAP_HUGETLB = 0x40000
_NETLINK_ROUTE = 0

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value
_ALLOW: Instruction = (_RETURN, 0, 0, 0x7FFF0000)


def _fail(number: int) -> Instruction:
    return (_RETURN, 0, 0, 0x00050000 | number)


def filter_bytes(*, nesting: bool = False) -> bytes | None:
    """The filter for bubblewrap's option --seccomp; None for a processor without lists.

    Args:
        nesting: allow what bubblewrap needs to make a sandbox within this one.
    """
    machine = os.uname().machine
    if machine not in MACHINES:
        return None
    return b"".join(struct.pack("=HBBI", *one) for one in program(machine, nesting=nesting))


def program(machine: str, *, nesting: bool = False) -> list[Instruction]:
    """The filter's instructions.

    Args:
        machine: one of `system_calls.MACHINES`.
        nesting: as for `filter_bytes`.
    """
    place = MACHINES.index(machine)
    allowed = [numbers[place] for numbers in ALWAYS.values()]
    ruled = _rules(nesting)
    if nesting:
        allowed += [numbers[place] for numbers in NESTING.values()]
        allowed += [BY_ARGUMENTS[name][place] for name in ("clone", "clone3")]
    code = [
        (_LOAD, 0, 0, _ARCH),
        (_IF_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        _fail(errno.ENOSYS),  # another architecture, such as a 32-bit program
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _X32),
        _fail(errno.ENOSYS),
    ]
    for name, rule in ruled.items():
        number = BY_ARGUMENTS[name][place]
        assert number is not None
        code += [(_IF_EQUAL, 0, len(rule), number), *rule]
    for number in (numbers[place] for numbers in IGNORED.values()):
        assert number is not None
        code += [(_IF_EQUAL, 0, 1, number), _fail(0)]
    for first, last in _ranges(number for number in allowed if number is not None):
        code += [(_IF_ABOVE, 2, 0, last), (_IF_AT_LEAST, 0, 1, first), _ALLOW]
    return [*code, _fail(errno.ENOSYS)]


def _rules(nesting: bool) -> dict[str, list[Instruction]]:
    """Per call, the instructions that look at its arguments. Each list ends with a return."""
    rules = {
        "socket": _families(),
        "socketpair": _families(),
        "fcntl": _without(_F_GETLK, _F_OFD_GETLK, _F_SETLEASE, _F_NOTIFY, error=errno.ENOSYS),
        "ioctl": _without(_TIOCSTI, _TIOCLINUX, error=errno.EPERM),
        "mmap": _without_bits(_FOURTH, _MAP_HUGETLB, error=errno.ENOMEM),
    }
    if not nesting:
        rules["clone"] = _without_bits(_FIRST, _NAMESPACES, error=errno.EPERM)
    return rules


def _families() -> list[Instruction]:
    """Allow Unix sockets, TCP, UDP, and the netlink protocol for network devices."""
    protocols = (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP)
    internet = [
        (_LOAD, 0, 0, _THIRD),
        *((_IF_EQUAL, len(protocols) - n, 0, p) for n, p in enumerate(protocols)),
        _fail(errno.EPROTONOSUPPORT),
        _ALLOW,
    ]
    device = [
        (_LOAD, 0, 0, _THIRD),
        (_IF_EQUAL, 0, 1, _NETLINK_ROUTE),
        _ALLOW,
        _fail(errno.EPROTONOSUPPORT),
    ]
    return [
        (_LOAD, 0, 0, _FIRST),
        (_IF_EQUAL, 0, 1, socket.AF_UNIX),
        _ALLOW,
        (_IF_EQUAL, 1, 0, socket.AF_INET),
        (_IF_EQUAL, 0, len(internet), socket.AF_INET6),
        *internet,
        (_IF_EQUAL, 0, len(device), socket.AF_NETLINK),
        *device,
        _fail(errno.EAFNOSUPPORT),
    ]


def _without(*values: int, error: int) -> list[Instruction]:
    """Allow a call unless its second argument is one of these values."""
    return [
        (_LOAD, 0, 0, _SECOND),
        *((_IF_EQUAL, len(values) - n, 0, value) for n, value in enumerate(values)),
        _ALLOW,
        _fail(error),
    ]


def _without_bits(argument: int, bits: int, *, error: int) -> list[Instruction]:
    """Allow a call unless one of these bits is set in an argument."""
    return [(_LOAD, 0, 0, argument), (_IF_ANY_BIT, 0, 1, bits), _fail(error), _ALLOW]


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The numbers as ranges without gaps, in order: first and last of each."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
