"""Models that fail to load, and stubs that die, do not end the server or keep it waiting.

Each of these ends a plain Triton 24.10, or makes it wait for ever
(workbook/server/native/README.md).
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workbook.common.errors import LoadError
from workbook.server import Triton
from workbook.server.assemble import find

pytestmark = pytest.mark.skipif(
    find().preload is None, reason="there is no C++ compiler: install g++, as `make doctor` says"
)

IO = (
    'input [{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] }] '
    'output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }] '
)
WARM_UP = (
    'model_warmup [{ name: "w" batch_size: 1 inputs { key: "x" '
    "value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }]"
)
MODEL = """
import ctypes, os, signal

class TritonPythonModel:
    def initialize(self, arguments):
        {initialize}
    def execute(self, requests):
        {execute}
"""


def write(repository: Path, name: str, code: str, config: str = "") -> str:
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(code)
    (folder.parent / "config.pbtxt").write_text(f'backend: "python" {IO} {config}')
    return name


def test_failed_loads_side_by_side(tmp_path: Path) -> None:
    """Of 72 failed loads about one and a half would have ended the server."""
    fails = "raise ValueError(1)"
    names = []
    for i in range(6):
        code = MODEL.format(initialize=fails, execute="return []")
        names.append(write(tmp_path, f"initialize_{i}", code))
        code = MODEL.format(initialize="pass", execute=fails)
        names.append(write(tmp_path, f"warm_up_{i}", code, WARM_UP))

    def load(name: str) -> None:
        for _ in range(6):
            with pytest.raises(LoadError):
                server.load(name, timeout=60)

    with Triton(tmp_path) as server, ThreadPoolExecutor(4) as pool:
        list(pool.map(load, names))  # an error of another kind would say that no server answers


@pytest.mark.parametrize(
    "dies", ["os._exit(0)", "os._exit(3)", "ctypes.string_at(0)", "os.kill(os.getpid(), 9)"]
)
def test_a_stub_that_dies_while_it_reads_the_model(tmp_path: Path, dies: str) -> None:
    name = write(tmp_path, "m", f"import ctypes, os\n{dies}\n")
    good = write(tmp_path, "good", MODEL.format(initialize="pass", execute="return []"))
    with Triton(tmp_path) as server:
        for _ in range(2):
            with pytest.raises(LoadError, match="The model's process ended while it was starting"):
                server.load(name, timeout=60)
        server.load(good)
        began = time.monotonic()
    assert time.monotonic() - began < 20, "the server's end waits for the load"


OWNER_DIED = """
import ctypes, mmap, os

libc = ctypes.CDLL(None)
memory = mmap.mmap(-1, 4096)
mutex = ctypes.addressof(ctypes.c_char.from_buffer(memory))
kind = ctypes.create_string_buffer(64)
libc.pthread_mutexattr_init(kind)
libc.pthread_mutexattr_setpshared(kind, 1)
libc.pthread_mutexattr_setrobust(kind, 1)
libc.pthread_mutex_init(ctypes.c_void_p(mutex), kind)
lock = ctypes.CDLL(None).pthread_mutex_lock
if os.fork() == 0:
    lock(ctypes.c_void_p(mutex))
    os._exit(0)
os.wait()
print(lock(ctypes.c_void_p(mutex)))
"""


@pytest.mark.parametrize(("preloaded", "status"), [(True, "0"), (False, "130")])
def test_a_lock_whose_owner_died_can_be_had(preloaded: bool, status: str) -> None:
    """130 is EOWNERDEAD, which ends a server without the helper."""
    environment = {"LD_PRELOAD": str(find().preload)} if preloaded else {}
    command = [sys.executable, "-c", OWNER_DIED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == status, done.stderr
