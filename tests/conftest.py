"""Shared by all tests: a real server on free ports with its own repository, and the rule that only
tests with the marker `server` start processes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import durations
from tests.beside import turn
from tests.class_folder import class_folder
from tests.scheduling import Scheduling, in_order
from workbook.server import Triton

# A test may take long on a busy machine.
settings.register_profile("course", deadline=None)
settings.load_profile("course")


#: The running test, if it has no marker `server`.
_without: list[str] = []
#: The programs that only a test with the marker may start; tools such as ruff or git need none.
_PROGRAMS = ("python", "tritonserver", "bwrap")


def _no_process(event: str, arguments: tuple[object, ...]) -> None:
    """Python calls it at each audit event. It fails a test that starts a forbidden program."""
    starts = event in {"subprocess.Popen", "os.posix_spawn"}
    if starts and _without and Path(str(arguments[0])).name.startswith(_PROGRAMS):
        pytest.fail(
            f"{_without[0]} starts {arguments[0]}, and has no marker. Add @pytest.mark.server, or "
            "pytestmark = pytest.mark.server for all tests of the module: `make check` leaves "
            "them out."
        )


sys.addaudithook(_no_process)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Note a test without the marker `server` while it and its fixtures run."""
    if item.get_closest_marker("server") is None:
        _without.append(item.nodeid)
    try:
        return (yield)
    finally:
        _without.clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", choices=durations.MODES, help="write tests/durations.csv")


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C end processes. A shell that starts the tests in the background switches it off.

    The processes that tests start would inherit this, and tests of Ctrl-C would hang.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    mode = config.getoption("record")
    if mode and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(durations.Recorder(mode))


@pytest.hookimpl(optionalhook=True)  # only xdist has this hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    """Each assignment's tests are a worker's own, where files are shared among workers."""
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once: a run that is stopped never reaches pytest's summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        last = report.longreprtext.splitlines()[-25:]
        print(f"\n{report.when} of {report.nodeid}, {report.duration:.0f} s:", *last, sep="\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        seconds = {test: row[0] for test, row in durations.read().items()}
        places = in_order([item.nodeid for item in items], seconds)
        items.sort(key=lambda item: places[item.nodeid])


@pytest.fixture
def class_home() -> Iterator[Path]:
    """A folder for a class, inside `grader/work`."""
    with class_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def class_home_of_module() -> Iterator[Path]:
    """The same, one for a test module."""
    with class_folder() as folder:
        yield folder


@pytest.fixture
def by_itself() -> Iterator[None]:
    """Beside the test no other one with the marker `alone` runs."""
    with turn(by_itself=True):
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A real Triton in explicit mode on an empty repository, one for a test module.

    Tests put models with names of their own into `server.repository` and load them.
    """
    with Triton(tmp_path_factory.mktemp("models")) as triton:
        yield triton


WriteModel = Callable[..., Path]


@pytest.fixture
def write_model(server: Triton) -> WriteModel:
    """`write_model(name, config, {"1/model.py": text or bytes})` → the new model's folder."""

    def write(name: str, config: str = "", files: dict[str, str | bytes] | None = None) -> Path:
        folder = server.repository / name
        folder.mkdir()
        if config:
            (folder / "config.pbtxt").write_text(config)
        for path, content in (files or {}).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return write
