"""The diagrams: built from their source and legible on light and dark."""

from __future__ import annotations

import runpy
from itertools import product
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex

from tests import sources
from workbook.common import paths
from workbook.measure import style

HOME = paths.root() / "lectures"
DRAW: dict[str, Any] = runpy.run_path(str(HOME / "images/draw.py"))
READABLE = 4.5  # WCAG 2.2, success criterion 1.4.3: contrast of text


@pytest.mark.parametrize("file", DRAW["diagrams"]())
def test_a_diagram_is_what_its_source_draws(file: str) -> None:
    drawn = DRAW["diagrams"]()[file].svg()
    assert (HOME / file).read_text("utf-8") == drawn
    assert ElementTree.fromstring(drawn).find("{http://www.w3.org/2000/svg}title") is not None


def test_each_notebook_of_lecture_1_shows_the_parts_that_it_studies() -> None:
    lessons = sorted((HOME / "1_architecture").glob("*/lesson.py"))
    assert [path.parent.name for path in lessons] == list(DRAW["STUDIED"]), (
        "The rows of STUDIED in lectures/images/draw.py are not the notebooks of lecture 1 in "
        "their order. Change the rows, and run .venv/bin/python lectures/images/draw.py."
    )
    for path in lessons:
        shown = "\n".join(cell.source for cell in sources.read(path).cells)
        assert "](architecture.svg)" in shown, f"Show the picture in {path}: ![…](architecture.svg)"


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), list(product(DRAW["TEXTS"], DRAW["GROUNDS"])))
def test_text_can_be_read_on_every_ground(text: str, ground: str, theme: int) -> None:
    palette = DRAW["PALETTE"]
    assert contrast(palette[text][theme], palette[ground][theme]) >= READABLE


@pytest.mark.parametrize("colour", [DRAW["REQUEST"], DRAW["REPLY"], *DRAW["SEQUENCES"].values()])
def test_names_of_requests_can_be_read(colour: str) -> None:
    assert contrast(DRAW["NAME"], colour) >= READABLE


def test_text_of_a_figure_s_png_can_be_read() -> None:
    assert contrast(style.GREY, style.CARD) >= READABLE
    face = style.Picture(1, 1).patch
    assert (to_hex(face.get_facecolor()), face.get_alpha()) == (style.CARD, None)


@pytest.mark.parametrize("colour", style.COLOURS)
def test_text_on_a_bar_can_be_read(colour: str) -> None:
    assert contrast(style.INK, colour) >= READABLE


def test_a_figure_takes_the_page_s_text_colour_and_changes_nothing_else_of_it() -> None:
    figure = style.Picture(4, 2, 'Queue & "compute"')
    style.panel(figure.subplots(), "Latency (ms)", below="seconds")
    shown = figure._repr_mimebundle_()["text/html"]
    assert shown == figure.svg()  # the same data, the same text
    assert ElementTree.fromstring(shown.replace("xlink:", "")).get("aria-label") == (
        'Queue & "compute"'
    )
    assert style.GREY not in shown
    assert style.CARD not in shown
    assert "fill: currentColor" in shown
    assert "<style" not in shown  # it would hold for all of the page


def test_contrast_is_wcags() -> None:
    assert contrast("#000000", "#ffffff") == 21
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48  # the guideline's own example
