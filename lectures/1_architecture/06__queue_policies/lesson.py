# ---
# title: Queue policies
# minutes: 28
# ---

# %% [markdown]
# # Queue policies
#
# **Question.** More requests come than a model can serve. Who waits, who is refused, and who decides?
#
# The dynamic batcher's queue has a policy, and may have levels of priority ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#priority-levels)):
#
# ![Triton; marked are the dynamic batcher and the rate limiter](architecture.svg)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("queue_policies")
place(models, "models/ranked")
lab = laboratory(models)  # a Triton server of this notebook's own

# %% [markdown]
# ## Two levels
#
# This model takes 20 ms per execution, with one row or with eight, so that the figures show only what the queue does. It has two levels of priority, and so two queues. Level 1 is the most urgent. A request that names no level gets the default.

# %%
show("models/ranked/config.pbtxt", "models/ranked/1/model.py")

# %% [markdown]
# A request brings its level, and a timeout in microseconds, as [parameters](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_schedule_policy.md):

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2/models/ranked/infer -d '{
#   "parameters": {"priority": 1, "timeout": 500000},
#   "inputs": [{"name": "X", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}'

# %% [markdown]
# In Python they are arguments of the client. `send` takes a plan: when each request is sent, its name, and such arguments. It waits for no answer before it sends the next request.

# %% tags=["triton"]
import os
import queue
import time
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
x = grpc.InferInput("X", [1, 1], "FP32").set_data_from_numpy(np.ones((1, 1), np.float32))


# %% tags=["triton"]
def send(model, plan):
    """Send requests (ms, name, arguments) in time; return a table of the answers."""
    done, began = queue.Queue(), time.perf_counter()

    def now():
        return 1000 * (time.perf_counter() - began)

    def keep(row, result, error):
        done.put({**row, "answered_ms": now(), "error": error.message() if error else ""})

    for at_ms, name, arguments in sorted(plan, key=lambda request: request[0]):
        time.sleep(max(0, at_ms - now()) / 1000)
        row = {"id": name, "sent_ms": now()}
        client.async_infer(model, [x], partial(keep, row), request_id=name, **arguments)
    table = pd.DataFrame([done.get() for _ in plan])
    return table.sort_values("sent_ms", ignore_index=True)


# %% [markdown]
# In this plan, ordinary requests are always waiting: first a rush (`a0` to `a15`), then a steady stream (`b`). From time to time an urgent one arrives (`u`).

# %% tags=["triton"]
crowd = [(0.5 * i, f"a{i}", {}) for i in range(16)]
crowd += [(8 + 2.5 * i, f"b{i}", {}) for i in range(34)]
urgent = [(30 + 15 * i, f"u{i}", {"priority": 1}) for i in range(4)]

# %%
predict(
    "policies.urgent",
    "When is an urgent request computed?",
    {
        "at once: it interrupts the execution": "An execution that has begun is never "
        "interrupted. Priorities decide who is next.",
        "in the next execution": None,
        "in the next but one: the next is already formed": "Without priorities it could be so. "
        "With them, Triton forms no batch before an instance is free.",
        "in turn, like the others": "Then priorities would have no effect: the second queue is "
        "looked at only when the first is empty.",
    },
)


# %%
def both_kinds():
    return record(lab, "ranked", lambda: send("ranked", crowd + urgent))


mixed = attempt(both_kinds, setup.found_a_queue)  # again, if the client was too slow
waited = setup.executions_waited(mixed)
slots.draw(mixed.places, most=8, group=setup.kind, until_ms=110)

# %%
seen = "in the next execution" if waited["median"]["urgent"] <= 1 else "in turn, like the others"
queued = setup.found_a_queue(mixed)
compare("policies.urgent", seen, premise=queued)
claim(
    waited["mean"]["urgent"] < waited["mean"]["ordinary"],
    f"On average, an urgent request was in execution {waited['mean']['urgent']:.1f} after its "
    f"arrival, an ordinary one in execution {waited['mean']['ordinary']:.1f}.",
    "Run the cell before this one again.",
    premise=queued,
    id="policies.urgent",
)

# %% [markdown]
# An urgent request waits for the execution that is running, but not for those in the queue.
#
# <details><summary>Under the hood: why the next batch is not formed yet</summary>
#
# With priorities, timeouts or a queue size, Triton forms no batch while the instances are busy ([source](https://github.com/triton-inference-server/core/blob/main/src/scheduler_utils.cc), `support_prefetching_`). A request that has left the queue could be neither overtaken nor refused.
#
# </details>
#
# ## A queue with an end
#
# Without a limit, a queue may grow until requests wait for minutes. With `max_queue_size: 4`, a request that finds four others waiting is refused.

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/ranked $TRITON_MODELS/short
# cd $TRITON_MODELS/short
# policy='{ default_queue_policy { max_queue_size: 4 } }'
# sed -i "s/^dynamic_batching.*/dynamic_batching $policy/" config.pbtxt
# tail -1 config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/short/load

# %%
predict(
    "policies.served",
    "30 requests come within 3 ms, to an idle instance. How many are served, in how many executions?",
    {
        "4, in one: the queue holds no more": "The first execution takes its requests out of the queue, "
        "and the queue fills again.",
        "5 to 8, in two: first 1 to 4, then 4": None,
        "8, in one: a full batch": "The first execution begins as soon as one request is there, and "
        "then only four can wait.",
        "12, in two: first 8, then 4": "The first execution does not wait for seven others. "
        "It begins with what is there.",
    },
)

# %% [markdown]
# The server's [statistics](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md) say how many executions had which size. The same rush comes ten times; `ms` is when its last answer came (half a second: the folds below say why).


# %% tags=["triton"]
def sizes(model):
    """How many executions had which size, since the model was loaded."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics(model, as_json=True)["model_stats"][0]
    pairs = [(b["batch_size"], b["compute_infer"]["count"]) for b in stats.get("batch_stats", [])]
    return Counter({int(size): int(count) for size, count in pairs})


rush = [(0.1 * i, f"r{i}", {}) for i in range(30)]
rows = []
for _ in range(10):
    before = sizes("short")
    burst = send("short", rush)
    row = {"served": (burst["error"] == "").sum(), "ms": burst["answered_ms"].max()}
    rows.append({**row, "executions": sorted((sizes("short") - before).elements())})
table = pd.DataFrame(rows)
print(burst["error"].iloc[-1])
table.round(0)

# %%
options = {4: "4, in one: the queue holds no more", 12: "12, in two: first 8, then 4"}
two = [pair for pair in table["executions"] if len(pair) == 2]  # the rush was over in time
enough = setup.enough(table)
compare(
    "policies.served",
    options.get(round(table["served"].median()), "5 to 8, in two: first 1 to 4, then 4"),
    premise=enough,
)
claim(
    sum(4 in pair for pair in two) > len(two) / 2 and all(max(pair) <= 4 for pair in two),
    f"{len(two)} rushes had two executions: in {sum(4 in pair for pair in two)} of them one had four "
    "requests, and none had more.",
    "Run the two cells again, without other load.",
    premise=enough,
    id="policies.served",
)

# %% [markdown]
# The first execution takes the requests that are there when the batcher wakes. After that, four can wait. So a queue of 4 also bounds the batch: four of the eight slots stay empty.
#
# Now a rush of ten, and one more request, `late`, that finds the queue full:

# %% tags=["triton"]
late = [*rush[:10], (8, "late", {})]
last = send("short", late).iloc[-1]
print(f"after {last['answered_ms'] - last['sent_ms']:.1f} ms:", last["error"] or "served")

# %%
# The same again, as a figure. A cross is a refusal.
once = record(lab, "short", lambda: send("short", late))
slots.draw(once.places, answers=once.answers, most=8)

# %% [markdown]
# A refused request does not wait for an execution, so its client can soon ask elsewhere. In the rush, errors came later, because the client was busy with sending.
#
# Where `ms` was above 500, the second execution began half a second late, with the instance idle:
#
# <details><summary>Under the hood: an idle half second</summary>
#
# In release 24.10, two threads race when an execution ends: the batcher may look for a free instance before this one is reported free. Then it sleeps until the next request comes, or for 500 ms ([source](https://github.com/triton-inference-server/core/blob/main/src/dynamic_batch_scheduler.cc), `default_wait_microseconds`).
#
# </details>
#
# <details><summary>Under the hood: who wakes the batcher</summary>
#
# Each request that enters the queue wakes it, so under a steady load nobody waits for half a second. But a request that a full queue refuses does not enter it, and does not wake the batcher. So a short queue under a flood may leave its instance idle.
#
# </details>

# %% [markdown]
# ## Timeouts
#
# A timeout bounds the time in the queue, not the computation ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#queue-policy)). `REJECT` refuses a request after it; `DELAY` puts it behind all others of its level. Here the config says 50 ms, and clients may bring their own:

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/ranked $TRITON_MODELS/hasty
# cd $TRITON_MODELS/hasty
# sed -i '/^dynamic_batching/d' config.pbtxt
# echo 'dynamic_batching { default_queue_policy {
#   timeout_action: REJECT
#   default_timeout_microseconds: 50000
#   allow_timeout_override: true
# } }' >> config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/hasty/load

# %%
predict(
    "policies.timeout",
    "Under overload, a client sends requests with a timeout of its own, 500 ms. How long does one "
    "that is served wait at most?",
    {
        "50 ms: as the config says": None,
        "500 ms: the client overrides the config": "A client can only shorten the wait: the "
        "shorter of the two timeouts counts.",
        "for ever: both together are an error": "Triton accepts both, and takes the shorter.",
    },
)

# %% tags=["triton"]
own = {"hurried": 25_000, "patient": 500_000}  # microseconds
overload = [(2 * i, f"{who}{i}", {"timeout": us}) for i in range(40) for who, us in own.items()]
sent = send("hasty", overload)
pd.crosstab(sent["id"].str.rstrip("0123456789"), sent["error"].replace("", "served"))

# %%
timed = record(lab, "hasty", lambda: send("hasty", overload))
waits = setup.longest_waits(timed)
slots.draw(timed.places, answers=timed.answers, most=8, group=setup.kind, until_ms=160)

# %%
options_of_timeouts = ["50 ms: as the config says", "500 ms: the client overrides the config"]
held = setup.was_overload(timed)
compare("policies.timeout", options_of_timeouts[int(waits["patient"] > 100)], premise=held)
claim(
    waits["hurried"] < 37 and waits["hurried"] < waits["patient"] < 100,
    f"Served requests with a timeout of 25 ms waited {waits['hurried']:.0f} ms at most, those with "
    f"500 ms {waits['patient']:.0f} ms.",
    "Run the cell before this one again.",
    premise=held,
    id="policies.timeout",
)

# %% [markdown]
# The crosses come late, because the batcher looks at timeouts only now and then. Lines without a cross leave the figure: these requests are refused later, too. A client that must know sooner stops waiting by itself:

# %% tags=["triton"]
try:
    client.infer("hasty", [x], client_timeout=0.005)  # seconds
except InferenceServerException as error:
    print(error)

# %% tags=["triton"]
# !curl -s $TRITON_METRICS/metrics | grep 'request_failure.*REJECTED'

# %% [markdown]
# In release 24.10, the metric counts timeouts, and not what a full queue refuses. So count errors at the client, too.
#
# <details><summary>Under the hood: when is a timeout noticed?</summary>
#
# In release 24.10, the batcher looks at timeouts when an instance is free, or each half second ([source](https://github.com/triton-inference-server/core/blob/main/src/dynamic_batch_scheduler.cc)).
#
# </details>
#
# ## Try policies
#
# 40 requests come 1.5 ms apart. The sliders set a timeout and a queue size; 0 means none. The simulation copies the batcher's sleeps from the server's run.

# %%
bench = setup.simulator(lab, "short")

# %%
tried = bench.serve(queue_size=16, timeout_ms=0)
tried

# %%
refused, lost, in_time = len(tried.run.refused), tried.lost, tried.premise
claim(
    abs(refused - lost) <= 2,
    f"The server refused {refused}, the simulation {lost}.",
    "Run the cell before this one again.",
    premise=in_time,
    id="policies.simulator",
)

# %% [markdown]
# ## Your turn
#
# `flooded` can serve 200 requests per second. On ordinary days come 67, and sometimes ten at once: too many are refused. In a flood come 500. Find a policy for both: correct [its config](models/flooded/config.pbtxt), save it, and run the cell.

# %%
setup.flooded(models)  # the model, and your config
lab.load("flooded")
task("policies.flooded", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# What does your model's policy do with a burst? Send one, before your users do. The simulator has left `short` with a queue of 16, two batches. `hasty` refuses late, as the folds above say: its clients need a timeout of their own.

# %%
show("at_work/burst.py")

# %% tags=["triton"]
# %run at_work/burst.py short 60 2000
# %run at_work/burst.py hasty 60 2000

# %% [markdown]
# ## What to remember
#
# - Priorities decide who is next; nothing interrupts an execution.
# - A full queue refuses without a wait; a timeout bounds the wait in it.
# - In a rush, the first execution and the queue are served. A queue's length is the wait that you allow: 100 ms, at 20 ms per batch of 8, are 40 requests.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Why is a short queue kinder to users than a long one?</summary>
#
# Users who are refused at once can try elsewhere. In a long queue they wait for minutes and give up, and their requests may still be computed, for nobody.
#
# </details>
#
# <details><summary>A model has <code>max_queue_size: 4</code> and <code>max_batch_size: 64</code>. What is wrong?</summary>
#
# No execution can have more than four requests: a batch is formed from what waits in the queue. The queue should hold at least one batch per instance.
#
# </details>
#
# Next: [the model repository manager](../07__model_repository_manager/07__model_repository_manager.ipynb).
