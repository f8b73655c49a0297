"""Read what the tests of the site check: links, anchors, and the text outside of folds."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page, and the text outside of folds."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.open = ""
        self._folds = 0
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._folds += tag == "details"
        self.links += [given[name] for name in ("href", "src") if given.get(name)]
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}

    def handle_endtag(self, tag: str) -> None:
        self._folds -= tag == "details"

    def handle_data(self, data: str) -> None:
        self.open += data if not self._folds else ""


def broken(folder: Path) -> list[str]:
    """The links of a site that lead to no file, or to no place in it."""
    files = [path for path in folder.rglob("*.html") if "_static" not in path.parts]  # templates
    found = {path.resolve(): Page(path) for path in files}
    faults = []
    for path, page in found.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = found[there].anchors if there in found else set()
            if not there.is_file():
                faults.append(f"{path.name}: {link}: no such file")
            elif parts.fragment and unquote(parts.fragment) not in anchors:
                faults.append(f"{path.name}: {link}: no such place")
    return faults
