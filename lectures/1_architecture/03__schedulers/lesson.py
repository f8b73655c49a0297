# ---
# title: Schedulers
# minutes: 17
# ---

# %% [markdown]
# # Schedulers
#
# **Question.** Six requests arrive at once. Which of them are computed together, when, and by which instance?
#
# Every model has one scheduler; its config decides which. You will see them at work in traces of a real server.
#
# ![Triton; marked are the default, dynamic and ensemble schedulers, and the instances](architecture.svg)

# %% [markdown]
# | a model is | it | scheduler | notebook |
# |---|---|---|---|
# | stateless | treats each request alone | default, or the dynamic batcher | this one, and [the next but one](../05__dynamic_batcher/05__dynamic_batcher.ipynb) |
# | stateful | remembers earlier requests | sequence batcher: direct or oldest | [sequences](../04__sequences/04__sequences.ipynb) |
# | an ensemble | is a graph of other models | ensemble scheduler | this one |
#
# Source: [models and schedulers](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_execution.md#models-and-schedulers).

# %% [markdown]
# ## A model that takes 20 ms
#
# To see a scheduler and nothing else, each execution has to take the same time. So this model sleeps: 20 ms per execution, whatever it is given. It returns twice its input.

# %%
import json

import httpx
import numpy as np
import tritonclient.grpc as grpc

import setup
from workbook import measure
from workbook.common import paths
from workbook.lessons import claim, compare, folder, laboratory, place, predict, runs, show, task
from workbook.lessons.shared import sleeper
from workbook.server import deploy

# %%
models = folder("schedulers")
sleeper.add(models, "single", "")  # no word on batching: the default scheduler
show(models / "single/config.pbtxt")
two = sleeper.add(models, "pair", "").replace("count: 1", "count: 2")
(models / "pair/config.pbtxt").write_text(two)
lab = laboratory(models)

# %% [markdown]
# A *trace* says when each request came, waited and was computed. `runs` switches the server's [trace extension](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/trace.md) on, sends a plan, and returns what became of it. The plan: six requests, 1 ms apart. If they do not all arrive in time, it is sent again.
#
# ## Default

# %%
predict(
    "schedulers.batches",
    "single has one instance and max_batch_size: 8; its config says no more about batching. Six "
    "requests of one row arrive, 1 ms apart. How many executions will there be?",
    {
        "1": "You expected all six to fit into a batch. max_batch_size allows batches; it does not "
        "make them. A client may send up to 8 rows in one request, or a batcher may join requests.",
        "2": "The first alone, and then those that waited: you expected the dynamic batcher. It "
        "has to be asked for: dynamic_batching { }.",
        "6": None,
    },
)


# %%
six = measure.every(1, 6)
single = runs.record_together(lab, "single", six)
measure.plot_timeline(single.spans)

# %% [markdown]
# Above: one row per request. The thin line is its time in the queue, the thick one its computation. Below: what the instance did.

# %%
number = len(single.sizes)
waits = single.places.start_ms - single.places.queued_ms
print("Time in the queue, ms:", *waits.round().astype(int))
compare("schedulers.batches", str(number), premise=single.together)
claim(
    number == 6,
    "The default scheduler put each request into an execution of its own.",
    "The config of single must say nothing about batching.",
    premise=single.together,
    id="schedulers.default",
)

# %% [markdown]
# `max_batch_size` limits the *rows* of one execution. Where a config leaves its tensors out, some backends complete it, and [add a dynamic batcher](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md#default-max-batch-size-and-dynamic-batcher). Python's leaves that to the model.
#
# ## Two instances
#
# `pair` has an instance group of two: two processes. The scheduler gives each request to an instance that is free.

# %%
pair = runs.record_together(lab, "pair", six)
measure.plot_timeline(pair.spans)

# %%
rates = [len(run.places) / run.places.end_ms.max() for run in (single, pair)]
both = single.together & pair.together & sleeper.slept(single.places) & sleeper.slept(pair.places)
faster = rates[1] / rates[0]
claim(
    faster > 1.3,
    f"Two instances computed {faster:.1f} times as many requests in the same time.",
    "Close other programs, and run the cells of both models again.",
    premise=both,
    id="schedulers.instances",
)

# %% [markdown]
# A sleeping instance needs no core: this holds on one core, too. Instances that compute share the cores: see [inside the server](../02__inside_the_server/02__inside_the_server.ipynb).
#
# ## Ensemble
#
# `chain` has two steps: `single`, and then `joining`, which takes 60 ms and has a dynamic batcher. In the maps, `key` is the name of a tensor in the step's model, `value` its name in the ensemble.

# %%
show("models/chain/config.pbtxt")

# %%
place(models, "models/chain")
sleeper.add(models, "joining", "dynamic_batching { }", ms=60)
lab.load("joining")
lab.load("chain")

# %%
predict(
    "schedulers.chain",
    "Six requests arrive at chain, 1 ms apart. How does joining compute them?",
    {
        "one by one: chain has no batcher": "An ensemble sends each step as a request to that "
        "step's model. The model's own scheduler decides from there.",
        "all six in one execution": "They come out of single one after the other, every 20 ms. "
        "joining begins with the first as soon as it is there.",
        "in several batches": None,
    },
)

# %%
chained = runs.record_together(lab, "chain", six)
measure.plot_timeline(chained.spans, order=["single", "joining"])

# %%
last = chained.places[chained.places.model == "joining"].drop_duplicates("execution")
known = {1: "all six in one execution", 6: "one by one: chain has no batcher"}
compare("schedulers.chain", known.get(len(last), "in several batches"), premise=chained.together)

# %% [markdown]
# Steps of different requests overlap, and the tensors between them never leave the server.
#
# ## Decoupled
#
# The *model transaction policy* says whether each request gets exactly one response. `countdown` is decoupled: it answers a 5 with 5, 4, 3, 2, 1. We ask it over HTTP.

# %%
predict(
    "schedulers.http",
    "A POST to /v2/models/countdown/infer. What comes back?",
    {
        "one answer with all numbers": "A response is one set of tensors, and the model sends "
        "five of them. Triton does not join them.",
        "the first number": "Then four answers would be lost, and the client would not know.",
        "five answers, one after the other": "Possible over HTTP, but not on this path: infer "
        "promises one response per request.",
        "an error": None,
    },
)

# %%
deploy(paths.root() / "model_repository" / "countdown", server=lab)
print(lab.config("countdown")["model_transaction_policy"])
start = {"name": "start", "shape": [1], "datatype": "INT32", "data": [5]}
url = f"{lab.url}/v2/models/countdown"
plain = httpx.post(f"{url}/infer", json={"inputs": [start]})
stream = httpx.post(f"{url}/generate_stream", json={"start": 5})
print(plain.status_code, plain.text, "", stream.text.replace("\n\n", "\n"), sep="\n")

# %%
events = [json.loads(line[6:])["count"] for line in stream.text.splitlines() if line]
compare("schedulers.http", setup.what_came(plain), premise=setup.found(plain))
claim(
    events == [5, 4, 3, 2, 1],
    "One request, five responses: over HTTP, as a stream of events.",
    "Look at the server's words above, and run that cell again.",
    id="schedulers.decoupled",
)

# %% [markdown]
# > **Errata.** "Many responses need gRPC" is an old rule. The [generate extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md) streams them over HTTP, as events; [a later notebook](../11__generate/11__generate.ipynb) uses it. In gRPC it is a stream with a callback. The last response may be empty: it carries the *final* flag.

# %%
got = []
with lab.grpc_client() as client:
    client.start_stream(lambda result, error: got.append(result))
    tensor = grpc.InferInput("start", [1], "INT32").set_data_from_numpy(np.array([5], np.int32))
    client.async_stream_infer("countdown", [tensor], enable_empty_final_response=True)
    client.stop_stream()
for result in got:
    final = result.get_response().parameters["triton_final_response"].bool_param
    print(result.as_numpy("count"), "final" if final else "")

# %% [markdown]
# ## Your turn
#
# When twelve requests come to `chain` at the same time, the last is answered after more than 300 ms. Look at the timeline: which step do they wait for? Change the config of *one* model so that all are answered within 250 ms (a new cell with `%%writefile {models}/…/config.pbtxt`), and `lab.load` it again. There are several ways.

# %%
show(models / "single/config.pbtxt", models / "joining/config.pbtxt")
task("schedulers.chain", server=lab)

# %% [markdown]
# ## What to remember
#
# - One scheduler per model; the config chooses. Without a dynamic batcher, stateless requests never share an execution.
# - Instances compute at the same time. An ensemble sends its steps to other models, each with a scheduler of its own.
# - Decoupled: a request may have no, one or many responses, over gRPC streams or `generate_stream`.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A client sends requests of 5 rows. <code>max_batch_size</code> is 8, and a dynamic batcher is on. How many requests share an execution?</summary>
#
# Each request has its own execution: two would be 10 rows, and a request is never split. With <code>max_batch_size: 10</code>, two may share one.
#
# </details>
#
# <details><summary>You give four instances to <code>joining</code> alone. Are twelve requests to <code>chain</code> answered much sooner?</summary>
#
# No. They wait for <code>single</code>, which answers one every 20 ms. The last leaves it after 240 ms, as before, and needs 60 ms more. The batches in <code>joining</code> only become smaller.
#
# </details>
#
# <details><summary>A client sends one model's output, 50 MB, to another. What would an ensemble save?</summary>
#
# The output would stay in the server: 50 MB less to the client, and 50 MB less back. The models compute as long as before.
#
# </details>
#
# Next: [sequences](../04__sequences/04__sequences.ipynb).

# %%
lab.stop()  # when the task is done
