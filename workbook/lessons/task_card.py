"""`task`: shows what the reader has to do, whether this is done, and the hints one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..common.unattended import unattended
from ..server import Server, connect
from . import cards, tasks
from .cards import AGAIN, HOLDS, TO_DO, Card


def task(id: str, *, server: Server | None = None, **given: Any) -> None:
    """Show a task for the reader, and check on the server whether it is done.

        task("repository.half", server=lab, models=models)

    Below the card are two buttons: one looks at the server again, one shows the next hint.

    Args:
        id: the task, as defined in a notebook's `task.py`.
        server: where the reader works; by default the shared server.
        given: what the check needs besides, e.g. `models`, the folder that the server serves.

    Raises:
        WorkbookError: there is no such task, or no server.
    """
    own = tasks.find(id)
    where = connect() if server is None else server

    def card() -> Card:
        lack = own.look(where, **given)
        if lack is None:
            return Card(HOLDS, "Done", own.sentence)
        if isinstance(lack, tasks.CannotTell):
            return Card(AGAIN, "Your turn", own.sentence, [f"Cannot tell: {lack}"])
        line, *rest = str(lack).splitlines()
        return Card(TO_DO, "Your turn", own.sentence, [f"Not yet: {line}", *rest])

    if unattended():
        cards.show(card(), task=id)
        return
    first = card()
    lines = [*str(first).splitlines(), "Run this cell again to look again."]
    cards.show_widget(_widget(own, first, card), lines, task=id)


def _widget(own: tasks.Task, first: Card, look: Callable[[], Card]) -> Any:
    """The card, two buttons, and below them the hints that were asked for.

    The card is a widget, too: when a reader opens the page anew while the kernel runs, the buttons
    still change it. They could not change an output that was displayed before.
    """
    import ipywidgets

    state = ipywidgets.HTML(first._repr_html_())
    again = ipywidgets.Button(description="Look again", icon="refresh")
    hint = ipywidgets.Button(icon="lightbulb-o")
    shown = ipywidgets.HTML()
    hints: list[str] = []

    def label() -> None:
        left = len(hints) < len(own.hints)
        hint.description = f"Hint {len(hints) + left} of {len(own.hints)}"
        hint.disabled = not left

    def more(_: Any) -> None:
        hints.append(own.hints[len(hints)])
        items = "".join(f"<li>{cards.as_html(text)}</li>" for text in hints)
        shown.value = f'<ol style="line-height:1.5">{items}</ol>'
        label()

    def look_again(_: Any) -> None:
        again.disabled = True
        try:
            state.value = look()._repr_html_()
        finally:
            again.disabled = False

    again.on_click(look_again)
    hint.on_click(more)
    label()
    return ipywidgets.VBox([state, ipywidgets.HBox([again, hint]), shown])
