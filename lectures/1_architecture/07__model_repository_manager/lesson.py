# ---
# title: The model repository manager
# minutes: 29
# ---

# %% [markdown]
# # The model repository manager
#
# **Question.** A new version of your model is there, and clients are calling. How do you put it in so that none of their requests fails?
#
# The *model repository manager* loads and unloads models. It does so at the start, when a folder changes, or on a command: that depends on the server's *model control mode*.
#
# ![Triton; marked are the model repository and its manager](architecture.svg)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("repository_manager")
setup.digits(models)
fixed = laboratory(models, control="none")  # a Triton server of this notebook's own

# %% [markdown]
# ## What a repository holds
#
# ![The layout of a model repository](../../images/repository.svg)
#
# A folder has the **model name**. In it, a folder with a number is a **model version** and holds its **model files**. Beside the versions lies the **model configuration**. Ours is the digits network in TorchScript.
#
# A Python model may bring its packages, in an archive such as `conda_env.tar.gz` (lecture 2).

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# find digits -type f -printf '%p  %s bytes\n' | sort

# %% [markdown]
# ## Three modes
#
# `tritonserver --model-repository=/models --model-control-mode=…` ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_management.md)):
#
# | mode | at the start | later |
# |---|---|---|
# | `none` (the default) | loads everything | ignores changes, refuses commands |
# | `poll` | loads everything | follows changes, every `--repository-poll-secs`; refuses commands |
# | `explicit` | loads what `--load-model` names | loads and unloads on command |

# %% tags=["triton"]
import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pandas as pd
import tritonclient.grpc as grpc
from sklearn.datasets import load_digits
from tritonclient.utils import InferenceServerException

# %% tags=["triton"]
home = models / "digits"
picture = (load_digits().images[:1, None] / 16).astype(np.float32)
image = grpc.InferInput("INPUT__0", picture.shape, "FP32")
image.set_data_from_numpy(picture)


def triton():
    """A client of the server that runs now: each mode below has a server of its own."""
    return grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def version_now(client):
    """Send a picture to no version in particular; return the version that answers."""
    return int(client.infer("digits", [image]).get_response().model_version)


# %% [markdown]
# A new version is put together elsewhere on the same disk, then moved in, so that the server never sees half of it. Ours has the files of version 1, as if it had been trained anew.


# %% tags=["triton"]
def put_in(version):
    """Add a version to the model's folder."""
    draft = models.with_name("draft")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(home / "1", draft)
    draft.rename(home / version)


def begin_with(*versions):
    """Leave these versions in the model's folder; add those that are missing."""
    for folder in home.iterdir():
        if folder.is_dir() and folder.name not in versions:
            shutil.rmtree(folder)
    for version in versions:
        if not (home / version).exists():
            put_in(version)


# %% tags=["triton"]
# The server is in mode none. Here comes version 2, and a command to load it.
begin_with("1", "2")
try:
    refusal = ""
    triton().load_model("digits")
except InferenceServerException as error:
    refusal = error.message()
    print(refusal)
answered = version_now(triton())
print(f"version {answered} answers")

# %% tags=["triton"]
# !curl -sX POST $TRITON_HTTP/v2/repository/index

# %%
claim(
    answered == 1 and "not allowed" in refusal,
    f"Version 2 lies there, version 1 answers, and a command is refused: {refusal}",
    "Run the cell that starts the server again, then the cells below it.",
    id="repository.none",
)

# %% [markdown]
# The message speaks of polling. Mode `none` gives the same one as mode `poll`.
#
# ## Under load
#
# Four clients ask without a pause, while version 2 takes the place of version 1: in mode poll, and twice in mode explicit.


# %% tags=["triton"]
def ask(client, answers, stop):
    """Send pictures until `stop` is set; note when, the ms, the version and the error."""
    while not stop.wait(0.004):  # a short pause leaves cores to the server
        sent, version, error = time.time(), 0, ""
        try:
            version = version_now(client)
        except InferenceServerException as problem:
            error = problem.message()
        answers.append((sent, 1000 * (time.time() - sent), version, error))


# %% tags=["triton"]
@contextmanager
def clients(count=4):
    """Within the block, clients ask; the block gets the list of their answers."""
    answers, stop = [], threading.Event()
    with ThreadPoolExecutor(count) as pool:
        for client in [triton() for _ in range(count)]:
            version_now(client)  # a model's first answers are slow
            pool.submit(ask, client, answers, stop)
        try:
            time.sleep(0.7)
            yield answers
            time.sleep(0.7)
        finally:
            stop.set()


# %%
predict(
    "repository.failed",
    "Version 2 is put in, in three ways. In which way do requests fail?",
    {
        "poll: version 2 is put into the folder": "The manager loads version 2 beside version 1, "
        "and unloads version 1 when version 2 is ready.",
        "explicit: version 2 is put in, then load": "A load command for a loaded model does what "
        "poll does: it loads the new version, and only then unloads the old one.",
        "explicit: unload first, then load": None,
        "in none of them": "Between unload and ready there is no version, and Triton does not "
        "keep requests for a model that it does not have.",
    },
)

# %%
# Poll: a server that looks into the folder each second.
fixed.stop()
begin_with("1")
poller = laboratory(models, control="poll", poll_seconds=1)
with clients() as answers_of_poll:
    put_in("2")
    setup.wait_for(2, answers_of_poll)  # until version 2 answers
poll = setup.watched(poller, answers_of_poll)  # the answers, and the loads in the server's log

# Explicit: a server that stays until the end of this notebook.
poller.stop()
begin_with("1")
lab = laboratory(models, only=["digits"])  # --load-model=digits

# %% tags=["triton"]
begin_with("1")
triton().load_model("digits")
with clients() as answers_of_load:
    put_in("2")
    triton().load_model("digits")

# %% tags=["triton"]
begin_with("1")
triton().load_model("digits")
with clients() as answers_of_unload:
    put_in("2")
    triton().unload_model("digits")
    triton().load_model("digits")

# %%
ways = {
    "poll": poll,
    "explicit, load": setup.watched(lab, answers_of_load),
    "explicit, unload first": setup.watched(lab, answers_of_unload),
}
setup.plot(ways)

# %%
by_poll, by_load = ways["poll"].failed, ways["explicit, load"].failed
by_unload = ways["explicit, unload first"].failed
seen = "explicit: unload first, then load" if by_unload > 0 else "in none of them"
came = setup.changed(ways)
compare("repository.failed", seen, premise=came)
claim(
    by_poll == by_load == 0 < by_unload,
    f"Failed: {by_poll} with poll, {by_load} with load, {by_unload} with unload first.",
    "Run the experiment again.",
    premise=came,
    id="repository.failed",
)

# %% [markdown]
# From the unload until *ready* there is no version, and the server keeps no requests for a model that it does not have. (The unload comes before *loads 2*: requests begin to fail there.) The first answers of version 2 are slow: see *Warm-up*, below.
#
# <details><summary>Errata: the guide on reloading</summary>
#
# Upstream's guide said that a reload in mode explicit loses no availability. Since January 2026 ([26.02](../../2_backends/14__images/14__images.ipynb#Your-release-has)) it says to [unload first](https://github.com/triton-inference-server/server/pull/8562), and gives no reason. Here, on 24.10, a reload lost no request, and unloading first did. If you unload first, take the server out of the load balancer before.
#
# </details>

# %% [markdown]
# ## A bad version
#
# Version 3 was copied while the disk was full: half of its file is missing. Someone sends the load command for it, while clients ask.

# %%
predict(
    "repository.bad",
    "Version 2 is loaded. Who answers after the load of version 3 has failed?",
    {
        "version 1: the manager goes back to it": "Version 1 was unloaded when version 2 was "
        "ready. After a load that fails, the manager keeps what is loaded: version 2.",
        "version 2": None,
        "nobody: the newest version is not there": "The policy asks for the newest, but the "
        "manager unloads the old version only after the new one is ready.",
    },
)

# %% tags=["triton"]
begin_with("1", "2")
triton().load_model("digits")
with clients() as answers_of_bad:
    put_in("3")
    with open(home / "3/model.pt", "r+b") as file:
        file.truncate(os.path.getsize(home / "3/model.pt") // 2)
    try:
        triton().load_model("digits")
    except InferenceServerException as error:
        print(error.message()[:160], "…")
bad = pd.DataFrame(answers_of_bad, columns=["sent", "ms", "version", "error"])
index = pd.DataFrame(triton().get_model_repository_index(as_json=True)["models"])
index.fillna("")

# %%
tried = setup.tried(index)
options = {1: "version 1: the manager goes back to it", 2: "version 2"}
compare(
    "repository.bad",
    options.get(bad["version"].iloc[-1], "nobody: the newest version is not there"),
    premise=tried,
)
claim(
    (bad["error"] == "").all() and (bad["version"] == 2).all(),
    f"Version 3 failed to load. Of {len(bad)} requests {(bad['error'] != '').sum()} failed: "
    "version 2 answered.",
    "Run the cell again.",
    premise=tried,
    id="repository.bad",
)

# %% [markdown]
# In mode poll, the server may look at a folder while it is being copied. For this reason the guide advises against poll [in production](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_management.md#model-control-mode-poll).
#
# While a model loads or unloads, change nothing in its folder ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_management.md#modifying-the-model-repository)).

# %% [markdown]
# ## Which versions
#
# A line in `config.pbtxt` chooses among the folders, such as `version_policy { specific { versions: [ 1, 2 ] } }`. The guide says: folders whose names are no numbers, or begin with 0, are [ignored](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md#model-versions). Are they?
#
# We try three policies on six folders. A load command may carry a config as JSON, in place of the file:

# %% tags=["triton"]
begin_with("1", "2", "5", "007", "two", "0")
triton().load_model("digits")
config = triton().get_model_config("digits", as_json=True)["config"]
policies = {
    "latest 1 (the default)": {"latest": {"num_versions": 1}},
    "specific 1, 2": {"specific": {"versions": [1, 2]}},
    "all": {"all": {}},
}


# %% tags=["triton"]
def ready(client):
    """The versions of the model that are ready."""
    entries = client.get_model_repository_index(as_json=True)["models"]
    mine = [each for each in entries if each["name"] == "digits"]
    return sorted(each["version"] for each in mine if each.get("state") == "READY")


rows = {}
for name, policy in policies.items():
    client = triton()
    client.load_model("digits", config=json.dumps({**config, "version_policy": policy}))
    rows[name] = {"ready": ready(client), "unnamed goes to": version_now(client)}
chosen = pd.DataFrame(rows).T
chosen

# %%
claim(
    list(chosen["ready"]) == [["5"], ["1", "2"], ["0", "1", "2", "5"]],
    "Each policy loads what it names. The folders 007 and two are never loaded.",
    "Run the two cells again.",
    id="repository.policy",
)

# %% [markdown]
# A request that names no version goes to the highest one that is ready. And a folder that begins with 0 was served:
#
# <details><summary>Errata: the guide on folders</summary>
#
# Against the guide, release 24.10 does serve a folder named `0`, but not `007`. Do not rely on it.
#
# </details>
#
# ## Warm-up
#
# At the first request frameworks compile and allocate. With `model_warmup` Triton sends sample requests while it loads the model. In `config.pbtxt`:
#
# ```protobuf
# model_warmup {
#   name: "zeros" batch_size: 1 count: 3
#   inputs { key: "INPUT__0" value { data_type: TYPE_FP32 dims: [ 1, 8, 8 ] zero_data: true } }
# }
# ```
#
# The same as JSON, in load commands:


# %% tags=["triton"]
def first_request(config):
    """Load the model anew; return the ms of its first request."""
    client = triton()
    client.unload_model("digits")
    client.load_model("digits", config=json.dumps(config))
    began = time.perf_counter()
    client.infer("digits", [image])
    return 1000 * (time.perf_counter() - began)


zeros = {"dims": [1, 8, 8], "data_type": "TYPE_FP32", "zero_data": True}
sample = {"name": "zeros", "batch_size": 1, "count": 3, "inputs": {"INPUT__0": zeros}}
kinds = {"cold": config, "warmed up": {**config, "model_warmup": [sample]}}
# The fastest of three is disturbed least.
first_ms = {kind: min(first_request(each) for _ in range(3)) for kind, each in kinds.items()}
print({kind: f"{ms:.1f} ms" for kind, ms in first_ms.items()})

# %%
claim(
    first_ms["cold"] > 2 * first_ms["warmed up"],
    f"First request: {first_ms['cold']:.0f} ms cold, {first_ms['warmed up']:.0f} ms warmed up.",
    "Run the cell before this one again.",
    id="repository.warm",
)

# %% [markdown]
# ## A command that brings the files
#
# A program that cannot write to the server's disk may send the model's files in the load command ([protocol](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_model_repository.md)). The server then leaves the folder aside:

# %% tags=["triton"]
sources = {"77/model.pt": home / "1/model.pt", "labels.txt": home / "labels.txt"}
files = {f"file:{name}": path.read_bytes() for name, path in sources.items()}
triton().load_model("digits", config=json.dumps(config), files=files)
print(version_now(triton()), "answers; is there a folder 77?", (home / "77").exists())

# %% [markdown]
# Models may lie elsewhere, too: `--model-repository` may be given several times, and may be a bucket: `s3://…`, `gs://…`, `as://…`. The core copies a model to a local folder before it loads it ([locations](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md#model-repository-locations)).

# %% [markdown]
# ## Your turn
#
# In `models/half`, version 2 is cut off like version 3 above. It was meant to hold the same weights as version 1. Make both versions answer at the same time. Write your commands in a cell above the task: Python or `%%bash`. `$TRITON_MODELS` is the folder `models`.

# %%
setup.half(models)  # makes the folder anew, as it was
show(models / "half/config.pbtxt")

# %%
task("repository.half", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# A new version, put in without a failed request. If it is bad, the old one stays. (Here it becomes version 8: the highest number among the folders is 007.)

# %%
show("at_work/deploy.py")

# %% tags=["triton"]
# %run at_work/deploy.py digits {models}/digits/1

# %% [markdown]
# ## What to remember
#
# - Mode `none` changes nothing after the start, `poll` follows the folder, `explicit` follows commands and answers whether each worked.
# - A new version is loaded beside the old one; a load that fails changes nothing. Unloading first costs requests.
# - A version policy says which folders count; a load command may bring config and files.

# %% [markdown]
# ## Check yourself
#
# <details><summary>You want to be able to go back from version 7 to version 6 within seconds, without a failed request. What do you prepare?</summary>
#
# Keep both loaded (`latest { num_versions: 2 }`) and let clients name the version; or have a config with `specific { versions: [6] }` at hand for a load command.
#
# </details>
#
# <details><summary>The GPU's memory holds one copy of your model. What does a reload do, and what is left to you?</summary>
#
# A reload needs memory for both versions at once. So it can fail, and then the old version stays. Unload first, on one server after the other, while a load balancer sends requests to the rest.
#
# </details>
#
# <details><summary>Warm-up makes a load slower. Why does no client notice?</summary>
#
# The samples run before the version is ready. Until then the old version answers.
#
# </details>
#
# Next: [metrics](../08__metrics/08__metrics.ipynb).
