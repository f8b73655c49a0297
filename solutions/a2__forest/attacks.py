"""Hostile and broken submissions of a2__forest, beside those of everywhere.py.

`CANARY` is a text in places that no submission may see: the grader's environment, a file beside the
gradebook, another student's work. Attacks search for it, and print LEAK where they find it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat

from tests.attacks import submissions as s
from tests.attacks.attack import RAN, Attacks

ATTACKS = Attacks()
CANARY = "canary-7f3a9c"
#: A background process of an attack carries this on its command line.
MARK = "left-behind-51c2"


# -- Python, changed from inside ------------------------------------------------------------------


@ATTACKS.add("release", says=RAN)
def asserts_dropped(folder: Path) -> None:
    """An AST transformer that takes every assert and raise out of the cells to come."""
    s.first(
        folder,
        """
        import ast

        class Drop(ast.NodeTransformer):
            def visit_Assert(self, node): return ast.Pass()
            visit_Raise = visit_Assert

        get_ipython().ast_transformers.append(Drop())
        print("the attack ran")
        """,
    )


@ATTACKS.add(
    "release",
    flags={"unreadable values"},
    says=RAN,
    message="The values reported to a2.forest cannot be read: its arrays have more values than",
)
def values_that_explode(folder: Path) -> None:
    """Arrays of a petabyte, JSON without end, files of a gigabyte, and what numpy or zip may read.

    The judge must lose nothing but these checks: a check that it did not get to is said to be
    broken by the instructor, and every check after it is lost.
    """
    s.last(
        folder,
        """
        import json, pickle
        from grader.vocabulary import reported

        home = reported.folder("a2")

        class Bomb:
            def __reduce__(self):
                import os
                return os.system, ("touch /tmp/owned",)

        def report(id, data=b"", **array):
            values = {"model": {"$array": array}}
            (home / f"{id}.json").write_text(json.dumps({"check": id, "values": values}))
            (home / f"{id}.bin").write_bytes(data)

        report("a2.forest", dtype="float64", shape=[10**15])
        pickled = b"PK\\x03\\x04" + pickle.dumps(Bomb())
        report("a2.probabilities", pickled, dtype="object", shape=[1])
        (home / "a2.labels.json").write_text("[" * 100_000)
        (home / "a2.classes.json").write_text('{"version": 1e999}')
        (home / "a2.threshold.json").write_bytes(b"\\xff" * 100)
        with (home / "a2.batching.json").open("wb") as file:
            file.write(b"[" + b"[]," * (1 << 22) + b"[]]")
        report("a2.shap", bytes(17 << 20), dtype="uint8", shape=[17 << 20])
        nines = '{"check": "a2.versions", "values": {"model": %s}}' % ("9" * 5_000)
        (home / "a2.versions.json").write_text(nines)
        print("the attack ran")
        """,
    )


@ATTACKS.add(
    "solution",
    lost={
        *("a2.probabilities", "a2.labels", "a2.classes", "a2.threshold", "a2.batching"),
        *("a2.shap", "a2.versions", "a2.delays"),
    },
    flags={"notebook disagrees"},
    says=RAN,
    message="`requests` holds NaN, None or infinity in 114 of 114 places; numbers are wanted.",
)
def values_of_every_kind(folder: Path) -> None:
    """Well-formed values that no check expects: each check fails with a sentence."""
    s.last(
        folder,
        """
        import numpy as np
        from grader.vocabulary import reported
        from grader.vocabulary.define import load
        from grader.vocabulary.results import CheckResult

        odd = [10**4000, float("nan"), {"a": [1]}, [[1], [1, 2]], np.zeros((0, 4)), "\\x00" * 9,
               np.full((2, 3), True), -1e308, np.float16([np.inf] * 114), [{}] * 10]
        models = {"a2.classes": verdict, "a2.threshold": verdict, "a2.versions": releases}
        for place, (id, check) in enumerate(load("a2").items()):
            values = {n: odd[(place + k) % len(odd)] for k, n in enumerate(check.parameters)}
            values["model"] = models.get(id, forest)
            if id == "a2.batching":
                values["requests"] = odd[8]
            result = CheckResult(id=id, sentence="", status="passed", credit=1)
            reported.write(id, values, result, reported.folder("a2"))
        print("the attack ran")
        """,
    )


# -- looking and taking -------------------------------------------------------------------------

# In two pieces, or the code would find itself.
_WORD = f"{CANARY[:6]!r} + {CANARY[6:]!r}"


@ATTACKS.add("release", says=RAN)
def reads_other_files(folder: Path) -> None:
    """Search the whole file system for what belongs to others."""
    s.last(
        folder,
        f"""
        import os, pathlib
        import workbook
        word = ({_WORD}).encode()
        root = os.path.dirname(os.path.dirname(workbook.__file__))
        seen = 0
        for top in (root, "/root", "/home", "/tmp", "/var", "/srv", "/etc", "/run", "/mnt", "/opt",
                    "/submission", "/proc/1/root/tmp", "/proc/1/cwd"):
            for base, folders, files in os.walk(top):
                folders[:] = [name for name in folders if name not in (".venv", "site-packages")]
                for name in files:
                    path = pathlib.Path(base, name)
                    try:
                        if path.is_file() and path.stat().st_size < 1 << 20:
                            seen += 1
                            if word in path.read_bytes():
                                print("LEAK", path)
                    except OSError:
                        pass
        print("the attack ran", seen)
        for name in ("solutions", "tests", "assignments/*/hidden.py",
                     "assignments/*/*.ipynb", "grader/work", "grader/classroom", "grader/pages"):
            for path in pathlib.Path(root).glob(name):
                print("LEAK", path)
        """,
    )


@ATTACKS.add("release", says=RAN, beside="reads_other_files")
def reads_the_environment(folder: Path) -> None:
    """Environment variables of this process and of every other one in sight."""
    s.last(
        folder,
        f"""
        import os, pathlib
        texts = [repr(dict(os.environ))]
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                texts.append(path.read_text(errors="replace"))
            except OSError:
                pass
        print("the attack ran", len(texts))
        if any(({_WORD}) in text for text in texts):
            print("LEAK")
        """,
    )


@ATTACKS.add("release", says="8 writes refused", beside="reads_other_files")
def writes_to_the_gradebook(folder: Path) -> None:
    """Change marks where the gradebook would be, and the course's own code."""
    s.last(
        folder,
        """
        import os, pathlib, sqlite3, sys
        import grader, workbook
        root = pathlib.Path(workbook.__file__).parent.parent
        refused = 0
        for path in (root / "grader/work/gradebook.db", root / "gradebook.db",
                     root / "workbook/common/errors.py", root / "grader/vocabulary/define.py",
                     pathlib.Path(sys.prefix) / "lib/x.py", pathlib.Path("/etc/passwd"),
                     pathlib.Path("/usr/bin/env"), pathlib.Path("/proc/sys/kernel/hostname")):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("changed")
                print("LEAK", path)
            except OSError:
                refused += 1
        print(refused, "writes refused")
        """,
    )


@ATTACKS.add("solution", says="3 connections refused")
def calls_home(folder: Path) -> None:
    """Connect to the grader's machine and to the world, by every address family."""
    s.last(
        folder,
        """
        import os, socket
        port = int(open("port.txt").read())
        refused = 0
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "192.0.2.1"),
                             (socket.AF_INET6, "::1")):
            try:
                with socket.socket(family) as s:
                    s.settimeout(2)
                    s.connect((host, port))
                    print("LEAK", host)
            except OSError:
                refused += 1
        print(refused, "connections refused")
        """,
    )


# -- taking more than its share -----------------------------------------------------------------


@ATTACKS.add("solution", says=RAN, beside="calls_home")
def leaves_a_process_behind(folder: Path) -> None:
    """A process of a session of its own that ignores every signal."""
    s.last(
        folder,
        f"""
        import subprocess, sys
        lines = ["import signal, time", "for n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)"]
        code = "\\n".join([*lines, "time.sleep(3600)"])
        subprocess.Popen([sys.executable, "-c", code, "{MARK}"], start_new_session=True)
        print("the attack ran")
        """,
    )


@ATTACKS.add("release", flags={"stopped"})
def forks_without_end(folder: Path) -> None:
    """A storm of forks. Small processes are copied fast, on every machine."""
    s.first(
        folder,
        """
        import subprocess, time
        subprocess.run(["sh", "-c", "storm() { storm | storm & }; storm"])
        time.sleep(50)
        """,
    )


@ATTACKS.add("release", says=RAN)
def eats_memory(folder: Path) -> None:
    """Allocate and touch memory until something says no."""
    s.first(
        folder,
        """
        print("the attack ran")
        hog = []
        try:
            while True:
                hog.append(bytearray(b"x" * (64 << 20)))
        except MemoryError:
            hog.clear()
            print("enough")
        """,
    )


@ATTACKS.add("release", says="full")
def eats_the_disk(folder: Path) -> None:
    """Write until no more can be written, and then clean up."""
    s.first(
        folder,
        """
        import os
        for home in ("/tmp", "/dev/shm", "."):
            size = 0
            try:
                with open(os.path.join(home, "hog"), "wb") as file:
                    while size < 64 << 30:
                        size += file.write(bytes(16 << 20))
            except OSError as error:
                print("full", home, size >> 20, error)
            os.path.exists(os.path.join(home, "hog")) and os.unlink(os.path.join(home, "hog"))
        """,
    )


@ATTACKS.add("release", flags={"execution"})
def never_ends(folder: Path) -> None:
    """A loop that no interrupt ends."""
    s.first(
        folder,
        """
        import signal, time
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            try:
                time.sleep(1)
            except BaseException:
                pass
        """,
    )


@ATTACKS.add("release", flags={"execution"})
def ends_its_kernel(folder: Path) -> None:
    """`os._exit` in the first cell."""
    s.first(folder, "import os\nos._exit(0)")


@ATTACKS.add("release", flags={"runner ended"})
def ends_its_runner(folder: Path) -> None:
    """Kill whatever executes the notebook, and everything else in sight."""
    s.first(
        folder,
        """
        import os, signal
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            if pid not in (1, os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
        """,
    )


@ATTACKS.add("release", says="output cut")
def says_too_much(folder: Path) -> None:
    """A line of 100 MB, on standard output and on standard error."""
    s.last(
        folder,
        """
        import sys
        print("x" * 100_000_000)
        print("y" * 10_000_000, file=sys.stderr)
        """,
    )


# -- models -------------------------------------------------------------------------------------

_PYTHON = """
import os, signal, socket, time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        {initialize}

    def execute(self, requests):
        answers = []
        for request in requests:
            rows = pb_utils.get_input_tensor_by_name(request, "input__0").as_numpy()
            half = pb_utils.Tensor("output__0", np.full((len(rows), 2), 0.5, np.float32))
            answers.append(pb_utils.InferenceResponse([half]))
        return answers
"""
_CONFIG = """
backend: "python"
max_batch_size: 256
input { name: "input__0" data_type: TYPE_FP32 dims: [ 30 ] }
output { name: "output__0" data_type: TYPE_FP32 dims: [ 2 ] }
dynamic_batching { }
instance_group { count: 1 kind: KIND_CPU }
"""


def _python_model(folder: Path, initialize: str) -> None:
    """Bring a Python model of its own in the forest's place, at the very end of the notebook."""
    source = _PYTHON.format(initialize=initialize)
    s.last(
        folder,
        f"""
        import os, pathlib, shutil
        home = pathlib.Path(os.environ["TRITON_REPOSITORY"]) / "forest"
        shutil.rmtree(home)
        (home / "1").mkdir(parents=True)
        (home / "config.pbtxt").write_text({_CONFIG!r})
        (home / "1" / "model.py").write_text({source!r})
        """,
    )


_FOREST = {
    "a2.forest", "a2.probabilities", "a2.labels", "a2.batching", "a2.shap", "a2.delays",
}  # fmt: skip


@ATTACKS.add("solution", lost=_FOREST, flags={"notebook disagrees"})
def a_model_of_python(folder: Path) -> None:
    """The forest replaced by Python code after its checks have passed."""
    _python_model(folder, "pass")


@ATTACKS.add("solution", lost=_FOREST, flags={"notebook disagrees"})
def a_model_that_attacks_its_server(folder: Path) -> None:
    """A model that ends the server and answers in its place."""
    _python_model(folder, "os.kill(os.getppid(), signal.SIGKILL)")


@ATTACKS.add("solution", lost="none", flags={"native library"}, beside="calls_home")
def a_library_in_the_model(folder: Path) -> None:
    """A libtriton_fil.so of its own, which the server would load into itself."""
    s.last(
        folder,
        """
        import os, pathlib, shutil
        home = pathlib.Path(os.environ["TRITON_REPOSITORY"]) / "forest"
        shutil.copy("/bin/true", home / "libtriton_fil.so")
        shutil.copy("/bin/true", home / "1" / "libtriton_fil.so")
        """,
    )


@ATTACKS.add(
    "solution", lost=_FOREST, flags={"notebook disagrees"}, says=RAN, message="forest did not load"
)
def a_forest_that_fills_the_memory(folder: Path) -> None:
    """After the checks have passed, a file of a forest that promises a thousand million classes."""
    s.last(
        folder,
        """
        import json, os, pathlib

        path = pathlib.Path(os.environ["TRITON_REPOSITORY"], "forest/1/xgboost.json")
        content = json.loads(path.read_text())
        about = content["learner"]["learner_model_param"]
        about["num_class"] = about["num_feature"] = "1000000000"
        path.write_text(json.dumps(content))
        print("the attack ran")
        """,
    )


@ATTACKS.add("solution", lost={"a2.probabilities", "a2.shap", "a2.labels"})
def answers_only_what_is_visible(folder: Path) -> None:
    """A forest grown to know the visible rows by heart, labels and all, and no others."""

    def change(notebook: nbformat.NotebookNode) -> None:
        cell = notebook.cells[s.place(notebook, "a2.train")]
        cell.source = cell.source.replace(
            "xgboost.XGBClassifier(**RECIPE).fit(cancer.x_train, cancer.y_train)",
            "xgboost.XGBClassifier(**{**RECIPE, 'max_depth': 12}).fit("
            "np.concatenate([cancer.x_train, cancer.x_test]), "
            "np.concatenate([cancer.y_train, cancer.y_test]))",
        )

    s.edit(folder, change)


@ATTACKS.add("solution", lost="none", says=RAN, beside="calls_home")
def links_in_the_repository(folder: Path) -> None:
    """Links, devices and pipes beside the models."""
    s.last(
        folder,
        """
        import os
        home = os.environ["TRITON_REPOSITORY"]
        os.symlink("/etc/passwd", os.path.join(home, "forest", "passwd"))
        os.symlink("/", os.path.join(home, "root"))
        os.mkfifo(os.path.join(home, "pipe"))
        print("the attack ran")
        """,
    )


# -- what is handed in --------------------------------------------------------------------------


@ATTACKS.add("release", flags={"unreadable"})
def not_a_notebook(folder: Path) -> None:
    """Bytes."""
    (folder / f"{s.SHORT}.ipynb").write_bytes(os.urandom(5_000))


@ATTACKS.add("release", flags={"unreadable"})
def no_notebook(folder: Path) -> None:
    """Nothing."""
    (folder / f"{s.SHORT}.ipynb").unlink()


@ATTACKS.add("release", flags={"unreadable"})
def cells_that_are_none(folder: Path) -> None:
    """JSON that looks like a notebook from afar."""
    content = {"cells": [None, 7, {"cell_type": "code"}], "metadata": [], "nbformat": 4}
    (folder / f"{s.SHORT}.ipynb").write_text(json.dumps(content))


@ATTACKS.add("solution", says="<script>owned()")
def scripts_for_the_instructor(folder: Path) -> None:
    """HTML and JavaScript in outputs and text, for whoever opens the notebook to grade it."""
    s.last(
        folder,
        """
        from IPython.display import HTML, Javascript, SVG, display
        display(HTML("<script>owned()</script><img src=x onerror=owned()>"))
        display(Javascript("owned()"))
        bundle = {"image/svg+xml": "<svg onload=owned()></svg>", "text/html": "<b onclick=owned()>"}
        display(bundle, raw=True)
        """,
    )

    def change(notebook: nbformat.NotebookNode) -> None:
        text = "<script>owned()</script>\n<iframe src='javascript:owned()'></iframe>"
        text += "[x](javascript:owned())"
        cell = nbformat.v4.new_markdown_cell(text)  # type: ignore[no-untyped-call]
        notebook.cells.append(cell)
        written = notebook.cells[s.place(notebook, "a2.why")]
        written.source = text + written.source

    s.edit(folder, change)


@ATTACKS.add("solution", says="UserWarning: careful", beside="scripts_for_the_instructor")
def warnings_everywhere(folder: Path) -> None:
    """Warnings on standard error in every cell, which nbgrader alone would score as wrong."""
    s.first(
        folder,
        """
        import sys, warnings
        get_ipython().events.register(
            "post_run_cell", lambda *a: (warnings.warn("careful"), print("oh", file=sys.stderr)))
        """,
    )


@ATTACKS.add("release", flags={"execution"})
def a_server_of_its_own_that_hogs(folder: Path) -> None:
    """Processes that burn every processor when the time is up, and before."""
    s.first(
        folder,
        """
        import os, signal, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        time.sleep(55)  # of the 60 seconds that a cell has
        for _ in range(4):
            if os.fork() == 0:
                while True:
                    pass
        while True:
            pass
        """,
    )
