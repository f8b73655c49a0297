"""The judge's server starts only stubs, whatever a submission's names and config say.

Admission (tests/vocabulary/test_admission.py) refuses almost all of these models. Here they are
served without admission, on a server like the judge's: in a sandbox, with one more sandbox per
model instance.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from grader import sandbox
from grader.sandbox import seccomp
from grader.sandbox.mounts import course
from grader.vocabulary import define
from tests import config_strings
from workbook.assignments import find
from workbook.common import paths
from workbook.server.explain import dangerous_folder

pytestmark = pytest.mark.server

CODE = """\
class TritonPythonModel:
    def execute(self, requests):
        return []
"""
PYTHON = """\
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
"""
ENSEMBLE = """\
platform: "ensemble"
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
ensemble_scheduling { step { model_name: "good" model_version: -1
  input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }
"""
#: A model of the course for each backend that an assignment admits.
COURSE = {
    "fil": "forest_xgboost",
    "onnxruntime": "digits_onnx",
    "openvino": "digits_openvino",
    "pytorch": "digits_torch",
    "tensorrt": "digits_tensorrt",
}
#: The fields whose text reaches a stub's command line.
ON_THE_LINE = (("default_model_filename",), ("instance_group", "name"))
#: All processes of the server's sandbox. (The name of a fork server's copy has its number. A
#: program that has not begun yet has the name of its parent.)
KNOWN = {"bwrap", "python", "python3", "tritonserver", "forkserver", "start_stub", "stub", "jail"}
KNOWN |= {"triton_python_b", "lscpu", "ldconfig"}  # packages of stand-ins ask for CPU and libraries
LIBRARY = """\
#include <stdio.h>
__attribute__((constructor)) static void planted(void) { fclose(fopen("planted", "w")); }
"""

#: Loads all models of a repository, and reports what it saw.
PROGRAM = """\
import json
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
from tritonclient.utils import InferenceServerException

from workbook.server import Triton

repository, filter_file, trap, *last = sys.argv[1:]
names, loaded, processes = set(), {}, set()
ended = threading.Event()


def watch():
    while not ended.wait(0.002):
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    processes.add(Path("/proc", entry, "comm").read_text().strip())
                except OSError:
                    pass


environment = {"PATH": trap + ":" + os.environ["PATH"]}
watcher = threading.Thread(target=watch)
with Triton(
    repository,
    http=8000,
    grpc=8001,
    metrics=8002,
    jail=Path(filter_file),
    environment=environment,
) as server:
    def load(name):
        try:
            url = f"{server.url}/v2/repository/models/{quote(name, safe='')}/load"
            loaded[name] = client.post(url, json={}).text
            if not loaded[name]:
                client.post(url.removesuffix("load") + "unload", json={})
        except httpx.HTTPError as error:
            loaded[name] = f"{type(error).__name__}: {error}"

    watcher.start()
    with httpx.Client(timeout=60) as client, ThreadPoolExecutor(4) as pool:
        names = [p.name for p in Path(repository).iterdir() if p.name not in last]
        list(pool.map(load, ["good", *sorted(names)]))
        with server.grpc_client() as grpc:  # HTTP's address takes no such names
            for name in last:
                try:
                    loaded[name] = grpc.load_model(name, client_timeout=60) or ""
                except InferenceServerException as error:
                    loaded[name] = str(error)
    cwd = os.listdir(server.log.parent / "cwd")
    made = [str(p) for home in ("/tmp", "/dev/shm") for p in Path(home).glob("**/planted")]
    alive = server.live()
    log = server.log_text()
    ended.set()
    watcher.join()
told = {
    "loaded": loaded,
    "processes": sorted({re.sub(r"[ \\d]*$", "", name) for name in processes}),
    "cwd": cwd,
    "made": made,
    "shells": Path("/tmp/shells").read_text() if Path("/tmp/shells").exists() else "",
    "alive": alive,
    "log": log[-20000:],
}
print(json.dumps(told))
"""


class Repository:
    """A model repository for the test.

    Attributes:
        home: its folder.
        models: what each model tries, by its name.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.models: dict[str, str] = {}

    def add(self, what: str, config: str, files: dict[str, Path | str], name: str = "") -> Path:
        """Add a model; a file is given by its text, or as another file."""
        name = name or f"m{len(self.models)}"
        folder = self.home / name
        (folder / "1").mkdir(parents=True)
        (folder / "config.pbtxt").write_text(config)
        for place, source in files.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, Path):
                os.link(source, folder / place)
            else:
                (folder / place).write_text(source)
        danger = dangerous_folder(name, folder)
        if danger is not None and danger.rule != "no-model-py":
            shutil.rmtree(folder)  # it would end the server: tests/server/test_explain.py
        else:
            self.models[name] = what
        return folder


def base(backend: str, home: Path) -> tuple[str, dict[str, Path | str]]:
    """A config without a name, and the files, of a good model on a backend."""
    if backend == "ensemble":
        return ENSEMBLE, {}
    if backend == "vllm":
        return 'backend: "vllm"\ninstance_group { kind: KIND_MODEL }\n', {"1/model.json": "{}"}
    if backend not in COURSE:
        return PYTHON, {"1/model.py": CODE}
    folder = home / COURSE[backend]
    shutil.copytree(paths.repository() / COURSE[backend], folder)
    config = text_format.Parse((folder / "config.pbtxt").read_text(), config_strings.config())
    for name in ("name", "instance_group", "version_policy", "model_warmup"):
        config.ClearField(name)
    config.instance_group.add(count=1, kind="KIND_CPU")
    files = [path for path in (folder / "1").rglob("*") if path.is_file()]
    labels = {"labels.txt": folder / "labels.txt"} if (folder / "labels.txt").exists() else {}
    held: dict[str, Path | str] = {str(path.relative_to(folder)): path for path in files}
    return text_format.MessageToString(config), held | labels


def fill(repository: Repository, home: Path) -> None:
    """Put texts into each string of the config, for each backend. A string that reaches a stub's
    command line gets all texts for Python models, and every fourth text for other backends. Any
    other string gets one text, in turn.
    """
    backends = {name for assignment in find() for name in define.backends(assignment.short)}
    for number, backend in enumerate(sorted(backends)):
        config, files = base(backend, home)
        repository.add(f"{backend} as it is", config, files)
        for count, place in enumerate(config_strings.places()):
            texts = config_strings.ODD
            if backend != "python" or place not in ON_THE_LINE:
                every = 4 if place in ON_THE_LINE else len(texts)
                texts = texts[(count + number) % every :: every]
            for text in texts:
                changed = text_format.Parse(config, config_strings.config())
                config_strings.put(changed, place, text)
                held = dict(files)
                if place == ("default_model_filename",) and "/" not in text and text != "..":
                    held[f"1/{text}"] = next(iter(files.values()), "")
                what = f"{backend} {'.'.join(place)} {text!r}"
                repository.add(what, text_format.MessageToString(changed), held)


def fill_with_programs(repository: Repository, home: Path) -> list[str]:
    """Models that bring a program or a library, and names of models; returns their names."""
    before = {*repository.models}
    files: dict[str, Path | str] = {"1/model.py": CODE}
    for text in config_strings.ODD:
        if "/" not in text and text != "..":
            repository.add(f"name {text!r}", PYTHON, files, name=text)
    stub = f"#!/bin/sh\ntouch /tmp/{config_strings.MARKER} {config_strings.MARKER}\nexit 1\n"
    own = repository.add("a stub", PYTHON, {**files, "triton_python_backend_stub": stub})
    (own / "triton_python_backend_stub").chmod(0o755)
    library = home / "library.so"
    source = home / "library.c"
    source.write_text(LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    for place in ("1/libtriton_python.so", "libtriton_python.so", "1/batchstrategy.so"):
        repository.add(place, PYTHON, {**files, place: library})
    path = repository.home / "by_path" / "1" / "data"
    parameter = 'parameters {{ key: "{}" value {{ string_value: "{}" }} }}\n'
    by_path = PYTHON + parameter.format("TRITON_BATCH_STRATEGY_PATH", path)
    repository.add("a library's path", by_path, {**files, "1/data": library}, name="by_path")
    runtime = PYTHON + 'runtime: "libother.so"\n'
    repository.add("a runtime", runtime, {**files, "1/libother.so": library})
    activate = home / "activate"
    activate.write_text(stub)
    packed = home / "env.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(activate, "bin/activate")
        archive.add(activate, f"../../../../../../tmp/{config_strings.MARKER}")
    for path_of_it in ("$$TRITON_MODEL_DIRECTORY/env.tar.gz", "$$TRITON_MODEL_DIRECTORY/env"):
        repository.add(
            path_of_it,
            PYTHON + parameter.format("EXECUTION_ENV_PATH", path_of_it),
            {**files, "env.tar.gz": packed, "env/bin/activate": activate, "env/lib/x": "x"},
        )
    where = str(repository.home / "as_backend" / "1" / "onnxruntime").lstrip("/")
    repository.add(
        "a backend of its own",
        PYTHON.replace('"python"', f'"../../../../../../{where}"'),
        {**files, "1/onnxruntime/model.py": CODE},
        name="as_backend",
    )
    return sorted({*repository.models} - before)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("home")
    home.chmod(0o755)
    repository = Repository(home / "models")
    repository.add("good", PYTHON, {"1/model.py": CODE}, name="good")
    fill(repository, home)
    last = fill_with_programs(repository, home)
    repository.add("good at the end", PYTHON, {"1/model.py": CODE}, name="good_at_the_end")
    trap = home / "trap"
    trap.mkdir()
    (trap / "bash").write_text('#!/bin/sh\necho "$@" >> /tmp/shells\nexec /bin/bash "$@"\n')
    (trap / "bash").chmod(0o755)
    program, filter_file = home / "program.py", home / "filter"
    program.write_text(PROGRAM)
    filter_file.write_bytes(seccomp.filter_bytes() or b"")
    bound, environment = course()
    own = (repository.home, trap, program, filter_file)
    words = [repository.home, filter_file, trap, *last, "good_at_the_end"]
    outcome = sandbox.run(
        [sys.executable, str(program), *map(str, words)],
        read_only={**bound, **{str(path): path for path in own}},
        environment=environment,
        limits=sandbox.Limits(wall_s=280, cpu_s=280, memory_bytes=6 << 30, output_bytes=16 << 20),
        nesting=True,
    )
    assert outcome.code == 0, outcome
    told: dict[str, Any] = json.loads(outcome.stdout)
    told["about"] = repository.models
    return told


def test_no_name_and_no_string_runs_anything(served: dict[str, Any]) -> None:
    assert served["shells"] == ""
    assert served["cwd"] == []
    assert served["made"] == []
    assert {*served["processes"]} <= KNOWN


def test_the_models_were_asked_for_and_the_server_still_serves(served: dict[str, Any]) -> None:
    loaded = served["loaded"]
    assert {*loaded} == {*served["about"]}
    assert served["alive"]
    assert loaded["good"] == loaded["good_at_the_end"] == ""


def test_where_a_text_would_reach_the_line_it_is_refused(served: dict[str, Any]) -> None:
    """The rule in native/no_shell.c itself refuses it, not only an earlier rule."""
    refused = [
        served["about"][name]
        for name, answer in served["loaded"].items()
        if "the model's process was not started: a name on its command line" in answer
    ]
    for backend, least in (("python", 12), ("onnxruntime", 2), ("fil", 2)):
        found = [what for what in refused if what.startswith(f"{backend} instance_group.name")]
        assert len(found) >= least, found
    assert any(what.startswith("python default_model_filename") for what in refused)
    assert any(what.startswith("name ") for what in refused)
    assert "a stub" in refused


def test_no_library_of_a_model_is_loaded(served: dict[str, Any]) -> None:
    answers = {served["about"][name]: answer for name, answer in served["loaded"].items()}
    for what in ("1/libtriton_python.so", "libtriton_python.so", "1/batchstrategy.so", "a runtime"):
        assert "a library that comes with a model" in answers[what], what
    assert "a library that comes with a model" in answers["a library's path"]
    assert "Failed to get the canonical path" in answers["$$TRITON_MODEL_DIRECTORY/env"]
    assert answers["a backend of its own"]
