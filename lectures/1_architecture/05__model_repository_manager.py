# ---
# title: The model repository manager
# minutes: 20
# ---

# %% [markdown]
# # The model repository manager
#
# **Question.** A new version of your model arrives while clients are calling. How many of their requests fail?
#
# The answer depends on who may change what is loaded: the *model control mode*.

# %%
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pandas as pd

from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.lessons import (
    Premise,
    attempt,
    claim,
    compare,
    folder,
    laboratory,
    predict,
    write,
)
from workbook.measure import style
from workbook.server import Triton

models = folder("repository_manager")

# %% [markdown]
# ## What a repository holds
#
# ![A repository: name, version, files, configuration](../images/repository.svg)
#
# A folder bears the **model name**. In it, each number is a **model version** and holds the **model files**. Beside them lies `config.pbtxt`, the **model configuration**.

# %%
home = paths.root() / "model_repository" / "digits_onnx"
for file in sorted(f for f in home.rglob("*") if f.is_file() and "__pycache__" not in f.parts):
    print(f"{file.relative_to(home.parent)!s:40} {file.stat().st_size:>8,} bytes")

# %% [markdown]
# `labels.txt` names the classes. The hidden file is the course's note of what it built; Triton passes over it.
#
# A Python model may bring its own packages: an archive such as `conda_env.tar.gz` beside `config.pbtxt`, named in the parameter `EXECUTION_ENV_PATH`. Lecture 2 will build one.
#
# Our model here answers with the version that answered. The same file serves every version.

# %%
write(
    models / "answer/config.pbtxt",
    """
backend: "python"
max_batch_size: 0
input { name: "x" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "version" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "calls" data_type: TYPE_INT32 dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
""",
)
(models / "answer/1").mkdir(exist_ok=True)

# %%
# %%writefile {models}/answer/1/model.py
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.version = int(args["model_version"])
        self.calls = 0

    def execute(self, requests):
        return [self.answer() for _ in requests]

    def answer(self):
        if self.calls == 0:
            time.sleep(0.5)  # as a framework that compiles at the first call
        self.calls += 1
        values = {"version": self.version, "calls": self.calls}
        tensors = [pb_utils.Tensor(k, np.array([v], np.int32)) for k, v in values.items()]
        return pb_utils.InferenceResponse(tensors)


# %%
def ask(server, version=None):
    place = "/v2/models/answer" + (f"/versions/{version}" if version else "")
    body = {"inputs": [{"name": "x", "shape": [1], "datatype": "INT32", "data": [0]}]}
    outputs = server.request("POST", f"{place}/infer", json=body)["outputs"]
    return {output["name"]: output["data"][0] for output in outputs}


# %%
def keep_version_1():
    for path in (models / "answer").glob("[02-9]*"):
        shutil.rmtree(path)


def add_version(number, code=None):  # beside the repository first, then in one move
    new, place = models.parent / f"answer-{number}", models / "answer" / str(number)
    for old in (new, place):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(models / "answer/1", new)
    if code is not None:
        (new / "model.py").write_text(code)
    new.rename(place)


# %% [markdown]
# ## Three modes
#
# | mode | at the start | later |
# |---|---|---|
# | `none` (the default) | loads everything | ignores all changes and all commands |
# | `poll` | loads everything | looks for changes now and then, and follows them |
# | `explicit` | loads what `--load-model` names | loads and unloads when told |
#
# Source: [model management](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_management.md).

# %% [markdown]
# ### None: once, and never again

# %%
keep_version_1()
with Triton(models, control="none") as fixed:
    print("version", ask(fixed)["version"], "answers")
    add_version(2)
    time.sleep(2)
    after = ask(fixed)["version"]
    try:
        fixed.load("answer")
        said = "loaded"
    except WorkbookError as error:
        said = error.message

# %%
claim(after == 1, "In mode none a new version lies there unnoticed.", "Run the cell above again.")
claim(
    "not allowed" in said,
    f"And the server takes no commands: {said}",
    "Look at the server's message above.",
)

# %% [markdown]
# The message speaks of polling. Mode `none` returns the same message.

# %% [markdown]
# ### Poll: under way, a new version
#
# Now the experiment. Four clients ask without a pause. After a second, version 2 is put into the repository. The server looks every second.

# %%
predict(
    "repository.failed",
    "Version 1 gives way to version 2 under load. How many requests fail?",
    ["none", "a handful, while the versions change", "all, for about a second"],
)


# %%
def client(server, began, stop, seen, failed):
    while not stop.is_set():
        sent = time.perf_counter() - began
        try:
            seen.append((sent, ask(server)["version"]))
        except WorkbookError as error:
            failed.append((sent, error))


# %%
def under_load(server):
    began, stop, seen, failed = time.perf_counter(), threading.Event(), [], []
    with ThreadPoolExecutor(4) as pool:
        [pool.submit(client, server, began, stop, seen, failed) for _ in range(4)]
        time.sleep(1)
        moved = time.perf_counter() - began
        add_version(2)
        while time.perf_counter() - began < 30 and (not seen or seen[-1][1] == 1):
            time.sleep(0.1)
        time.sleep(1)
        stop.set()
    return pd.DataFrame(seen, columns=["sent", "version"]), failed, moved


# %%
def replace_version():
    keep_version_1()
    server = laboratory(models, control="poll", poll_seconds=1)
    ask(server)
    return server, *under_load(server)


def replaced(run):
    return Premise(set(run[1].version) == {1, 2}, "version 2 did not answer within 30 s")


poller, answers, failed, moved = attempt(replace_version, replaced)

# %%
first = answers[answers.version == 2].sent.min()
figure = style.Picture(8.4, 2.2, "Which version answered, against time")
axes = figure.subplots()
style.panel(axes, "Each mark is a request, at the time when it was sent", below="seconds", grid="x")
for version, group in answers.groupby("version"):
    axes.plot(group.sent, group.version, "|", color=style.COLOURS[version], markersize=16)
axes.axvline(moved, color=style.GREY, linestyle=":")
axes.text(moved, 1.5, " version 2 is put in", color=style.GREY)
axes.set_yticks([1, 2], ["version 1", "version 2"])
axes.set_ylim(0.5, 2.5)
figure

# %%
print(f"{len(answers)} answers, {len(failed)} failures; {first - moved:.1f} s until the change")
right = "none" if not failed else "a handful, while the versions change"
changed = replaced((poller, answers))
compare("repository.failed", right, premise=changed)
claim(
    not failed, "Not one request failed.", f"The first failure was: {failed[:1]}", premise=changed
)
claim(
    list(answers.version.iloc[[0, -1]]) == [1, 2],
    "Version 1 answered until version 2 was ready, then version 2 took over.",
    "Run the experiment again.",
    premise=changed,
)

# %% [markdown]
# No request failed, but look at the gap after the change: the new version's first call is slow. Warm-up, below, closes it.
#
# The server's log tells the order: load first, switch, then unload what nobody needs.

# %%
for line in poller.log_text().splitlines():
    if "model_lifecycle" in line and "answer" in line:
        print(line.split()[1][:12], line.partition("] ")[2])

# %% [markdown]
# **And a bad version?** Version 3 asks for a package that nobody has: it cannot even be imported.

# %%
predict(
    "repository.bad",
    "Version 2 is loaded. Version 3, which cannot be imported, is put in. Who answers then?",
    ["version 1", "version 2", "nobody: the model is gone"],
)

# %%
logged, deadline = poller.log_size(), time.monotonic() + 20
add_version(3, "import a_package_that_nobody_has")
refusal = "failed to load 'answer' version 3"
while refusal not in poller.log_text(logged) and time.monotonic() < deadline:
    time.sleep(0.2)
looked = Premise(refusal in poller.log_text(logged), "the server had not tried version 3 in 20 s")
index = pd.DataFrame(poller.index()).fillna("")
index.assign(reason=index["reason"].str.split("\n").str[0])  # a traceback follows

# %%
try:
    answering = f"version {ask(poller)['version']}"
except WorkbookError:
    answering = "nobody: the model is gone"
compare("repository.bad", answering, premise=looked)
claim(
    answering == "version 2",
    "Version 3 failed to load; version 2 goes on answering.",
    "The table above gives each version's state and its reason. Run the experiment again.",
    premise=looked,
)

# %% [markdown]
# > Poll mode sees a folder while it is still being copied. Put a version together elsewhere on the same disk and move it in, as `add_version` does. NVIDIA's guide advises against poll in [production](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_management.md#model-control-mode-poll) for this reason.

# %% [markdown]
# ### Explicit: when told
#
# The server of this course runs in mode explicit. Nothing is loaded until someone asks: ours names no model with `--load-model` at its start.

# %%
poller.stop()
keep_version_1()
add_version(2)
server = laboratory(models, only=[])
states = [server.ready("answer")]
server.load("answer")
states.append(server.ready("answer"))
server.unload("answer")
states.append(server.ready("answer"))
claim(
    states == [False, True, False],
    "Not ready, ready after load, not ready after unload.",
    "Look at the server's log: print(server.log_text()[-2000:]).",
)
pd.DataFrame(server.index())

# %% [markdown]
# Two version folders lie there, and one version was loaded. Why not both? The next section tells.

# %% [markdown]
# ## Which versions: the version policy
#
# `version_policy` chooses among the version folders. The load command may carry a whole config that is used in place of the file: so we try four policies without touching `config.pbtxt`.

# %%
predict(
    "repository.policy",
    "Folders 1, 2, 3 and 5 exist; the config says nothing of versions. Which are loaded?",
    ["all of them", "the newest: 5", "the first: 1"],
)

# %%
for number in (2, 3, 5):
    add_version(number)
server.load("answer")
config = server.config("answer")
policies = {
    "latest 1 (the default)": {"latest": {"num_versions": 1}},
    "latest 2": {"latest": {"num_versions": 2}},
    "all": {"all": {}},
    "specific 1, 3": {"specific": {"versions": [1, 3]}},
}

# %%
rows = {}
for name, policy in policies.items():
    server.load("answer", config={**config, "version_policy": policy})
    rows[name] = {v: "ready" if server.ready("answer", v) else "–" for v in (1, 2, 3, 5)}
    rows[name]["without a version"] = ask(server)["version"]
table = pd.DataFrame(rows).T
table

# %%
default = table.loc["latest 1 (the default)"]
folders = {path.name for path in (models / "answer").glob("[0-9]*")}
compare(
    "repository.policy",
    "the newest: 5" if default[5] == "ready" else "all of them",
    published="the latest one (model configuration guide)",
    premise=Premise(folders == {"1", "2", "3", "5"}, f"the version folders are {folders}"),
)
claim(
    [list(table.loc[name, [1, 2, 3, 5]] == "ready").count(True) for name in policies]
    == [1, 2, 4, 2],
    "Latest keeps the highest numbers, specific exactly what it names.",
    "Run the two cells before this one again.",
)
claim(
    table.loc["specific 1, 3", "without a version"] == 3,
    "A request that names no version goes to the highest one that is loaded.",
    "Run the two cells before this one again.",
)

# %% [markdown]
# ## A config, or a whole model, from memory
#
# What the load command carries is used until the next load. Even the files may come with it: a model that is in no repository.

# %%
file = (models / "answer/config.pbtxt").read_text()
server.load("answer", config={**config, "instance_group": [{"count": 3, "kind": "KIND_CPU"}]})
instances = server.config("answer")["instance_group"][0]["count"]
claim(
    instances == 3 and file == (models / "answer/config.pbtxt").read_text(),
    "Three instances run, as the command said; the file still says 1.",
    "Run this cell again; did the load command fail?",
)

# %%
source = (models / "answer/1/model.py").read_bytes()
server.load("answer", config=config, files={"file:77/model.py": source})
claim(
    ask(server)["version"] == 77 and not (models / "answer/77").exists(),
    "Version 77 answers, and no folder of that name exists.",
    "Run this cell again; is the server in mode explicit?",
)

# %% [markdown]
# ## Warm-up: the first request is not a client's
#
# Frameworks do some of their work at the first request: they compile, they allocate. With `model_warmup` Triton sends sample requests while it loads. The model is ready only afterwards.

# %%
predict(
    "repository.warm",
    "Our model sleeps 500 ms at its first call. With warm-up, how many ms does the first client "
    "wait?",
    unit="ms",
)


# %%
def first_request(config):
    server.unload("answer")
    server.load("answer", config=config)
    began = time.perf_counter()
    calls = ask(server)["calls"]
    return {"first request, ms": (time.perf_counter() - began) * 1000, "calls so far": calls}


# %%
sample = {"dims": [1], "data_type": "TYPE_INT32", "zero_data": True}
warm = {"name": "zeros", "batch_size": 1, "inputs": {"x": sample}, "count": 3}
results = pd.DataFrame(
    {
        "cold": first_request(config),
        "warmed up": first_request({**config, "model_warmup": [warm]}),
    }
).astype(int)
results

# %%
first_ms = results.loc["first request, ms"]
slept = Premise(first_ms["cold"] >= 500, f"the cold model answered within {first_ms['cold']} ms")
compare("repository.warm", float(first_ms["warmed up"]), unit="ms", premise=slept)
seen_calls = list(results.loc["calls so far"])
claim(
    seen_calls[0] == 1 and seen_calls[1] > 1,
    "With warm-up the model had worked before the first client came.",
    "Look at the config as parsed: server.config('answer').",
)
claim(
    first_ms["cold"] > first_ms["warmed up"],
    "So the first client does not wait for the framework.",
    "Run the experiment again when the machine is less busy.",
    premise=slept,
)

# %%
server.stop()

# %% [markdown]
# ## Where repositories live
#
# `--model-repository` may be given several times, and may be a bucket: `s3://…`, `gs://…`, `as://…`. The core copies a model to a local folder before it loads ([locations](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md#model-repository-locations)).

# %% [markdown]
# ## What to remember
#
# - Mode none never changes, poll follows the folder, explicit follows commands. Production: explicit, so that nothing changes until you ask, and each answer says whether it worked.
# - A new version is loaded beside the old one. A bad one changes nothing.
# - A version policy says which folders count; a load command may override config and files.

# %% [markdown]
# ## Check yourself
#
# <details><summary>You need to go back from version 7 to version 6 within seconds. What do you prepare?</summary>
#
# Keep both loaded (`latest { num_versions: 2 }`) and let clients name the version; or have a config with `specific { versions: [6] }` at hand for a load command.
#
# </details>
#
# <details><summary>Warm-up makes a load slower. Why is that fine?</summary>
#
# The samples run before the model is ready. Until then the old version answers.
#
# </details>
#
# <details><summary>A colleague copies 2 GB into the repository of a server in mode poll. What can go wrong?</summary>
#
# The server may look while half of it is there, and fail to load it. Move it in, in one step.
#
# </details>

# %% [markdown]
# Next: [metrics](06__metrics.ipynb).
