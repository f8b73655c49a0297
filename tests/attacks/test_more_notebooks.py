"""Notebooks that try to forge the result of their sandbox, or to prevent any result."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
import pytest

from grader import sandbox
from grader.judge.run_notebook import Execution, execute

pytestmark = [pytest.mark.server, pytest.mark.timeout(180)]


def run(home: Path, *cells: str) -> Execution:
    """Execute cells as the cells of a submission."""
    made = [nbformat.v4.new_code_cell(dedent(code).strip()) for code in cells]
    notebook: dict[str, Any] = json.loads(nbformat.writes(nbformat.v4.new_notebook(cells=made)))
    for name in ("work", "out"):
        (home / name).mkdir()
    limits = sandbox.Limits(wall_s=120)
    return execute(notebook, home / "work", "a2__forest", to=home / "out", limits=limits, cell_s=5)


def printed(execution: Execution) -> list[str]:
    return [
        "".join(output.get("text", output.get("evalue", "")) for output in cell["outputs"])
        for cell in execution.notebook["cells"]
    ]


def test_files_that_change_while_they_are_taken(tmp_path: Path) -> None:
    """A background process makes, exchanges and removes files while they are packed."""
    execution = run(
        tmp_path,
        """
        import os, pathlib, shutil
        home = pathlib.Path(os.environ["TRITON_REPOSITORY"])
        (home / "kept").mkdir()
        (home / "kept" / "config.pbtxt").write_text("kept")
        os.mkfifo(home / "pipe")
        os.symlink("/proc/self/environ", home / "link")
        (home / "closed").mkdir(mode=0)
        for worker in range(3):
            if os.fork() == 0:
                os.setsid()
                number = 0
                while True:
                    number += 1
                    place = home / f"m{worker}"
                    try:
                        shutil.rmtree(place, ignore_errors=True)
                        for k in range(40):
                            (place / str(k)).mkdir(parents=True)
                            file = place / str(k) / "model.py"
                            file.write_text("x" * (number % 5000))
                            file.unlink()
                            (os.mkfifo if number % 2 else lambda to: os.symlink(home, to))(file)
                    except OSError:
                        pass
        print("left behind")
        """,
        "print('after')",
    )
    assert printed(execution) == ["left behind\n", "after\n"]
    assert not [f for f in execution.findings if f.kind in ("runner ended", "stopped")]
    assert (execution.repository / "kept" / "config.pbtxt").read_text() == "kept"
    for name in ("pipe", "link"):
        assert not (execution.repository / name).exists()
    assert not [path for path in execution.repository.rglob("*") if path.is_symlink()]


def test_a_kernel_that_is_there_twice(tmp_path: Path) -> None:
    """The kernel is forked: the copy uses the same sockets, and the first process waits."""
    execution = run(
        tmp_path,
        "import os\nforked = os.fork()\nprint('one', flush=True)",
        "print('two')",
        "print('three')",
    )
    assert execution.outcome.stopped == ""
    assert not [f for f in execution.findings if f.kind == "runner ended"]


def test_cells_that_swallow_those_after_them(tmp_path: Path) -> None:
    """The notebook shows the sources of its cells, whatever the kernel ran instead.

    A check that did not run has reported nothing.
    """
    execution = run(
        tmp_path,
        """
        get_ipython().input_transformers_cleanup.append(lambda lines: ["print('passed')\\n"])
        """,
        "check('a2.forest', model='forest')",
        "%%bash\necho unseen",
    )
    assert printed(execution)[1:] == ["passed\n", "passed\n"]
    assert "".join(execution.notebook["cells"][1]["source"]) == "check('a2.forest', model='forest')"
    assert list(execution.reported.iterdir()) == []


def test_what_replaces_the_builtins_ends_in_its_own_kernel(tmp_path: Path) -> None:
    """Code that runs when the kernel ends cannot write results, or changes only its own values."""
    execution = run(
        tmp_path,
        """
        import atexit, builtins, json, os, sys, threading, time
        def write():
            os.write(1, b"tar")
            time.sleep(60)
        atexit.register(write)
        threading.Thread(target=write).start()
        for name in ("open", "print", "len", "isinstance", "__import__", "__build_class__"):
            setattr(builtins, name, lambda *a, **k: 0)
        json.dumps = json.loads = lambda *a, **k: "{}"
        """,
        "1 + 1",
    )
    assert not [f for f in execution.findings if f.kind in ("runner ended", "archive")]
    assert len(execution.notebook["cells"]) == 2


def test_messages_that_no_kernel_sends(tmp_path: Path) -> None:
    """Outputs and replies of types and sizes that the protocol does not have."""
    execution = run(
        tmp_path,
        """
        kernel = get_ipython().kernel
        parent = kernel.get_parent()
        odd = [{}, {"name": 5, "text": 5}, {"text": None}, {"data": {"text/html": ["x"] * 9}},
               {"execution_state": "dead"}, {"ename": 1}, {"a": float("nan")}]
        for kind in ("stream", "display_data", "error", "status", "execute_input", "comm_open",
                     "update_display_data", "clear_output", "execute_result", "", "x" * 1000):
            for content in odd:
                kernel.session.send(kernel.iopub_socket, kind, content, parent=parent)
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": "idle"},
                            parent=parent)
        """,
        "print('after')",
    )
    assert not [f for f in execution.findings if f.kind in ("runner ended", "stopped")]
    assert "".join(execution.notebook["cells"][1]["source"]) == "print('after')"
