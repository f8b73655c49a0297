"""The licences of the installed packages, as their own metadata name them.

.venv/bin/python -m tests.project.licences      # the rows of NOTICE.md's table of packages
"""

from __future__ import annotations

import importlib.metadata
import re
from collections import defaultdict

from workbook.common import paths

#: A licence as NOTICE.md names it → how metadata name it. The first that fits counts.
NAMES = {
    "Intel's terms": r"Intel End User",
    "NVIDIA's terms": r"NVIDIA|Proprietary",
    "LGPL": r"LGPL|Lesser General Public",
    "GPL": r"^GPL|\bGPL-[23]",
    "MPL 2.0": r"MPL|Mozilla",
    "Apache 2.0": r"Apache",
    "PSF 2.0": r"PSF|Python Software Foundation|matplotlib",
    "BSD": r"BSD|Jupyter",
    "MIT": r"\bMIT\b|MIT-CMU|Jinzhe Zeng",
    "ISC": r"\bISC\b",
}
#: Licences that ask for nothing but their text and the authors' names in every copy.
PERMISSIVE = re.compile(
    r"MIT|BSD|Apache|ISC|PSF|Python Software Foundation|HPND|Unlicense|Zope|ZPL|Public Domain|CC0"
    r"|MPL|Mozilla|Jupyter|Jinzhe Zeng|NumPy Developers",
)
_REQUIREMENT = re.compile(r"(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?(?=[=<>;! \n])")


def requirements(*files: str) -> list[str]:
    """The names of the packages in lists of the checkout, in the form `scikit-learn`."""
    texts = [(paths.root() / file).read_text("utf-8") for file in files]
    return sorted({normal(name) for text in texts for name in _REQUIREMENT.findall(text)})


def direct() -> list[str]:
    """What the course itself asks for: `requirements*.in` and requirements-torch.txt."""
    files = [path.name for path in sorted(paths.root().glob("requirements*.in"))]
    return requirements(*files, "requirements-torch.txt")


def installed() -> list[str]:
    """Everything that a list names, with what that needs, as far as it is installed here."""
    files = [path.name for path in sorted(paths.root().glob("requirements*.txt"))]
    return [name for name in requirements(*files) if metadata(name)]


def normal(name: str) -> str:
    """A package's name as indexes write it: `Scikit_Learn` → `scikit-learn`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def metadata(name: str) -> str:
    """All that a package's metadata say of its licence, joined; "" if it is not installed."""
    try:
        found = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
    expression = found.get("License-Expression")
    kinds = [one for one in found.get_all("Classifier") or [] if one.startswith("License ::")]
    text = (found.get("License") or "").strip().partition("\n")[0]
    return expression or " / ".join([*filter(None, [text]), *kinds]) or "not named"


def licence(name: str) -> str:
    """A package's licence as NOTICE.md names it; "see the package" where metadata do not say it."""
    text = metadata(name)
    return next(
        (short for short, words in NAMES.items() if re.search(words, text)), "see the package"
    )


def table() -> dict[str, list[str]]:
    """Licence → the packages that the course asks for itself and that are under it."""
    rows: dict[str, list[str]] = defaultdict(list)
    for name in direct():
        rows[licence(name)].append(name)
    return rows


def noticed() -> dict[str, list[str]]:
    """The same as NOTICE.md has it."""
    text = (paths.root() / "NOTICE.md").read_text("utf-8")
    _, _, part = text.partition("\n## Packages")
    rows = re.findall(r"(?m)^\| ([^|`]+?) \| (`[^|]+`) \|", part)
    return {name: re.findall(r"`([^`]+)`", packages) for name, packages in rows}


if __name__ == "__main__":
    for name, packages in sorted(table().items()):
        print(f"| {name} | {', '.join(f'`{package}`' for package in packages)} |")
