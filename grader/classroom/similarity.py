"""Which students' solutions have much in common: winnowing, as a hint for a person, never a mark.

Winnowing is from Schleimer, Wilkerson and Aiken, "Winnowing: Local Algorithms for Document
Fingerprinting" (SIGMOD 2003). Each run of `RUN` tokens is hashed; of each `WINDOW` neighbouring
hashes the smallest is kept. So two texts that share `RUN + WINDOW - 1` tokens in a row share a
hash. Comments, layout and the contents of strings do not count, and every name that the student
gives is the same token, so that renaming does not help. Code of the release does not count, nor
what many students have: that is how one solves the task.

Measured on six solutions of a2 written independently (tests/grader/solutions_a2.py): two of
them share at most 28 %, and a copy with other names, layout and comments at least 79 %.

Neither of the libraries for this fits: copydetect's last release is of March 2024, and it takes
wrong hashes for the release's where one occurs twice; pycode_similar compares functions only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from workbook.assignments import Assignment

from ..sandbox import limited
from ..vocabulary.results import Graded
from .causes import MOST_SOURCE, assigned_names, solution_cells

#: Tokens per hash, and hashes per window.
RUN, WINDOW = 10, 5
#: How many hashes, and what share of the smaller solution's, make a pair worth a look.
LEAST, SHARE = 8, 0.4
#: A hash that more students have counts for nobody: at least this many, and this share of a class.
COMMON, COMMON_SHARE = 10, 0.25

#: It also makes tokens of text that is not quite Python, such as a line `%%time`. It never goes
#: back over what it has read, so its time is linear in the text.
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*+)
    |(?P<text>[A-Za-z]{0,2}(?:\"{3}(?:[^"\\]|\\.|"(?!""))*+(?:\"{3})?
        |\'{3}(?:[^'\\]|\\.|'(?!''))*+(?:\'{3})?
        |"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?))
    |(?P<name>[^\W\d]\w*+)|(?P<number>\d[\w.]*+)|(?P<sign>\S)""",
    re.VERBOSE | re.DOTALL,
)
#: A hash's places: (cell's id, index of its line). The first ones are enough for people.
_Prints = dict[int, set[tuple[str, int]]]
_MOST_PLACES = 50
#: The most seconds and bytes for one student's cells. A solution takes a hundredth of both.
_SECONDS, _MEMORY = 5, 512 << 20


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two solutions with much in common.

    Attributes:
        one, other: the students.
        share: of the smaller solution, how much the other one has, from 0 to 1.
        cells: (id, lines of one, lines of the other) of each cell in which they agree. A line is
            its text, and whether it is among what they share.
    """

    one: str
    other: str
    share: float
    cells: list[tuple[str, list[tuple[str, bool]], list[tuple[str, bool]]]]


def pairs(results: Mapping[str, Graded], assignment: Assignment, most: int = 30) -> list[Pair]:
    """The pairs of students whose solution cells are alike, the most alike first.

    Students with the very same files are not among them: they share one result.

    Example::

        pairs(classroom.results("a2__forest"), assignments.named("a2"))

    Args:
        results: the stored result of each student.
        assignment: the assignment. The code of its release does not count.
        most: how many pairs at most.
    """
    released = solution_cells(assignment.release.read_text("utf-8"), all=True)
    names = _names(released)
    given = set(_prints(released, 1, names))
    cells = {who: solution_cells(graded.notebook) for who, graded in results.items()}
    prints = {who: _prints_of(texts, names) for who, texts in cells.items()}
    distinct = {graded.key: who for who, graded in results.items()}  # one of those with the same
    seen = Counter(hash for who in distinct.values() for hash in prints[who])
    limit = max(COMMON, COMMON_SHARE * len(distinct))
    usual = {hash for hash, count in seen.items() if count > limit} | given
    own = {who: prints[who].keys() - usual for who in distinct.values()}
    found = []
    for one, other in itertools.combinations(sorted(own), 2):
        shared = own[one] & own[other]
        share = len(shared) / (min(len(own[one]), len(own[other])) or 1)
        if len(shared) >= LEAST and share >= SHARE:
            found.append((share, one, other, shared))
    found.sort(key=lambda pair: (-pair[0], pair[1:3]))
    return [
        Pair(one, other, share, list(_side_by_side(shared, (one, other), cells, prints)))
        for share, one, other, shared in found[:most]
    ]


def _names(cells: Mapping[str, str]) -> set[str]:
    """The names that cells give a value."""
    return set().union(*map(assigned_names, cells.values()))


def _prints_of(cells: Mapping[str, str], names: Collection[str]) -> _Prints:
    """`_prints` of a student's cells, in a process of its own; none where they take too much."""
    try:
        answer = limited.call(
            lambda: {
                "prints": [
                    (hash, *places) for hash, places in _prints(cells, WINDOW, names).items()
                ]
            },
            cpu_s=_SECONDS,
            memory_bytes=_MEMORY,
        )
    except limited.NoResult:
        return {}
    return {hash: {(id, line) for id, line in places} for hash, *places in answer["prints"]}


def _prints(cells: Mapping[str, str], window: int, names: Collection[str] = ()) -> _Prints:
    """The hashes that winnowing keeps, with their places; `names` count as given by the student."""
    names = _names(cells).union(names)
    hashes = []
    for id, text in cells.items():
        tokens = list(_tokens(text, names))
        for begin in range(len(tokens) - RUN + 1):
            run = "\0".join(token for token, _ in tokens[begin : begin + RUN])
            digest = hashlib.blake2b(run.encode("utf-8", "replace"), digest_size=8).digest()
            lines = {line for _, line in tokens[begin : begin + RUN]}
            hashes.append((int.from_bytes(digest, "big"), id, lines))
    kept: _Prints = {}
    for begin in range(max(1, len(hashes) - window + 1) if hashes else 0):
        # The last of equal ones, as in the paper: neighbouring windows then agree on it.
        value, id, lines = min(reversed(hashes[begin : begin + window]), key=lambda hash: hash[0])
        places = kept.setdefault(value, set())
        if len(places) < _MOST_PLACES:
            places |= {(id, line) for line in lines}
    return kept


def _tokens(text: str, names: Collection[str]) -> Iterator[tuple[str, int]]:
    """The tokens that count, with the index of their line."""
    line = at = 0
    for match in _TOKEN.finditer(text := text[:MOST_SOURCE]):
        line, at = line + text.count("\n", at, match.start()), match.start()
        token = match[0]
        if match.lastgroup == "text" or (match.lastgroup == "name" and token in names):
            token = str(match.lastgroup)
        if match.lastgroup != "comment":
            yield token, line


def _side_by_side(
    shared: set[int],
    students: tuple[str, str],
    cells: Mapping[str, Mapping[str, str]],
    prints: Mapping[str, _Prints],
) -> Iterator[tuple[str, list[tuple[str, bool]], list[tuple[str, bool]]]]:
    """The cells in which two students agree, each with its lines."""
    places = [{place for hash in shared for place in prints[who][hash]} for who in students]
    for id in cells[students[0]]:
        if all(any(cell == id for cell, _ in side) for side in places):
            one, other = (
                [
                    (text, (id, line) in side)
                    for line, text in enumerate(cells[who].get(id, "").split("\n"))
                ]
                for who, side in zip(students, places, strict=True)
            )
            yield id, one, other
