"""Run the notebooks of lecture 3, and keep their scoreboard and the figures of their claims."""

from __future__ import annotations

from collections.abc import Iterator

from nbformat import NotebookNode

from workbook.common.errors import WorkbookError
from workbook.lessons import scoreboard
from workbook.notebooks import building
from workbook.site import executed

from .settings import Settings
from .tables import Goal, Section

#: Step of the scoreboard → what its gain is to reach.
GAINS = {"instances": 1.5, "batching": 2.5, "clients": 3.0}
#: Claims that have figures which the scoreboard lacks begin so.
CLAIMS = ("batching.networks", "cache.gain", "clients.", "serving.", "tuning.", "fleet.")


def measure(settings: Settings) -> Section:
    """Run each notebook once; a run that was disturbed is repeated, twice at most."""
    sources = [
        lecture.source
        for lecture in building.lectures()
        if lecture.source.parent.parent.name == "3_acceleration"
    ]
    scoreboard.forget()
    sentences, failed = list[str](), list[str]()
    with executed.shared_server(sources) as environment:
        for source in sources:
            settings.say(source.parent.name)
            try:
                node = executed.run(source, environment)
            except WorkbookError as error:
                failed.append(f"{source.parent.name} ({str(error).splitlines()[0]})")
                continue
            executed.keep(source, node)
            sentences += claims(node)
    table, rows = scoreboard.table().reset_index(), scoreboard.rows()
    how = [
        "The notebooks of lecture 3, run from top to bottom. Each row is a step with the focus "
        "network: the deployments before and after it, measured in turns in one run.",
        "",
        *(f"- {sentence}" for sentence in sentences),
        *(f"- Not measured: {name}" for name in failed),
    ]
    goals = [
        Goal(scoreboard.STEPS[step], rows[step].gain, target)
        for step, target in GAINS.items()
        if step in rows
    ]
    return Section(
        "acceleration",
        "Lecture 3: each step of the focus network",
        "\n".join(how),
        [str(name) for name in table.columns],
        [[str(value) for value in row] for row in table.itertuples(index=False)],
        goals,
        # Each comparison in a notebook has a premise, which a busy machine breaks. And servers of
        # notebooks are no processes of this one: they would count as other programs.
        timed=False,
    )


def claims(node: NotebookNode) -> Iterator[str]:
    """The sentences of an executed notebook's claims whose ids begin with one of `CLAIMS`."""
    for cell in node.cells:
        for output in cell.get("outputs", ()):
            id = output.get("metadata", {}).get("workbook", {}).get("claim", "")
            if id.startswith(CLAIMS) and not id.endswith(".mistakes"):
                yield output["data"]["text/plain"].split(": ", 1)[1]
