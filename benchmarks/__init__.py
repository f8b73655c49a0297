"""The benchmarks that `workbook bench`, `make bench` and `make bench-peers` run.

    python -m benchmarks            the usual ones (`USUAL`)
    python -m benchmarks cnn start  some of them, by name
    python -m benchmarks peers      this server beside MLServer, BentoML and LitServe
    python -m benchmarks llm        language models; needs `make vllm`
    python -m benchmarks acceleration  the notebooks of lecture 3, and their scoreboard
    python -m benchmarks endurance  over an hour of load, loads, redeploys: what grows, what fails
    python -m benchmarks grading    grading a class, beside nbgrader's own command
    python -m benchmarks costs      processor time per submission of each assignment

Each result is printed, and replaces its section of BENCHMARKS.md. The sections of grading and costs
are in grader/BENCHMARKS.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from workbook.common import paths
from workbook.common.errors import WorkbookError

from . import acceleration, cnn, endurance, http, lab, llm, machine, memory, startup, tables
from .settings import Settings

#: Name → benchmark, in the order in which they run.
BENCHMARKS: dict[str, Callable[[Settings], tables.Section]] = {
    "start": startup.measure,
    "lab": lab.measure,
    "memory": memory.measure,
    "cnn": cnn.measure,
    "batching": http.batching,
    "fastapi": http.fastapi,
    "peers": http.compare_peers,
    "llm": llm.measure,
    "acceleration": acceleration.measure,
    "endurance": endurance.measure,
}
#: The benchmarks that run if none is named. The others are left out: the peers build three
#: environments from the network, the language models need vLLM, and the others take long.
USUAL = ("start", "lab", "memory", "cnn", "batching", "fastapi")


def run(
    names: Sequence[str] = USUAL,
    *,
    output: Path | None = None,
    rounds: int = 5,
    seconds: float = 4.0,
    minutes: float = 30.0,
    loads: int = 1000,
    deploys: int = 200,
    console: Console | None = None,
) -> list[tables.Section]:
    """Run benchmarks, print each result and write it to a Markdown file.

        run(("start", "memory"), rounds=3)

    A benchmark that cannot run says why; the others still run.

    Args:
        names: keys of `BENCHMARKS`.
        output: the file; by default BENCHMARKS.md in the checkout.
        rounds: how often the two sides of a comparison alternate.
        seconds: how long each is measured in a round.
        minutes, loads, deploys: the sizes of endurance.

    Returns:
        The sections that were measured.

    Raises:
        WorkbookError: an unknown name, or at the end, if a benchmark could not run.
    """
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown or rounds < 1 or min(seconds, minutes, loads, deploys) <= 0:
        raise WorkbookError(
            f"There is no benchmark {unknown[0]!r}." if unknown else "There is nothing to measure.",
            todo=f"The benchmarks are {', '.join(BENCHMARKS)}; all sizes are above zero.",
        )
    console = console or Console()
    output = output or paths.root() / "BENCHMARKS.md"
    done, failed = [], []
    with machine.pinned(), console.status("") as status:
        settings = Settings(rounds, seconds, status.update, minutes, loads, deploys)
        for name in names:
            status.update(name)
            crowd = machine.Crowd()
            try:
                section = BENCHMARKS[name](settings)
            except WorkbookError as error:
                console.print(
                    f"\n[red]{name} could not be measured.[/red] {error}", highlight=False
                )
                failed.append(name)
                continue
            where = machine.describe()
            if section.timed:
                others = crowd.share()
                where += f"; other programs took {others:.0%} of these cores meanwhile"
                if others > machine.CROWDED:
                    goals = [dataclasses.replace(goal, judged=False) for goal in section.goals]
                    section = dataclasses.replace(section, goals=goals)
                    where += ", too much to judge"
            tables.show(section, console)
            console.print(f"  ({where})")
            tables.write(section, output, where)
            done.append(section)
    console.print(f"\nWritten to {output}" if done else "\nNothing was measured.")
    if failed:
        raise WorkbookError(
            f"Not measured: {', '.join(failed)}.",
            todo=f"Correct what the messages above name, then `workbook bench {' '.join(failed)}`.",
        )
    return done
