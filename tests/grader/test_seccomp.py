"""The filter for system calls has the kernel's numbers, and decides as the lists say.

A small interpreter runs the filter here, even for a processor that this machine does not have.
"""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.sandbox import seccomp
from grader.sandbox.system_calls import ALWAYS, BY_ARGUMENTS, IGNORED, MACHINES, NESTING

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED = 0x7FFF0000
#: The kernel's headers for programs, in the folders of Debian and of other systems.
HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}


def decide(
    number: int, *arguments: int, machine: str = "x86_64", nesting: bool = False, arch: int = 0
) -> int | str:
    """`allowed`, or the error number, for one call."""
    code = seccomp.program(machine, nesting=nesting)
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, arch or ARCHITECTURES[machine], 0, *padded)
    place, value = 0, 0
    while True:
        kind, if_true, if_false, operand = code[place]
        place += 1
        if kind == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif kind == 0x06:
            return "allowed" if operand == ALLOWED else operand & 0xFFFF
        else:
            true = {
                0x15: value == operand,
                0x25: value > operand,
                0x35: value >= operand,
                0x45: bool(value & operand),
            }[kind]
            place += if_true if true else if_false


def number(name: str, machine: str = "x86_64") -> int:
    found = (ALWAYS | BY_ARGUMENTS | IGNORED | NESTING)[name][MACHINES.index(machine)]
    assert found is not None
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    header = next(filter(Path.is_file, map(Path, HEADERS[machine])), None)
    if header is None:
        pytest.skip("no kernel headers on this machine")
    text = header.read_text("utf-8")
    pattern = re.compile(r"^#define __NR(3264)?_(\w+) (\d+)$", re.MULTILINE)
    numbers = {name: int(number) for _, name, number in pattern.findall(text)}
    both = {**ALWAYS, **BY_ARGUMENTS, **IGNORED, **NESTING}
    ours = {name: each[MACHINES.index(machine)] for name, each in both.items()}
    wrong = {
        name: (given, numbers[name])
        for name, given in ours.items()
        if name in numbers and given != numbers[name]
    }
    assert wrong == {}
    known = [name for name, given in ours.items() if given is not None and name in numbers]
    assert len(known) > 200


def test_no_number_stands_twice() -> None:
    for place in range(len(MACHINES)):
        lists = (ALWAYS, BY_ARGUMENTS, IGNORED, NESTING)
        given = [each[place] for one in lists for each in one.values() if each[place] is not None]
        assert len(given) == len(set(given))


@given(
    number=st.integers(0, 600) | st.integers(0, 2**32 - 1),
    arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6),
    machine=st.sampled_from(MACHINES),
    nesting=st.booleans(),
)
def test_what_is_not_listed_is_refused(
    number: int, arguments: list[int], machine: str, nesting: bool
) -> None:
    place = MACHINES.index(machine)

    def has(*lists: dict[str, tuple[int | None, ...]]) -> bool:
        return any(number == each[place] for one in lists for each in one.values())

    found = decide(number, *arguments, machine=machine, nesting=nesting)
    if has(ALWAYS) or (nesting and has(NESTING)):
        assert found == "allowed"
    elif has(IGNORED):
        assert found == 0
    elif not has(BY_ARGUMENTS):
        assert found == errno.ENOSYS


@given(number=st.integers(0, 2**32 - 1), arch=st.integers(1, 2**32 - 1))
def test_programs_for_another_processor_get_nothing(number: int, arch: int) -> None:
    """32-bit programs, and the x32 variants: their numbers mean other calls."""
    if arch != ARCHITECTURES["x86_64"]:
        assert decide(number, arch=arch) == errno.ENOSYS
    assert decide(number | 0x40000000) == errno.ENOSYS


@pytest.mark.server
@pytest.mark.quick
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("high", [0, 1 << 32], ids=["plain", "with high bits"])
def test_arguments_decide(machine: str, high: int) -> None:
    """The kernel ignores the upper half of these arguments, and so does the filter."""

    def call(name: str, *arguments: int, nesting: bool = False) -> int | str:
        given = [high | argument for argument in arguments]
        return decide(number(name, machine), *given, machine=machine, nesting=nesting)

    fork = 0x01200011  # what the C library's fork() passes to clone
    thread = 0x003D0F00
    assert call("clone", fork) == call("clone", thread) == "allowed"
    for namespace in (1 << 17, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30):
        assert call("clone", fork | namespace) == errno.EPERM
        assert call("clone", fork | namespace, nesting=True) == "allowed"
    assert call("clone3") == errno.ENOSYS
    for family, kind, protocol in ((1, 1, 0), (2, 1, 6), (2, 2, 17), (10, 1, 0), (16, 3, 0)):
        assert call("socket", family, kind, protocol) == "allowed"
    for family in (0, 3, 15, 17, 38, 40, 44):
        assert call("socket", family, 1, 0) == errno.EAFNOSUPPORT
        assert call("socketpair", family, 1, 0, nesting=True) == errno.EAFNOSUPPORT
    for family, protocol in ((2, 132), (10, 262), (2, 1), (16, 4), (16, 16)):
        assert call("socket", family, 2, protocol) == errno.EPROTONOSUPPORT
    for command in (0, 1, 2, 3, 4, 6, 7, 37, 38, 1030, 1033):
        assert call("fcntl", 5, command) == "allowed"
    for command in (5, 36, 1024, 1026):
        assert call("fcntl", 5, command) == errno.ENOSYS
    assert call("ioctl", 1, 0x5401) == "allowed"
    assert call("ioctl", 1, 0x5412) == errno.EPERM
    assert call("mmap", 0, 4096, 3, 0x22) == "allowed"
    assert call("mmap", 0, 4096, 3, 0x40022) == errno.ENOMEM
    assert call("flock", 5, 2) == 0


@pytest.mark.server
@pytest.mark.quick
def test_the_program_fits_into_the_kernel() -> None:
    for machine in MACHINES:
        for nesting in (False, True):
            code = seccomp.program(machine, nesting=nesting)
            assert len(code) < 4096
            for place, (kind, if_true, if_false, _) in enumerate(code):
                assert max(if_true, if_false) < 256
                if kind not in (0x20, 0x06):
                    assert place + 1 + max(if_true, if_false) < len(code)
            assert code[-1][0] == 0x06
