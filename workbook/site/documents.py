"""The pages of `docs/` as pages of the site.

On GitHub a link leads to a file of the checkout, and an anchor is written as GitHub makes it. On
the site, a notebook is a page, and an anchor is written as Jupyter makes it. A link to a file that
is no page becomes its text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from ..common import paths
from .anchors import github, slug

#: The first pages of the table of contents; the others follow in the order of the alphabet.
FIRST = ("teaching", "trust", "differences")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(?ms)^```.*?^```")


def documents(notebooks: Collection[Path]) -> dict[Path, str]:
    """The text of each page, by its place on the site, such as `docs/trust.md`.

        documents([Path("00__start/00__start.ipynb")])

    Args:
        notebooks: the notebooks that are pages of the site, below `lectures/`.

    Returns:
        The pages in the order of the table of contents; none where the checkout has no `docs/`.
    """
    folder = paths.root() / "docs"
    files = sorted(folder.glob("*.md"), key=lambda file: (_place(file.stem), file.stem))
    texts = {Path("docs", file.name): file.read_text("utf-8") for file in files}
    anchors = {
        page: {github(heading): slug(heading.replace("`", "")) for heading in headings(text)}
        for page, text in texts.items()
    }
    lectures = {Path("lectures", name): name for name in notebooks}

    def link(page: Path, found: re.Match[str]) -> str:
        target, mark, anchor = found[2].partition("#")
        if re.match(r"[a-z]+:", target):
            return found[0]
        there = Path(os.path.normpath(page.parent / target)) if target else page
        if there in texts:
            return f"[{found[1]}]({target}{mark}{anchors[there].get(anchor, anchor)})"
        return f"[{found[1]}](../{lectures[there]})" if there in lectures else found[1]

    return {page: _change_links(text, partial(link, page)) for page, text in texts.items()}


def headings(text: str) -> list[str]:
    """The headings of a page, without its code."""
    return re.findall(r"(?m)^#{1,6} +(.+?)[ #]*$", _CODE.sub("", text))


def _place(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def _change_links(text: str, change: Callable[[re.Match[str]], str]) -> str:
    """Change the links of a page, outside of its blocks of code."""
    parts, end = [], 0
    for block in _CODE.finditer(text):
        parts += [_LINK.sub(change, text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, _LINK.sub(change, text[end:])])
