# ---
# title: Queue policies
# minutes: 29
# ---

# %% [markdown]
# # Queue policies
#
# **Question.** More requests come than a model can serve. Who is next, who is refused, and what do you write into the config, so that nobody is served too late?
#
# Three settings of the dynamic batcher's queue decide ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#priority-levels)): priorities, a size, a timeout.
#
# ![Triton; marked is the dynamic batcher](architecture.svg)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("queue_policies")
place(models, "models/ranked")
lab = laboratory(models)  # a Triton server of this notebook's own

# %% [markdown]
# ## Two levels
#
# This model takes 20 ms per execution, with one row or with eight, so it serves 400 rows per second at most. The last line of its config gives it two levels of priority, and so two queues: level 1 is the most urgent, and a request that names no level gets level 2.

# %%
show("models/ranked/config.pbtxt", "models/ranked/1/model.py")

# %% [markdown]
# A request brings its level as a [parameter](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_schedule_policy.md), beside its inputs. In Python it is an argument of the client: `client.infer(…, priority=1)`.

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2/models/ranked/infer -d '{
#   "parameters": {"priority": 1},
#   "inputs": [{"name": "X", "shape": [1, 1], "datatype": "FP32", "data": [7]}]}'

# %% [markdown]
# To see a queue, many requests must be under way. `send` takes a plan: a list of requests, each with its time in ms, its name, and arguments such as `priority`. `async_infer` returns at once, and calls `keep` when the answer is there. So the client sends in time, even if earlier answers are missing.

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
# Ordinary requests, `o0` to `o59`, come 1.5 ms apart: 667 per second, where 400 can be served. So some are always waiting. Four urgent ones, `u0` to `u3`, come among them. The figure will have a line per request, from arrival to answer, and below them the batches.

# %% tags=["triton"]
ordinary = [(1.5 * i, f"o{i}", {}) for i in range(60)]
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
    return record(lab, "ranked", lambda: send("ranked", ordinary + urgent))


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
# An urgent request waits for the running execution only. The ordinary ones pay for it.
#
# <details><summary>Under the hood: why the next batch is not formed yet</summary>
#
# With priorities, timeouts or a queue size, Triton forms no batch while the instances are busy ([source](https://github.com/triton-inference-server/core/blob/main/src/scheduler_utils.cc), `support_prefetching_`). A request that has left the queue could be neither overtaken nor refused.
#
# </details>
#
# ## A queue with an end
#
# Priorities do not shorten a queue. `max_queue_size: 4` does: a request that finds four others waiting is refused. The cell copies the model with this policy:

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
        "4, in one execution": "The first execution takes its requests out of the queue, "
        "and the queue fills again.",
        "5 to 8, in two executions": None,
        "8, in one execution": "The first execution begins as soon as one request is there, and "
        "then only four can wait.",
        "12, in two executions": "The first execution does not wait for seven others. "
        "It begins with what is there.",
    },
)

# %% [markdown]
# The same rush comes ten times. `served` counts the answers, `executions` has the size of each execution, from the server's [statistics](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md), and `ms` is when the last answer came; the text below the figure explains it. The line above the table is what the other clients were told.


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
options = {4: "4, in one execution", 12: "12, in two executions"}
two = [pair for pair in table["executions"] if len(pair) == 2]  # the rush was over in time
enough = setup.enough(table)
compare(
    "policies.served",
    options.get(round(table["served"].median()), "5 to 8, in two executions"),
    premise=enough,
)
claim(
    sum(4 in pair for pair in two) > len(two) / 2 and all(max(pair) <= 4 for pair in two),
    f"In {sum(4 in pair for pair in two)} of {len(two)} rushes, one of the two executions had four "
    "requests, as many as the queue holds; none had more.",
    "Run the two cells again, without other load.",
    premise=enough,
    id="policies.served",
)

# %% [markdown]
# The first execution takes what is there when the batcher wakes. After that, four can wait. So a queue of 4 also bounds the batch.
#
# What do the others see? Here are ten requests of a rush, and `late`, which comes when the queue is full:

# %%
late = [*rush[:10], (8, "late", {})]
once = record(lab, "short", lambda: send("short", late))
slots.draw(once.places, answers=once.answers, most=8)

# %% [markdown]
# `late` is refused at once.
#
# In the table, where `ms` far exceeds two executions, four requests waited beside an idle instance: the batcher slept. A new request in the queue wakes it; a refused one does not, and after a burst none comes. So a size bounds how many wait, not how long.
#
# <details><summary>Under the hood: why the batcher sleeps</summary>
#
# In release 24.10, with any of the three settings, also with priorities, two threads race when an execution ends: the batcher may look for a free instance before this one is reported free. Then it sleeps until the next request enters the queue, or for 500 ms ([source](https://github.com/triton-inference-server/core/blob/main/src/dynamic_batch_scheduler.cc), `default_wait_microseconds`).
#
# </details>

# %% [markdown]
# ## Timeouts
#
# A timeout bounds the wait itself, not the computation ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#queue-policy)). `REJECT` refuses a request that has waited longer; `DELAY` puts it behind all others of its level. Here the config says 50 ms. With `allow_timeout_override`, a request may bring a timeout of its own, as a parameter like `priority`:

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
# Each of two clients sends a request every 2 ms: 1000 per second together.
own = {"hurried": 25_000, "patient": 500_000}  # their timeouts, in microseconds
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
# Whoever is served was in time when the batch was formed; its execution begins a moment later. But the refusals (crosses) come late, some only after the end of the figure: in release 24.10 the batcher looks at timeouts when an instance is free, or each half second ([source](https://github.com/triton-inference-server/core/blob/main/src/dynamic_batch_scheduler.cc)). So a client that must know sooner stops waiting by itself:

# %% tags=["triton"]
try:
    client.infer("hasty", [x], client_timeout=0.005)  # seconds
except InferenceServerException as error:
    print(error)

# %% [markdown]
# `client_timeout` ends the client's wait only: Triton still computes the request. Give `timeout` to the server, too.
#
# The server's metrics count refusals, since a model was loaded. In release 24.10 they count timeouts, and not what a full queue refuses: `short` has 0. So count errors at the client, too.

# %% tags=["triton"]
# !curl -s $TRITON_METRICS/metrics | grep 'request_failure.*REJECTED'

# %% [markdown]
# ## Your turn
#
# `flooded` can serve 200 requests per second. On ordinary days come 67, and sometimes ten at once: its queue of 2 refuses too many. In a flood come 500. Find a policy for both: correct [its config](models/flooded/config.pbtxt), save it, and run the cell.

# %%
setup.flooded(models)  # the model, and your config
lab.load("flooded")
task("policies.flooded", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# Two files to take home: a policy for the end of a `config.pbtxt`, which bounds the wait by a timeout, and a test, which sends a burst: does your release's batcher sleep, too? Below, `timed`, a copy of the model, gets this policy, `sized` a queue of 40: five batches, 100 ms.

# %%
show("at_work/policy.pbtxt", "at_work/burst.py")

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS && cp -rT ranked timed && cp -rT ranked sized
# sed -i '/^dynamic_batching/d' timed/config.pbtxt sized/config.pbtxt
# cat "$OLDPWD/at_work/policy.pbtxt" >> timed/config.pbtxt
# echo 'dynamic_batching { default_queue_policy { max_queue_size: 40 } }' >> sized/config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/timed/load
# curl -sX POST $TRITON_HTTP/v2/repository/models/sized/load

# %% tags=["triton"]
# %run at_work/burst.py ranked 300 2000
# %run at_work/burst.py sized 300 2000
# %run at_work/burst.py timed 300 2000

# %% [markdown]
# Compare the `max` of `served`. The 300 rows need 750 ms in `ranked`; the queue of `sized` needs 120. What is above that, their batchers slept, sometimes more than once. In `timed`, who is served has waited for 100 ms at most; its execution comes on top. All `ms`, also of refusals, contain the delay of this busy client.

# %% [markdown]
# | you want | write | look at |
# |---|---|---|
# | some first | `priority_levels: 2`, and `priority: 1` in few requests | their latency |
# | no late answers | a timeout, `REJECT` | `max` of `served` in `burst.py` |
# | to know soon | `client_timeout` | the client's errors |
# | bounded memory | a large `max_queue_size` | errors in `burst.py` |

# %% [markdown]
# ## What to remember
#
# - Who is next: the highest level. Nothing interrupts an execution.
# - Who is refused: with a size, those who come last, at once; with a timeout, those who waited too long.
# - What to write: a timeout with `REJECT`. In release 24.10 the batcher may sleep, so only a timeout bounds the wait. Let the size be large.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Why is a refusal kinder to users than a long wait?</summary>
#
# Users who are refused can try elsewhere. In a long queue they wait for minutes and give up, and their requests may still be computed, for nobody.
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
