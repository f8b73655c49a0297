"""The lectures' links to other sites: each page, and each anchor in it, is in the list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lectures import upstream_links as links
from workbook.common.errors import WorkbookError
from workbook.lessons import write

LECTURE = """\
# %% [markdown]
# See [modes](https://github.com/owner/name/blob/main/docs/a.md#two-modes-beta), the
# [code](https://github.com/owner/name/blob/main/src/a.cc), [all](https://github.com/owner/name)
# and [Prometheus](https://prometheus.io/docs/).

# %%
url = "https://nowhere.example/"
"""
UPSTREAM = """\
# A: `b_c`
```
# no heading
```
## [Two](x.md) modes (BETA)
### Compression
### Compression
"""


def test_every_link_of_the_lectures_is_in_the_stored_list() -> None:
    lacking = links.lacking(links.stored())
    assert not lacking, (
        f"lectures/upstream.json lacks {', '.join(lacking)}. For an address without #, add a line "
        '"address": [] to it. For one with #, correct it, or run '
        ".venv/bin/python -m tests.lectures.upstream_links, which reads all linked pages."
    )


def test_the_stored_list_has_no_page_that_nobody_links_to() -> None:
    assert set(links.stored()) <= {link.partition("#")[0] for link in links.used()}


def test_anchors_are_those_of_github() -> None:
    assert links.anchors_of_markdown(UPSTREAM) == [
        "a-b_c", "two-modes-beta", "compression", "compression-1",
    ]  # fmt: skip


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout with one lecture, and a clone of what it links to."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    write(tmp_path / "lectures/01__modes/lesson.py", LECTURE)
    write(tmp_path / "lectures/upstream.json", json.dumps({"https://prometheus.io/docs/": []}))
    write(tmp_path / "clones/owner/name/docs/a.md", UPSTREAM)
    write(tmp_path / "clones/owner/name/src/a.cc", "int x;")
    write(tmp_path / "clones/owner/name/README.md", "# Name")
    return tmp_path


def test_a_list_is_made_from_clones_and_keeps_other_pages(course: Path) -> None:
    assert links.refresh(course / "clones") == []
    pages = links.stored()
    assert pages["https://github.com/owner/name/blob/main/docs/a.md"][1] == "two-modes-beta"
    assert pages["https://github.com/owner/name/blob/main/src/a.cc"] == []
    assert pages["https://github.com/owner/name"] == ["name"]
    assert set(pages) == {link.partition("#")[0] for link in links.used()}


def test_a_heading_that_was_renamed_upstream_is_named(course: Path) -> None:
    write(course / "clones/owner/name/docs/a.md", UPSTREAM.replace("modes", "ways"))
    (course / "clones/owner/name/src/a.cc").unlink()
    assert links.refresh(course / "clones") == [
        "https://github.com/owner/name/blob/main/docs/a.md#two-modes-beta",
        "https://github.com/owner/name/blob/main/src/a.cc",
    ]


def test_without_a_network_the_address_is_named(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(address: str, **_: object) -> object:
        raise links.httpx.ConnectError("no route")

    monkeypatch.setattr(links.httpx, "get", get)
    with pytest.raises(WorkbookError, match="cannot be read: ConnectError") as caught:
        links.refresh()
    assert caught.value.where.startswith("https://raw.githubusercontent.com/owner/name/")


def test_a_list_is_made_from_the_network(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = {
        "https://raw.githubusercontent.com/owner/name/main/docs/a.md": UPSTREAM,
        "https://raw.githubusercontent.com/owner/name/main/src/a.cc": "int x;",
        "https://raw.githubusercontent.com/owner/name/HEAD/README.md": "# Name",
        "https://prometheus.io/docs/": '<h2 id="start">Start</h2>',
    }

    def get(address: str, **_: object) -> object:
        return links.httpx.Response(200 if address in there else 404, text=there.get(address, ""))

    monkeypatch.setattr(links.httpx, "get", get)
    assert links.refresh() == []
    assert links.stored()["https://prometheus.io/docs/"] == ["start"]
    del there["https://raw.githubusercontent.com/owner/name/HEAD/README.md"]
    assert links.refresh() == ["https://github.com/owner/name"]
