"""A recipe: how one artefact of the zoo is made, and where it lies once it is built.

    recipe = RECIPES["digits_onnx"]
    place(recipe, RECIPES)      # …/.workbook/zoo/digits_onnx/<key>/model.onnx, built or not
    make(recipe, RECIPES)       # the same path, built

Every artefact has a key. The key is a hash of all that the artefact depends on: the code of its
recipe, the versions of the packages that it uses, and the keys of the artefacts that it is made
from. The artefact lies in `.workbook/zoo/<name>/<key>/`. A changed recipe has another key, so it is
built anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from ..common import locks, paths

_HERE = Path(__file__).resolve().parent

#: All recipes by name. registry.py fills it when the package is imported. Recipes ask the zoo for
#: the artefacts that they need, so the modules that build artefacts must not import the recipes.
RECIPES: dict[str, Recipe] = {}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How one artefact is made.

    Attributes:
        name: what `zoo.checkpoint` calls it.
        sentence: what it is, for people.
        function: writes the artefact, a file or a folder, at the path that it is given.
        file: the artefact's file name (or folder name).
        needs: recipes that it is made from, built before it.
        uses: modules of this package that its function relies on, beside its own, and files beside
            them: `("data", "llama.npz")`.
        packages: distributions whose version matters.
        on_request: it takes minutes, or is for tests; built only where it is named.
        fits: what the artefact fits, for its key, e.g. the GPU that it is built on and for. Only a
            recipe with it sees GPUs while it runs; the others come out alike with and without.
    """

    name: str
    sentence: str
    function: Callable[[Path], None]
    file: str
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ("data",)
    packages: tuple[str, ...] = ()
    on_request: bool = False
    fits: Callable[[], str] | None = None

    def key(self, recipes: dict[str, Recipe]) -> str:
        """Sixteen hex digits that change whenever the artefact may come out differently."""
        digest = hashlib.sha256()
        sources = [
            Path(inspect.getfile(self.function)),
            *(_HERE / (m if "." in m else f"{m}.py") for m in self.uses),
        ]
        parts = [
            self.name,
            self.file,
            f"python {sys.version_info.major}.{sys.version_info.minor}",
            *(_digest(source, source.stat().st_mtime_ns) for source in sources),
            *(f"{package} {_version(package)}" for package in ("numpy", *self.packages)),
            *(recipes[need].key(recipes) for need in self.needs),
            *(() if self.fits is None else (self.fits(),)),
        ]
        digest.update("\n".join(parts).encode())
        return digest.hexdigest()[:16]


def place(recipe: Recipe, recipes: dict[str, Recipe]) -> Path:
    """Where the artefact of a recipe lies, built or not."""
    return _folder(recipe.name) / recipe.key(recipes) / recipe.file


def make(recipe: Recipe, recipes: dict[str, Recipe]) -> Path:
    """Build an artefact in this process, unless it is there; what it is made from must be there.

    It is built in a folder beside its place and moved there when it is complete. A second process
    waits for a lock, and then finds the artefact. The next build removes what an interrupted build
    left behind.
    """
    target = place(recipe, recipes)
    folder = _folder(recipe.name)
    with _locked(folder / "lock"):
        for leftover in folder.glob("building-*"):
            shutil.rmtree(leftover)
        if target.exists():
            return target
        unfinished = folder / f"building-{target.parent.name}"
        unfinished.mkdir()
        recipe.function(unfinished / recipe.file)
        if not (unfinished / recipe.file).exists():
            raise FileNotFoundError(f"recipe {recipe.name} wrote no {recipe.file}")
        for former in folder.iterdir():  # older keys: built from code that has changed since
            if former.is_dir() and former != unfinished:
                shutil.rmtree(former)
        unfinished.rename(target.parent)
    return target


def _folder(name: str) -> Path:
    return paths.state("zoo", name)


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as lock:
        locks.lock(lock)
        yield


@functools.cache
def _digest(source: Path, changed: int) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


@functools.cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # another build of the package has another name
        return "absent"
