"""What the code of a submitted model can see and reach from its process's own sandbox."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from grader import sandbox
from grader.sandbox import seccomp
from grader.sandbox.mounts import course

pytestmark = pytest.mark.server

CONFIG = """\
backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "told" data_type: TYPE_STRING dims: [ 1 ] }
"""
#: Returns the value of each expression, or the exception that it raises.
SPY = """\
import ctypes
import json
import os
import socket
import sys
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


def kills():
    reached = []
    for pid in [*range(2, 400), -1]:
        try:
            os.kill(pid, 0)
            reached.append(pid)
        except OSError:
            pass
    return reached


def call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    return getattr(libc, name)(*arguments)


class TritonPythonModel:
    def execute(self, requests):
        told = {{}}
        for name, text in {questions!r}.items():
            try:
                told[name] = eval(text)
            except Exception as error:
                told[name] = f"{{type(error).__name__}}: {{error}}"
        answer = np.array([json.dumps(told, default=str).encode()], dtype=object)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("told", answer)]) for _ in requests]
"""
QUESTIONS = {
    "processes": "sorted(p for p in os.listdir('/proc') if p.isdigit())",
    "kills": "kills()",
    "shared memory": "os.listdir('/dev/shm')",
    "region": "Path('/proc/self/cmdline').read_text().replace('\\0', ' ').split()[2]",
    "repository": "sorted(p.name for p in Path(__file__).parents[2].iterdir())",
    "descriptors": "[os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
    " if os.path.exists(f'/proc/self/fd/{n}')]",
    "variables": "[name for name in os.environ if 'JAIL' in name or 'FORK' in name]",
    "connects": "str(socket.create_connection(('127.0.0.1', 8000), 2))",
    "own file": "open(__file__, 'a')",
    "root": "open('/planted', 'w')",
    "packages": "open(np.__file__, 'a')",
    "space": "Path('/tmp/big').write_bytes(bytes(80 << 20))",
    "capabilities": "[line.split()[1] for line in open('/proc/self/status') if 'CapEff' in line]",
    "namespace": "call('unshare', 0x10000000)",
    "mount": "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
    "trace": "call('ptrace', 16, 2, 0, 0)",
    "kernel": "open('/proc/sys/kernel/ns_last_pid', 'w')",
}
#: Serves a repository in a sandbox, and prints what its models tell.
PROGRAM = """\
import json
import sys
from pathlib import Path

import httpx

from workbook.common.errors import WorkbookError
from workbook.server import Triton

repository, filter_file, *names = sys.argv[1:]
told = {}
with Triton(repository, http=8000, grpc=8001, metrics=8002, jail=Path(filter_file)) as server:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
    for name in names:
        try:
            server.load(name)
            answer = httpx.post(f"{server.url}/v2/models/{name}/infer", json=body, timeout=60)
            outputs = answer.json().get("outputs")
            told[name] = json.loads(outputs[0]["data"][0]) if outputs else answer.json()
        except (WorkbookError, httpx.HTTPError) as error:
            told[name] = f"{type(error).__name__}: {error}"
    if names == ["other", "spy"]:  # a copy of it, whose files come with the request to load it
        source = Path(repository, "spy", "1", "model.py").read_bytes()
        config = server.config("spy") | {"name": "copy"}
        server.load("copy", config=config, files={"file:1/model.py": source})
        answer = httpx.post(f"{server.url}/v2/models/copy/infer", json=body, timeout=60)
        told["copy"] = json.loads(answer.json()["outputs"][0]["data"][0])
        server.unload("copy")
    alive = server.live()
    index = server.index() if alive else []
    told["ready"] = [entry["name"] for entry in index if entry.get("state") == "READY"]
    told["log"] = server.log_text()
print(json.dumps(told))
"""


def serve(
    home: Path,
    models: dict[str, str],
    *names: str,
    config: str = "",
    filter_program: bytes | None = None,
) -> dict[str, Any]:
    """Serve Python models in a sandbox, send each a request, and return what they answered."""
    home.chmod(0o755)
    for name, source in models.items():
        (home / "models" / name / "1").mkdir(parents=True, exist_ok=True)
        (home / "models" / name / "1" / "model.py").write_text(source)
        (home / "models" / name / "config.pbtxt").write_text(CONFIG + config)
    program, filter_file = home / "program.py", home / "filter"
    program.write_text(PROGRAM)
    filter_file.write_bytes(filter_program or seccomp.filter_bytes() or b"")
    bound, environment = course()
    outcome = sandbox.run(
        [sys.executable, str(program), str(home / "models"), str(filter_file), *names],
        read_only={**bound, **{str(p): p for p in (home / "models", program, filter_file)}},
        environment=environment,
        limits=sandbox.Limits(wall_s=240, cpu_s=240, memory_bytes=4 << 30, output_bytes=16 << 20),
        nesting=True,
    )
    assert outcome.code == 0, outcome
    answers: dict[str, Any] = json.loads(outcome.stdout)
    return answers


@pytest.fixture(
    scope="module",
    params=["", "os.environ.get('x')", "import torch"],
    ids=["a copy", "a process of its own", "a copy with torch"],
)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("home")
    asked = QUESTIONS | {"models": f"os.listdir({str(home / 'models')!r})"}
    source = SPY.format(questions=asked) + "\n\n" + request.param + "\n"
    spies = {"spy": source, "other": SPY.format(questions=QUESTIONS)}
    answers = serve(home, spies, "other", "spy")
    assert isinstance(answers["spy"], dict), answers
    return answers["spy"] | {"copy": answers["copy"]}


@pytest.mark.quick
def test_a_model_sees_its_own_process_only(answers: dict[str, Any]) -> None:
    assert answers["processes"] == ["1"]
    assert answers["kills"] in ([], [-1])
    assert "Function not implemented" in str(answers["trace"]) or answers["trace"] == -1


@pytest.mark.quick
def test_a_model_sees_its_own_memory_and_folder_only(answers: dict[str, Any]) -> None:
    assert answers["shared memory"] == [answers["region"]]
    assert answers["repository"] == ["spy"]
    inherited = [
        name for name in answers["descriptors"] if not name.endswith((answers["region"], "null"))
    ]
    assert all(name.endswith("triton.log") for name in inherited), inherited
    assert answers["variables"] == []


@pytest.mark.quick
def test_a_copy_whose_files_come_with_the_request_sees_as_little(answers: dict[str, Any]) -> None:
    """`Probe.copied` makes such copies. They see neither the repository nor other copies."""
    copy = answers["copy"]
    assert answers["models"] == ["spy"]
    assert copy["models"] == []
    assert len([name for name in copy["repository"] if name.startswith("folder")]) == 1
    assert copy["processes"] == ["1"]
    assert "Read-only" in copy["own file"]
    assert "No space left" in copy["space"]


@pytest.mark.quick
def test_a_model_has_no_network(answers: dict[str, Any]) -> None:
    assert "unreachable" in answers["connects"]


@pytest.mark.parametrize("what", ["own file", "root", "packages", "kernel"])
def test_a_model_writes_to_nothing_but_its_own_scratch(answers: dict[str, Any], what: str) -> None:
    assert "Read-only" in answers[what] or "Permission denied" in answers[what]


def test_what_a_model_writes_is_limited(answers: dict[str, Any]) -> None:
    assert "No space left" in answers["space"]


def test_a_model_has_no_rights_and_gets_none(answers: dict[str, Any]) -> None:
    assert answers["capabilities"] == ["0" * 16]
    assert answers["namespace"] == -1
    assert answers["mount"] == -1


UNLOADS = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        pb_utils.unload_model("good")
        pb_utils.load_model("secret")
"""
GOOD = """\
class TritonPythonModel:
    pass
"""


def test_a_model_cannot_load_or_unload_models(tmp_path: Path) -> None:
    """The refusal may crash Triton 24.10; then the judge counts the server as lost. Or it may end
    the model's own process.
    """
    answers = serve(tmp_path, {"good": GOOD, "secret": GOOD, "unloads": UNLOADS}, "good", "unloads")
    if answers["ready"]:
        assert answers["ready"] == ["good", "unloads"]
        refused = "a model cannot load or unload models here"
        assert re.search(f"{refused}|is not healthy", str(answers["unloads"]))
    else:
        assert "Signal" in answers["log"]


def test_an_environment_of_a_model_s_own_is_not_run(tmp_path: Path) -> None:
    """The Python backend would unpack it, and source its `activate`, outside of any sandbox of the
    model. Such a model does not load."""
    activate = tmp_path / "models" / "spy" / "env" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text("touch /dev/shm/planted; echo PLANTED >&2\n")
    (tmp_path / "models" / "spy" / "env" / "lib").mkdir()
    config = (
        'parameters { key: "EXECUTION_ENV_PATH" '
        'value { string_value: "$$TRITON_MODEL_DIRECTORY/env" } }\n'
    )
    spies = {"spy": SPY.format(questions=QUESTIONS)}
    answers = serve(tmp_path, spies, "spy", config=config)
    assert "PLANTED" not in answers["log"]
    assert "EXECUTION_ENV_PATH is not used here" in answers["log"]
    assert "Failed to get the canonical path for" in answers["spy"]


def test_without_its_sandbox_no_model_runs(tmp_path: Path) -> None:
    """The filter for system calls is no filter, so the last step of making the sandbox fails."""
    answers = serve(tmp_path, {"good": GOOD}, "good", filter_program=b"no filter")
    assert "could not get a sandbox of its own" in answers["good"]
    assert "The sandbox of a stub could not be made" in answers["log"]
