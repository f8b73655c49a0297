"""A seccomp filter that refuses a few system calls, so that a command cannot avoid the limits.

- memfd and System V segments: such memory need not be mapped by a process, and is in no folder. So
  the supervisor could not count it.
- The kernel's keyrings: all namespaces share them.
- io_uring, bpf, perf and userfaultfd: no notebook needs them, and many security bugs of the kernel
  were in their code.

A refused call fails with "function not implemented" (ENOSYS), an error that programs expect. See
seccomp(2). The numbers are from Linux's tables of system calls.
"""

from __future__ import annotations

import errno
import os
import struct

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS = {  # x86_64, aarch64
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
}
_X32 = 0x40000000  # numbers from here on are the x32 variants of the system calls

# Instructions of classic BPF, and the offsets in struct seccomp_data.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCH = 0, 4
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def filter_bytes() -> bytes | None:
    """The filter for bubblewrap's option --seccomp; None if `_ARCHITECTURE` lacks the processor."""
    machine = os.uname().machine
    if machine not in _ARCHITECTURE:
        return None
    numbers = [pair[list(_ARCHITECTURE).index(machine)] for pair in _CALLS.values()]
    tests = [(_IF_AT_LEAST, _X32), *((_IF_EQUAL, number) for number in numbers)]
    code = [
        (_LOAD, 0, 0, _ARCH),
        (_IF_EQUAL, 0, len(tests) + 2, _ARCHITECTURE[machine]),  # another architecture: refuse
        (_LOAD, 0, 0, _NUMBER),
        *((test, len(tests) - n, 0, value) for n, (test, value) in enumerate(tests)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
