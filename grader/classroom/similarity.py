"""Which students' solutions have much in common: winnowing, as a hint for a person, never a mark.

Winnowing is from Schleimer, Wilkerson and Aiken, "Winnowing: Local Algorithms for Document
Fingerprinting" (SIGMOD 2003). Each run of `RUN` tokens is hashed; of each `WINDOW` neighbouring
hashes the smallest is kept. So two texts that share `RUN + WINDOW - 1` tokens in a row share a
hash. Comments, layout and the contents of strings do not count, and every name that the student
gives is the same token, so that renaming does not help.

Compared are the solution cells and the Python files. What the release gives counts for nobody. Nor
does, between two students, what the course's solution has: that is how one solves the task. The
course's solution itself is compared with each student, as if somebody had handed it in. So code
counts no less because many have it, and a solution that goes through half a class is one group.

Measured on six solutions of a2 written independently (tests/grader/solutions_a2.py): the course's
solution and another one share at most 28 hashes and 24 % of the shorter one. Without what the
course's solution has, two others share at most 5 hashes and 6 %. A copy with other names, layout
and comments shares at least 79 %.

Neither of the libraries for this fits: copydetect's last release is of March 2024, and it takes
wrong hashes for the release's where one occurs twice; pycode_similar compares functions only.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from pathlib import Path

from workbook.assignments import Assignment, files

from ..sandbox import limited
from ..vocabulary.results import Graded
from .causes import MOST_SOURCE, assigned_names, solution_cells
from .classroom import Classroom

#: Tokens per hash, and hashes per window.
RUN, WINDOW = 10, 5
#: How many hashes, and what share of the smaller solution's, make a pair worth a look.
LEAST, SHARE = 8, 0.4
#: How many hashes with the course's solution. Whoever has done one task only, in the plainest way,
#: shares most of the little that there is.
LEAST_WITH_COURSE = 40
#: What stands in place of a student where a solution is like the course's own.
COURSE = "the course's solution"

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
#: The texts of a solution: by a cell's id, or the path of a file.
Texts = Mapping[str, str]
#: A hash's places: (the text's id, index of its line). The first ones are enough for people.
_Prints = dict[int, set[tuple[str, int]]]
_MOST_PLACES = 50
#: The most seconds and bytes for one student's texts. A solution takes a hundredth of both.
_SECONDS, _MEMORY = 5, 512 << 20
#: The most characters of a student's files that are looked at.
_MOST_FILES = 4 * MOST_SOURCE


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two solutions with much in common.

    Attributes:
        one, other: the students. The other one may be `COURSE`.
        share: of the smaller solution, how much the other one has, from 0 to 1.
        texts: (id, lines of one, lines of the other) of each cell and file in which they agree. A
            line is its text, and whether it is among what they share. Empty where the report
            shows other pairs.
    """

    one: str
    other: str
    share: float
    texts: list[tuple[str, list[tuple[str, bool]], list[tuple[str, bool]]]]


@dataclasses.dataclass(frozen=True)
class Group:
    """Students whose solutions are alike: each one is like at least one other of the group.

    Attributes:
        students: all of them, in alphabetical order.
        pairs: the pairs that join them, the most alike first: one less than there are students
            and, where it is one of them, `COURSE`.
    """

    students: list[str]
    pairs: list[Pair]


def solution_texts(
    classroom: Classroom, assignment: Assignment, results: Mapping[str, Graded]
) -> dict[str, dict[str, str]]:
    """What each student wrote: the solution cells of the graded notebook, and all Python files.

    Example::

        solution_texts(classroom, forest, classroom.results(forest.name))["anna"]["a2.train"]

    Args:
        classroom: with the submissions.
        assignment: the assignment.
        results: the stored result of each student.

    Returns:
        By student, the texts by the cell's id or the file's path.
    """
    return {
        who: solution_cells(graded.notebook)
        | _python_files(classroom.submission(who, assignment.name))
        for who, graded in results.items()
    }


def groups(solutions: Mapping[str, Texts], assignment: Assignment, shown: int = 30) -> list[Group]:
    """The groups of students whose solutions are alike, the largest first.

    Example::

        groups(solution_texts(classroom, forest), forest)

    Args:
        solutions: what each student wrote.
        assignment: the assignment, built. The code of its release does not count.
        shown: for how many pairs the texts come too.
    """
    course = _Course(assignment)

    @functools.cache  # one process for all who have the same texts
    def prints_of(texts: tuple[tuple[str, str], ...]) -> _Prints:
        return _prints_of(dict(texts), course.names)

    prints = {who: prints_of(tuple(texts.items())) for who, texts in solutions.items()}
    joined = _join(
        _alike({who: found.keys() - course.given for who, found in prints.items()}, course)
    )
    first = sorted(pair for _, pairs in joined for pair in pairs)[:shown]
    every = {**solutions, COURSE: course.texts}, {**prints, COURSE: course.prints}
    texts = {(p.one, p.other): list(_side_by_side(p, *every)) for p in first}
    found = [
        Group(
            students=sorted(members - {COURSE}),
            pairs=[Pair(p.one, p.other, p.share, texts.get((p.one, p.other), [])) for p in pairs],
        )
        for members, pairs in joined
    ]
    return sorted(found, key=lambda group: (-len(group.students), group.students))


@dataclasses.dataclass(frozen=True)
class _Alike:
    """Two solutions that are alike; they are sorted by how much they are.

    Attributes:
        one, other, share: as in `Pair`.
        shared: the hashes that both have, and that count.
    """

    one: str
    other: str
    share: float
    shared: frozenset[int]

    def __lt__(self, other: _Alike) -> bool:
        return (-self.share, self.one, self.other) < (-other.share, other.one, other.other)


def _alike(own: Mapping[str, Set[int]], course: _Course) -> Iterator[_Alike]:
    """All pairs of solutions that are alike, and the solutions that are like the course's.

    Args:
        own: by student, the hashes of what is not given.
        course: what the course has itself.
    """
    theirs = course.prints.keys() - course.given
    for who, found in own.items():
        yield from _compare((who, found), (COURSE, theirs), LEAST_WITH_COURSE)
    rest = {who: found - course.solution for who, found in own.items()}
    for one, other in itertools.combinations(rest.items(), 2):
        yield from _compare(one, other, LEAST)


def _compare(
    one: tuple[str, Set[int]], other: tuple[str, Set[int]], least: int
) -> Iterator[_Alike]:
    """The pair, if at least this many hashes are shared, and `SHARE` of the smaller solution's."""
    shared = one[1] & other[1]
    share = len(shared) / (min(len(one[1]), len(other[1])) or 1)
    if len(shared) >= least and share >= SHARE:
        yield _Alike(one[0], other[0], share, frozenset(shared))


def _join(alike: Iterable[_Alike]) -> list[tuple[set[str], list[_Alike]]]:
    """The groups that pairs form, by Kruskal's algorithm: single-linkage clustering.

    Returns:
        Each group's members, and the pairs that join them, the most alike first.
    """
    found: dict[str, tuple[set[str], list[_Alike]]] = {}
    for pair in sorted(alike):
        one, other = (found.get(who, ({who}, [])) for who in (pair.one, pair.other))
        if pair.other not in one[0]:
            joined = one[0] | other[0], sorted([*one[1], *other[1], pair])
            found.update(dict.fromkeys(joined[0], joined))
    return list({id(group): group for group in found.values()}.values())


class _Course:
    """What the course has itself.

    Attributes:
        names: names that cells and files of the release give a value.
        given: the hashes of the release.
        texts: the course's solution; empty where the checkout has none.
        prints: its hashes that winnowing keeps.
        solution: all of its hashes.
    """

    def __init__(self, assignment: Assignment) -> None:
        cells = solution_cells(assignment.release.read_text("utf-8"), all=True)
        self.names = _names(cells | _python_files(assignment.starter))
        self.given = _prints(cells | _python_files(assignment.handout), 1, self.names).keys()
        self.texts = _python_files(assignment.solution)
        if assignment.instructor.is_file():
            self.texts = solution_cells(assignment.instructor.read_text("utf-8")) | self.texts
        self.prints = _prints(self.texts, WINDOW, self.names)
        self.solution = _prints(self.texts, 1, self.names).keys() - self.given


def _names(texts: Mapping[str, str]) -> set[str]:
    """The names that texts give a value."""
    return set().union(*map(assigned_names, texts.values()))


def _prints_of(texts: Texts, names: Collection[str]) -> _Prints:
    """`_prints` of what a student wrote, in a process of its own; none where it takes too much."""
    try:
        answer = limited.call(
            lambda: {
                "prints": [
                    (hash, *places) for hash, places in _prints(texts, WINDOW, names).items()
                ]
            },
            cpu_s=_SECONDS,
            memory_bytes=_MEMORY,
        )
    except limited.NoResult:
        return {}
    return {hash: {(id, line) for id, line in places} for hash, *places in answer["prints"]}


def _prints(texts: Texts, window: int, names: Collection[str] = ()) -> _Prints:
    """The hashes that winnowing keeps, with their places.

    Args:
        texts: the cells of one notebook, and files.
        window: the hashes of which one is kept.
        names: names that count as given by the student, in all texts. In a cell these are also the
            names of all cells; in a file, those of the file.
    """
    of_cells = _names({id: text for id, text in texts.items() if not id.endswith(".py")})
    hashes = []
    for id, text in texts.items():
        own = assigned_names(text) if id.endswith(".py") else of_cells
        tokens = list(_tokens(text, own.union(names)))
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


def _python_files(folder: Path) -> dict[str, str]:
    """The Python files in a folder, by their paths."""
    found: dict[str, str] = {}
    left = _MOST_FILES
    for path in files(folder) if folder.is_dir() else ():
        if path.suffix == ".py" and path.is_file() and not path.is_symlink() and left > 0:
            with path.open("rb") as file:
                text = file.read(left).decode("utf-8", "replace")
            found[path.relative_to(folder).as_posix()] = text
            left -= len(text)
    return found


def _side_by_side(
    pair: _Alike, solutions: Mapping[str, Texts], prints: Mapping[str, _Prints]
) -> Iterator[tuple[str, list[tuple[str, bool]], list[tuple[str, bool]]]]:
    """The cells and files in which two solutions agree, each with its lines."""
    students = (pair.one, pair.other)
    places = [{place for hash in pair.shared for place in prints[who][hash]} for who in students]
    for id in solutions[pair.one]:
        if all(any(text == id for text, _ in side) for side in places):
            one, other = (
                [
                    (line, (id, number) in side)
                    for number, line in enumerate(solutions[who].get(id, "").split("\n"))
                ]
                for who, side in zip(students, places, strict=True)
            )
            yield id, one, other
