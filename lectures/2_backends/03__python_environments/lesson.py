# ---
# title: Python environments
# minutes: 24
# ---

# %% [markdown]
# # Python environments
#
# **Question.** Two models answer in production. A third needs another version of a package, or another Python. The image must not be built anew, and no request may fail. What do you do?
#
# [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) call the two cases *situation 1* and *situation 2*.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("environments")
setup.repository(models)  # makes an environment and some wheels: up to half a minute
lab = laboratory(models, only=["square", "grade_1"])

# %% [markdown]
# ## Situation 1: another package
#
# `square` runs on the server's Python. `grade_1` has an environment of its own: it grades pictures with version 1.0 of `sharpness`, a tiny package made on the spot. `where` asks a model for its package's version, its Python's version, and the environment's place:

# %% tags=["triton"]
import os

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
image = grpc.InferInput("image", [1, 3, 64, 64], "FP32")
image.set_data_from_numpy(np.ones((1, 3, 64, 64), np.float32))


def where(model):
    words = client.infer(model, [image]).as_numpy("where")[0]
    return [word.decode().replace(str(models.resolve()), "models") for word in words]


where("grade_1")

# %% [markdown]
# `grade_2` needs 2.0. One Python cannot have both versions, and the server's has neither:

# %% tags=["triton"]
# %%writefile {models}/grade_2/1/model.py
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


# %% tags=["triton"]
# !curl -sX POST $TRITON_HTTP/v2/repository/models/grade_2/load | sed 's/.nAt:.*//'

# %% [markdown]
# We make an environment with that version. `--copies`, since this course's server refuses links that lead out of a repository. With `--python`, pip installs into another environment. Triton's module `triton_python_backend_utils` needs numpy, too. The folder of wheels takes the place of a registry.

# %% language="bash" tags=["triton"]
# env=$TRITON_MODELS.env
# python3 -m venv --copies --without-pip --clear $env
# python3 -m pip --python $env/bin/python install --quiet \
#   --no-index --find-links $TRITON_MODELS.wheels numpy sharpness==2.0
# ls $env/lib/python3*/site-packages

# %% [markdown]
# ## Pack it
#
# Before the model's process starts, bash sources `bin/activate` of the environment. A venv's script names the folder where it was made. `venv-pack -o env.tar.gz` and `conda-pack` replace it by one that finds its own place. These lines do so too:

# %% language="bash" tags=["triton"]
# cat > $TRITON_MODELS.env/bin/activate <<'END'
# VIRTUAL_ENV=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH" PYTHONNOUSERSITE=1
# END
# cd $TRITON_MODELS/grade_2
# tar -czf env.tar.gz -C $TRITON_MODELS.env .
# grep -q EXECUTION_ENV_PATH config.pbtxt || cat >> config.pbtxt <<'END'
# parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }
# END
# tail -1 config.pbtxt
# du -sh ../../environments.env env.tar.gz

# %% [markdown]
# `$$TRITON_MODEL_DIRECTORY` is the folder of the model. Now two clients ask `square` and `grade_1` without a pause, and we load the third model. In the figure each mark is a request, and the load is shaded.


# %% tags=["triton"]
import threading
import time
from concurrent.futures import ThreadPoolExecutor


def keep_asking(model, tensor):
    """Ask a model again and again until `stop` is set; note each request in `requests`."""
    with grpc.InferenceServerClient(os.environ["TRITON_GRPC"]) as own:
        while not stop.wait(0.004):
            sent, error = time.perf_counter(), ""
            try:
                own.infer(model, [tensor])
            except InferenceServerException as problem:
                error = problem.message()
            requests.append((model, sent, time.perf_counter(), error))


# %% tags=["triton"]
numbers = grpc.InferInput("INPUT", [1, 4], "FP32")
numbers.set_data_from_numpy(np.ones((1, 4), np.float32))
for file in ("1/model.py", "env.tar.gz"):
    (models / "grade_2" / file).touch()  # as if they were new, if you run this cell again
requests, stop, load = [], threading.Event(), []
with ThreadPoolExecutor() as pool:
    pool.submit(keep_asking, "square", numbers)
    pool.submit(keep_asking, "grade_1", image)
    time.sleep(0.5)
    try:
        load.append(time.perf_counter())
        client.load_model("grade_2")
        load.append(time.perf_counter())
        time.sleep(0.5)
    finally:
        stop.set()

# %%
watched = setup.watched(requests, load)
setup.plot(watched)

# %% tags=["triton"]
versions = {model: where(model) for model in ("grade_1", "grade_2")}
versions

# %%
both = (versions["grade_1"][0], versions["grade_2"][0]) == ("1.0", "2.0")
claim(
    watched.failed == 0 and both,
    f"grade_2 has sharpness 2.0, grade_1 has 1.0. Of {len(watched.answers)} requests none failed.",
    "Run the cells of this section again.",
    premise=watched.overlap,
    id="environments.third",
)

# %% [markdown]
# The load unpacks and imports on the same cores, so requests may take longer meanwhile.
#
# ## The same archive again
#
# The server unpacks the archive into a folder of its own below `/tmp`, and removes it when it ends. Another model, `grade_3`, may name the same archive by its full path. A third one, `unpacked`, names a [folder](https://github.com/triton-inference-server/python_backend#creating-custom-execution-environments).

# %%
predict(
    "environments.again",
    "grade_3's config names the archive in grade_2's folder. What does its load do?",
    {
        "it unpacks the archive once more, for itself": "The server remembers which file it has "
        "unpacked, and when that file was changed last.",
        "it uses what was unpacked for grade_2": None,
        "it is refused: the archive lies in another model's folder": "grade_3's config names "
        "it by its full path, and the server loads that.",
    },
)

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT grade_2 grade_3 && rm grade_3/env.tar.gz
# cp -rT grade_3 unpacked
# sed -i "s|[$]*TRITON_MODEL_DIRECTORY|$PWD/grade_2|" grade_3/config.pbtxt
# mkdir -p unpacked/env && tar -xzf grade_2/env.tar.gz -C unpacked/env
# sed -i 's|env.tar.gz|env|' unpacked/config.pbtxt


# %% tags=["triton"]
def seconds(model):
    """Load a model anew; return the seconds until it is ready."""
    (models / model / "1/model.py").touch()
    began = time.perf_counter()
    client.load_model(model)
    return round(time.perf_counter() - began, 2)


(models / "grade_2/env.tar.gz").touch()  # as if it were new
took = {model: seconds(model) for model in ("grade_2", "grade_3", "unpacked", "square")}
places = {model: where(model)[2] for model in ("grade_2", "grade_3", "unpacked")}
print(took, places, sep="\n")

# %%
shared = places["grade_2"] == places["grade_3"]
other = "it unpacks the archive once more, for itself"
answered = Premise(len(places) == 3, "a model did not answer")
compare(
    "environments.again",
    "it uses what was unpacked for grade_2" if shared else other,
    premise=answered,
)
claim(
    shared,
    f"The archive was unpacked once, and both models use {places['grade_2']}: grade_2's load took "
    f"{took['grade_2']} s, grade_3's {took['grade_3']} s. A folder is not unpacked at all.",
    "Run the cells of this section again.",
    premise=answered,
    id="environments.again",
)

# %% [markdown]
# A first load also compiles Python files. Each model still has the packages in its own memory: in its process, which Triton calls the *stub*.

# %%
stubs = measure.processes(lab).query("process == 'stub'")
newest = stubs.drop_duplicates("model", keep="last")  # after a load, the one before it ends
newest[["model", "memory_mb"]].round()

# %% [markdown]
# ## Where an archive works
#
# A venv has no standard library: it needs the Python that made it, at the same path (`pyvenv.cfg`). A conda environment holds its interpreter, and conda-pack makes it movable:

# %%
show("clients/conda_env.sh")

# %%
left = setup.run_scripts(models)  # in conda's place a program that only creates the archive
for script, files in left.items():
    print(f"{script} leaves behind: {files or 'nothing'}")

# %%
claim(
    left["conda_env.sh"] and not left["conda_env.as_printed.sh"],
    "This script leaves its archive. The backend slides' script (as_printed) removes what it has made.",
    "Run the cell above again.",
    id="environments.script",
)

# %% [markdown]
# In [newer releases](../14__images/14__images.ipynb#Your-release-has) the stub has Python 3.12. We had no conda, so no environment was packed with it.
#
# <details><summary>Errata: the backend slides</summary>
#
# In [their script](clients/conda_env.as_printed.sh), the archive lies in the folder that the last line removes. Nobody makes that folder, the installer is called from another one, `-ny` names the environment `y`, and no package is installed.
#
# </details>
#
# ## Situation 2: another Python
#
# The stub is a program, `triton_python_backend_stub`, with one Python inside. NVIDIA's container has one stub, in `/opt/tritonserver/backends/python`. The wheel of this course's server has several:

# %% language="bash" tags=["triton"]
# for stub in $TRITON_STUBS/*/triton_python_backend_stub; do
#   ldd $stub | grep -om1 'libpython[^ ]*' | head -1
# done

# %%
claim(
    setup.stubs_are_linked(),
    "Each stub of the server's wheel is linked with the library of one Python.",
    "Run this cell again.",
    id="environments.stub",
)

# %% [markdown]
# So the model's folder gets three things: the environment, that Python's library in the environment's `lib`, and the stub for this Python. Where there is none, [compile](https://github.com/triton-inference-server/python_backend#building-custom-python-backend-stub) one.
#
# ```bash
# python3.12 -m venv --copies --without-pip env
# pip --python env/bin/python install numpy==1.26.4 sharpness-2.0-py3-none-any.whl
# cp /usr/lib/libpython3.12.so.1.0 env/lib/
# cp $TRITON_STUBS/3.12/triton_python_backend_stub .  # or the one that you compiled
# ```

# %%
second = setup.situation_2(lab)  # does the same, if this machine can: up to a minute, with pip
if second.answered:
    claim(second.as_expected, f"{second}", "Run this cell again.", id="environments.other")
else:
    second.show("environments.other")

# %% [markdown]
# ## Five mistakes

# %%
made = setup.provoke(models, lab)  # each in a copy of grade_1, with an archive
made

# %%
claim(len(made.refused) == 5, "All five are refused.", "Run it again.", id="environments.mistakes")

# %% [markdown]
# For a GPU (not verified), an environment holds the framework's CUDA build, which often has some gigabytes.
#
# ## Your turn
#
# `strict` was copied from `grade_2`, and its environment, the folder `strict/env`, from `grade_1`. It loads, and each request fails. Give it the version that it needs; `grade_1` keeps its own. Then load `strict` again; the last cell checks.

# %%
setup.strict(models)  # keeps a folder that is there
lab.load("strict")

# %%
task("environments.strict", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# This script gives any Python model packages of its own:

# %%
show("at_work/pack_env.sh")

# %% language="bash" tags=["triton"]
# new=$TRITON_MODELS/grade_4
# mkdir -p $new && cp -r $TRITON_MODELS/grade_2/1 $new/
# grep -v EXECUTION_ENV_PATH $TRITON_MODELS/grade_2/config.pbtxt > $new/config.pbtxt
# bash at_work/pack_env.sh $new \
#   --no-index --find-links $TRITON_MODELS.wheels numpy sharpness==2.0
# curl -sX POST $TRITON_HTTP/v2/repository/models/grade_4/load
# curl -s $TRITON_HTTP/v2/models/grade_4/config | grep -o '"parameters":.*'

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
