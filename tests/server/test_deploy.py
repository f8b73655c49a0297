"""Deploying: whole or not at all, two at once, on a full disk, with hostile names and links."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbook.common.errors import LoadError, RepositoryError, ServerError
from workbook.server import Triton, deploy, model_folder, undeploy

pytestmark = [pytest.mark.server, pytest.mark.quick]

MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answer = pb_utils.Tensor("y", np.array([{value}], np.float32))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""
CONFIG = """
backend: "python"
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
version_policy: {{ all {{}} }}
{extra}
"""


def write(folder: Path, value: int = 1, extra: str = "") -> Path:
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(CONFIG.format(extra=extra))
    (folder / "1" / "model.py").write_text(MODEL.format(value=value))
    return folder


def answer(server: Triton, name: str, version: int | None = None) -> float:
    body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}]}
    path = f"/v2/models/{name}" + (f"/versions/{version}" if version else "")
    return float(server.request("POST", f"{path}/infer", json=body)["outputs"][0]["data"][0])


@pytest.mark.parametrize("given", ["models", "models/half", "models/half/1", "half", "mdels/half"])
def test_a_folder_that_is_not_the_model_s_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("models/half"))
    if given == "models/half":
        assert model_folder.check_folder(Path(given)) > 0
        return
    with pytest.raises(RepositoryError) as caught:
        model_folder.check_folder(Path(given))
    assert caught.value.todo == "Did you mean models/half?"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A server whose repository has a parent of its own, for the staging folder."""
    home = tmp_path_factory.mktemp("deploy") / "models"
    home.mkdir()
    with Triton(home) as triton:
        yield triton


def staged(server: Triton) -> list[Path]:
    staging = server.repository.parent / f".{server.repository.name}.staging"
    return [p for p in staging.glob("*") if p.suffix != ".lock"]


def test_deploy_again_undeploy(server: Triton, tmp_path: Path) -> None:
    folder = write(tmp_path / "plain", 1)
    done = deploy(folder, server=server)
    assert (done.name, done.versions, done.backend, done.stand_in) == (
        "plain",
        (1,),
        "python",
        False,
    )
    assert answer(server, "plain") == 1
    write(folder, 2)
    deploy(folder, server=server)
    assert answer(server, "plain") == 2
    assert server.ready("plain", 1)
    undeploy("plain", server=server)
    assert not server.ready("plain")
    assert not (server.repository / "plain").exists()
    assert not staged(server)
    with pytest.raises(RepositoryError, match="holds no model plain"):
        undeploy("plain", server=server)


def test_a_version_is_added_and_taken_away(server: Triton, tmp_path: Path) -> None:
    deploy(write(tmp_path / "grows", 1), server=server)
    second = write(tmp_path / "second", 2) / "1"
    assert deploy(second, name="grows", version=2, server=server).versions == (1, 2)
    assert (answer(server, "grows", 1), answer(server, "grows", 2)) == (1, 2)
    undeploy("grows", version=1, server=server)
    assert answer(server, "grows") == 2
    assert model_folder.versions(server.repository / "grows") == [2]
    with pytest.raises(RepositoryError):
        undeploy("grows", version=7, server=server)
    with pytest.raises(RepositoryError, match="Deploy the whole model") as caught:
        deploy(second, name="not_there", version=2, server=server)
    assert "not_there" in str(caught.value)


def test_a_bad_model_leaves_the_good_one_serving(server: Triton, tmp_path: Path) -> None:
    folder = write(tmp_path / "careful", 1)
    deploy(folder, server=server)
    before = (server.repository / "careful" / "config.pbtxt").read_text()
    write(folder, 2, extra="max_batchsize: 4")
    with pytest.raises(LoadError):
        deploy(folder, server=server)
    assert answer(server, "careful") == 1
    assert (server.repository / "careful" / "config.pbtxt").read_text() == before
    fresh = write(tmp_path / "fresh", 1, extra="nonsense: 1")
    with pytest.raises(LoadError):
        deploy(fresh, server=server)
    assert not (server.repository / "fresh").exists()
    assert not staged(server)


def test_a_folder_in_the_repository_is_loaded_in_place(server: Triton) -> None:
    folder = write(server.repository / "in_place", 5)
    inode = folder.stat().st_ino
    deploy(folder, server=server)
    assert answer(server, "in_place") == 5
    assert folder.stat().st_ino == inode


@pytest.mark.parametrize(
    "name",
    ["../out", "a/b", "..", ".", "", ".hidden", "with space", "$(id)", "a\nb", "a+b", "x" * 300],
)
def test_names_that_may_not_enter(server: Triton, tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "named")
    with pytest.raises(RepositoryError, match="cannot be a model's name"):
        deploy(folder, name=name or "/", server=server)
    with pytest.raises(RepositoryError):
        undeploy(name, server=server)
    with pytest.raises(RepositoryError):
        server.load(name)


def test_links_and_odd_files_stay_outside(server: Triton, tmp_path: Path) -> None:
    folder = write(tmp_path / "linked")
    (tmp_path / "secret").write_text("x")
    (folder / "1" / "weights").symlink_to(tmp_path / "secret")
    with pytest.raises(RepositoryError, match="leads out of the model folder"):
        deploy(folder, server=server)
    (folder / "1" / "weights").unlink()
    (folder / "1" / "same.py").symlink_to("model.py")  # a link inside is copied as a file
    deploy(folder, server=server)
    assert not (server.repository / "linked" / "1" / "same.py").is_symlink()
    os.mkfifo(folder / "1" / "pipe")
    with pytest.raises(RepositoryError, match="files and folders only"):
        deploy(folder, server=server)
    (folder / "1" / "pipe").unlink()
    (folder / "1" / "dangling").symlink_to("nothing")
    with pytest.raises(RepositoryError, match="cannot be read"):
        deploy(folder, server=server)


def test_a_link_in_the_repository_is_not_written_through(server: Triton, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", 1)
    (server.repository / "doorway").symlink_to(outside)
    with pytest.raises(RepositoryError, match="has a link in this"):
        deploy(write(tmp_path / "doorway", 2), server=server)
    with pytest.raises(RepositoryError, match="leads out of the model repository"):
        model_folder.check_inside(server.repository, "doorway")
    with pytest.raises(RepositoryError):
        undeploy("doorway", server=server)
    assert "1" in (outside / "1" / "model.py").read_text()
    (server.repository / "doorway").unlink()


@pytest.mark.parametrize("make", ["nothing", "file", "empty"])
def test_folders_that_are_no_models(server: Triton, tmp_path: Path, make: str) -> None:
    folder = tmp_path / "thing"
    if make == "file":
        folder.write_text("not a folder")
    elif make == "empty":
        folder.mkdir()
    with pytest.raises(RepositoryError) as caught:
        deploy(folder, server=server)
    assert "thing" in caught.value.where


def test_two_deploys_at_once_both_end_whole(server: Triton, tmp_path: Path) -> None:
    folders = [write(tmp_path / str(i) / "race", i) for i in (1, 2)]
    errors: list[BaseException] = []

    def run(folder: Path) -> None:
        try:
            deploy(folder, server=server)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    text = (server.repository / "race" / "1" / "model.py").read_text()
    assert answer(server, "race") in (1, 2)
    assert f"[{int(answer(server, 'race'))}]" in text
    assert not staged(server)


def test_a_full_disk_changes_nothing(server: Triton, tmp_path: Path) -> None:
    folder = write(tmp_path / "large", 1)
    deploy(folder, server=server)
    write(folder, 2)
    with (folder / "1" / "weights.bin").open("wb") as file:
        file.truncate(1 << 42)  # a sparse file larger than any disk here
    with pytest.raises(RepositoryError, match="MiB free"):
        deploy(folder, server=server)
    assert answer(server, "large") == 1
    assert not staged(server)


def test_a_disk_that_fills_while_copying_changes_nothing(server: Triton, tmp_path: Path) -> None:
    """A file-size limit makes the copy fail half-way, as a full disk does."""
    import resource
    import signal

    folder = write(tmp_path / "halfway", 1)
    deploy(folder, server=server)
    write(folder, 2)
    (folder / "1" / "weights.bin").write_bytes(bytes(1 << 20))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(RepositoryError, match="could not be copied"):
            deploy(folder, server=server)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert answer(server, "halfway") == 1
    assert not staged(server)


def test_what_a_killed_deploy_left_is_cleared_by_the_next(server: Triton, tmp_path: Path) -> None:
    folder = write(tmp_path / "again", 1)
    deploy(folder, server=server)
    left = server.repository.parent / f".{server.repository.name}.staging" / "again@dead"
    left.mkdir()
    (left / "half").write_text("x")
    deploy(folder, server=server)
    assert not left.exists()


def test_poll_mode_takes_and_refuses_what_is_deployed(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    folder = write(tmp_path / "watched", 1)
    with Triton(tmp_path / "models", control="poll") as server:
        deploy(folder, server=server)
        write(folder, 2)
        deploy(folder, server=server)
        assert answer(server, "watched") == 2
        (folder / "1" / "model.py").write_text("def broken(:\n")
        with pytest.raises(LoadError, match="did not load"):
            deploy(folder, server=server)
        assert answer(server, "watched") == 2
        undeploy("watched", server=server)
        assert not server.ready("watched")


def test_control_mode_none_says_that_it_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    with Triton(tmp_path / "models", control="none") as server:
        with pytest.raises(ServerError, match="loads nothing after its start"):
            deploy(write(tmp_path / "late", 1), server=server)
        assert not (tmp_path / "models" / "late").exists()
