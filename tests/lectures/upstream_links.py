"""A stored list of the other sites' pages that the lectures link to, with their anchors.

    .venv/bin/python -m tests.lectures.upstream_links           # writes lectures/upstream.json
    .venv/bin/python -m tests.lectures.upstream_links clones    # from clones/OWNER/REPOSITORY

Tests compare the lectures' links with the list, so that they need no network. A heading that
upstream has renamed is found when the list is refreshed.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import httpx

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.notebooks.building import lectures
from workbook.site.anchors import github

_LINK = re.compile(r"https?://[^\s)\"'`<>\]]+")
_GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+)(?:/(blob|tree)/([\w.-]+)/?(.*))?")
_SECONDS = 30.0


def stored() -> dict[str, list[str]]:
    """The list: address of a page → the anchors of its headings; none where it has no headings."""
    pages: dict[str, list[str]] = json.loads(_file().read_text("utf-8"))
    return pages


def used() -> list[str]:
    """The addresses that the lectures' texts link to, with anchors, in order of the alphabet."""
    found: set[str] = set()
    for lecture in lectures():
        for line in lecture.source.read_text("utf-8").splitlines():
            if line.startswith("#"):  # a text cell; addresses in code belong to experiments
                found |= {link.rstrip(".,;:") for link in _LINK.findall(line)}
    return sorted(link for link in found if not re.match(r"https?://(localhost|127\.)", link))


def lacking(pages: dict[str, list[str]]) -> list[str]:
    """The lectures' links to a page or an anchor that is not in the list.

    Args:
        pages: a list as `stored` returns it.
    """
    faults = []
    for link in used():
        page, _, anchor = link.partition("#")
        if page not in pages or (anchor and anchor not in pages[page]):
            faults.append(link)
    return faults


def refresh(clones: Path | None = None) -> list[str]:
    """Read every page that the lectures link to, and write the list anew.

    Args:
        clones: a folder with OWNER/REPOSITORY for each of GitHub's repositories, read in place of
            the network. Pages that are not on GitHub then stay as they are in the list.

    Returns:
        The links that lead nowhere; these pages are not in the list.

    Raises:
        WorkbookError: the network cannot be reached.
    """
    before = stored() if _file().is_file() else {}
    pages: dict[str, list[str]] = {}
    for page in sorted({link.partition("#")[0] for link in used()}):
        anchors = _cloned(page, clones) if clones else _fetched(page)
        if anchors is None and clones and not _GITHUB.fullmatch(page):
            anchors = before.get(page)
        if anchors is not None:
            pages[page] = anchors
    _file().write_text(json.dumps(pages, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return lacking(pages)


def anchors_of_markdown(text: str) -> list[str]:
    """The anchors that GitHub makes of a page's headings.

    >>> anchors_of_markdown("# `a_b`: two words\\n\\n## C (beta)\\n\\n## C (beta)")
    ['a_b-two-words', 'c-beta', 'c-beta-1']
    """
    text = re.sub(r"(?ms)^ *(```|~~~).*?^ *\1", "", text)
    text = re.sub(r"(?s)<!--.*?-->", "", text)
    seen: Counter[str] = Counter()
    found = []
    for heading in re.findall(r"(?m)^ {0,3}#{1,6} +(.+?)[ #]*$", text):
        slug = github(heading)
        found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


class _Anchors(HTMLParser):
    """The ids of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name == "id" and value]


def _file() -> Path:
    return paths.root() / "lectures" / "upstream.json"


def _cloned(page: str, clones: Path) -> list[str] | None:
    """A page's anchors from a clone; None where it is not there."""
    match = _GITHUB.fullmatch(page)
    if not match:
        return None
    owner, name, _, _, path = match.groups()
    place = clones / owner / name / (path or "")
    if place.is_dir():
        place = place / "README.md" if (place / "README.md").is_file() else place
    if not place.exists():
        return None
    return anchors_of_markdown(place.read_text("utf-8")) if place.suffix == ".md" else []


def _fetched(page: str) -> list[str] | None:
    """A page's anchors from the network; None where there is no such page."""
    match = _GITHUB.fullmatch(page)
    if not match:
        text = _get(page)
        return None if text is None else _Anchors(text).found
    owner, name, kind, branch, path = match.groups()
    raw = f"https://raw.githubusercontent.com/{owner}/{name}/{branch or 'HEAD'}"
    if kind == "blob":
        text = _get(f"{raw}/{path}")
        return text if text is None else anchors_of_markdown(text) if path.endswith(".md") else []
    text = _get("/".join(filter(None, (raw, path, "README.md"))))
    if text is None:
        return None if _get(page) is None else []
    return anchors_of_markdown(text)


def _get(address: str) -> str | None:
    """The content of an address; None if there is nothing."""
    try:
        answer = httpx.get(address, follow_redirects=True, timeout=_SECONDS)
    except httpx.HTTPError as error:
        raise WorkbookError(
            f"The page cannot be read: {type(error).__name__}.",
            where=address,
            todo="Look at the network, or name a folder with clones of the repositories.",
        ) from None
    return answer.text if answer.is_success else None


if __name__ == "__main__":
    missing = refresh(*map(Path, sys.argv[1:]))
    print(*missing, sep="\n")
    sys.exit(f"{len(missing)} links lead nowhere: change them in the lectures." if missing else 0)
