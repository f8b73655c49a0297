# ---
# title: Batching
# minutes: 26
# ---

# %% [markdown]
# # Batching
#
# **Question.** Sixteen pictures in one execution: how much cheaper is that than sixteen executions, and who puts them together?
#
# The step from [`pair`](../02__instances/02__instances.ipynb) to `batched`. You know [how the dynamic batcher forms batches](../../1_architecture/05__dynamic_batcher/05__dynamic_batcher.ipynb). Here the question is what they are worth.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("batching")
place(models, "../02__instances/models/pair", "models/batched")
setup.prepare(models)  # the network's file for both, and a second network as the model dense
lab = laboratory(models)  # a Triton server of this notebook's own

# %% [markdown]
# ## Joined rows
#
# `batched` takes up to 16 pictures in one execution. Its program joins the rows of all requests, calls the network once, and cuts the result where each request's rows end:

# %%
show("models/batched/config.pbtxt", "models/batched/1/model.py")

# %% [markdown]
# ## A batch made by the client
#
# A client may put 16 pictures into *one* request. Then we see what an execution costs, without any batcher. Two networks, the same program:
#
# - `batched`: the focus network. Convolutions: few weights, each used at thousands of places.
# - `dense`: fully connected layers. 12.6 million weights, each used once per picture. It has one instance.

# %%
predict(
    "batching.networks",
    "Alone, a picture takes both networks some milliseconds. Which one computes a picture more "
    "cheaply in a batch of 16?",
    {
        "both, by about the same factor": "A batch saves what its pictures can share. Ask what "
        "that is in each network.",
        "mostly the focus network": "One picture already keeps the core busy with "
        "multiplications, and sixteen pictures need sixteen times as many.",
        "mostly the dense network": None,
    },
)

# %% language="bash" tags=["triton"]
# for model in batched dense; do
#   for rows in 1 4 16; do  # the windows are short, so it may warn of a small sample
#     perf_analyzer -m $model -b $rows -i grpc -u $TRITON_GRPC --input-data zero \
#       -p 600 -s 1000 -r 5 -f $TRITON_MODELS/$model.$rows.csv > /dev/null
#   done
# done

# %% tags=["triton"]
import pandas as pd


def compute_ms(model, rows):
    """How long an execution of this many pictures was computed, by the server's counters."""
    return pd.read_csv(models / f"{model}.{rows}.csv")["Server Compute Infer"][0] / 1000


sizes = [1, 4, 16]
execution = pd.DataFrame(
    {model: [compute_ms(model, rows) for rows in sizes] for model in ("batched", "dense")}, sizes
)
per_picture = execution.div(sizes, axis=0).rename_axis("pictures in a batch")
per_picture.round(2)

# %%
gain = per_picture.loc[1] / per_picture.loc[16]
grew = setup.grows(execution)
more = "mostly the dense network" if gain["dense"] > gain["batched"] else "mostly the focus network"
alike = 0.8 < gain["dense"] / gain["batched"] < 1.25
compare("batching.networks", "both, by about the same factor" if alike else more, premise=grew)
claim(
    gain["dense"] > 1.8 and gain["dense"] > 1.3 * gain["batched"],
    f"In a batch of 16, the dense network computes a picture {gain['dense']:.1f} times as cheaply as "
    f"alone. The focus network: {gain['batched']:.1f} times.",
    "Run the cells of this section again.",
    premise=grew,
    id="batching.networks",
)
claim(
    setup.changed(lab) == 0,
    "In batches of 16, the verdicts on 200 pictures are those of the network: none has changed.",
    "Run the notebook's first cell again.",
    id="batching.same",
)

# %% [markdown]
# A batch reads the weights *once* for all its pictures. That helps where reading takes longer than computing: large fully connected layers, language models, many networks on a GPU. Convolutions on a CPU compute longer.
#
# So measure this first, with several sizes. A batch that no longer fits into the core's cache may cost *more* per picture.

# %% [markdown]
# ## A batch made by the server
#
# The client's code must collect pictures for its batch, and few clients have sixteen at a time.
#
# Sixteen clients send single pictures. `dense` joins them. `alone` is the same without a batcher. `loop` gets batches, but has the program of `pair`, which computes one request after the other:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT dense alone
# sed -i '/dynamic_batching/d' alone/config.pbtxt
# cp -rT dense loop
# cp pair/1/model.py loop/1/model.py
# for model in alone loop; do
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done

# %%
predict(
    "batching.loop",
    "`loop` gets the same batches as `dense`. How much faster than `alone` is it?",
    {
        "nearly as much as dense": "The batch is formed, but the network never sees it: it still "
        "gets one picture per call, and reads its weights for each.",
        "about half as much as dense": "A batch saves messages to the model's process. But the "
        "network is most of the time, and it is called as often as before.",
        "hardly, or not at all": None,
    },
)

# %% tags=["triton"]
import os
import time

import numpy as np
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def counts(model):
    """The pictures and the executions of a model, since it was loaded."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics(model).model_stats[0]
    return np.array([stats.inference_count, stats.execution_count])


# %% tags=["triton"]
address, rows = os.environ["TRITON_GRPC"], {}
for model in ("alone", "loop", "dense"):
    before, report = counts(model), models / f"{model}.load.csv"
    # !perf_analyzer -m {model} -i grpc -u {address} --concurrency-range 16 --input-data zero -p 700 -s 1000 -r 5 -f {report} > /dev/null
    pictures, executions = counts(model) - before
    found = pd.read_csv(report).iloc[0]
    ms = found[["p50 latency", "Server Queue", "Server Compute Infer"]] / 1000
    rows[model] = [found["Inferences/Second"], pictures / executions, *ms]
columns = ["pictures per s", "pictures per execution", "p50 ms", "queue ms", "compute ms"]
load = pd.DataFrame(rows, columns).T
load.round(1)

# %%
sizes_seen = load["pictures per execution"]
won = load["pictures per s"]["dense"] / load["pictures per s"]["alone"]
looped = load["pictures per s"]["loop"] / load["pictures per s"]["alone"]
same_batches = setup.batches(sizes_seen[["loop", "dense"]])
half = "about half as much as dense" if looped > 0.55 * won else "hardly, or not at all"
near = "nearly as much as dense" if looped > 0.8 * won else half
published = (
    "×3.3 for text recognition on an A100 (Triton tutorials, part 2); ×5 for Llama 2 7B on an A10G"
)
compare("batching.loop", near, published=published, premise=same_batches)
claim(
    won > 1.4 and won > 1.2 * looped and sizes_seen["alone"] == 1,
    f"Batches of {sizes_seen['dense']:.1f} pictures: the throughput is ×{won:.1f} with joined rows, and "
    f"×{looped:.1f} with a loop, whose batches have {sizes_seen['loop']:.1f}.",
    "Run the cells of this section again.",
    premise=same_batches,
    id="batching.loop",
)

# %% [markdown]
# Counts of executions prove that a batch was *formed*, not that it was *used*. A loop in `execute` undoes it: look at the compute time per picture, too.
#
# ## An idle server
#
# And when nobody waits? One blocking client:

# %% language="bash" tags=["triton"]
# for model in alone dense; do
#   perf_analyzer -m $model -i grpc -u $TRITON_GRPC --concurrency-range 1 --input-data zero \
#     -p 600 -s 1000 -r 5 -f $TRITON_MODELS/$model.idle.csv > /dev/null
# done

# %% tags=["triton"]
names = ("alone", "dense")
idle = pd.concat(pd.read_csv(models / f"{name}.idle.csv") for name in names).set_axis(names)
idle = idle[["p50 latency", "Server Queue", "Server Compute Infer"]] / 1000
idle.round(2)

# %%
claim(
    idle["Server Queue"]["dense"] < 0.5 * idle["Server Compute Infer"]["dense"],
    f"A request waits for {idle['Server Queue']['dense']:.2f} ms in the queue of dense, and for "
    f"{idle['Server Queue']['alone']:.2f} ms in that of alone, which has no batcher.",
    "Run the cells of this section again.",
    id="batching.idle",
)

# %% [markdown]
# Without a delay, the batcher costs an idle server little. Its thread has to wake up; then it gives the request to the free instance at once. Batches come from requests that would wait anyway. What a delay costs, you have [measured before](../../1_architecture/05__dynamic_batcher/05__dynamic_batcher.ipynb#A-delay).

# %% [markdown]
# ## The forecast
#
# Which batches will form at the load that you expect? The simulator computes it from the costs in the first table, for requests at random times. Then the server gets the same rates, 30 % and 60 % of what `dense` has answered above:

# %% tags=["triton"]
rates, measured = [round(load.loc["dense", "pictures per s"] * share) for share in (0.3, 0.6)], []
for rate in rates:
    before, report = counts("dense"), models / f"rate{rate}.csv"
    # !perf_analyzer -m dense -i grpc -u {address} --request-rate-range {rate} --request-distribution poisson --input-data zero -p 900 -s 1000 -r 10 -f {report} > /dev/null
    pictures, executions = counts("dense") - before
    measured.append(pictures / executions)

# %%
expected = setup.forecast(execution["dense"].to_dict(), rates)
pd.DataFrame(
    {"simulator": expected, "measured": measured}, pd.Index(rates, name="pictures per s")
).round(2)

# %% [markdown]
# Where the two agree, the table of costs is enough to plan with: at the lower rate batches are small, so a batcher gains little there. Where the server's are larger, requests had to wait for something else, too: other programs, or perf_analyzer on the same cores.

# %% [markdown]
# ## More of the batcher
#
# | you need | see |
# |---|---|
# | some requests first: priorities | [queue policies](../../1_architecture/06__queue_policies/06__queue_policies.ipynb) |
# | inputs of different lengths: pad, or *ragged batching* | [ensembles](../../2_backends/12__ensembles/12__ensembles.ipynb) |
# | a bad request among good ones | [the Python backend](../../2_backends/02__python/02__python.ipynb#One-bad-request-among-four) |

# %% [markdown]
# ## The step of the focus network
#
# **Where batching hardly helps:** our own network on a CPU. Its column in the first table falls less than that of `dense`, and clients see only part of it: eight of them fill batches of about four in two instances, and rows must be joined and cut. `batched` also saves messages to the processes.

# %%
from workbook.lessons import scoreboard

step = scoreboard.add(lab, "batching", before="pair", after="batched", what="dynamic batching")
scoreboard.table()

# %%
claim(
    step.changed == 0,
    f"From pair to batched: ×{step.gain:.2f}, and no verdict has changed. In compute time alone, "
    f"the best size of the first table gains ×{per_picture['batched'][1] / per_picture['batched'].min():.2f}.",
    "Run the cell before this one again.",
    id="batching.step",
)

# %% [markdown]
# What differs from the published gains: they are from GPUs, with networks of many weights. [NVIDIA's text recogniser](https://github.com/triton-inference-server/tutorials/tree/main/Conceptual_Guide/Part_2-improving_resource_utilization) gained ×3.3, and Llama 2 7B of [the Llama page](../../00__start/00__start.ipynb#The-documents-behind-the-course) ×5.
#
# ## Three mistakes

# %%
wrong = setup.mistakes(lab)
wrong

# %%
claim(
    len(wrong.refused) == 3 and setup.changed(lab) == 0,
    "The server refuses all three, and batched answers as before.",
    "Run the cell before this one again.",
    id="batching.mistakes",
)

# %% [markdown]
# ## Your turn
#
# `slow` calls a library that takes 50 ms for one row or for eight. The batcher forms batches, and nobody is faster. Change [its program](models/slow/1/model.py), save it, and run the cell. Requests may have several rows.

# %%
show("models/slow/1/model.py", "models/slow/1/library.py")
place(models, "models/slow")
lab.load("slow")
task("batching.slow", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# Before you configure a batcher: does the model gain by batches at all? This program asks your server. If the gain stays near 1, leave the batcher out. Else let `max_batch_size` be the size beyond which it hardly grows:

# %%
show("at_work/batch_cost.py")

# %% tags=["triton"]
# %run at_work/batch_cost.py dense

# %% [markdown]
# ## What to remember
#
# - Use `dynamic_batching { }` when requests wait *and* a row in a batch is cheaper than alone: measure it.
# - Not for a network that fills the processor with one row, and not with a loop in `execute`.
# - Look at executions, which show that batches form, and at compute time per row, which shows that they pay.

# %% [markdown]
# ## Check yourself
#
# <details><summary>An execution of 16 rows takes 15 times as long as one of one row. What can a batcher gain?</summary>
#
# At most 16/15 in compute time, so nearly nothing. Look at other steps: compilation, precision.
#
# </details>
#
# <details><summary>Executions are an eighth of the requests, and the throughput is as before. Where do you look?</summary>
#
# At `execute`: is there one call for all rows, or a loop?
#
# </details>
#
# <details><summary>A delay of 50 ms, at five requests per second. What does it bring?</summary>
#
# Nearly every request waits for 50 ms, and finds no other one.
#
# </details>
