"""What the lectures say about NVIDIA's releases agrees with one file, which has the sources."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.lectures.course import HOME, TOPICS, each_topic, texts
from workbook.lessons import units

STORED: dict[str, Any] = json.loads((HOME / "releases.json").read_text("utf-8"))
TABLE = "14__images/14__images.ipynb#Your-release-has"
setup = units.load(units.find("14__images"), "setup")
RELEASE = re.compile(r"(?<![\d.])2[3-9]\.(?:0[1-9]|1[0-2])(?![\d]|\.\d)")
#: The name of a part in sentences → its name in the file.
NAMES = {
    "ONNX Runtime": "ONNX Runtime",
    "OpenVINO": "OpenVINO",
    "TensorRT-LLM": "TensorRT-LLM",
    "vLLM": "vLLM",
    "Python": "Python (image with vLLM)",
}
#: Sentences that date a change: the file must have a change in this release.
DATED = re.compile(
    rf"(?i)\b(?:since|from|until|up to|newer than|before|in)\s+\[?({RELEASE.pattern})"
)


def plain(path: Path) -> str:
    """A notebook's texts without the addresses of links and without programs."""
    prose = "\n\n".join(cell.source for cell in texts(path))
    prose = re.sub(r"(?ms)^```.*?^```", "", prose)
    return re.sub(r"\]\([^)]*\)", "]", prose)


def known() -> set[str]:
    values = [part["values"] for kind in ("parts", "sizes") for part in STORED[kind].values()]
    return {*STORED["shown"], *changed()} | {release for own in values for release in own}


def changed() -> set[str]:
    return {change["release"] for change in STORED["changes"]}


def contradictions(text: str) -> list[str]:
    """The sentences that name another version of a release's part than the file."""
    found = []
    for sentence in re.split(r"(?<=[.:;!?)])\s+", text):
        releases = set(RELEASE.findall(sentence))
        for words, name in NAMES.items():
            value = STORED["parts"][name]["values"].get(next(iter(releases), ""))
            said = re.search(rf"\b{words} \[?(\d+(?:\.\d+)+)", sentence)
            if len(releases) == 1 and value and said and said[1] not in releases:
                if f"{value}.".startswith(f"{said[1]}."):
                    continue
                found.append(sentence)
    return found


def test_every_figure_and_every_change_has_a_source() -> None:
    parts = [*STORED["parts"].values(), *STORED["sizes"].values()]
    for source in [each["source"] for each in [*parts, *STORED["changes"]]]:
        assert re.fullmatch(r"https://[\w.-]+/[\w./{}#-]+", source), source
    for part in parts:
        for release, value in part["values"].items():
            assert RELEASE.fullmatch(release)
            assert value not in ("", None)
    assert STORED["shown"] == sorted(STORED["shown"])
    order = [change["release"] for change in STORED["changes"]]
    assert order == sorted(order)


def test_the_table_leaves_open_what_nobody_found() -> None:
    table = setup.contents()
    assert list(table.columns) == [*STORED["shown"], "source"]
    for name, part in STORED["parts"].items():
        for release in STORED["shown"]:
            assert table.loc[name, release] == part["values"].get(release, setup.NOT_FOUND)
    html = setup.linked(table).data
    assert all(f'<a href="{source}">' in html for source in table["source"])


@each_topic
def test_a_release_that_a_lecture_names_is_in_the_table(path: Path) -> None:
    text = plain(path)
    named = set(RELEASE.findall(text))
    assert named <= known(), "write them, with a source, into lectures/releases.json"
    dated = set(DATED.findall(text)) - set(STORED["shown"])
    assert dated <= changed(), "write what changed then, with a source, into releases.json"
    if named - {"24.10"} and not path.parent.name.endswith("__images"):
        source = "\n".join(cell.source for cell in texts(path))
        assert TABLE in source, f"link to {TABLE}, which has the sources"


@pytest.mark.parametrize("path", TOPICS, ids=lambda path: path.parent.name)
def test_no_lecture_contradicts_the_table(path: Path) -> None:
    assert contradictions(plain(path)) == []


def test_a_contradiction_is_found() -> None:
    right = "Release 24.10 holds ONNX Runtime 1.19.2. Release 24.10 has TensorRT-LLM [0.14]."
    assert contradictions(right) == []
    assert len(contradictions("Release 24.10 holds ONNX Runtime 1.20.1.")) == 1
    assert len(contradictions("In 25.03 there is vLLM 0.7.")) == 0
    assert len(contradictions("In 25.03 there is vLLM 0.8.")) == 1
