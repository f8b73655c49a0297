"""`workbook submit a2`: check a submission, run it once, and write the zip to hand in.

The student's folder is `work/assignments/a2__forest/`, or `assignments/a2__forest/` if the student
works there in another editor (`find_assignment`).

    a2__forest.zip
        a2.ipynb                the notebook, as it is saved
        models/forest/…         the model repository of the assignment
        helper.py, rows.csv     what the student has put beside the notebook

A submission holds everything in the student's folder but CLUTTER and the zip itself. The notebook
runs among the same files when it is graded, so what it finds in JupyterLab it finds there.

The zip of the same files has the same bytes each time. An *error* is something that would cost the
student marks, or that the grader would refuse. A *warning* is something to look at, e.g. a task
that was left out, or a check that did not pass in the run. *Passed* is a check that passed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..common import paths
from ..common.errors import ServerError, WorkbookError
from ..notebooks.source import dotted
from . import cells
from .assignment import MOST_ENTRIES, Assignment, find, is_clutter, named
from .gate import listed_files

LIMIT = 100 * 2**20
"""What a submission may weigh before it is packed, in bytes."""
CELL_SECONDS = 600
"""How long one cell may take."""
FEW_WORDS = 20
"""A written answer with fewer words than this is worth another look."""
SELF_STUDY = "self-study"
"""The id `me` in a notebook as it is given."""

_NOT_BEGUN = "This is not begun."

ReportProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """Something about a submission: where, what, and what to do about it.

    Attributes:
        task: the task that a cell belongs to, such as "Task 2"; "" where it belongs to none.
    """

    level: Literal["error", "warning", "passed"]
    where: str
    what: str
    todo: str = ""
    task: str = ""


@dataclass(frozen=True)
class Submission:
    """The files to hand in, and the findings about them.

    Attributes:
        assignment: the assignment that is handed in.
        files: what goes into the zip: paths relative to the student's folder, sorted. A path that
            ends in / is an empty folder.
        findings: errors, warnings and checks that passed, in the order in which they were looked
            for.
    """

    assignment: Assignment
    files: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=())

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.level == "error")

    @property
    def zip(self) -> Path:
        """Where the zip is written: in the student's folder."""
        return self.assignment.handout / f"{self.assignment.name}.zip"


def find_assignment(name: str | None, folder: Path) -> Assignment:
    """The assignment to hand in: the named one, or else the one in whose folder the student is.

    A student works in `work/assignments/`, or in another editor in `assignments/`. The folder in
    which the command is called decides; elsewhere the copy in `work/` comes first. In both cases:
    if no task is begun in this notebook, but one is begun in the copy at the other place, the other
    copy is taken.

        find_assignment("a2", Path.cwd()).handout      # …/work/assignments/a2__forest

    Raises:
        WorkbookError: there is no such assignment, or none is named outside of its folder.
    """
    folder = folder.resolve()
    meant = [named(name.lower())] if name else find()
    copies = [Assignment(a.name, home) for a in meant for home in (paths.work(), paths.root())]
    inside = [copy for copy in copies if folder.is_relative_to(copy.handout.resolve())]
    if not inside and not name:
        raise WorkbookError(
            "Which assignment do you want to hand in?",
            where=str(folder),
            todo=f"Name it: workbook submit {' | '.join(a.short for a in meant) or 'a2'}.",
        )
    chosen = next(iter(inside or [copy for copy in copies if copy.handout.is_dir()] or copies))
    begun = [copy for copy in copies if copy.name == chosen.name and _is_begun(copy)]
    return begun[0] if begun and chosen not in begun else chosen


def renamed(assignment: Assignment) -> Path | None:
    """The student's notebook under another name, if it is missing under its own name.

    It is found if it is the only notebook in the folder whose metadata name the assignment.

        renamed(assignment)     # …/a2__forest/a2 final.ipynb
    """
    if assignment.release.exists() or not assignment.handout.is_dir():
        return None
    found = []
    for path in sorted(assignment.handout.glob("*.ipynb")):
        with contextlib.suppress(WorkbookError):
            if cells.manifest(cells.read(path)).assignment == assignment.name:
                found.append(path)
    return found[0] if len(found) == 1 else None


def restore_name(assignment: Assignment, *, confirm: Callable[[str], bool | None]) -> None:
    """Rename a notebook that has another name, if the student agrees.

    Args:
        confirm: called with the question; its answer is None where nobody can be asked.

    Raises:
        WorkbookError: the notebook is there under another name, and keeps it.
    """
    name = assignment.release
    if (found := renamed(assignment)) is None:
        return
    what = f"{name.name} is not there. {found.name} beside it is a notebook of this assignment."
    answer = confirm(f"{what} Rename it to {name.name}?")
    if not answer:
        what = what if answer is None else "Nothing was handed in."
        raise WorkbookError(what, where=str(name.parent), todo=f"Rename it to {name.name}.")
    found.rename(name)


def check_errors(submission: Submission) -> None:
    """Refuse a submission that has errors.

    Raises:
        WorkbookError: it has.
    """
    count = len(submission.errors)
    if not count:
        return
    before = f" {submission.zip.name} in the folder is from before."
    raise WorkbookError(
        f"{submission.assignment.name} is not ready to be handed in: "
        f"{count} error{'s' * (count > 1)}.",
        todo="Correct what is listed above, or hand in as it is with --force."
        + before * submission.zip.exists(),
    )


def points(submission: Submission) -> str:
    """Sentences about the points of a submission, and what the marks depend on.

    Raises:
        WorkbookError: the notebook cannot be read.
    """
    assignment = submission.assignment
    passed = {f.where for f in submission.findings if f.level == "passed"}
    empty = {f.where for f in submission.findings if f.what == _NOT_BEGUN}
    checks = assignment.checks
    words = sum(assignment.written.values())
    by_hand = sum(most for id, most in assignment.written.items() if id not in empty)
    here = sum(most for id, most in checks.items() if id in passed)
    text = (
        f"{len(passed)} of {len(checks)} checks pass here; they are worth {here:g} of "
        f"{sum(checks.values()):g} points. For the marks they run again outside of the notebook, "
        "on data that you have not seen."
    )
    if by_hand:
        text += f" A person reads what you wrote, for up to {by_hand:g} of {words:g} points more."
    elif words:
        text += f" The {words:g} points for answers in words are lost: none of them is written."
    return text


def contents(submission: Submission) -> str:
    """What the zip holds: the notebook, how many files came with the assignment, and by name and
    size those that the student made or brought, such as `models/forest/1/xgboost.json (31 KB)`.
    """
    assignment = submission.assignment
    given = listed_files(assignment.handout)
    files = [name for name in submission.files if (assignment.handout / name).is_file()]
    own = [
        f"{name} ({max(1, (assignment.handout / name).stat().st_size // 1024):,} KB)"
        for name in files
        if name not in given and name != assignment.release.name
    ]
    count = len(given.intersection(files))
    text = f"The submission holds {assignment.release.name}, {_files(count)} of the assignment"
    if not own:
        return f"{text}, and no other file."
    more = f" and {len(own) - 20} more" * (len(own) > 20)
    return (
        f"{text}, and {_files(len(own))} of yours: {', '.join(own[:20])}{more}. What you do not "
        "want to hand in, move out of the folder, and submit again."
    )


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


def check_submission(
    assignment: Assignment, *, run: bool = True, report: ReportProgress | None = None
) -> Submission:
    """Check a submission before it is handed in.

    Args:
        assignment: its notebook and files lie in `assignment.handout`.
        run: also run the notebook from top to bottom, in a fresh kernel, against the running
            server. The file is not changed.
        report: called with (cells done, cells in all) while it runs.
    """
    files, findings = _pack(assignment)
    try:
        notebook = cells.read(assignment.release)
        manifest = cells.manifest(notebook)
        changes = cells.compare(notebook, notebook)
    except WorkbookError as error:
        todo = error.todo
        if not assignment.release.exists():
            todo = f"Bring a fresh one: {_fresh(assignment, assignment.release.name)}"
        findings.append(Finding("error", assignment.release.name, error.what, todo))
        return Submission(assignment, files, tuple(findings))
    if manifest.assignment != assignment.name:
        findings.append(
            Finding(
                "error",
                assignment.release.name,
                f"This is the notebook of {manifest.assignment[:80]}.",
                f"Put your notebook of {assignment.name} in its place.",
            )
        )
    findings.extend(_other_notebooks(assignment, files))
    findings.extend(Finding("error", change.cell, change.sentence) for change in changes)
    findings.extend(
        Finding(
            "error",
            name,
            "A file of the assignment is missing.",
            f"Bring it back: {_fresh(assignment, name)}",
        )
        for name in manifest.files
        if not name.endswith(".gitkeep") and not (assignment.handout / name).is_file()
    )
    open_tasks = _untouched(notebook, manifest)
    if len(open_tasks) == _count_tasks(manifest):
        findings.append(
            Finding(
                "error",
                assignment.release.name,
                "Nothing in this notebook is begun.",
                "Save your notebook in JupyterLab. If you work in another copy, hand that one in.",
            )
        )
    if _has_default_id(notebook):
        findings.append(
            Finding(
                "warning",
                "me",
                f'It is still "{SELF_STUDY}".',
                "In a class, write the id that your instructor knows you by, and run all cells. If "
                "you study by yourself, leave it.",
            )
        )
    findings.extend(
        Finding(
            "warning",
            id,
            _NOT_BEGUN,
            "It is a bonus: you lose no points by it."
            if _is_bonus(notebook, id)
            else "It earns no points as it is. Fill it in, save the notebook, and submit again.",
        )
        for id in open_tasks
    )
    sources = _sources(notebook)
    findings.extend(
        Finding(
            "warning",
            id,
            f"It has {count} word{'s' * (count != 1)}. A person gives up to {most:g} points for "
            "it.",
            "Read again what the task asks for.",
        )
        for id, most in assignment.written.items()
        if id in sources
        and id not in open_tasks
        and (count := len(re.findall(r"\w+", sources[id]))) < FEW_WORDS
    )
    if run and not changes:
        findings.extend(_run(assignment, notebook, manifest, set(open_tasks), report))
    tasks = _tasks(notebook)
    named = (dataclasses.replace(found, task=tasks.get(found.where, "")) for found in findings)
    return Submission(assignment, files, tuple(named))


def write(submission: Submission) -> Path:
    """Write the zip, the same bytes for the same files, and return its path.

    Raises:
        WorkbookError: a file went away or cannot be read or written.
    """
    draft = submission.zip.with_suffix(".zip.new")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
            for name in submission.files:
                entry = zipfile.ZipInfo(name)  # dated 1980, so that the date changes nothing
                entry.create_system = 3  # Unix, wherever it is written
                if name.endswith("/"):
                    entry.external_attr = (stat.S_IFDIR | 0o755) << 16
                    packed.writestr(entry, b"")
                    continue
                path = submission.assignment.handout / name
                runs = path.stat().st_mode & 0o100
                entry.external_attr = (stat.S_IFREG | (0o755 if runs else 0o644)) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.file_size = path.stat().st_size
                with path.open("rb") as source, packed.open(entry, "w") as target:
                    while block := source.read(1 << 20):
                        target.write(block)
        draft.replace(submission.zip)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise WorkbookError(
            f"The zip cannot be written: {error.strerror}.",
            where=str(error.filename or submission.zip),
            todo="Make room, or correct the file's permissions; then submit again.",
        ) from None
    return submission.zip


def _pack(assignment: Assignment) -> tuple[tuple[str, ...], list[Finding]]:
    """The files that go into the zip, and findings about them."""
    from ..server.model_folder import is_plain

    findings: list[Finding] = []
    files: list[str] = []
    sizes: dict[str, int] = {}
    for path in _below(assignment.handout) if assignment.handout.is_dir() else ():
        name = path.relative_to(assignment.handout).as_posix()
        if name in (".", f"{assignment.name}.zip", f"{assignment.name}.zip.new"):
            continue
        if path.is_symlink():
            findings.append(
                Finding("error", name, "This is a link.", "Put the file itself in its place.")
            )
        elif path.is_dir():
            files.append(name + "/")
        elif not path.is_file():
            findings.append(Finding("error", name, "This is no ordinary file.", "Delete it."))
        elif not re.fullmatch(r"[^\x00-\x1f\\:\ud800-\udfff]+", name):
            shown = name.encode("unicode_escape").decode()
            findings.append(
                Finding("error", shown, "The name has odd characters in it.", "Rename the file.")
            )
        elif name == "timestamp.txt":
            what = "The grader writes the time of handing in into a file of this name."
            findings.append(Finding("error", name, what, "Rename your file."))
        elif not os.access(path, os.R_OK):
            findings.append(
                Finding("error", name, "The file cannot be read.", f"Run: chmod u+r {name}")
            )
        else:
            files.append(name)
            sizes[name] = path.stat().st_size
    findings += [
        Finding(
            "warning",
            name,
            "The name has a space or another character than ASCII letters, digits, '.', '_' "
            "and '-'. A model with this file is not graded.",
            "Rename it, and change the name wherever it is used.",
        )
        for name in files
        if name.startswith("models/") and not all(map(is_plain, Path(name).parts[1:]))
    ]
    entries = {*files, *(str(up) for name in files for up in list(Path(name).parents)[:-1])}
    if len(entries) > MOST_ENTRIES:
        tops = Counter(name.partition("/")[0] for name in files if "/" in name)
        findings.append(
            Finding(
                "error",
                assignment.name,
                f"The submission has {len(entries):,} files and folders; {MOST_ENTRIES:,} are "
                "allowed.",
                "Move out of the folder what the notebook does not need. Most files are in: "
                + ", ".join(f"{top}/ ({count:,})" for top, count in tops.most_common(3))
                + ".",
            )
        )
    if sum(sizes.values()) > LIMIT:
        large = [name for name in sizes if sizes[name] >= 2**20]
        biggest = sorted(large or sizes, key=lambda name: -sizes[name])[:3]
        findings.append(
            Finding(
                "error",
                assignment.name,
                f"The submission has {sum(sizes.values()) / 2**20:.0f} MB; {LIMIT >> 20} MB are "
                "allowed.",
                "Move out of the folder what the notebook does not need. The biggest files: "
                + ", ".join(f"{name} ({sizes[name] / 2**20:.0f} MB)" for name in biggest)
                + ".",
            )
        )
    return tuple(sorted(files)), findings


def _below(folder: Path) -> Iterator[Path]:
    """Everything below a folder except clutter: files, links and empty folders."""
    held = [p for p in sorted(folder.iterdir()) if not is_clutter(p.name)]
    if not held:
        yield folder
    for path in held:
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
        else:
            yield path


def _other_notebooks(assignment: Assignment, files: tuple[str, ...]) -> Iterator[Finding]:
    """An error for each notebook of another assignment: the grader would take it as handed in."""
    for name in files:
        path = assignment.handout / name
        if path.suffix != ".ipynb" or path == assignment.release:
            continue
        with contextlib.suppress(WorkbookError):
            other = cells.manifest(cells.read(path)).assignment
            if other != assignment.name:
                what = f"This is a notebook of {other[:80]}, and would be handed in with this zip."
                yield Finding("error", name, what, "Move it out of the folder.")


def _fresh(assignment: Assignment, name: str) -> str:
    """A sentence: where to get a fresh copy of a file of an assignment."""
    given = Assignment(assignment.name, paths.root()).handout / name
    if given.is_file() and assignment.home != paths.root():
        return f"cp {given} {assignment.handout / name}"
    return f"git checkout -- {given.relative_to(paths.root())}, or take it from what you were given"


def _untouched(notebook: dict[str, Any], manifest: cells.Manifest) -> list[str]:
    """The tasks and written answers that are unchanged since the release."""
    now = {c.id: c.checksum for c in cells.describe(manifest.assignment, notebook).cells}
    return [
        cell.id
        for cell in manifest.cells
        if cell.kind in ("solution", "written") and now.get(cell.id) == cell.checksum
    ]


def _count_tasks(manifest: cells.Manifest) -> int:
    return sum(cell.kind in ("solution", "written") for cell in manifest.cells)


def _has_default_id(notebook: dict[str, Any]) -> bool:
    """Whether the line `me = "self-study"` is unchanged."""
    line = re.compile(rf"""^me = ["']{SELF_STUDY}["']""", re.MULTILINE)
    codes = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    return any(line.search("".join(cell["source"])) for cell in codes)


def _headings(notebook: dict[str, Any], marks: str) -> dict[str, str]:
    """For each cell with an id, the first line of the text cell above it that begins with `marks`.

    The marks are removed; the line is "" if there is no such cell above.
    """
    found, heading = {}, ""
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith(marks):
            heading = text.partition("\n")[0].removeprefix(marks)
        if id := dotted(cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", "")):
            found[id] = heading
    return found


def _tasks(notebook: dict[str, Any]) -> dict[str, str]:
    """For each cell with an id, its task: the heading up to the colon."""
    names = {id: text.partition(":")[0] for id, text in _headings(notebook, "## ").items()}
    return {id: name for id, name in names.items() if name.startswith("Task")}


def _sources(notebook: dict[str, Any]) -> dict[str, str]:
    """For each cell with an id, its source."""
    return {
        dotted(id): "".join(cell["source"])
        for cell in notebook["cells"]
        if (id := cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", ""))
    }


def _is_bonus(notebook: dict[str, Any], id: str) -> bool:
    """Whether the heading above a cell calls the task a bonus."""
    return "bonus" in _headings(notebook, "#").get(id, "")


def _is_begun(assignment: Assignment) -> bool:
    """Whether the student has begun a task in the notebook."""
    try:
        notebook = cells.read(assignment.release)
        manifest = cells.manifest(notebook)
        untouched = _untouched(notebook, manifest)
    except WorkbookError:
        return False
    return len(untouched) < _count_tasks(manifest)


def _run(
    assignment: Assignment,
    notebook: dict[str, Any],
    manifest: cells.Manifest,
    open_tasks: set[str],
    report: ReportProgress | None,
) -> Iterator[Finding]:
    """Run a copy of the notebook in a fresh kernel; say where it first fails, which models it does
    not deploy, and how each check ended.

    The run begins without the assignment's models on the server, as it does where marks are given.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    try:
        deployed = _unload(assignment)
    except ServerError as error:
        yield Finding(
            "error",
            assignment.release.name,
            f"The notebook was not run: {error.what}",
            f"{error.todo} Or hand in without a run: --no-run.",
        )
        return
    clean = cells.restore(notebook, notebook)  # without tags that hide errors from nbclient
    total = sum(cell.cell_type == "code" for cell in clean.cells)
    place = done = 0
    failed: list[tuple[int, str]] = []

    def on_start(cell: Any, cell_index: int) -> None:
        nonlocal place
        place = cell_index

    def executed(cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        content = execute_reply["content"]
        if content["status"] == "error":
            failed.append((cell_index, f"{content.get('ename')}: {content.get('evalue')}"[:300]))
        if report:
            report(done, total)

    reports = paths.state("reported", assignment.short)
    former = {path.name: path.stat().st_mtime_ns for path in reports.glob("*.json")}
    client = NotebookClient(
        clean,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],  # its warnings do not concern students
        timeout=CELL_SECONDS,
        allow_errors=True,
        on_cell_start=on_start,
        on_cell_executed=executed,
        resources={"metadata": {"path": str(assignment.handout)}},
    )
    try:
        client.execute()
    except CellTimeoutError:
        _load_again(deployed)
        yield Finding(
            "error",
            _place(clean, place),
            f"The cell took more than {CELL_SECONDS // 60} minutes.",
            "Look for a loop without an end, or do less in it.",
        )
        return
    except DeadKernelError:
        _load_again(deployed)
        yield Finding(
            "error",
            _place(clean, place),
            "The notebook's kernel ended in this cell.",
            "Run it in JupyterLab; often it takes too much memory, or ends Python.",
        )
        return
    places = [_place(clean, index) for index in range(len(clean.cells))]
    kinds = {cell.id: cell.kind for cell in manifest.cells}
    if failed:
        index, message = failed[0]
        waits = any(
            id in open_tasks and kinds[id] == "solution" and not _is_bonus(notebook, id)
            for id in places[: index + 1]
        )
        # A cell that the student wrote is the likely cause, even if an earlier task is not begun.
        written = kinds.get(places[index]) == "solution" and places[index] not in open_tasks
        yield Finding(
            "warning" if waits else "error",
            places[index],
            f"The notebook stops here when it is run from top to bottom: {message}",
            "That may come from a task that is not begun."
            if waits and not written
            else "Restart the kernel, run all cells, and correct this one. The cells after it were "
            "run, too; the results of their checks may change then.",
        )
    checks = [cell.id for cell in manifest.cells if cell.kind == "check"]
    results = {
        id: _read_result(path)
        for id in checks
        if (path := reports / f"{id}.json").is_file()
        and path.stat().st_mtime_ns != former.get(path.name)
    }
    do_earn = len(results) == len(checks) > 0 and all(
        result.get("status") in ("passed", "partial") for result in results.values()
    )
    for name in _load_again(deployed):
        deploys = re.compile(rf"models/{re.escape(name)}\b")
        stopped = [item for item in failed if deploys.search(clean.cells[item[0]].source)]
        for index, message in stopped:
            if index != failed[0][0]:  # this cell is reported above
                what = f"This cell stops before {name} is deployed, or at it: {message}"
                yield Finding(
                    "error", places[index], what, "Correct this cell, or those before it."
                )
        if stopped:
            continue
        if do_earn and not failed:  # a step that was merged into another model, for example
            yield Finding(
                "warning",
                f"models/{name}",
                "The notebook does not deploy this model when it is run from top to bottom. Each "
                "check earned points without it.",
                f"If nothing needs it: workbook undeploy {name}",
            )
            continue
        yield Finding(
            "error",
            f"models/{name}",
            "The notebook does not deploy this model when it is run from top to bottom. It was "
            "on your server from an earlier run; the server that gives the marks does not have it.",
            f'Write deploy("models/{name}") into the task\'s cell.',
        )
    raised = {places[index] for index, _ in failed[1:]}
    for id in checks:
        if id in results:
            yield from _outcome(id, results[id])
        elif id in raised:
            yield Finding(
                "warning", id, "This check could not run: something that it needs is missing."
            )


def _unload(assignment: Assignment) -> list[str]:
    """Take the models of an assignment off the server; returns those that were ready.

    Raises:
        ServerError: there is no server.
    """
    from ..server import connect

    folder = assignment.handout / "models"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    ready = []
    with connect() as server:
        for name in names:
            with contextlib.suppress(WorkbookError):  # e.g. a server that decides what it loads
                if server.ready(name):
                    server.unload(name, report=lambda text: None)
                    ready.append(name)
    return ready


def _load_again(names: list[str]) -> list[str]:
    """Load those models again that the run did not bring back; returns their names."""
    from ..server import connect

    missing = []
    with contextlib.suppress(ServerError), connect() as server:
        for name in names:
            if not server.ready(name):
                missing.append(name)
                with contextlib.suppress(WorkbookError):
                    server.load(name)
    return missing


def _read_result(path: Path) -> dict[str, str]:
    """The result that a check saved in the run; empty if there is no valid one."""
    try:
        result = json.loads(path.read_bytes())["result"]
        return {key: str(result[key]) for key in ("status", "rationale", "help")}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _outcome(id: str, result: dict[str, str]) -> Iterator[Finding]:
    """How a check ended, from its result."""
    if not result:
        return
    status, why, help = result["status"], result["rationale"], result["help"]
    if status == "passed":
        yield Finding("passed", id, "This check passes.")
    elif status in ("not attempted", "waits"):
        yield Finding("warning", id, f"{status.capitalize()}: {why}"[:600])
    else:
        yield Finding("warning", id, f"This check does not pass: {why}"[:600], help[:600])


def _place(notebook: Any, index: int) -> str:
    """A cell's name for the student: its id, or else its number and first line."""
    cell = notebook.cells[index]
    tag = cell.metadata.get("nbgrader")
    if tag:
        return dotted(tag["grade_id"])
    first = next((line.strip() for line in cell.source.splitlines() if line.strip()), "")
    return f"cell {index + 1} ({first[:40]})"
