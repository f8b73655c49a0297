"""What an assignment lacks, as far as that can be seen without running it.

`grader try` prints it, and tests/grader/test_assignments.py fails for it.
"""

from __future__ import annotations

import dataclasses
import re
import traceback
from collections.abc import Iterator

from workbook import notebooks
from workbook.assignments import Assignment
from workbook.common.errors import WorkbookError

from ..vocabulary import define
from ..vocabulary.admission import ADMITTED
from . import mutants

#: What the points of an assignment add up to.
TOTAL = 100
#: How many hints each check has: the first gives an idea, the last nearly the answer.
HINTS = 3


@dataclasses.dataclass(frozen=True)
class Gap:
    """Something that an assignment lacks.

    Attributes:
        what: what is missing or wrong.
        where: the file, relative to the checkout.
        todo: what the author can do.
    """

    what: str
    where: str
    todo: str


def checks(assignment: Assignment) -> dict[str, define.Check]:
    """The checks of an assignment with their hidden variants.

    Raises:
        WorkbookError: there are none, or a module of them cannot be imported. The error names the
            line.
    """
    try:
        return define.load(assignment.short, variants=True)
    except WorkbookError:
        raise
    except Exception as error:
        step = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{step.filename}, line {step.lineno}"
        if isinstance(error, SyntaxError):
            place = f"{error.filename}, line {error.lineno}"
        raise WorkbookError(
            f"The checks of {assignment.short} cannot be imported: {type(error).__name__}: {error}",
            where=place.removeprefix(f"{assignment.home}/"),
            todo="Correct this line.",
        ) from None


def gaps(assignment: Assignment) -> list[Gap]:
    """What an assignment lacks.

    Example::

        for gap in gaps(assignments.named("a2")):
            print(gap.what, gap.where, gap.todo)

    Args:
        assignment: with its source; it need not be built.

    Raises:
        WorkbookError: its source, its checks or its mutants cannot be read.
    """
    source = notebooks.read(assignment.source)
    functions = checks(assignment)
    return [
        *_of_source(assignment, source, functions),
        *_of_checks(assignment, functions),
        *_of_mutants(assignment, source, functions),
    ]


def _of_source(
    assignment: Assignment, source: notebooks.Source, functions: dict[str, define.Check]
) -> Iterator[Gap]:
    where = str(assignment.source.relative_to(assignment.home))
    total = sum(cell.points for cell in source.cells)
    if total != TOTAL:
        yield Gap(
            f"The points add up to {total:g}, not to {TOTAL}.",
            where,
            "Change the points of check cells and written answers.",
        )
    heading, stated, earned = "", 0.0, 0.0
    for cell in (*source.cells, notebooks.Cell("markdown", "## ")):
        if cell.source.startswith("## "):
            if stated != earned:
                yield Gap(
                    f"{heading!r} states {stated:g} points, and its cells give {earned:g}.",
                    where,
                    "Write the points of a task into its heading: ## Task 1: … (30 points).",
                )
            heading, earned = cell.source.splitlines()[0], 0.0
            stated = float((*re.findall(r"\((\d+) points?\)", heading), 0)[0])
        earned += cell.points
    in_notebook = {cell.id for cell in source.cells if cell.kind == "check"}
    for id in functions.keys() - in_notebook:
        yield Gap(
            f"No cell of the notebook asks {id}.",
            where,
            f'Add a cell # %% kind="check" id="{id}" points=…, or delete the function.',
        )


def _of_checks(assignment: Assignment, functions: dict[str, define.Check]) -> Iterator[Gap]:
    where = f"solutions/{assignment.name}/checks.py"
    for id, check in functions.items():
        if not check.sentence:
            yield Gap(f"{id} says nothing to the student.", where, "Give it a docstring.")
        if len(check.hints) != HINTS:
            yield Gap(
                f"{id} has {len(check.hints)} hints, not {HINTS}.",
                where,
                "Write the idea, then where to look, then nearly the answer.",
            )
        if not check.variants:
            yield Gap(
                f"{id} has no hidden variant, so what it asks is known to the student.",
                f"solutions/{assignment.name}/hidden.py",
                f'Write one with @hidden("{id}"): other inputs, from server.rng.',
            )
    admitted = define.backends(assignment.short)
    if not admitted:
        yield Gap(
            "The judge would load models of every backend.",
            where,
            'Name those that the tasks need: BACKENDS = ("python",).',
        )
    for name in sorted({*admitted} - ADMITTED.keys()):
        yield Gap(
            f"What a model on the backend {name!r} may consist of is not known.",
            where,
            f"Correct BACKENDS, or add {name!r} to ADMITTED in grader/vocabulary/admission.py.",
        )


def _of_mutants(
    assignment: Assignment, source: notebooks.Source, functions: dict[str, define.Check]
) -> Iterator[Gap]:
    wrong = mutants.load(assignment)
    where = str(mutants.path(assignment).relative_to(assignment.home))
    failed = {id for mutant in wrong for id in mutant.fails}
    for id in functions:
        if id not in failed:
            yield Gap(
                f"No mutant fails {id}, so nothing shows that it finds mistakes.",
                where,
                "Add a wrong answer that it must find.",
            )
    for id in sorted(failed - functions.keys()):
        yield Gap(f"A mutant fails {id}, which is no check.", where, "Correct the id.")
    cells = {cell.id for cell in source.cells}
    points = {cell.id: cell.points for cell in source.cells}
    read = (cell for cell in source.cells if cell.type == "markdown" and not cell.kind)
    text = " ".join(word for cell in read for word in cell.source.split())
    for mutant in wrong:
        cost = mutant.cost(points)
        is_dear = cost > mutants.MOST_LOST and len(mutant.fails) > 1
        if is_dear and not (mutant.why and mutant.why in text):
            yield Gap(
                f"The mutant {mutant.name!r} costs {cost:g} points, and students do not read why.",
                where,
                "Let checks judge what is right without the part that is wrong. If they cannot, "
                f"so that one mistake costs more than {mutants.MOST_LOST} points, say why in the "
                "assignment's text, and give words of it in why=.",
            )
        for edit in mutant.edits:
            if not edit.of_file and edit.where not in cells:
                yield Gap(
                    f"The mutant {mutant.name!r} edits {edit.where!r}, which is no cell.",
                    where,
                    "Correct the id; a file has a / in its name.",
                )
        if not mutant.fails and not mutant.right:
            yield Gap(
                f"The mutant {mutant.name!r} fails nothing.",
                where,
                "Name the checks that must find it. If it is another right answer: right=True.",
            )
        if mutant.right and (mutant.fails or mutant.stops):
            yield Gap(
                f"The mutant {mutant.name!r} is a right answer that must fail or stop.",
                where,
                "Delete its right=True, or its fails and stops.",
            )
        for id in [id for id, words in mutant.fails.items() if not words]:
            yield Gap(
                f"The mutant {mutant.name!r} has no words of the message of {id}.",
                where,
                "Write words of the message that the student must get.",
            )
