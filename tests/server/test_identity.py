"""A server of another repository is neither used nor changed.

There are two checkouts, each with its own repository. The server of one occupies the ports of the
other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbook.common.errors import LoadError, ServerError
from workbook.server import (
    Server,
    Triton,
    connect,
    connection,
    deploy,
    ensure,
    ports,
    undeploy,
    which_repository,
)

pytestmark = pytest.mark.server

MODEL = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x * 2)]) for x in inputs]
"""
CONFIG = """
backend: "python"
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


def write(folder: Path, config: str = CONFIG) -> Path:
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    (folder / "1" / "model.py").write_text(MODEL)
    return folder


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """The running server of another checkout."""
    home = tmp_path_factory.mktemp("theirs") / "model_repository"
    write(home / "shared")
    with Triton(home, models=["shared"]) as server:
        yield server


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This checkout's repository; it has a model of the same name. No server of ours runs."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path / "ours"))
    for name in ("TRITON_URL", "TRITON_GRPC_URL", "TRITON_METRICS_URL", "TRITON_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    return write(tmp_path / "ours" / "model_repository" / "shared").parent


@pytest.fixture(params=["its process", "its index"])
def seen_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the server is known; processes of containers and of other accounts are not visible."""
    if request.param == "its index":
        monkeypatch.setattr(ports, "holder", lambda port: None)
    return str(request.param)


@pytest.fixture
def in_the_way(theirs: Triton, ours: Path, monkeypatch: pytest.MonkeyPatch) -> Triton:
    """The other checkout's server, on the default port."""
    monkeypatch.setattr(connection, "DEFAULT_HTTP", int(theirs.url.rpartition(":")[2]))
    return theirs


def files(folder: Path) -> list[tuple[Path, float]]:
    """The files of a repository with their times, without byte code."""
    return sorted(
        (path, path.stat().st_mtime)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )


def test_a_server_is_known_by(seen_by: str, theirs: Triton, ours: Path, tmp_path: Path) -> None:
    assert which_repository.repository(Server(theirs.url, repository=theirs.repository)) == (
        theirs.repository
    )
    link = tmp_path / "link"
    link.symlink_to(theirs.repository)
    assert which_repository.repository(Server(theirs.url, repository=link)) == theirs.repository
    other = which_repository.repository(Server(theirs.url, repository=ours))
    assert other == (theirs.repository if seen_by == "its process" else None)
    for repository in (ours, theirs.repository):
        assert [p.name for p in repository.iterdir()] == ["shared"]


def test_what_a_killed_look_has_left_is_removed(
    theirs: Triton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "holder", lambda port: None)
    left = theirs.repository / f"{which_repository.MARKER}of-a-killed-process"
    left.mkdir()
    os.utime(left, (0, 0))
    server = Server(theirs.url, repository=theirs.repository)
    assert which_repository.repository(server) == theirs.repository
    assert not left.exists()


def test_another_checkouts_server_is_not_used_by_default(
    seen_by: str, in_the_way: Triton, ours: Path
) -> None:
    with pytest.raises(ServerError) as caught:
        connect()
    assert in_the_way.url in caught.value.what
    assert str(ours) in caught.value.what
    text = str(in_the_way.repository) if seen_by == "its process" else "with the models shared"
    assert text in caught.value.what
    assert "--http-port 0" in caught.value.todo
    assert f"TRITON_URL={in_the_way.url}" in caught.value.todo
    with pytest.raises(ServerError, match="does not serve this checkout"):
        ensure("shared")


@pytest.mark.quick
@pytest.mark.usefixtures("seen_by")
def test_a_server_of_our_repository_is_used_by_default(
    in_the_way: Triton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_REPOSITORY", str(in_the_way.repository))
    with connect() as found:
        assert found.url == in_the_way.url
        assert found.repository == in_the_way.repository


@pytest.mark.usefixtures("seen_by")
def test_a_named_server_is_used_but_our_folder_is_not_taken_for_its_own(
    theirs: Triton, ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_URL", theirs.url)
    monkeypatch.setenv("TRITON_GRPC_URL", theirs.grpc_url)
    before = files(ours), files(theirs.repository)
    with connect() as found:
        assert found.url == theirs.url
        assert found.ready("shared")
    with pytest.raises(ServerError, match="does not serve this checkout") as caught:
        deploy(write(tmp_path / "mine"))
    assert "Nothing was changed" in caught.value.todo
    with pytest.raises(ServerError, match="does not serve this checkout"):
        undeploy("shared")
    assert theirs.ready("shared")
    assert (files(ours), files(theirs.repository)) == before
    monkeypatch.setenv("TRITON_REPOSITORY", str(theirs.repository))
    deploy(tmp_path / "mine")
    assert theirs.ready("mine")
    undeploy("mine")
    assert not (theirs.repository / "mine").exists()


def test_ensure_loads_what_is_missing_and_explains_what_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "models"
    for name in ("one", "two"):
        write(home / name)
    with Triton(home, models=["one"]) as server:
        monkeypatch.setenv("TRITON_URL", server.url)
        monkeypatch.setenv("TRITON_GRPC_URL", server.grpc_url)
        monkeypatch.setenv("TRITON_REPOSITORY", str(home))
        mark = server.log_size()
        with ensure("one") as found:
            assert found.url == server.url
        assert "loading: one" not in server.log_text(mark)
        assert not server.ready("two")
        ensure().close()
        assert server.ready("two")
        write(home / "wrong", CONFIG.replace("TYPE_FP32", "FP32"))
        with pytest.raises(LoadError, match="wrong did not load") as caught:
            ensure("one", "wrong")
        assert "config.pbtxt, line" in caught.value.where
        with pytest.raises(ServerError, match="2 of 3 models did not load") as several:
            ensure("one", "wrong", "absent")
        assert "wrong did not load" in str(several.value)
        assert "absent did not load" in str(several.value)
    with pytest.raises(ServerError, match="No server answers"):
        ensure("one")
