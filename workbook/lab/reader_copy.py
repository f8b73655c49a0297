"""The reader's own copy of the course: `work/`, which git ignores.

The *reader* is the person who takes the course.

    work/lectures/…             notebooks, what lies beside them, and images
    work/assignments/a2__forest/…   notebook and starter files, without modules of checks
    work/course_updates.md      a list of the files that an update kept or put beside others
    work/.history/DATE/…        the reader's notebooks, with outputs, that an update replaced
    work/.course/               hashes of the files that were copied

`update` makes the copies on the first start. On every later start it brings them up to date. It
compares three things: the course's file now, the course's file when it was last copied (its hashes
are recorded), and the reader's file in `work/`. nbgitpuller has the same rules, but it needs a git
remote, and a course that was handed out as an archive has none.

| the reader's file | the course's file | what `update` does |
|---|---|---|
| missing (new, or deleted by the reader) | exists | copies the course's file |
| unchanged since it was copied | changed | replaces it with the new version |
| unchanged since it was copied | removed | removes it |
| a notebook that was only run | changed | moves it to `.history/`, copies the new version |
| a notebook that was only run | removed | moves it to `.history/` |
| edited | changed | keeps it, writes the new version beside it as `NAME.course.ipynb` |
| edited | removed | keeps it |
| made by the reader | does not exist | keeps it |

A lecture's notebook imports the modules beside it (`setup.py`, `task.py`), and shows the files in
`models/`, `clients/` and `at_work/`. An edited notebook must not import newer modules, and a new
one must not import older ones. So the files in the folder of a lecture's notebook stay together: if
the reader has edited one of them, and the course has changed one of them, all of the reader's files
stay as they are. The course's new version of all files is written into a folder beside it,
`NN__topic.course/`.

There is one exception: if only outputs or metadata of the course's notebook changed, unchanged
copies are replaced, and notebooks that were run or edited are left alone. The texts of predictions
and claims lie in the metadata, but count as text of the cells.

A notebook was *only run* if its cells have the course's text, types and order. Outputs, execution
counts and other metadata may differ. Readers run most notebooks of a lecture and edit few. So a
notebook that was only run is replaced: otherwise the reader would have an outdated text, and a
second file beside every lecture. The reader may still need the outputs, so the old notebook is
kept.

In a git checkout, the course's files are the committed ones. If a file in `lectures/` or
`assignments/` differs from the committed one, or git does not know it, a reader has worked in that
folder. The copy in `work/` is then made from this file, with the reader's changes. The file itself
stays where it is. (A developer who has built a notebook, and wants to see it in `work/` before it
is committed, deletes the copy there.)

Each file is written to a temporary file, which is then renamed. If an update is interrupted, the
next one completes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ..assignments import CLUTTER, files
from ..common import paths
from ..common.errors import WorkbookError
from ..notebooks.building import FOLDERS, IMAGES, SOLUTION, SOURCE
from ..notebooks.hide_words import carried

NEWS = "course_updates.md"
"""The file in `work/` with the messages of all updates, which are also printed."""
_VERSION = 1
_UNIT = re.compile(r"lectures/(?:[^/]+/)*[0-9]{2}__[^/]+(?=/)")


@dataclasses.dataclass(frozen=True)
class Note:
    """A message to the reader about a file, with links to the files to open.

    Attributes:
        text: the sentence.
        links: the files that the sentence names, relative to `work/`.
    """

    text: str
    links: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Update:
    """What one update did.

    Attributes:
        copied: how many files were missing and were copied.
        followed: how many files were replaced by the course's new version, or were removed
            because the course's file was removed.
        notes: messages about files that were copied with the reader's changes, kept, written
            beside the reader's own, or are no longer part of the course.
    """

    copied: int = 0
    followed: int = 0
    notes: tuple[Note, ...] = ()

    def sentences(self) -> list[str]:
        """The sentences for the reader; none if nothing changed.

        >>> Update(copied=2).sentences()
        ['2 files of the course were copied into work/.']
        """
        lines = []
        if self.copied:
            lines.append(f"{_were(self.copied, 'of the course')} copied into work/.")
        if self.followed:
            lines.append(
                f"{_were(self.followed, 'in work/')} replaced by the course's new version, or "
                "removed with it."
            )
        lines += [note.text for note in self.notes]
        return [*lines, f"work/{NEWS} keeps this list."] if self.notes else lines


@dataclasses.dataclass(frozen=True)
class _Original:
    """A file in `lectures/` or `assignments/`.

    Attributes:
        found: its bytes.
        course: the bytes of the committed file; None where git does not know the file.
        executable: whether it may be run as a program.
    """

    found: bytes
    course: bytes | None
    executable: bool


@dataclasses.dataclass(frozen=True)
class _Fingerprint:
    """What identifies a file's content.

    Attributes:
        whole: a hash of the whole content.
        cells: for a notebook, a hash of what a person writes in it: the cells' types and text, and
            the texts of predictions and claims.
    """

    whole: str
    cells: str = ""

    def same(self, other: _Fingerprint | None) -> bool:
        """Whether the two files are equal, or are notebooks whose cells are equal."""
        if other is None:
            return False
        return self.whole == other.whole or (self.cells != "" and self.cells == other.cells)


def update(home: Path | None = None) -> Update:
    """Make the copies in `work/`, or bring them up to date.

        for sentence in update().sentences():
            print(sentence)

    Args:
        home: the checkout; the default is this one.

    Raises:
        WorkbookError: a file cannot be read or written, or a file of the reader's has the name of a
            folder of the course. What was done so far is kept; the next call does the rest.
    """
    home = home or paths.root()
    try:
        copies = _Copies(home / "work")
        with copies.exclusive():
            return copies.update(_originals(home))
    except OSError as error:
        raise WorkbookError(
            f"Your copy of the course cannot be brought up to date: {error.strerror}.",
            where=str(error.filename or home / "work"),
            todo="Make room on the disk, or correct the permissions; then start again. No file is "
            "half written.",
        ) from None


class _Copies:
    """The folder `work/` and the record of what was copied into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".course"
        self.state.mkdir(parents=True, exist_ok=True)
        self.began = datetime.datetime.now()
        # Path → the course's file when it was last copied; None: a file that the reader made in
        # lectures/ or assignments/.
        self.record: dict[str, _Fingerprint | None] = {}
        # Path of a new version that was written beside a reader's file → its hash.
        self.offers: dict[str, str] = {}
        self.copied = self.followed = 0
        self.notes: list[Note] = []

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the folder: another update waits until the block ends."""
        with (self.state / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def update(self, originals: dict[str, _Original]) -> Update:
        self._load()
        try:
            for unit, group in itertools.groupby(sorted({*originals, *self.record}), _unit):
                names = list(group)
                if unit and self._kept_together(unit, names, originals):
                    continue
                for path in names:
                    if path in originals:
                        self._bring(path, originals[path])
                    else:
                        self._withdraw(path)
            self._tell()
        finally:
            self._save()
        return Update(self.copied, self.followed, tuple(self.notes))

    def _bring(self, path: str, original: _Original) -> None:
        """Bring the copy of one file up to date."""
        target = self.folder / path
        missing = not os.path.lexists(target)
        if original.course is None:
            if missing and path not in self.record:
                self._take(path, original)
            self.record[path] = None
            return
        now, before = _print(path, original.course), self.record.get(path)
        if missing and original.found != original.course:
            self._take(path, original)
        elif missing:
            self._write(path, original.course, original.executable)
            self.copied += 1
        elif now != before:
            held = _read(target)
            # There is no record if an update was interrupted before it could write one.
            if before is not None or held != original.found:
                self._replace(path, original, held, before)
        self.record[path] = now

    def _kept_together(self, unit: str, names: list[str], originals: dict[str, _Original]) -> bool:
        """Keep a lecture's folder as it is if the reader edited it and the course changed it.

        The course's version is then written into a folder beside it.

        Args:
            unit: the folder.
            names: the files in it: the course's now, and those that were copied earlier.
            originals: the course's files now.

        Returns:
            Whether it is kept; otherwise each file is to be brought up to date by itself.
        """
        course = {
            name: found
            for name in names
            if (found := originals.get(name)) is not None and found.course is not None
        }
        mine = [name for name in names if name in originals and name not in course]
        edited = changed = False
        for name in {*names}.difference(mine):
            before, file = self.record.get(name), course.get(name)
            now = _print(name, file.course or b"") if file else None
            changed |= now is None or not now.same(before)
            if os.path.lexists(self.folder / name) and (now or before):
                held = _read(self.folder / name)
                own = None if held is None else _print(name, held)
                taken = before is None and file is not None and held == file.found
                edited |= own is None or not (taken or own.same(before) or own.same(now))
        if not (edited and changed):
            return False
        for name in mine:
            self._bring(name, originals[name])
        notebook = f"{unit}/{Path(unit).name}.ipynb"
        if not course:
            for name in {*names}.difference(mine):
                self.record.pop(name)
            text = f"{unit} is no longer part of the course. You changed it, so it stays."
            self._note(text, unit)
        elif (offer := self._offer_folder(unit, course)) is not None:
            self._note(
                f"{unit}: you changed it, and the course has a new version. Yours is where it was; "
                f"the new one is {offer}.",
                notebook,
                notebook.replace(unit, offer),
            )
        return True

    def _offer_folder(self, unit: str, course: dict[str, _Original]) -> str | None:
        """Write the course's version of a folder beside the reader's.

        Returns:
            The new folder's path; None where this version was written earlier.
        """
        contents = {name.removeprefix(unit): file.course or b"" for name, file in course.items()}
        for mark in itertools.chain([".course"], (f".course-{n}" for n in itertools.count(2))):
            offer = unit + mark
            earlier = {name for name in self.offers if name.startswith(f"{offer}/")}
            new = {offer + rest: _hash(content) for rest, content in contents.items()}
            if new == {name: self.offers[name] for name in earlier}:
                return None
            if all(self._is_ours(name, new.get(name)) for name in earlier | new.keys()):
                for name in earlier - new.keys():
                    (self.folder / name).unlink(missing_ok=True)
                    del self.offers[name]
                break
        for rest, content in contents.items():
            self._write(offer + rest, content, course[unit + rest].executable)
        self.offers |= new
        return offer

    def _is_ours(self, name: str, new: str | None) -> bool:
        """Whether a place is free, or holds the new version or one that the reader did not change.

        Args:
            new: the hash of the new version.
        """
        if not os.path.lexists(self.folder / name):
            return True
        held = _read(self.folder / name)
        return held is not None and _hash(held) in (self.offers.get(name), new)

    def _take(self, path: str, original: _Original) -> None:
        """Copy a file that the reader changed or made in `lectures/` or `assignments/`."""
        self._write(path, original.found, original.executable)
        self._note(f"{path}: your changes to this file were copied into work/.", path)

    def _replace(
        self, path: str, original: _Original, held: bytes | None, before: _Fingerprint | None
    ) -> None:
        """Replace the reader's file with the course's version, or write that version beside it.

        Args:
            held: the bytes of the reader's file; None if it is not a regular file.
            before: the course's file when it was copied.
        """
        assert original.course is not None
        own, now = held is not None and _print(path, held), _print(path, original.course)
        if own == now or (own != before and now.same(before)):
            return  # only outputs or metadata of the course's notebook changed
        if own and (own.same(before) or own.same(now)):
            kept = None if own == before else self._keep(path)
            self._write(path, original.course, original.executable)
            self.followed += 1
            if kept:
                self._note(
                    f"{path} is the course's new version. Your copy with its outputs is kept as "
                    f"{kept}.",
                    kept,
                )
            return
        offer = self._offer(path, original.course, original.executable)
        self._note(
            f"{path}: you changed it, and the course has a new version. Yours is where it was; the "
            f"new one is {offer}.",
            path,
            offer,
        )

    def _withdraw(self, path: str) -> None:
        """Remove the copy of a file that is no longer part of the course, unless it was edited."""
        before = self.record.pop(path)
        target = self.folder / path
        if before is None or not os.path.lexists(target):
            return
        held = _read(target)
        own = held is not None and _print(path, held)
        if not (own and own.same(before)):
            text = f"{path} is no longer part of the course. You changed it, so it stays."
            self._note(text, path)
            return
        if own == before:
            target.unlink()
        else:
            kept = self._keep(path)
            self._note(
                f"{path} is no longer part of the course. Your copy with its outputs is kept as "
                f"{kept}.",
                kept,
            )
        self.followed += 1
        for folder in (self.folder / place for place in Path(path).parents[:-1]):
            if [inner.name for inner in folder.iterdir()] == ["__pycache__"]:
                shutil.rmtree(folder / "__pycache__")
            with contextlib.suppress(OSError):  # other files are in it
                folder.rmdir()

    def _offer(self, path: str, content: bytes, executable: bool) -> str:
        """Write the course's version beside a reader's file; returns the new file's path."""
        for mark in itertools.chain([".course"], (f".course-{n}" for n in itertools.count(2))):
            offer = str(Path(path).with_name(Path(path).stem + mark + Path(path).suffix))
            held = _read(self.folder / offer)
            # A version written there earlier, which the reader did not change, is replaced.
            old = held is not None and self.offers.get(offer) == _hash(held)
            if old or not os.path.lexists(self.folder / offer):
                self._write(offer, content, executable)
            elif held != content:  # a file of the reader's
                continue
            self.offers[offer] = _hash(content)
            break
        return offer

    def _keep(self, path: str) -> str:
        """Move a reader's file to `.history/`; returns its new path."""
        stamp = self.began.strftime("%Y-%m-%d_%H-%M-%S")
        for mark in itertools.chain([""], (f"-{n}" for n in itertools.count(2))):
            kept = self.folder / ".history" / (stamp + mark) / path
            if not os.path.lexists(kept):
                break
        kept.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).rename(kept)
        return kept.relative_to(self.folder).as_posix()

    def _write(self, path: str, content: bytes, executable: bool = False) -> None:
        """Write a temporary file and rename it, so that the file is never half written."""
        draft, target = self.state / "draft", self.folder / path
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if executable:
            draft.chmod(draft.stat().st_mode | 0o111)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            in_the_way = next(p for p in (target.parent, *target.parents) if os.path.lexists(p))
            raise WorkbookError(
                "A file of yours has the name of a folder of the course.",
                where=str(in_the_way),
                todo="Rename it, then start again.",
            ) from None
        draft.replace(target)

    def _note(self, text: str, *links: str) -> None:
        self.notes.append(Note(text, links))

    def _tell(self) -> None:
        """Add the notes to the top of `course_updates.md`."""
        if not self.notes:
            return
        head = b"# What updates changed in your copy of the course\n"
        former = _read(self.folder / NEWS)
        if former is None and os.path.lexists(self.folder / NEWS):
            return  # the reader has put something else in its place
        lines = [f"\n## {self.began:%Y-%m-%d %H:%M}\n\n"]
        for note in self.notes:
            links = ", ".join(f"[{Path(link).name}](<{link}>)" for link in note.links)
            lines.append(f"- {note.text} Open: {links}\n")
        self._write(NEWS, head + "".join(lines).encode() + (former or b"").removeprefix(head))

    def _load(self) -> None:
        """Read the record. If it cannot be read, the record is empty. Then every file that differs
        from the course's counts as edited by the reader."""
        try:
            data = json.loads((self.state / "copied.json").read_bytes())
            if data["version"] != _VERSION:
                return
            self.record = {p: v and _Fingerprint(v[0], v[1]) for p, v in data["files"].items()}
            self.offers = dict(data["offers"])
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            self.record, self.offers = {}, {}

    def _save(self) -> None:
        files = {p: v and dataclasses.astuple(v) for p, v in self.record.items()}
        data = {"version": _VERSION, "files": files, "offers": self.offers}
        self._write(".course/copied.json", json.dumps(data, indent=1).encode())


def _originals(home: Path) -> dict[str, _Original]:
    """The files to be copied to `work/`, by path, with the committed content of each."""
    found = [
        path
        for path in sorted(home.glob("lectures/**/*"))
        if _is_for_readers(path.relative_to(home))
    ]
    for folder in sorted(home.glob("assignments/a*__*/")):
        modules = {*folder.glob("*.py")}  # they are imported from where they lie
        found += [path for path in files(folder) if path.suffix != ".zip" and path not in modules]
    tracked, changed = _git_state(home)
    originals = {}
    for path in found:
        inside = path.relative_to(home)
        if path.is_symlink() or not path.is_file() or CLUTTER.intersection(inside.parts):
            continue
        name = inside.as_posix()
        content = path.read_bytes()
        course: bytes | None = content
        if tracked is not None and name not in tracked:
            course = None
        elif name in changed:
            course = _git(home, "show", f"HEAD:./{name}")
        originals[name] = _Original(content, course, os.access(path, os.X_OK))
    return originals


def _is_for_readers(path: Path) -> bool:
    """Whether a file is copied: all that a lecture's notebook needs.

    Its source and the solution of its task are not copied.

    Args:
        path: relative to the checkout; it begins with `lectures/`.
    """
    if path.suffix == ".ipynb" or path.suffix in IMAGES:
        return True
    if not (unit := _unit(path.as_posix())):
        return False
    within = path.relative_to(unit)
    if within.parts[0] in FOLDERS:
        return True
    return len(within.parts) == 1 and path.suffix == ".py" and path.name not in (SOURCE, SOLUTION)


def _unit(path: str) -> str:
    """The folder of the lecture's notebook that a file belongs to; "" where there is none."""
    found = _UNIT.match(path)
    return found[0] if found else ""


def _git_state(home: Path) -> tuple[set[str] | None, set[str]]:
    """The files that git knows, and those that differ from what is committed.

    Without a git checkout, or without git, the result is (None, set()).
    """
    if not (home / ".git").exists():
        return None, set()
    places = ("--", "lectures", "assignments")
    tracked = _git(home, "ls-files", "-z", *places)
    changed = _git(home, "diff", "--name-only", "--no-renames", "-z", "HEAD", *places)
    if tracked is None or changed is None:
        return None, set()
    return set(os.fsdecode(tracked).split("\0")), set(os.fsdecode(changed).split("\0"))


def _git(home: Path, *words: str) -> bytes | None:
    """What a git command prints; None where it fails or git is not installed."""
    # The checkout may belong to another user, e.g. in a container.
    command = ["git", "-c", f"safe.directory={home}", "-C", str(home), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def _read(path: Path) -> bytes | None:
    """A file's bytes; None where it is missing, a link, a folder, or cannot be read."""
    try:
        return None if path.is_symlink() or not path.is_file() else path.read_bytes()
    except OSError:
        return None


def _print(path: str, content: bytes) -> _Fingerprint:
    """The fingerprint of a file with this name and content."""
    if not path.endswith(".ipynb"):
        return _Fingerprint(_hash(content))
    try:
        notebook = json.loads(content)
        # JupyterLab writes these when a notebook is opened and saved; no person does.
        for key in ("kernelspec", "language_info"):
            notebook["metadata"].pop(key, None)
        written = []
        for cell in notebook["cells"]:
            source = cell["source"]
            text = source if isinstance(source, str) else "".join(source)
            written.append([cell["cell_type"], text, cell.get("attachments") or {}])
        if texts := carried(notebook):
            written.append([texts])
        whole, cells = (json.dumps(part, sort_keys=True) for part in (notebook, written))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _Fingerprint(_hash(content))  # no notebook
    return _Fingerprint(_hash(whole.encode()), _hash(cells.encode()))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _were(count: int, of: str) -> str:
    return f"1 file {of} was" if count == 1 else f"{count} files {of} were"
