# ---
# title: Python environments
# minutes: 16
# ---

# %% [markdown]
# # Python environments
#
# **Question.** Two models answer in production. A third needs another version of a package, or another Python. The image must not be built anew, and no request may fail. What do you do?
#
# [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) call the two cases *situation 1* and *situation 2*.

# %%
import sys

import pandas as pd

import setup
from workbook.lessons import attempt, claim, compare, folder, laboratory, predict, show, write
from workbook.lessons.mistakes import refusal

interpreter = sys.executable  # this notebook's Python
models = folder("environments")  # run again, it empties this notebook's folder
setup.repository(models)  # makes an environment: up to half a minute
home = models / "grade_2"
lab = laboratory(models, only=["square", "grade_1"])
setup.environment_of(lab, "grade_1")  # version of the package, version of Python, where it lies

# %% [markdown]
# ## Situation 1: another package
#
# `square` runs on the server's Python. `grade_1` has an environment of its own: it grades pictures with version 1.0 of `sharpness`, a tiny package made on the spot. `grade_2` needs 2.0. One Python cannot have both versions, and the server's has neither:

# %%
# %%writefile {home}/1/model.py
import numpy as np
import sharpness
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        images = [pb.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        grades = [sharpness.grade(x, power=1).astype(np.float32)[:, None] for x in images]
        where = [np.array([sharpness.where()] * len(x), np.object_) for x in images]
        pairs = [[pb.Tensor("grade", g), pb.Tensor("where", w)] for g, w in zip(grades, where)]
        return [pb.InferenceResponse(pair) for pair in pairs]


# %%
print(refusal(lab, "grade_2"))

# %% [markdown]
# We make an environment with that version; `--copies`, since this course's server refuses links that lead out of a repository. With `--python`, pip installs into another environment. Triton's module `triton_python_backend_utils` needs numpy, too: `add_numpy` copies ours. With a registry at hand, `pip install numpy` does it.

# %%
env, wheel = models / "../environments.env", setup.wheel(models, "2.0")
# !{interpreter} -m venv --copies --without-pip --clear {env}
# !{interpreter} -m pip --python {env}/bin/python install --quiet --no-index {wheel}
setup.add_numpy(env)
print(*sorted(path.name for path in setup.site_packages(env).iterdir()))

# %% [markdown]
# ## Pack it
#
# Before the model's process starts, bash sources `bin/activate` of the environment. A venv's script names the folder where it was made. `venv-pack -o env.tar.gz` and `conda-pack` replace it by one that finds its own place. These lines do so too:

# %%
write(env / "bin/activate", '''
VIRTUAL_ENV=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH" PYTHONNOUSERSITE=1
''')  # fmt: skip
# !tar -czf {home}/env.tar.gz -C {env} .
setup.use(home, "$$TRITON_MODEL_DIRECTORY/env.tar.gz")
show(home / "config.pbtxt")
sizes = {"unpacked": setup.megabytes(env), "packed": setup.megabytes(home / "env.tar.gz")}

# %% [markdown]
# `$$TRITON_MODEL_DIRECTORY` is the folder of the model. Now two clients ask `square` and `grade_1` without a pause, and we load the third model. In the figure each mark is a request; the load is shaded.


# %%
def load_third():
    lab.unload("grade_2")
    lab.load("grade_2")


watched = attempt(lambda: setup.watch(lab, load_third), lambda run: run.overlap)
setup.plot(watched)

# %%
package, _, place = setup.environment_of(lab, "grade_2")
still = setup.environment_of(lab, "grade_1")[0]
both = (package, still) == ("2.0", "1.0")
claim(
    watched.failed == 0 and both,
    f"grade_2 has sharpness {package}, grade_1 has {still}. Of {len(watched.answers)} requests none failed.",
    "Run the two cells again.",
    premise=watched.overlap,
    id="environments.third",
)
print("grade_2's environment lies in", place)

# %% [markdown]
# ## The same archive again
#
# The server unpacks the archive into a folder of its own below `/tmp`, and removes it when it ends. Another model, `grade_3`, may name the same archive by its full path. Each load is timed.

# %%
predict(
    "environments.again",
    "How long does the load of grade_3 take, compared with grade_2's first?",
    {
        "about as long: each model unpacks for itself": "The server remembers which file it has "
        "unpacked, and when that file was changed last.",
        "much less": None,
        "it is refused: the archive lies in another model's folder": "grade_3's config names "
        "it by its full path, and the server loads that.",
    },
)

# %%
setup.use(home, "$$TRITON_MODEL_DIRECTORY/env.tar.gz")
setup.use(setup.model(models, "grade_3"), str((home / "env.tar.gz").resolve()))
setup.touch(home / "env.tar.gz")  # as if it were new
costs = {
    "archive, the first time": setup.seconds(lab, "grade_2"),
    "archive, again": setup.seconds(lab, "grade_3"),
    "no environment": setup.seconds(lab, "square"),
}
used = sorted(
    {setup.environment_of(lab, name)[2] for name in ("grade_2", "grade_3")}
)  # where they lie

# %%
# !mkdir -p {home}/env && tar -xzf {home}/env.tar.gz -C {home}/env
setup.use(home, "$$TRITON_MODEL_DIRECTORY/env")
from_folder = {f"folder, {when}": setup.seconds(lab, "grade_2") for when in ("first", "again")}

# %%
from workbook import measure

less, long = "much less", "about as long: each model unpacks for itself"
compare("environments.again", less if len(used) == 1 else long, premise=setup.unpacked(costs))
claim(
    len(used) == 1,
    f"Both models use {', '.join(used)}, unpacked once: {sizes['packed']:.0f} MB became {sizes['unpacked']:.0f}.",
    "Run the cells of this section again.",
    premise=setup.unpacked(costs),
    id="environments.again",
)
print(pd.Series({**costs, **from_folder}, name="seconds until ready").round(2))
measure.processes(lab).query("process == 'stub'")[["model", "memory_mb"]].round()

# %% [markdown]
# The last loads named the unpacked [*folder*](https://github.com/triton-inference-server/python_backend#creating-custom-execution-environments). A first load compiles Python files.
#
# ## Where an archive works
#
# A venv has no standard library: it needs the Python that made it, at the same path (`pyvenv.cfg`). A conda environment holds its interpreter; conda-pack makes it movable. The slides' script, with wget and conda replaced by programs that only create files:

# %%
show("clients/conda_env.as_printed.sh")
left = setup.run_script(models)
claim(
    not left,
    "The script's last line removes the archive that it has made.",
    "Run this cell again.",
    id="environments.script",
)

# %% [markdown]
# > **Errata.** The archive lies in the folder that is removed. Nobody makes that folder, the installer is called from another one, `-ny` names the environment `y`, and no package is installed. Better:
#
# ```bash
# export PYTHONNOUSERSITE=True
# conda create -yn model_env python=3.10 numpy conda-pack  # the stub of NVIDIA's 24.10
# conda run -n model_env pip install -r requirements.txt
# conda run -n model_env conda-pack -o models/python_model/conda_env.tar.gz
# ```
#
# In [newer releases](../14__images/14__images.ipynb#Your-release-has) the stub is 3.12's. Not run: we had no conda.
#
# ## Situation 2: another Python
#
# The model's process is a program, `triton_python_backend_stub`, with one Python inside:

# %%
linked = {version: setup.libpython(stub) for version, stub in setup.stubs().items()}
claim(
    all(f"libpython{version}" in library for version, library in linked.items()),
    "Each stub of the server's wheel is linked with the library of one Python.",
    "Run this cell again.",
    id="environments.stub",
)
pd.Series(linked, name="linked with").to_frame()

# %% [markdown]
# So the model's folder gets three things: the environment, that Python's library in the environment's `lib`, and the stub, here from the server's wheel. In NVIDIA's container only one stub is there: [compile](https://github.com/triton-inference-server/python_backend#building-custom-python-backend-stub) the other.
#
# ```bash
# python3.12 -m venv --copies --without-pip env
# pip --python env/bin/python install numpy==1.26.4 sharpness-2.0-py3-none-any.whl
# cp /usr/lib/libpython3.12.so.1.0 env/lib/
# cp python_backend_stubs/3.12/triton_python_backend_stub .
# ```

# %%
second = setup.situation_2(lab, wheel)  # up to a minute, with pip
show(models / "other_python/config.pbtxt")
if second.answered:
    claim(second.as_expected, f"{second}", "Run this cell again.", id="environments.other")
else:
    second.show("environments.other")

# %% [markdown]
# ## Five mistakes

# %%
from workbook.lessons import mistakes, task

setup.small(models)  # grade_1 with its environment as an archive of some kilobytes
with laboratory(models, only=[]) as spare:
    made = mistakes.provoke(spare, "grade_small", {
        "a name that is not there": mistakes.config("env.tar.gz", "envs.tar.gz"),
        "one dollar sign": mistakes.config("$$TRITON", "$TRITON"),
        "a folder around everything": setup.wrapped,
        "an archive without the package": setup.without_package,
        "an archive cut in half": setup.cut,
    })  # fmt: skip
claim(
    len(made.refused) == 5,
    "All five are refused.",
    "Read which one it loads.",
    id="environments.mistakes",
)
made

# %% [markdown]
# On a GPU (not verified) the environment holds the framework's CUDA build, often some gigabytes.
#
# ## Your turn
#
# `strict` was copied from `grade_2`, and its environment from `grade_1`. It loads, and each request fails. Give it the version that it needs; `grade_1` keeps its own. `wheel` is the file of 2.0. Then load `strict` again; the last cell checks.

# %%
setup.strict(models)  # keeps a folder that is there
lab.load("strict")

# %%
task("environments.strict", server=lab, models=models)

# %% [markdown]
# ## What to remember
#
# - `EXECUTION_ENV_PATH` gives a model packages of its own, as an archive or a folder, while the other models keep answering.
# - The stub, the environment and `libpython` must be of one Python version.
# - An archive is unpacked once per server and file; a folder is not unpacked at all.

# %% [markdown]
# ## Check yourself
#
# <details><summary>The archive works on the machine where it was made, and on no other. What do you look at first?</summary>
#
# Whether it is a venv: it needs the Python that made it, at the same path. And whether `activate` still names the old folder.
#
# </details>
#
# <details><summary>Ten models need the same packages. One archive or ten?</summary>
#
# One, named by its full path in ten configs. It is unpacked once. Each instance still loads the packages into its own memory.
#
# </details>
#
# Next: [the PyTorch backend](../04__pytorch/04__pytorch.ipynb).
