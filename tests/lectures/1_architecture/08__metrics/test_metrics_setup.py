"""What 08__metrics takes for a result."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from workbook.lessons import units

setup = units.load(units.find("08__metrics"), "setup")

#: The columns of a report of perf_analyzer.
HEADER = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,"
    "Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,"
    "p50 latency,p90 latency,p95 latency,p99 latency"
)


def write(folder: Path, run: str, rate: float, queue_us: int = 0) -> None:
    """Write a report: 10 ms of computing, what waits before, and 2 ms outside the server."""
    whole = queue_us + 12_000
    row = f"8,{rate},0,2000,{queue_us},0,10000,0,0,{whole},{whole},{whole},{whole}"
    (folder / f"{run}.csv").write_text(f"{HEADER}\n{row}\n", "utf-8")


def test_reports_are_read_by_service(tmp_path: Path) -> None:
    write(tmp_path, "anton.1.8", rate=64, queue_us=30_000)
    write(tmp_path, "berta.8.8", rate=120)
    table = setup.read(tmp_path, "anton.1.8", "berta.8.8")
    assert list(table["throughput"]) == [64, 120]
    assert list(setup.shares(table)["queue"]) == [0.75, 0]
    labels = setup.plot_shares(table).axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == [
        "anton: 40 ms (client: 42 ms)",
        "berta: 10 ms (client: 12 ms)",
    ]


def test_a_machine_that_is_too_slow_for_sleeping_shows_nothing(tmp_path: Path) -> None:
    write(tmp_path, "berta.8.8", rate=125)
    write(tmp_path, "berta.16.8", rate=60)  # 133 are possible
    few, many = (setup.read(tmp_path, f"berta.{count}.8") for count in (8, 16))
    assert setup.undisturbed(few, few)
    assert not setup.undisturbed(few, many)


def test_rates_of_clients_and_instances(tmp_path: Path) -> None:
    for instances in (8, 16):
        for clients in (8, 32):
            write(tmp_path, f"berta.{instances}.{clients}", rate=15 * min(instances, clients))
    rates = setup.read_rates(tmp_path, "berta", instances=(8, 16), clients=(8, 32))
    assert rates.loc[32, 16] == 2 * rates.loc[32, 8]
    assert setup.at_full_speed(rates)
    assert not setup.at_full_speed(rates * 0.8)
    lines = setup.plot_rates(rates).axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["8 instances", "16 instances"]


@pytest.mark.parametrize(
    ("gains", "option"),
    [((2.0, 1.0), "anton alone"), ((1.1, 1.0), "none"), ((1.6, 1.5), "more than one")],
)
def test_who_gains(gains: tuple[float, float], option: str) -> None:
    assert setup.who_gains(pd.Series(gains, index=["anton", "clara"])) == option


def test_failures_are_summed_by_reason() -> None:
    rows = {"a": [1, 0, 0, 0], "b": [0, 1, 0, 0], "c": [0, 0, 0, 0]}
    columns = [f"failure {reason}" for reason in setup.REASONS]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    assert setup.count_failures(table) == "2"
    assert setup.count_failures(table * 0) == "none"
    assert list(setup.reasons(table)) == [1, 1, 0, 0]
    wrong = table.assign(**{"the client reads": ["no"] * 3})
    assert not setup.all_went_wrong(wrong)  # only two of the three were counted
    wrong.loc["c", "failure CANCELED"] = 1
    assert setup.all_went_wrong(wrong)
    assert not setup.all_went_wrong(wrong.assign(**{"the client reads": ["no", "", "no"]}))


def test_services_have_their_own_config(tmp_path: Path) -> None:
    setup.add(tmp_path, "clara")
    text = (tmp_path / "clara/config.pbtxt").read_text("utf-8")
    assert "count: 2" in text
    assert text.count("[ 2000000 ]") == 2
