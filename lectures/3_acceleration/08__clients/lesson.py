# ---
# title: Clients
# minutes: 28
# ---

# %% [markdown]
# # Clients
#
# **Question.** A program has 400 pictures for `batched`, the deployment of [notebook 03](../03__batching/03__batching.ipynb) with two instances and a dynamic batcher. It sends a picture, waits for the answer, and sends the next one. How much sooner is it done if it does not wait, and what can go wrong then?

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("clients")
place(models, "../03__batching/models/batched", "models/remote")
setup.prepare(models)  # the network's file, and 200 pictures
lab = laboratory(models)

# %% [markdown]
# ## One picture after the other
#
# First the program that waits. `client.infer` sends one request, and returns when its answer is here. Such a client is called *blocking*:

# %% tags=["triton"]
import os

import numpy as np
import tritonclient.grpc as grpc

address = os.environ["TRITON_GRPC"]
client = grpc.InferenceServerClient(address)
pictures = 2 * list(np.load(models / "pictures.npy")[:, None])  # 400, each a batch of one


def blocking():
    for picture in pictures:
        tensor = grpc.InferInput("image", picture.shape, "FP32").set_data_from_numpy(picture)
        client.infer("batched", [tensor])


# %% [markdown]
# What do the two instances do? [measured.py](clients/measured.py) reads the server's statistics before and after a block of code, and adds to `rows`:
#
# - `per s`: pictures answered per second;
# - `busy instances`: their computing time, divided by the time that passed; at most 2;
# - `ms per picture`: the computing alone;
# - `queue ms`: the wait before it;
# - `batch`: the mean number of pictures in an execution.

# %% tags=["triton"]
# %run clients/measured.py
import pandas as pd

blocking()  # a warm-up
with measured("blocking"):
    blocking()
pd.DataFrame(rows).set_index("client").round(2)

# %% [markdown]
# ## Several under way
#
# One request keeps at most one instance busy, and none while it travels or is prepared. So send the next request before the answer is here.
#
# `async_infer` returns at once. When the answer arrives, the library calls a function of ours, the *callback*, in another thread. Requests that are sent and not yet answered are *under way*.

# %% [markdown]
# This client bounds how many are under way. `free` is a semaphore, a counter of permits: `acquire` takes one, and waits if none is left. The callback gives it back with `release`. If it raised before, the program would wait forever. So it only stores the answer, or the error in its place:

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
        "waits for an answer, and the model computes in another process.",
    },
)

# %% tags=["triton"]
# %run clients/callbacks.py
callbacks(address, "batched", pictures, 16)  # a warm-up with batches
rows.clear()
for _ in range(3):  # in turns, because other programs may disturb one
    with measured("blocking"):
        blocking()
    for n in (2, 8, 400):
        with measured(f"{n} under way"):
            callbacks(address, "batched", pictures, n)
runs = pd.DataFrame(rows).set_index("client")
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
    f"All 400 under way: ×{everything['per s'] / eight['per s']:.1f} the pictures per second of eight, "
    f"and {everything['queue ms']:.0f} ms in the server's queue, not {eight['queue ms']:.1f}.",
    "Run the cell with the table again.",
    id="clients.queue",
)

# %% [markdown]
# **The limit.** `per s` = 1000 × `busy instances` / `ms per picture`. At most 2 instances are busy: near 2, a further request mostly waits. So double the bound until `per s` hardly grows.
#
# `ms per picture` decides, too. A larger batch may make a picture cheaper, cores with other work make it dearer.

# %% [markdown]
# ## asyncio
#
# Many web services use asyncio: one thread, the *event loop*, runs many functions (`async def`) in turns. At `await`, one waits and another goes on. Each running one is a *task*. A request in a task needs `tritonclient.grpc.aio`, because `infer` of `tritonclient.grpc` would stop the loop. This file does what `callbacks.py` does:

# %%
show("clients/tasks.py")

# %% [markdown]
# The `TaskGroup` (from Python 3.11 on) at the end of the file waits until all its tasks are done. What if tasks use `tritonclient.grpc`? Where eight requests are under way, some share a batch, so compare `batch`:

# %% tags=["triton"]
# %run clients/tasks.py
import asyncio


async def ask_blocking(picture):
    tensor = grpc.InferInput("image", picture.shape, "FP32").set_data_from_numpy(picture)
    client.infer("batched", [tensor])  # of tritonclient.grpc


rows.clear()
with measured("grpc.aio"):
    await tasks(address, "batched", pictures, 8)
with measured("grpc"):
    await asyncio.gather(*(ask_blocking(picture) for picture in pictures))
ways = pd.DataFrame(rows).set_index("client")
ways.round(2)

# %%
claim(
    ways["batch"]["grpc.aio"] > 1.2 and ways["batch"]["grpc"] < 1.05,
    f"With grpc.aio, the server gets batches of {ways['batch']['grpc.aio']:.1f}. With grpc, the "
    f"tasks wait for each other: batches of {ways['batch']['grpc']:.1f}.",
    "Run the cell above again.",
    id="clients.ways",
)

# %% [markdown]
# ## From afar
#
# How many requests should be under way? That depends on the distance. [far.py](clients/far.py) stands for a long wire, as between two cities: it passes all bytes on 10 ms later, each way. We send pictures through it, first with 1 under way, then with 16:

# %% tags=["triton"]
# %run clients/far.py
import time


def seconds(wire, count, under_way):
    """Seconds per picture."""
    began = time.perf_counter()
    callbacks(wire, "batched", pictures[:count], under_way)
    return (time.perf_counter() - began) / count


with far(address, ms=10) as wire:
    alone_s, sixteen_s = seconds(wire, 100, 1), seconds(wire, 400, 16)

# %%
claim(
    alone_s > 3 * sixteen_s,
    f"From afar, a picture alone takes {1000 * alone_s:.0f} ms: {1 / alone_s:.0f} per second one after "
    f"the other, and {1 / sixteen_s:.0f} with 16 under way: ×{alone_s / sixteen_s:.0f}.",
    "Run the cell above again.",
    id="clients.far",
)

# %% [markdown]
# Most of the time is the wire's, and sixteen pictures travel at once. [Little's law](../01__point_a/01__point_a.ipynb#Little's-law) says how many requests a program needs under way: rate × latency. Take the latency of a picture alone, and the rate that you want. With 30 ms, 300 pictures per second need at least 300 × 0.03 = 9.

# %% [markdown]
# ## One request fails
#
# [The slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) use a TaskGroup without a bound and without `try`. Below is their code, corrected so that it runs. The model [remote](models/remote/1/model.py) stands for a call to another service: it sleeps 40 ms, for up to four numbers at a time.


# %% tags=["triton"]
import tritonclient.grpc.aio as grpc_aio
from tritonclient.utils import InferenceServerException


async def group(tensors):
    async with grpc_aio.InferenceServerClient(address) as other, asyncio.TaskGroup() as tg:
        sent = [tg.create_task(other.infer("remote", [tensor])) for tensor in tensors]
    return [await task for task in sent]


def ended():
    """How many requests `remote` has computed, and how many it has dropped."""
    time.sleep(1)  # until it has ended all
    stats = client.get_inference_statistics("remote").model_stats[0].inference_stats
    return np.array([stats.success.count, stats.fail.count])


# %% [markdown]
# Of 100 arrays, one has a wrong shape: two numbers in place of one. First `group` sends all 100, then `tasks`, with 8 under way:

# %% tags=["triton"]
numbers = list(np.ones((100, 1, 1), np.float32))
numbers[40] = np.ones((1, 2), np.float32)  # a wrong shape

# %%
predict(
    "clients.group",
    "The TaskGroup starts a task for each of the 100 requests, and waits for all of them. The server "
    "refuses one of them immediately. How many answers does the program get?",
    {
        "99": "An error that leaves a task ends the whole group: the other tasks are cancelled.",
        "40: those that were sent before it": "The group cancels every task that is not done, "
        "whenever it was sent. Then `async with` raises, and nobody collects the other answers.",
        "none": None,
    },
)


# %% tags=["triton"]
before, got = ended(), []
tensors = [grpc.InferInput("X", x.shape, "FP32").set_data_from_numpy(x) for x in numbers]
try:
    got = await group(tensors)
except* InferenceServerException as errors:
    print(errors.exceptions[0].message()[:75], "…")
computed, dropped = ended() - before
print(f"{len(got)} answers; on the server, {computed} were computed, and {dropped} dropped")

# %% tags=["triton"]
earlier = ended()
returned = await tasks(address, "remote", numbers, 8, ("X", "Y"))
right = sum(not isinstance(each, Exception) for each in returned)
computed_now, dropped_now = ended() - earlier
print(f"{right} answers; on the server, {computed_now} were computed, and {dropped_now} dropped")

# %%
how_many = "none" if not got else "99" if len(got) == 99 else "40: those that were sent before it"
refused = Premise(len(numbers) - right == 1, f"{len(numbers) - right} of 100 requests were refused")
compare("clients.group", how_many, premise=refused)
claim(
    not got and computed > 0 and right == computed_now == 99,
    f"The TaskGroup lost all answers: the server computed {computed} for nothing, and dropped "
    f"{dropped}. With the error returned, {right} answers came.",
    "Run the cells of this section again.",
    premise=refused,
    id="clients.group",
)

# %% [markdown]
# The error left its task. So the TaskGroup cancelled all other tasks, and raised a group of errors, which `except*` catches. The server dropped the cancelled requests from its queue. Let an error leave its task only where one failure makes the rest worthless. Else catch it in the task and return it, as `tasks.py` does.
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

# %% [markdown]
# ## Three more things
#
# - Keep one client, and with it its connection. Threads may share it with gRPC, not with HTTP.
# - A client on the server's machine can pass tensors in *shared memory*, without the socket ([lecture 1](../../1_architecture/09__wire/09__wire.ipynb#Shared-memory) measures it).
# - `client_timeout=5` in gRPC's `infer` and `async_infer` ends a wait after 5 s. Without it, a server that hangs keeps the permit.

# %% [markdown]
# ## The step
#
# One program with one request under way, then with eight. In most other rows, eight clients send before and after, so do not compare the gains:

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
# `send` of [this program](clients/own.py) gets 160 arrays, one of them with a wrong shape. Change it so that it returns 159 answers and the error, each in its place, with 4 to 16 requests under way. Save the file, and run the cell:

# %%
# !cp clients/own.py "{models}"
task("clients.own", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# This program sends files to your model: each is a batch for its first input. Each of `UNDER_WAY` workers sends a file, waits, and takes the next. So it needs no semaphore, and few files are in memory. Double `UNDER_WAY` while it sends more per second. Here, one file has a wrong shape:

# %%
show("at_work/send_folder.py")

# %% tags=["triton"]
for number in range(6):
    np.save(models / f"input{number}.npy", pictures[number] if number != 3 else pictures[3][0])
# !{sys.executable} at_work/send_folder.py batched 4 {models}/input*.npy

# %% [markdown]
# ## What to remember
#
# - Keep several requests under way: enough to keep the instances busy, and from afar more.
# - Look at busy instances and at queue time: once all instances are busy, more requests mostly wait.
# - Set a bound: then the program waits for a slow server, and no queue grows. Keep each error with its request.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A deployment with two instances has 1.9 of them busy. The client's bound is raised from 16 to 64. What happens?</summary>
#
# The throughput hardly grows, unless larger batches cost less per picture. At the same rate, by Little's law, a request takes about four times as long.
#
# </details>
#
# <details><summary>A program uses asyncio and 50 tasks, and the server never forms a batch. Where do you look?</summary>
#
# Is the client `tritonclient.grpc` in place of `tritonclient.grpc.aio`? Then each call stops the whole event loop.
#
# </details>
