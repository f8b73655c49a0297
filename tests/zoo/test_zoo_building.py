"""Artefacts are built once, whole or not at all, and again when something they need changes."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from workbook import zoo
from workbook.zoo import builder
from workbook.zoo.builder import BuildError
from workbook.zoo.recipe import Recipe, make, place

SLOW = '''
import os, time
from pathlib import Path
from workbook.zoo.recipe import Recipe, make

def bake(target):
    """Write one half, wait while a file called `wait` is there, write the other half."""
    with target.open("w") as out:
        out.write("half")
        out.flush()
        with Path(os.environ["BAKED"]).open("a") as log:
            log.write("x")
        while Path(os.environ["WAIT"]).exists():
            time.sleep(0.02)
        out.write(" whole")

RECIPE = Recipe("bread", "bread", bake, "bread.txt", uses=())

if __name__ == "__main__":
    make(RECIPE, {"bread": RECIPE})
'''


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for everything that is built."""
    monkeypatch.setenv("WORKBOOK_HOME", str(tmp_path))
    monkeypatch.setenv("BAKED", str(tmp_path / "baked"))
    monkeypatch.setenv("WAIT", str(tmp_path / "wait"))
    return tmp_path


def recipe_from(file: Path) -> Recipe:
    spec = importlib.util.spec_from_file_location("bakery", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RECIPE  # type: ignore[no-any-return]


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_second_make_does_nothing(home: Path) -> None:
    (home / "bakery.py").write_text(SLOW)
    recipe = recipe_from(home / "bakery.py")
    first = make(recipe, {"bread": recipe})
    assert first.read_text() == "half whole"
    assert make(recipe, {"bread": recipe}) == first
    assert (home / "baked").read_text() == "x"


def test_a_changed_recipe_is_built_anew_and_the_old_one_goes(home: Path) -> None:
    source = home / "bakery.py"
    source.write_text(SLOW)
    recipe = recipe_from(source)
    first = make(recipe, {"bread": recipe})
    source.write_text(SLOW.replace(" whole", " other"))
    changed = recipe_from(source)
    second = make(changed, {"bread": changed})
    assert second.read_text() == "half other"
    assert not first.exists()


def test_a_key_depends_on_needs_and_packages(home: Path) -> None:
    (home / "bakery.py").write_text(SLOW)
    function = recipe_from(home / "bakery.py").function
    one = Recipe("one", "", function, "one.txt", uses=())
    two = Recipe("two", "", function, "two.txt", uses=(), needs=("one",))
    other = Recipe("one", "", function, "one.txt", uses=(), packages=("torch",))
    assert two.key({"one": one, "two": two}) != two.key({"one": other, "two": two})


@pytest.mark.server
@pytest.mark.quick
def test_a_killed_build_leaves_nothing_that_looks_built(home: Path) -> None:
    (home / "bakery.py").write_text(SLOW)
    recipe = recipe_from(home / "bakery.py")
    (home / "wait").touch()
    process = subprocess.Popen([sys.executable, str(home / "bakery.py")])
    wait_for((home / "baked").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    target = place(recipe, {"bread": recipe})
    assert not target.exists()
    (home / "wait").unlink()
    assert make(recipe, {"bread": recipe}).read_text() == "half whole"
    assert sorted(p.name for p in target.parent.parent.iterdir()) == sorted(
        ["lock", target.parent.name]
    )


@pytest.mark.server
def test_two_processes_at_once_build_once(home: Path) -> None:
    (home / "bakery.py").write_text(SLOW)
    (home / "wait").touch()
    both = [subprocess.Popen([sys.executable, str(home / "bakery.py")]) for _ in range(2)]
    wait_for((home / "baked").exists)
    time.sleep(0.5)  # by now the second process has reached the lock
    (home / "wait").unlink()
    assert [process.wait() for process in both] == [0, 0]
    assert (home / "baked").read_text() == "x"


@pytest.mark.server
def test_ctrl_c_stops_the_build_and_its_processes(home: Path) -> None:
    code = "from workbook import zoo; zoo.checkpoint('photo_cnn')"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    itself = psutil.Process(process.pid)
    wait_for(lambda: bool(itself.children()))
    workers = itself.children()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode != 0
    wait_for(lambda: not any(worker.is_running() for worker in workers), 10)
    assert not place(zoo.RECIPES["photo_cnn"], zoo.RECIPES).exists()


@pytest.mark.server
@pytest.mark.parametrize("name", zoo.RECIPES)
def test_a_narrow_terminal_shows_the_time_and_the_whole_sentence(name: str) -> None:
    sentences = "\n".join([f"{name}: {zoo.RECIPES[name].sentence} (80 %)", "two: another (5 %)"])
    console = Console(width=80, file=io.StringIO(), force_terminal=True)
    progress = builder.progress_bar(console)
    progress.add_task(sentences, total=12)
    with console.capture() as shown:
        console.print(progress.get_renderable())
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in shown.get().splitlines()]
    assert re.search(r" 0/12 [-\d]:[-\d]+:[-\d]+ ", lines[0]), lines
    text = " ".join(line[lines[0].index(name[0], 30) :] for line in lines)
    assert text.split() == sentences.split(), lines


@pytest.mark.server
def test_a_failed_build_says_which_and_where_its_log_is(home: Path) -> None:
    in_the_way = home / ".workbook" / "zoo" / "iris_onnx" / "lock"
    in_the_way.mkdir(parents=True)
    with pytest.raises(BuildError) as caught:
        zoo.checkpoint("iris_onnx")
    assert "iris_onnx could not be built" in caught.value.what
    assert "Is a directory" in caught.value.what
    assert "Is a directory" in Path(caught.value.where).read_text()
    assert caught.value.todo


@pytest.mark.server
def test_a_place_that_cannot_be_written_is_named(home: Path) -> None:
    (home / ".workbook").write_text("a file")
    with pytest.raises(BuildError, match="cannot be written") as caught:
        zoo.checkpoint("iris_onnx")
    assert str(home) in caught.value.where


@pytest.mark.server
@pytest.mark.quick
def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BuildError, match="no artefact called 'digits_cnm'") as caught:
        zoo.checkpoint("digits_cnm")
    assert "digits_cnn" in caught.value.todo


@pytest.mark.server
def test_what_is_built_is_found_without_importing_anything_heavy() -> None:
    zoo.checkpoint("digits_openvino")
    code = (
        "import sys, time; began = time.perf_counter()\n"
        "from workbook import zoo\n"
        "zoo.checkpoint('digits_openvino')\n"
        "heavy = {'numpy', 'torch', 'sklearn', 'rich', 'onnx'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- the hub --------------------------------------------------------------------------------------


def hub_run(code: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process that looks for hub checkpoints in `cache` and has no network."""
    env = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    program = "from workbook import zoo\ntry:\n    {}\nexcept zoo.BuildError as e:\n    print(e)"
    return subprocess.run(
        [sys.executable, "-c", program.format(code)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.server
def test_a_hub_checkpoint_on_this_disk_takes_the_place_of_ours(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--someone--digits" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"weights")
    refs = tmp_path / "models--someone--digits" / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    code = "print(zoo.checkpoint('image_classifier', hub='someone/digits'))"
    assert hub_run(code, tmp_path).stdout.strip() == str(snapshot)


@pytest.mark.server
@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("zoo.checkpoint('image_classifier', hub='someone/else')", "cannot be reached"),
        ("zoo.checkpoint('image_classifier', hub='a/b/c')", "is not the name of a checkpoint"),
        ("zoo.checkpoint('digits_cnn', hub='someone/else')", "is not a Hugging Face checkpoint"),
    ],
)
def test_a_hub_checkpoint_that_cannot_be_had_says_why(
    call: str, words: str, tmp_path: Path
) -> None:
    printed = hub_run(call, tmp_path).stdout
    assert words in printed
    assert "to do:" in printed
