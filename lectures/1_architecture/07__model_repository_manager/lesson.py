# ---
# title: The model repository manager
# minutes: 16
# ---

# %% [markdown]
# # The model repository manager
#
# **Question.** A new version of your model is there, and clients are calling. How do you put it in so that none of their requests fails?
#
# The *model repository manager* loads and unloads models. The *model control mode* says what makes it do so:
#
# ![Triton; marked are the model repository and its manager](architecture.svg)

# %%
import pandas as pd

import setup
from workbook.common.errors import WorkbookError
from workbook.lessons import attempt, claim, compare, folder, laboratory, predict, task

models = folder("repository_manager")
home = setup.digits(models)
setup.tree(home)

# %% [markdown]
# ## What a repository holds
#
# ![The layout of a model repository](../../images/repository.svg)
#
# A folder has the **model name**. In it each number is a **model version** with its **model files**; beside them lies the **model configuration**. Ours is the digits network in TorchScript.
#
# A Python model may bring its packages: an archive such as `conda_env.tar.gz`, named in the parameter `EXECUTION_ENV_PATH` (lecture 2).

# %% [markdown]
# ## Three modes
#
# | mode | at the start | later |
# |---|---|---|
# | `none` (the default) | loads everything | ignores changes, refuses commands |
# | `poll` | loads everything | follows changes at intervals; refuses commands |
# | `explicit` | loads what `--load-model` names | loads and unloads on command |
#
# Source: [model management](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_management.md). First `none`:

# %%
setup.keep_version_1(home)
with laboratory(models, control="none") as fixed:
    setup.add_version(home, 2)
    try:
        fixed.load("digits")
        refusal = ""
    except WorkbookError as error:
        refusal = error.message
    answered, _ = setup.time_request(fixed)
claim(
    answered == 1 and "not allowed" in refusal,
    f"Version 2 lies there, version 1 answers, and a command is refused: {refusal}",
    "Run the cell above again.",
    id="repository.none",
)

# %% [markdown]
# The message speaks of polling. Mode `none` gives the same one as mode `poll`.
#
# ## Under load
#
# Four clients ask without a pause. Version 2 takes the place of version 1 in three ways, each on a new server.

# %%
predict(
    "repository.failed",
    "In which way do requests fail?",
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
def put_in(server):
    setup.add_version(home, 2)


def reload(server):
    setup.add_version(home, 2)
    server.load("digits")


def replace(server):
    setup.add_version(home, 2)
    server.unload("digits")
    server.load("digits")


# %%
def three_ways():
    return {
        "poll": setup.from_version_1(models, "poll", put_in),
        "explicit, load": setup.from_version_1(models, "explicit", reload),
        "explicit, unload first": setup.from_version_1(models, "explicit", replace),
    }


ways = attempt(three_ways, setup.changed)
setup.plot(ways)

# %%
polled, loaded, unloaded = (watched.failed for watched in ways.values())
unload = "explicit: unload first, then load"
seen = "in none of them" if not unloaded else unload
compare("repository.failed", seen, premise=setup.changed(ways))
claim(
    polled == loaded == 0 < unloaded,
    f"Failed: {polled} with poll, {loaded} with load, {unloaded} with unload first.",
    "Run the experiment again.",
    premise=setup.changed(ways),
    id="repository.failed",
)

# %% [markdown]
# > **Erratum.** Upstream's guide said that a reload in mode explicit loses no availability. Since January 2026 ([26.02](../../2_backends/14__images/14__images.ipynb#Your-release-has)) it says to [unload first](https://github.com/triton-inference-server/server/pull/8562), without a reason. Here, on 24.10, a reload lost no request, and unloading first did. If you must, take the server out of the load balancer before.
#
# The first answers of version 2 are slow (*warm-up*, below).

# %% [markdown]
# ## A bad version
#
# Version 3 was copied while the disk was full: half of its file is missing. Someone loads it in mode explicit, under load.

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

# %%
setup.keep_version_1(home)
setup.add_version(home, 2)
setup.half(models)
lab = laboratory(models, only=["digits"])


def load_version_3():
    setup.add_version(home, 3, cut=True)
    try:
        lab.load("digits")
    except WorkbookError as error:
        print(error.message[:160], "…")


# %%
bad = setup.under_load(lab, load_version_3)
answers = bad.answers
last = int(answers[answers["error"] == ""]["version"].iloc[-1])
tried = setup.tried(lab)
options = {1: "version 1: the manager goes back to it", 2: "version 2"}
compare("repository.bad", options[last], premise=tried)
claim(
    bad.failed == 0 and bad.versions == [2],
    f"Version 3 failed to load. Of {len(answers)} requests none failed: version 2 answered.",
    "Run the cell again.",
    premise=tried,
    id="repository.bad",
)
pd.DataFrame(lab.index()).fillna("")

# %% [markdown]
# > Poll mode may look at a folder while it is being copied. Put a version together elsewhere on the same disk, and move it in. For this reason the guide advises against poll [in production](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_management.md#model-control-mode-poll).
#
# While a model loads or unloads, change nothing in its folder ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_management.md#modifying-the-model-repository)).

# %% [markdown]
# ## Which versions
#
# `version_policy` chooses among the folders. The guide says: names that are no numbers, or begin with 0, are [ignored](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md#model-versions). A load command may carry a whole config, so the file stays as it is. We try three policies on six folders:

# %%
setup.keep_version_1(home)
names = ["1", "2", "5", "007", "two", "0"]
for name in names[1:]:
    setup.add_version(home, name)
lab.load("digits")
config = lab.config("digits")
policies = {
    "latest 1 (the default)": {"latest": {"num_versions": 1}},
    "specific 1, 2": {"specific": {"versions": [1, 2]}},
    "all": {"all": {}},
}

# %%
rows = {}
for name, policy in policies.items():
    lab.load("digits", config={**config, "version_policy": policy})
    rows[name] = setup.versions(lab, names) | {"unnamed goes to": setup.time_request(lab)[0]}
table = pd.DataFrame(rows).T
ready = [" ".join(row.index[row == "ready"]) for _, row in table.iterrows()]
claim(
    ready == ["5", "1 2", "1 2 5 0"],
    "Each policy loads what it names. The folders 007 and two are never loaded.",
    "Run the two cells again.",
    id="repository.policy",
)
table

# %% [markdown]
# The last column: a request that names no version goes to the highest version that is ready.
#
# Against the guide, release 24.10 does serve a folder named `0`. Do not rely on it.

# %% [markdown]
# ## Warm-up
#
# Frameworks do some work at the first request: they compile, they allocate. With `model_warmup` Triton sends sample requests while it loads the model. We put it into the config of a load command, like the policies above. Then a load command brings even the model's files.


# %%
def first_request(config):
    lab.unload("digits")
    lab.load("digits", config=config)
    return setup.time_request(lab)[1]


image = {"dims": [1, 8, 8], "data_type": "TYPE_FP32", "zero_data": True}
sample = {"name": "zeros", "batch_size": 1, "count": 3, "inputs": {"INPUT__0": image}}
warm = {**config, "model_warmup": [sample]}

# %%
kinds = {"cold": config, "warmed up": warm}  # the fastest of three is disturbed least
times = {kind: min(first_request(each) for _ in range(3)) for kind, each in kinds.items()}
claim(
    times["cold"] > 2 * times["warmed up"],
    f"First request: {times['cold']:.0f} ms cold, {times['warmed up']:.0f} ms warmed up.",
    "Run this cell again.",
    id="repository.warm",
)
files = {"77/model.pt": home / "1/model.pt", "labels.txt": home / "labels.txt"}
files = {f"file:{name}": path.read_bytes() for name, path in files.items()}
lab.load("digits", config=config, files=files)
print(
    "version", setup.time_request(lab)[0], "answers; is there a folder 77?", (home / "77").exists()
)

# %% [markdown]
# `--model-repository` may be given several times, and may be a bucket: `s3://…`, `gs://…`, `as://…`. The core copies a model to a local folder before it loads it ([locations](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md#model-repository-locations)).

# %% [markdown]
# ## Your turn
#
# In `models/half`, version 2 is cut off like version 3 above. It was meant to hold the same weights as version 1. Make both versions answer at the same time. Write your commands in a cell above the task; `lab.load("half")` loads the model, or says what is wrong.

# %%
task("repository.half", server=lab, models=models)

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
