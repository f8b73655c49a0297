# ---
# title: Schedulers
# minutes: 27
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
# | stateless | treats each request alone | default, or the dynamic batcher | this one, and [the dynamic batcher](../05__dynamic_batcher/05__dynamic_batcher.ipynb) |
# | stateful | remembers earlier requests | sequence batcher: direct or oldest | [sequences](../04__sequences/04__sequences.ipynb) |
# | an ensemble | is a graph of other models | ensemble scheduler | this one |
#
# Source: [models and schedulers](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_execution.md#models-and-schedulers).

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("schedulers")
place(models, "models/single", "models/joining", "models/chain", "models/countdown")
lab = laboratory(models, only=["single"])  # a Triton server of this notebook's own

# %% [markdown]
# ## A model that takes 20 ms
#
# To see a scheduler and nothing else, each execution has to take the same time. So this model sleeps: 20 ms per execution, whatever it is given. It returns twice its input.

# %%
show("models/single/config.pbtxt", "models/single/1/model.py")

# %% [markdown]
# `send_six` sends six requests of one row, 1 ms apart, and waits for an answer only when it has sent all. It returns the six answers: twice each input.

# %% tags=["triton"]
import os
import queue
import time

import numpy as np
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def send_six(model):
    answers = queue.Queue()

    def keep(result, error):
        answers.put(error or result)

    for number in range(6):
        row = grpc.InferInput("X", [1, 1], "FP32")
        row.set_data_from_numpy(np.full((1, 1), number, np.float32))
        client.async_infer(model, [row], keep, request_id=f"r{number + 1}")
        time.sleep(0.001)
    return [answers.get().as_numpy("Y").item() for _ in range(6)]


# %% [markdown]
# ## Default
#
# How many executions do six requests need? The server's statistics say it: rows that a model computed (*inferences*), and *executions*. The difference of two looks is what happened in between.

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


# %% tags=["triton"]
def counts(model):
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics(model).model_stats[0]
    return np.array([stats.inference_count, stats.execution_count])


before = counts("single")
print("twice each input:", send_six("single"))
print("inferences, executions:", counts("single") - before)

# %% [markdown]
# A *trace* says when each request came, waited and was computed. The server's [trace extension](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/trace.md) writes it to a file: start `tritonserver` with `--trace-config triton,file=trace.json`, and switch it on by `curl localhost:8000/v2/trace/setting -d '{"trace_level": ["TIMESTAMPS"], "trace_rate": "1"}'`. The file is JSON, with a time for each step of a request. The course's `record_together` does this around your function, and reads the file.

# %%
single = setup.record_together(lab, "single", lambda: send_six("single"))
measure.plot_timeline(single.spans)

# %%
compare("schedulers.batches", str(len(single.sizes)), premise=single.together)
claim(
    len(single.sizes) == 6,
    "The default scheduler put each request into an execution of its own.",
    "The config of single must say nothing about batching.",
    premise=single.together,
    id="schedulers.default",
)

# %% [markdown]
# Above, one row per request: thin while it waits, thick while it is computed. Below: what the instance did.
#
# `max_batch_size` limits the *rows* of one execution. It does not switch on a batcher. But if a config names no tensors, some backends complete it, and [add a dynamic batcher](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md#default-max-batch-size-and-dynamic-batcher). `/v2/models/NAME/config` shows the config in use.

# %% [markdown]
# ## Two instances
#
# `pair` has an instance group of two: two processes. The scheduler gives each request to an instance that is free. *perf_analyzer*, Triton's tool for load, keeps six requests under way. It measures in windows of `-p` milliseconds, `-r` at most, until three agree within `-s` percent (large on a busy machine). `-f` names its report, in microseconds.

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/single $TRITON_MODELS/pair
# sed -i 's/count: 1/count: 2/' $TRITON_MODELS/pair/config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/pair/load
# for model in single pair; do
#   perf_analyzer -m $model -i grpc -u $TRITON_GRPC --concurrency-range 6 \
#     -p 1000 -s 200 -r 20 -f $TRITON_MODELS/$model.csv > /dev/null
# done

# %% tags=["triton"]
import pandas as pd

reports = pd.concat({name: pd.read_csv(models / f"{name}.csv") for name in ("single", "pair")})
reports[["Inferences/Second", "Server Queue", "Server Compute Infer"]]  # times in microseconds

# %%
pair = setup.record_together(lab, "pair", lambda: send_six("pair"))
measure.plot_timeline(pair.spans)

# %%
rates, slept = reports["Inferences/Second"].values, reports["Server Compute Infer"].values
faster = rates[1] / rates[0]
claim(
    faster > 1.3,
    f"Two instances computed {faster:.1f} times as many requests in the same time.",
    "Close other programs, and run the cell with perf_analyzer again.",
    premise=Premise(max(slept) < 30_000, "an execution took longer than 30 ms instead of 20"),
    id="schedulers.instances",
)

# %% [markdown]
# With one instance, a request waits for the five before it: 5 × 20 ms in the queue; the reports say so in microseconds. These instances sleep, so one core is enough for both. Instances that compute share the cores: see [inside the server](../02__inside_the_server/02__inside_the_server.ipynb).

# %% [markdown]
# ## Ensemble
#
# `chain` has two steps: `single`, and then `joining`, which takes 60 ms and has a dynamic batcher: it joins requests that wait. An ensemble has no model file. Its config is all there is; the names of the tensors say which step waits for which.

# %%
show("models/chain/config.pbtxt")

# %% language="bash" tags=["triton"]
# tail -2 $TRITON_MODELS/joining/config.pbtxt
# for model in joining chain; do
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done

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

# %% tags=["triton"]
earlier = counts("joining")
print("four times the input:", send_six("chain"))
print("inferences, executions of joining:", counts("joining") - earlier)

# %%
chained = setup.record_together(lab, "chain", lambda: send_six("chain"))
measure.plot_timeline(chained.spans, order=["single", "joining"])

# %%
places = chained.places
last = len({*places.execution[places.model == "joining"]})
known = {1: "all six in one execution", 6: "one by one: chain has no batcher"}
compare("schedulers.chain", known.get(last, "in several batches"), premise=chained.together)

# %% [markdown]
# Steps of different requests overlap, and the tensors between them never leave the server.
#
# ## Decoupled
#
# The *model transaction policy* says whether each request gets exactly one response. `countdown` is decoupled: its config says `model_transaction_policy { decoupled: true }`. It answers a 5 with 5, 4, 3, 2, 1.

# %%
show("models/countdown/1/model.py")

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

# %% tags=["triton"]
import requests

client.load_model("countdown")
url = f"http://{os.environ['TRITON_HTTP']}/v2/models/countdown"
start = {"name": "start", "shape": [1], "datatype": "INT32", "data": [5]}
plain = requests.post(f"{url}/infer", json={"inputs": [start]})
print(plain.status_code, plain.text)

# %%
compare(
    "schedulers.http",
    setup.what_came(plain.status_code, plain.text),
    premise=setup.found(plain.status_code),
)

# %% [markdown]
# The path `generate_stream` of the [generate extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md) answers with a stream of events; [a later notebook](../11__generate/11__generate.ipynb) uses it.

# %% tags=["triton"]
stream = requests.post(f"{url}/generate_stream", json={"start": 5})
print(stream.text)

# %%
claim(
    setup.numbers(stream.text) == [5, 4, 3, 2, 1],
    "One request, five responses: over HTTP, as a stream of events.",
    "Look at the server's words above, and run that cell again.",
    id="schedulers.decoupled",
)

# %% [markdown]
# In gRPC it is a stream with a callback. With `enable_empty_final_response`, a last, empty response (here None) carries the *final* flag: now the client knows that no more will come.

# %% tags=["triton"]
got = queue.Queue()
client.start_stream(lambda result, error: got.put(error or result))
five = grpc.InferInput("start", [1], "INT32").set_data_from_numpy(np.array([5], np.int32))
client.async_stream_infer("countdown", [five], enable_empty_final_response=True)
client.stop_stream()
while not got.empty():
    result = got.get()
    final = result.get_response().parameters["triton_final_response"].bool_param
    print(result.as_numpy("count"), "final" if final else "")

# %% [markdown]
# <details><summary>Errata: an old rule</summary>
#
# "Many responses need gRPC" was the rule before Triton had the generate extension. It is still true of the path `infer`, as you have seen.
#
# </details>
#
# ## Your turn
#
# When twelve requests come to `chain` together, the last is answered after more than 300 ms. Look at the timeline: which step do they wait for? Change the config of *one* model so that all are answered within 250 ms (a new cell with `%%writefile {models}/…/config.pbtxt`), and `lab.load` it again. There are several ways.

# %%
show(models / "single/config.pbtxt", models / "joining/config.pbtxt")
task("schedulers.chain", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# You keep `chain`'s config as a form, and this program: in a slow ensemble, which step is it? It asks the server for the steps' statistics: means since each model was loaded, also of requests that did not come through the ensemble (here, perf_analyzer's).

# %%
show("at_work/steps.py")

# %% tags=["triton"]
# %run at_work/steps.py chain

# %% [markdown]
# Begin with the step whose requests wait longest.
#
# | a model | config | it works if |
# |---|---|---|
# | computes many rows as fast as one | `dynamic_batching { }` | rows per execution grow |
# | waits, or leaves cores idle | `count: 2` | requests per second grow |
# | needs another model's output | an ensemble | no step waits long |
# | answers in parts | `decoupled: true` | the client gets the final flag |
# | remembers | `sequence_batching` | (next notebook) |

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
