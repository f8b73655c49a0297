# ---
# title: Clients
# minutes: 30
# ---

# %% [markdown]
# # Clients
#
# **Question.** A program has 400 pictures for `batched`, the deployment of [notebook 03](../03__batching/03__batching.ipynb) with a dynamic batcher. How much sooner is it done if it does not wait for each answer before it sends the next picture, and what goes wrong then?

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("clients")
place(models, "../03__batching/models/batched", "../07__cache/models/thumbnail", "models/remote")
setup.prepare(models)  # the models' files, 200 pictures, and the network's answers to them
lab = laboratory(models)

# %% [markdown]
# ## One picture after the other
#
# The blocking client sends a picture, and waits for its answer. Triton counts how long its two instances computed. This time, divided by the time that passed, is how many of them were busy. `ms per picture` is the computing alone, `queue ms` the wait before it, and `batch` the mean number of pictures in an execution:

# %% tags=["triton"]
import os
import subprocess
import sys
import time
from timeit import repeat

import numpy as np
import pandas as pd
import tritonclient.grpc as grpc

address = os.environ["TRITON_GRPC"]
client = grpc.InferenceServerClient(address)
pictures = 2 * list(np.load(models / "pictures.npy")[:, None])
expected = np.concatenate(2 * [np.load(models / "logits.npy")])


def tensor(array, name="image"):
    return grpc.InferInput(name, array.shape, "FP32").set_data_from_numpy(array)


def blocking():
    return [client.infer("batched", [tensor(p)]).as_numpy("logits") for p in pictures]


# %% tags=["triton"]
def counted():
    """Pictures, executions, and ms in the queue and in instances, since the model was loaded."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics("batched").model_stats[0]
    computed = sum(batch.compute_infer.ns for batch in stats.batch_stats) / 1e6
    queued = stats.inference_stats.queue.ns / 1e6
    return np.array([stats.inference_count, stats.execution_count, queued, computed])


# %% tags=["triton"]
import asyncio


async def measured(send, *given):
    """Send the pictures in some way; return what the client and the server's counters say."""
    before, began = counted(), time.perf_counter()
    answers = send(*given)
    answers = await answers if asyncio.iscoroutine(answers) else answers
    ms = 1000 * (time.perf_counter() - began)
    assert np.allclose(np.concatenate(answers), expected, atol=1e-3)
    n, executions, queued, computing = counted() - before
    names = ["per s", "busy instances", "ms per picture", "batch", "queue ms"]
    found = 1000 * n / ms, computing / ms, computing / n, n / executions, queued / n
    return pd.Series(found, names)


blocking()  # a warm-up
(await measured(blocking)).round(2).to_frame("blocking").T

# %% [markdown]
# ## Several under way
#
# `async_infer` returns at once. Its answer comes to a function, the *callback*, in another thread. So many requests can be *under way*: sent, and not yet answered. The semaphore `free` bounds their number: `acquire` takes a permit, or waits until a callback gives one back:

# %%
show("clients/callbacks.py")

# %%
predict(
    "clients.gain",
    "The program keeps 8 requests under way in place of one, on this machine. How many times as "
    "many pictures per second are answered?",
    {
        "about eight times": "Eight are under way, and two instances compute. The other six wait, "
        "or join a batch.",
        "one and a half to four times": None,
        "hardly more: Python does one thing at a time": "Python's lock is free while a thread "
        "waits for the network, and the network's computation is in other processes.",
    },
)

# %% tags=["triton"]
# %run clients/callbacks.py
callbacks(address, "batched", pictures, 16)  # a warm-up with batches
runs = []
for _ in range(3):
    runs.append((await measured(blocking)).rename("blocking"))
    for n in (2, 8, 400):
        run = await measured(callbacks, address, "batched", pictures, n)
        runs.append(run.rename(f"{n} under way"))
runs = pd.DataFrame(runs)
table = runs.sort_values("per s").groupby(level=0).last()  # the fastest of three
table = table.sort_values("queue ms")
table.round(2)

# %%
alone = table.loc["blocking"]
eight = table.loc["8 under way"]
everything = table.loc["400 under way"]
gain = eight["per s"] / alone["per s"]
fair = setup.repeats(runs["per s"][["blocking", "8 under way"]]) & setup.cores_free(table)
several = "about eight times" if gain > 5 else "one and a half to four times"
little = "hardly more: Python does one thing at a time"
compare("clients.gain", several if gain > 1.4 else little, premise=fair)
claim(
    eight["busy instances"] > 1.4 * alone["busy instances"] and gain > 1.4,
    f"One picture after the other keeps {alone['busy instances']:.2f} of 2 instances busy, eight under "
    f"way {eight['busy instances']:.2f}: ×{gain:.1f} pictures per second. Both always busy, at the "
    f"same ms per picture, would be ×{2 / alone['busy instances']:.1f}.",
    "Run the cell with the table again.",
    premise=fair,
    id="clients.gain",
)
claim(
    everything["queue ms"] > 10 * eight["queue ms"],
    f"With all 400 under way a picture waits {everything['queue ms']:.0f} ms in the server's queue, "
    f"with eight {eight['queue ms']:.1f} ms.",
    "Run the cell with the table again.",
    id="clients.queue",
)

# %% [markdown]
# **The limit.** Pictures per second = busy instances / seconds per picture. At equal `ms per picture`, the gain is at most 2 / the blocking client's busy instances. Larger batches may make a picture cheaper, busy cores dearer: compare the rows. Requests beyond that only wait, each with its 48 KB.
#
# ## asyncio
#
# The same with tasks; a TaskGroup waits for all of them:

# %%
show("clients/tasks.py")

# %% tags=["triton"]
# %run clients/tasks.py
with_tasks = await measured(tasks, address, "batched", pictures, 8)
ways = pd.DataFrame({"callbacks": table.loc["8 under way"], "tasks": with_tasks}).T
ways.round(2)

# %%
claim(
    ways["batch"].min() > 1.2,
    f"The batcher joins the requests of both: callbacks in batches of "
    f"{ways['batch']['callbacks']:.1f}, tasks of "
    f"{ways['batch']['tasks']:.1f}.",
    "Run the cell above again.",
    id="clients.ways",
)

# %% [markdown]
# The tasks ran once, the callbacks are the fastest of three: compare batches, not speed. Tasks are for a program with an event loop, such as a web service. They need `tritonclient.grpc.aio`: `infer` of `tritonclient.grpc` would stop the loop, and all tasks with it.

# %% [markdown]
# ## From afar
#
# [far.py](clients/far.py) passes bytes on 10 ms later, each way, as between two cities. `batched` gets its pictures through it, with 1 and with 16 under way.
#
# [remote](models/remote/1/model.py) stands for a call to another service: one instance sleeps 40 ms for up to four numbers. Its client is new for each request, or kept:

# %% tags=["triton"]
wire = [sys.executable, "clients/far.py", address, "10"]
relay = subprocess.Popen(wire, stdout=subprocess.PIPE, text=True)
far = relay.stdout.readline().strip()
alone_s = min(repeat(lambda: callbacks(far, "batched", pictures[:30], 1), number=1, repeat=2)) / 30
sixteen_s = min(repeat(lambda: callbacks(far, "batched", pictures, 16), number=1, repeat=2)) / 400

x = [tensor(np.ones((1, 1), np.float32), "X")]


def ask_anew():
    with grpc.InferenceServerClient(far) as new:
        new.infer("remote", x)


new = repeat(ask_anew, lambda: time.sleep(0.05), number=1, repeat=20)  # the last one has closed
with grpc.InferenceServerClient(far) as open_one:
    kept = repeat(lambda: open_one.infer("remote", x), number=1, repeat=20)
    beside = repeat(ask_anew, lambda: time.sleep(0.05), number=1, repeat=20)
relay.terminate()
remote = 1000 * pd.DataFrame({"new": new, "kept": kept, "new, beside an open one": beside})
remote.median().round().to_frame("ms").T

# %%
claim(
    alone_s > 3 * sixteen_s,
    f"From afar, {1 / alone_s:.0f} pictures per second one after the other, and {1 / sixteen_s:.0f} with "
    f"16 under way: ×{alone_s / sixteen_s:.0f}.",
    "Run the cell above again.",
    id="clients.far",
)
claim(
    remote["new"].median() > remote.iloc[:, 1:].median().max() + 8,
    f"A new client for each request: {remote['new'].median():.0f} ms. One client: "
    f"{remote['kept'].median():.0f} ms. A new client each time, while another one is open: "
    f"{remote.iloc[:, 2].median():.0f} ms.",
    "Run the cell above again.",
    id="clients.connection",
)

# %% [markdown]
# Keep rate × latency requests under way ([Little's law](../01__point_a/01__point_a.ipynb#Little's-law)): for 300 per second at 30 ms, 9.
#
# Connecting costs more than a round trip. In a process, gRPC clients of an address share a connection: keep one open.
#
# ## One request fails
#
# [The slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) have a TaskGroup, [as printed](clients/slide.as_printed.txt) invalid Python. Corrected, it sends `remote` 100 numbers, one in a wrong shape.

# %%
predict(
    "clients.group",
    "The TaskGroup starts a task for each of the 100 requests, and waits for all of them. The server "
    "refuses one request at once. How many answers does the program get?",
    {
        "99": "An error that leaves a task ends the whole group: the other tasks are cancelled.",
        "those that came before the error": "Their tasks were done, but `async with` raises, so "
        "the line that collects the results is never reached.",
        "none": None,
    },
)


# %% tags=["triton"]
# !{sys.executable} clients/slide.as_printed.txt || true


async def group(numbers):
    """The slides' TaskGroup, corrected."""
    async with grpc_aio.InferenceServerClient(address) as other, asyncio.TaskGroup() as tg:
        sent = [tg.create_task(other.infer("remote", [tensor(x, "X")])) for x in numbers]
    return [await task for task in sent]


def ended():
    """How many requests `remote` has answered, and how many were dropped from its queue."""
    time.sleep(1)
    times = client.get_inference_statistics("remote").model_stats[0].inference_stats
    return np.array([times.success.count, times.fail.count])


# %% tags=["triton"]
numbers, got, before = list(np.ones((100, 1, 1), np.float32)), [], ended()
numbers[40] = np.ones((1, 2), np.float32)  # a wrong shape
try:
    got = await group(numbers)
except* InferenceServerException as errors:  # a TaskGroup raises a group of errors
    print(errors.exceptions[0].message()[:75], "…")
computed, dropped = ended() - before
print(f"{len(got)} answers; the server computed {computed}, and dropped {dropped}")
before = ended()
returned = await tasks(address, "remote", numbers, 8, ("X", "Y"))
right = sum(not isinstance(each, Exception) for each in returned)
all_computed, none_dropped = ended() - before
print(f"with tasks.py: {right} answers, {all_computed} computed, {none_dropped} dropped")

# %%
how_many = "none" if not got else "99" if len(got) == 99 else "those that came before the error"
refused = Premise(len(numbers) - right == 1, f"{len(numbers) - right} of 100 requests were refused")
compare("clients.group", how_many, premise=refused)
claim(
    not got and computed > 0 and right == all_computed == 99,
    f"The TaskGroup lost all answers: the server computed {computed} for nothing, and dropped "
    f"{dropped}. With the error returned, {right} answers came.",
    "Run the cells of this section again.",
    premise=refused,
    id="clients.group",
)

# %% [markdown]
# Cancelled requests were dropped from the server's queue. Let an error leave its task only where one failure makes the rest worthless. Else return it, as in `tasks.py`.
#
# <details><summary>Errata: the acceleration slides</summary>
#
# Four brackets are not closed, and `async with` stands outside a function. `callback` belongs to `tritonclient.grpc`: the HTTP client's `async_infer` lacks it. Neither can be awaited; tasks need `infer` of `tritonclient.grpc.aio` or `http.aio`. Corrected:
#
# ```python
# client.async_infer(model_name=model_name, inputs=inputs, callback=callback)
#
# async def ask_all(client, model_name, images):
#     async with asyncio.TaskGroup() as tg:
#         tasks = [tg.create_task(client.infer(model_name, [image])) for image in images]
#     return [task.result() for task in tasks]
# ```
#
# A bound and the errors are still missing.
#
# </details>
#
# ## One stream
#
# A call carries one request, a gRPC stream many. We send sixteen pictures, which fill a batch, then a single one. Both instances are free.

# %%
predict(
    "clients.stream",
    "Both go through one stream. Which answer comes first?",
    {
        "that of the single picture": "It is computed first, by the other instance. But a stream "
        "gives answers in the order of its requests.",
        "that of the sixteen": None,
    },
)


# %% tags=["triton"]
from functools import partial


def answered_first(stream):
    """Send sixteen pictures, then one; return whose answer comes first."""
    came = []

    def keep(result, error):
        came.append(error or result.get_response().id)

    with grpc.InferenceServerClient(address) as other:
        other.start_stream(keep)  # calls do not use it
        send = other.async_stream_infer if stream else partial(other.async_infer, callback=keep)
        for name, rows in (("sixteen", 16), ("one", 1)):
            send("batched", [tensor(np.concatenate(pictures[:rows]))], request_id=name)
        while len(came) < 2:
            time.sleep(0.001)
    return came[0]


calls, streams = ([answered_first(stream) for _ in range(5)] for stream in (False, True))
print("calls: ", *calls, "\nstream:", *streams)

# %%
in_order = set(streams) == {"sixteen"}
compare(
    "clients.stream",
    "that of the sixteen" if in_order else "that of the single picture",
    premise=Premise(calls.count("one") >= 2, "the single picture was not computed first"),
)
claim(
    in_order,
    f"Of 5 streams all gave the sixteen first; of 5 pairs of calls {calls.count('one')} gave the single "
    "picture first.",
    "Run the cell above again.",
    id="clients.stream",
)

# %% [markdown]
# So a slow request holds up the answers behind it. Streams are for [sequences and answers in parts](../09__sequences_and_streams/09__sequences_and_streams.ipynb); else use calls.
#
# ## Shared memory
#
# A client on the server's machine can [put its tensors into shared memory](../../1_architecture/09__wire/09__wire.ipynb#Shared-memory). [regions.py](clients/regions.py) is `callbacks.py` with a region for each request under way. `thumbnail` shrinks photos of 3 MB, `batched` takes pictures of 48 KB:

# %% tags=["triton"]
# %run clients/regions.py
photos = 20 * list(np.random.default_rng(1).random((8, 3, 512, 512), np.float32))
shared = []
for what, model, arrays, names in 3 * [
    ("photos", "thumbnail", photos, ("photo", "thumbnail")),
    ("pictures", "batched", pictures, ("image", "logits")),
]:
    for send in (callbacks, regions):
        began = time.perf_counter()
        n = len(send(address, model, arrays, 4, names))
        shared.append([what, send.__name__, n / (time.perf_counter() - began)])
shared = pd.DataFrame(shared, columns=["what", "client", "per s"])
best = shared.groupby(["what", "client"])["per s"].max().unstack()
best.round()

# %%
faster = best["regions"] / best["callbacks"]
claim(
    faster["photos"] > 1.3 and faster["pictures"] < 0.8 * faster["photos"],
    f"Shared memory: ×{faster['photos']:.1f} for photos, ×{faster['pictures']:.1f} for pictures.",
    "Run the cell above again.",
    premise=setup.repeats(shared.set_index(["what", "client"])["per s"], 2.5),
    id="clients.regions",
)

# %% [markdown]
# Shared memory saves copies of large inputs to cheap models. Where the network computes for milliseconds, it brings little.
#
# ## Two more mistakes
#
# First, eight requests share one region. Then a callback misspells an output, and raises. Neither shows an error:

# %% tags=["triton"]
mixed = regions(address, "batched", pictures, 8, count=1)  # one region for all eight
wrong = int((abs(np.concatenate(mixed) - expected).max(1) > 1e-3).sum())
print(f"one region for all: {wrong} of {len(mixed)} answers are wrong")
came = threading.Semaphore(0)


def misspelt(result, error):
    print(result.as_numpy("logit").argmax())  # there is no such output: None has no argmax
    came.release()


client.async_infer("batched", [tensor(pictures[0])], misspelt)
arrived = came.acquire(timeout=1)
print("the callback that raises has reached its last line:", arrived)

# %%
claim(
    wrong > 0 and not arrived and setup.changed(lab) == 0,
    "One region for all gives wrong answers. A callback that raises leaves a program that would wait "
    "forever. The deployment itself answers as before.",
    "Run the cell above again.",
    id="clients.mistakes",
)

# %% [markdown]
# With one region, pictures overwrite one another. The callback ended before `release`: its permit never came back.
#
# ## Above capacity
#
# Users keep sending when a server is slow: [an open loop](../01__point_a/01__point_a.ipynb#What-a-closed-loop-does-not-see). `remote` answers at most 4 per 40 ms, 100 per second; 150 are due. The program has no bound, lets those above 8 wait, or turns them away:


# %% tags=["triton"]
def offered(under_way, wait=True, rate=150, count=200):
    """Requests are due at a steady rate; return the ms from each one's planned time to its answer."""
    ms, free, began = [np.nan] * count, threading.Semaphore(under_way), time.perf_counter()
    for number in range(count):
        planned = began + number / rate
        time.sleep(max(0, planned - time.perf_counter()))
        if free.acquire(blocking=wait):  # else it is turned away

            def keep(result, error, number=number, planned=planned):
                ms[number] = 1000 * (time.perf_counter() - planned)
                free.release()

            client.async_infer("remote", [tensor(numbers[0], "X")], keep)
    all(free.acquire() for _ in range(under_way))
    return ms


# %%
no_bound, waits, refuses = offered(200), offered(8), offered(8, wait=False)
kinds = {"no bound": no_bound, "at most 8, others wait": waits, "others turned away": refuses}
kinds = pd.DataFrame(kinds)
setup.draw(kinds)

# %%
p90 = kinds.quantile(0.9)
claim(
    p90.iloc[2] < p90.iloc[0] / 2 < p90.iloc[1],
    f"p90 without a bound: {p90.iloc[0]:.0f} ms; if others wait in the program: {p90.iloc[1]:.0f} ms; if they are "
    f"turned away: {p90.iloc[2]:.0f} ms, and {kinds.iloc[:, 2].notna().mean():.0%} are answered.",
    "Run the two cells above again.",
    id="clients.above",
)

# %% [markdown]
# A bound that waits only moves the queue into the program. A source that can wait, such as a folder of files, is slowed down by it: *back pressure*. Users are not: turn requests away early.
#
# ## The scoreboard
#
# One program: one request under way, then eight. Most other rows had eight before, so this bar stands apart.

# %%
from workbook.lessons import scoreboard

scoreboard.add(
    lab,
    "clients",
    after="batched",
    what="one program, 8 under way",
    measured=setup.one_client(8),
    measured_before=setup.one_client(1),
    load="one program",
)
scoreboard.draw()

# %% [markdown]
# ## Your turn
#
# [This program](clients/own.py) sends 160 numbers to `remote` in a TaskGroup without a bound; one has a wrong shape. Change `send` in the file, save it, and run the cell.

# %%
# !cp clients/own.py "{models}"
task("clients.own", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# One worker per request under way; all take their files from one iterator. One file has a wrong shape:

# %%
show("at_work/send_folder.py")

# %% tags=["triton"]
for number in range(6):
    np.save(models / f"input{number}.npy", pictures[number] if number != 3 else pictures[3][0])
# !{sys.executable} at_work/send_folder.py batched 4 {models}/input*.npy

# %% [markdown]
# ## What to remember
#
# - Keep several requests under way on one connection: enough to fill the instances, from afar more.
# - Set a bound, and keep each error with its request. Callbacks must not raise. Above capacity, send less.
# - Look at busy instances (compute time per second) and at queue time: once all are busy, more requests mostly wait.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A deployment with two instances has 1.9 of them busy. The client's bound is raised from 16 to 64. What happens?</summary>
#
# The throughput hardly grows, unless larger batches cost less per picture. At the same rate, four times as many under way take four times as long.
#
# </details>
#
# <details><summary>A program uses asyncio and 50 tasks, and the server never forms a batch. Where do you look?</summary>
#
# Is the client `tritonclient.grpc` in place of `tritonclient.grpc.aio`? Then each call stops the whole event loop.
#
# </details>
