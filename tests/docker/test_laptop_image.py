"""The laptop image, as far as it can be tested without a container engine.

`make image-test` builds and tries the image with an engine (docs/operators.md has the results). The
tests here check the Dockerfile, what it copies, what it starts (in a plain folder with only these
files), its health check, and the grader under the rules of a container, which seccomp filters and
mounts of the kernel imitate.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import psutil
import pytest
from laptop_files import HOME, command, context, copied, ignored, instructions, value

from grader.sandbox import bubblewrap
from workbook.common import paths
from workbook.lab import doctor

DOCKERFILES = sorted(name for name in context() if Path(name).name == "Dockerfile")


def program(name: str) -> ModuleType:
    """A program of docker/laptop as a module."""
    spec = importlib.util.spec_from_file_location(name, HOME / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# -- the Dockerfile and what it copies -------------------------------------------------------------


@pytest.mark.server
@pytest.mark.parametrize("file", DOCKERFILES)
def test_hadolint_finds_nothing(file: str) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    words = [linter, "--no-color", "--config", "docker/hadolint.yaml", file]
    done = subprocess.run(words, cwd=paths.root(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_base_is_pinned_and_the_user_is_nobody_special() -> None:
    (base,) = [words for name, words in instructions() if name == "ARG"]
    assert re.fullmatch(r"BASE=\S+@sha256:[0-9a-f]{64}", base)
    assert value("USER") == "1000"
    assert [words for name, words in instructions() if name == "FROM"][-1].endswith("AS student")


def test_it_has_the_programs_that_lectures_call() -> None:
    packages = {package for _, package, use in doctor._PROGRAMS if "lecture" in use}
    first = next(words for name, words in instructions() if name == "RUN")
    assert {"curl", "openssl"} <= packages <= {*first.split()}


@pytest.mark.server
def test_students_get_no_solutions_no_judge_and_no_hidden_checks() -> None:
    files = set(copied("student").values())
    for secret in ("solutions/", "grader/judge/", "tests/"):
        assert not [name for name in files if name.startswith(secret)]
    assert not [name for name in files if re.search(r"/(hidden|mutants|attacks)\.py$", name)]
    assert {"lectures/00__start/00__start.ipynb", "assignments/a2__forest/a2.ipynb"} <= files
    assert {
        "grader/vocabulary/notebook.py",
        "assignments/a2__forest/checks.py",
        "workbook/lab/settings/overrides.json",
    } <= files
    hidden = set(copied("instructor").values())
    assert {"solutions/a2__forest/a2.py", "solutions/a2__forest/hidden.py", "Makefile"} <= hidden


@pytest.mark.server
def test_what_a_machine_holds_stays_out_of_every_image() -> None:
    hidden = ignored()
    for name in (
        ".git/config",
        ".venv/bin/python",
        ".workbook/zoo/a",
        "work/lectures/00__start/00__start.ipynb",
        "grader/work/secret",
        "grader/work/gradebook.db",
        "assignments/a2__forest/__pycache__/checks.pyc",
        "model_repository/digits_onnx/1/model.onnx",
        "model_repository/forest/config.pbtxt",
        "assignments/a2__forest/a2__forest.zip",
    ):
        assert hidden.match_file(name), name
    # .dockerignore hides no file that git tracks.
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=paths.root(), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert not [name for name in tracked if hidden.match_file(name)]


def test_a_change_of_a_text_is_a_change_of_the_last_layers_only() -> None:
    texts = re.compile(r"(README|CHANGELOG|BENCHMARKS)\.md|assignments|lectures|grader/")
    last = [words for name, words in instructions() if name == "COPY"][-4:]
    assert all(texts.match(words) for words in last), last
    earlier = [words for name, words in instructions() if name == "COPY"][:-4]
    until_student = [words for words in earlier if "lectures" in words or "assignments" in words]
    assert len(until_student) == 2  # the instructor's own two


# -- what the image starts, in a plain folder ------------------------------------------------------


class Started:
    """The image's command, running in a folder with the student's files and one model."""

    def __init__(self, home: Path, settings: Path) -> None:
        self.home = home
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.jupyter = f"http://127.0.0.1:{port}"
        ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON_", "WORKBOOK_"))}
        self.environment = {
            **kept,
            "WORKBOOK_HOME": str(home),
            "PYTHONPATH": str(home),
            "JUPYTER_CONFIG_DIR": str(settings),
            "JUPYTER_CONFIG_PATH": str(home / "etc"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        self.process = subprocess.Popen(
            [*command(), "--port", str(port), *ports],
            cwd=home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output = ""
        assert self.process.stdout is not None
        while not (found := re.search(r"/lab\S*token=(\w+)", self.output)):
            line = self.process.stdout.readline()
            assert line, self.output
            self.output += line
        self.token = found[1]
        status = subprocess.run(
            ["workbook", "status", "--json"],
            cwd=home,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        self.triton = str(json.loads(status.stdout)["url"])

    def healthy(self) -> subprocess.CompletedProcess[str]:
        """The health check, with this folder's addresses in place of the container's."""
        words = json.loads(value("HEALTHCHECK").partition("CMD ")[2])
        addresses = {"WORKBOOK_JUPYTER": f"{self.jupyter}/api", "TRITON_URL": self.triton}
        return subprocess.run(
            words,
            cwd=self.home,
            env={**self.environment, **addresses},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    home = tmp_path_factory.mktemp("image") / "course"
    for place, name in copied("student").items():
        target = (
            home / ("etc" if place.startswith("/etc") else "") / place.removeprefix("/etc/jupyter/")
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.root() / name, target)
    shutil.copytree(paths.root() / "model_repository/square", home / "model_repository/square")
    running = Started(home, tmp_path_factory.mktemp("settings"))
    try:
        yield running
    finally:
        running.process.terminate()
        running.process.communicate(timeout=120)


@pytest.mark.server
@pytest.mark.timeout(600)
def test_the_command_starts_the_course_and_ends_on_sigterm(started: Started) -> None:
    assert re.search(r"\d+ files of the course were copied into work/", started.output)
    deadline = time.monotonic() + 120
    while (check := started.healthy()).returncode != 0:
        assert time.monotonic() < deadline, check.stdout + check.stderr
        time.sleep(0.5)
    assert check.stdout == "JupyterLab and the server answer.\n"

    # It can be reached from every address of the container's network, and requires the token.
    with httpx.Client(base_url=started.jupyter, timeout=60) as client:
        assert client.get("/api/contents").status_code == 403
        answer = client.get("/api/contents", params={"token": started.token})
        assert {one["name"] for one in answer.json()["content"]} >= {"lectures", "assignments"}
    listening = {
        c.laddr.ip
        for process in [psutil.Process(started.process.pid), *_children(started)]
        for c in process.net_connections("tcp")
        if c.status == psutil.CONN_LISTEN
        and c.laddr.port == int(started.jupyter.rpartition(":")[2])
    }
    assert listening == {"0.0.0.0"}

    children = _children(started)
    started.process.send_signal(signal.SIGTERM)
    started.process.wait(timeout=120)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    ended = started.healthy()
    assert ended.returncode == 1
    assert "JupyterLab does not answer" in ended.stdout
    assert "The server does not answer" in ended.stdout


@pytest.mark.server
def test_the_students_files_are_enough_for_an_assignments_checks(started: Started) -> None:
    code = (
        "import sys\n"
        "from grader.vocabulary.notebook import check, hint\n"
        "print(hint('a2.forest'))\n"
        "ours = [m for name, m in sys.modules.items() if name.startswith('grader')]\n"
        "print(*(m.__file__ for m in ours if m.__file__))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=started.home / "assignments" / "a2__forest",
        env=started.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1. ")
    imported = done.stdout.splitlines()[-1].split()
    assert f"{started.home}/assignments/a2__forest/checks.py" in imported
    assert all(file.startswith(f"{started.home}/") for file in imported)


def _children(started: Started) -> list[psutil.Process]:
    return psutil.Process(started.process.pid).children(recursive=True)


# -- the grader under the rules of a container -----------------------------------------------------

#: Calls that a sandbox needs, and that Docker allows only to containers with CAP_SYS_ADMIN.
DOCKER_FORBIDS = {"mount", "umount2", "pivot_root", "unshare", "setns", "sethostname", "clone3"}
REFUSED = ("no sandbox",)
PROBE = """
from grader import sandbox
found = sandbox.protection()
print(found.level)
print(f"{found.error.todo} {found.error.where}" if found.error else "")
"""


class Comparison(ctypes.Structure):
    """libseccomp's struct scmp_arg_cmp."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


def kernel_filter(profile: dict[str, Any], forbidden: set[str], to: Path) -> None:
    """Compile a profile with libseccomp, as a container engine does, to a file for bubblewrap.

    Args:
        profile: as in docker/laptop/seccomp.json.
        forbidden: calls to leave out; clone is then allowed only without new namespaces.
        to: the file.
    """
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("needs libseccomp (Debian, Ubuntu: sudo apt install libseccomp2)")
    library.seccomp_init.restype = ctypes.c_void_p
    allow = 0x7FFF0000
    context = ctypes.c_void_p(library.seccomp_init(0x00050000 | profile["defaultErrnoRet"]))
    (rule,) = profile["syscalls"]
    for name in set(rule["names"]) - forbidden:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:  # a call that this libseccomp does not know
            continue
        if name == "clone" and forbidden:
            plain = Comparison(0, 7, 0x7E020000, 0)  # SCMP_CMP_MASKED_EQ: no new namespace
            added = library.seccomp_rule_add_array(
                context, ctypes.c_uint(allow), number, 1, ctypes.byref(plain)
            )
        else:
            added = library.seccomp_rule_add(context, ctypes.c_uint(allow), number, 0)
        assert added == 0, name
    with to.open("wb") as file:
        assert library.seccomp_export_bpf(context, file.fileno()) == 0
    library.seccomp_release(context)


@pytest.mark.server
@pytest.mark.parametrize(
    ("forbidden", "masked", "levels"),
    [
        (DOCKER_FORBIDS, True, REFUSED),
        (set(), True, REFUSED),
        (set(), False, ("full", "good")),
    ],
    ids=["Docker's own rules", "our profile, masked system paths", "our profile, all system paths"],
)
def test_in_a_container_the_grader_says_its_level_and_how_to_get_a_better_one(
    forbidden: set[str], masked: bool, levels: tuple[str, ...], tmp_path: Path
) -> None:
    """A container is imitated: its filter, its /proc of which parts are covered, Podman's mark."""
    profile = json.loads((HOME / "seccomp.json").read_text("utf-8"))
    kernel_filter(profile, forbidden, tmp_path / "filter")
    cover = ("--ro-bind", "/dev/null", "/proc/keys") if masked else ()
    outer = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", *cover]
    with (tmp_path / "filter").open("rb") as rules, (tmp_path / "mark").open("w+b") as mark:
        outer += ["--tmpfs", "/run", "--file", str(mark.fileno()), "/run/.containerenv"]
        outer += ["--seccomp", str(rules.fileno())]
        done = subprocess.run(
            [bubblewrap.program(), *outer, "--", sys.executable, "-c", PROBE],
            pass_fds=(rules.fileno(), mark.fileno()),
            cwd=paths.root(),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    sentence, todo = done.stdout.split("\n", 1)
    assert sentence.startswith(levels), done.stdout
    if levels == REFUSED:
        for option in ("seccomp=docker/laptop/seccomp.json", "systempaths=unconfined"):
            assert f"--security-opt {option}" in todo
        assert ("mount proc" in todo) == (not forbidden)
    else:
        assert todo.strip() == ""


def test_the_profile_is_built_from_the_graders_own_list() -> None:
    written = program("write_seccomp")
    assert (HOME / "seccomp.json").read_text("utf-8") == written.text(), (
        "run python docker/laptop/write_seccomp.py"
    )
    (rule,) = written.profile()["syscalls"]
    assert {*rule["names"]} > DOCKER_FORBIDS
    assert not {"bpf", "init_module", "kexec_load", "reboot", "keyctl", "io_uring_setup"} & {
        *rule["names"]
    }


# -- smaller packages ------------------------------------------------------------------------------

OPENVINO_SESSION = """
import numpy as np, onnxruntime_ep_openvino, pathlib
import onnxruntime as ort
from workbook.backends.onnxruntime import accelerators, plugins

providers = [(accelerators.OPENVINO, {}), ("CPUExecutionProvider", {})]
model = pathlib.Path("model_repository/digits_onnx/1/model.onnx")
session = plugins.open_session(model, ort.SessionOptions(), providers)
print(onnxruntime_ep_openvino.__file__)
print(session.get_providers()[0])
print(session.run(None, {session.get_inputs()[0].name: np.ones((2, 1, 8, 8), np.float32)})[0].shape)
print([x.split()[-1] for x in open("/proc/self/maps") if "libopenvino.so" in x][0])
"""


@pytest.mark.server
def test_openvino_is_kept_once_for_two_packages(tmp_path: Path) -> None:
    """The plug-in for ONNX Runtime brings the libraries that the package openvino has, and runs."""
    spec = importlib.util.find_spec("onnxruntime_ep_openvino")
    assert spec is not None
    assert spec.origin is not None
    packages = Path(spec.origin).parent.parent
    for folder in ("onnxruntime_ep_openvino", "openvino/libs"):
        shutil.copytree(packages / folder, tmp_path / folder, copy_function=os.link)
    saved = program("trim").share(tmp_path)
    assert saved > 140e6, "the pinned versions of both packages no longer bring the same OpenVINO"
    done = subprocess.run(
        [sys.executable, "-c", OPENVINO_SESSION],
        cwd=paths.root(),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    file, provider, shape, library = done.stdout.splitlines()
    assert Path(file).is_relative_to(tmp_path)
    assert (provider, shape) == ("OpenVINOExecutionProvider", "(2, 10)")
    assert Path(library).is_relative_to(tmp_path / "openvino")


def test_tensorrt_for_rtx_is_not_passed_on() -> None:
    """NVIDIA's terms do not allow it. The version to add by hand is that of the list."""
    trim = program("trim")
    packages = Path(httpx.__file__).parents[1]
    ours = {path for path in packages.iterdir() if "tensorrt_rtx" in path.name}
    assert len(ours) >= 6  # three packages, and what pip knows of each
    assert ours <= set(trim._removed(packages))
    (version,) = re.findall(
        r"^tensorrt-rtx-cu12==(\S+)",
        (paths.root() / "requirements.txt").read_text("utf-8"),
        re.MULTILINE,
    )
    assert f"tensorrt-rtx-cu12=={version}\n" in (paths.root() / "docs/operators.md").read_text(
        "utf-8"
    )
    assert "/site-packages/tensorrt_rtx* " in (paths.root() / "docker/gpu/Dockerfile").read_text(
        "utf-8"
    )


@pytest.mark.server
def test_code_for_gpus_is_cut_out_of_a_library_that_still_works(tmp_path: Path) -> None:
    """XGBoost's library, the smallest with such code, trains and answers the same without it."""
    trim = program("trim")
    spec = importlib.util.find_spec("xgboost")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (package,) = spec.submodule_search_locations
    whole = Path(package, "lib", "libxgboost.so").read_bytes()
    shorter = trim.without_gpu_code(whole)
    if shorter is None:
        pytest.skip("this XGBoost was built without CUDA")
    assert len(shorter) < len(whole) - (50 << 20)
    assert trim.without_gpu_code(shorter) is None
    shutil.copytree(
        package, tmp_path / "xgboost", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    (tmp_path / "xgboost/lib/libxgboost.so").write_bytes(shorter)
    answers = []
    for place in ("", str(tmp_path)):
        code = (
            "import numpy as np, xgboost\n"
            "x = np.random.default_rng(0).random((200, 4))\n"
            "model = xgboost.XGBClassifier(n_estimators=5).fit(x, x[:, 0] > 0.5)\n"
            "print(xgboost.__file__)\nprint(model.predict_proba(x[:5]).tolist())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": place},
            capture_output=True,
            text=True,
            check=True,
        )
        where, answer = done.stdout.splitlines()
        assert where.startswith(place)
        answers.append(answer)
    assert answers[0] == answers[1]
