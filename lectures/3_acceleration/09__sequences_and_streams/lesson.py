# ---
# title: Sequences and streams
# minutes: 27
# ---

# %% [markdown]
# # Sequences and streams
#
# **Question.** A model may remember what a client sent before, and it may answer in parts. What does each cost, and what does it save?
#
# How they work is in lecture 1, [Sequences](../../1_architecture/04__sequences/04__sequences.ipynb) and [Generate](../../1_architecture/11__generate/11__generate.ipynb). Here we measure them.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("sequences_and_streams")
place(models, "models/carried", "models/kept", "models/parts", "models/at_once")
setup.prepare(models)  # the network of carried and kept, in ONNX
lab = laboratory(models)  # a Triton server of this notebook's own

# %% [markdown]
# ## Where is the state?
#
# A camera sends the brightness of each frame. A model smooths it: *after* = 0.9 × *before* + 0.1 × *frame*. The next request needs *after* as its *before*. This is the model's *state*: what must be remembered between two requests.
#
# Here the state is a million equal numbers, 4 MB. The answer, *brightness*, is their mean.

# %% [markdown]
# Two models have this network. With `carried`, the client carries the state: it sends *before* with each frame, and gets *after* back. With `kept`, the server keeps the state, and the client sends the frame alone:

# %%
show("models/carried/config.pbtxt", "models/kept/config.pbtxt")

# %% [markdown]
# `state` names the two tensors that clients of `kept` do not see ([*implicit state*](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/implicit_state_management.md)). The first *before* is `initial_state`: zeros.
#
# The frames of one camera are a *sequence*. `oldest` keeps up to 8 sequences open. Each request has the number of its sequence. The first one has the flag *start*, the last one the flag *end*.

# %%
predict(
    "streams.state",
    "The same network, on the same machine. How long does a request to `kept` take, compared with one "
    "to `carried`?",
    {
        "about as long: the computation is the same": "4 MB travel to the server and back with each "
        "frame of carried. To pack, send and unpack them takes longer than to compute.",
        "less than half as long": None,
        "longer: the server must look for the state": "The server finds the state by the number of the "
        "sequence. The next table has the times in the server: `queue` is small.",
    },
)

# %% tags=["triton"]
import os
import time

import numpy as np
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def tensor(name, array):
    return grpc.InferInput(name, array.shape, "FP32").set_data_from_numpy(array)


# %% tags=["triton"]
def carried(frames, model="carried", size=1_000_000):
    """Send frames with their state; return the last answer and each request's milliseconds."""
    state, ms = np.zeros((1, size), np.float32), []
    for frame in frames:
        began = time.perf_counter()
        inputs = [tensor("frame", np.full((1, 1), frame, np.float32)), tensor("before", state)]
        answer = client.infer(model, inputs)
        state = answer.as_numpy("after")
        ms.append(1000 * (time.perf_counter() - began))
    return answer.as_numpy("brightness").item(), ms


# %% tags=["triton"]
def kept(frames, sequence):
    """Send frames alone, as one sequence; return the last answer and each request's milliseconds."""
    ms = []
    for place, frame in enumerate(frames):
        flags = {"sequence_start": place == 0, "sequence_end": place == len(frames) - 1}
        began = time.perf_counter()
        inputs = [tensor("frame", np.full((1, 1), frame, np.float32))]
        answer = client.infer("kept", inputs, sequence_id=sequence, **flags)
        ms.append(1000 * (time.perf_counter() - began))
    return answer.as_numpy("brightness").item(), ms


# %% tags=["triton"]
frames = np.random.default_rng(0).random(50)
last, times = {}, {}
last["carried"], times["carried"] = carried(frames)
last["kept"], times["kept"] = kept(frames, sequence=1)
for name, ms in times.items():
    print(f"{name:8} answer {last[name]:.5f}, median {np.median(ms):.1f} ms")

# %%
ratio = np.median(times["kept"]) / np.median(times["carried"])
side = (
    "less than half as long"
    if ratio < 0.5
    else "about as long: the computation is the same"
    if ratio < 1.5
    else "longer: the server must look for the state"
)
compare("streams.state", side, premise=setup.calm(times))
claim(
    ratio < 0.7 and abs(last["kept"] - last["carried"]) < 1e-5,
    f"Both answer {last['kept']:.3f}. A request to kept takes {ratio:.0%} of the time.",
    "Run the cell with the frames again.",
    premise=setup.calm(times),
    id="streams.state",
)

# %% [markdown]
# Where do the milliseconds go? The server's [statistics](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md) tell how long a request waits (`queue`), and how long it takes to prepare the inputs (`compute_input`), to run the network (`compute_infer`) and to extract the outputs (`compute_output`). `transfer` is the rest of the client's time: to pack, send and unpack the tensors, there and back.

# %% [markdown]
# A third row is `small`: `carried`, but with a state of one number. The network has hardly anything to compute there, so look at its transfer only.

# %% tags=["triton"]
import pandas as pd

_, times["small"] = carried(frames, model="small", size=1)
rows = {}
for name in ("carried", "kept", "small"):
    stats = client.get_inference_statistics(name, as_json=True)["model_stats"][0]["inference_stats"]
    count = int(stats["success"]["count"])
    parts = ("queue", "compute_input", "compute_infer", "compute_output")
    rows[name] = {part: int(stats[part].get("ns", 0)) / count / 1e6 for part in parts}
    rows[name]["transfer"] = np.mean(times[name]) - sum(rows[name].values())
pd.DataFrame(rows).T.round(2)  # ms per request, means

# %% [markdown]
# With `carried`, most of the time is `transfer`: 4 MB there and back. `compute_output` is large, too, because *after* is an output. `kept` saves both.
#
# **Where it does not help:** with a small state there is hardly any transfer to save. Compare the `transfer` of `small`, which carries its state, with that of `carried`.

# %% [markdown]
# ## What it costs
#
# The state is in one server's memory. So all requests of a sequence have to reach this server, also if there are several behind a load balancer. And what if the model is unloaded, and loaded again?

# %%
predict(
    "streams.reload",
    "In the middle of a sequence, the model is unloaded, and loaded again. What does the next frame get?",
    {
        "an answer, as if nothing had happened": "The state was in the memory of the unloaded model.",
        "an answer, with a state that begins anew": "The server would have to guess that a sequence "
        "may begin here. Only the flag start says so.",
        "an error": None,
    },
)

# %% tags=["triton"]
from tritonclient.utils import InferenceServerException

frame = [tensor("frame", np.ones((1, 1), np.float32))]
client.infer("kept", frame, sequence_id=7, sequence_start=True)
client.unload_model("kept")
client.load_model("kept")
try:
    outcome = client.infer("kept", frame, sequence_id=7).as_numpy("brightness").item()
except InferenceServerException as error:
    outcome = error.message()
print(outcome)

# %%
refused = isinstance(outcome, str)
kinds = "an error" if refused else "an answer, with a state that begins anew"
compare("streams.reload", kinds, premise=setup.loaded(lab))
claim(
    refused and "START" in outcome,
    "After the load, the server knows nothing of the sequence, and refuses its next request.",
    "Run the cell above again.",
    id="streams.reload",
)

# %% [markdown]
# The same happens if a client pauses too long: after one second by default, the server forgets the sequence ([lecture 1](../../1_architecture/04__sequences/04__sequences.ipynb)).
#
# So clients need a plan for this error. They keep their *history*, all frames that they have sent. They send it again, the first frame with the flag *start*. A program at the end of this notebook does it.

# %% [markdown]
# ## Answers in parts
#
# A *decoupled* model may send many responses to one request. `parts` is one. Its input *plan* has two numbers: how many parts the client wants, and how many milliseconds each takes to compute. Each part is sent as soon as it is computed:

# %% tags=["triton"]
# !cat $TRITON_MODELS/parts/1/model.py

# %% [markdown]
# [`at_once`](models/at_once/1/model.py) does the same work, and sends one response at the end. We ask both for 40 parts of 5 ms each, and compare `parts` with `at_once`.

# %%
predict(
    "streams.first",
    "When does the client of parts have the first part, and when the last one, compared with "
    "at_once?",
    {
        "first: much earlier; last: at about the same time": None,
        "first: much earlier; last: much later": "A response takes less than a millisecond "
        "(measured below). That is little beside 5 ms of work.",
        "both at about the same time": "A decoupled model's responses do not wait for each other.",
    },
)

# %% [markdown]
# Many responses need a *stream*: a gRPC connection that stays open in both directions. For each response, the client library calls a function of ours, a *callback*. Ours notes the time.

# %% tags=["triton"]
import queue


def stream(model, count, ms, responses):
    """Send one request over a stream; return when each response came, in milliseconds."""
    came = queue.Queue()  # the time of each response, or an error
    client.start_stream(lambda result, error: came.put(error or time.perf_counter()))
    began = time.perf_counter()
    client.async_stream_infer(model, [tensor("plan", np.array([count, ms], np.float32))])
    times = [1000 * (came.get(timeout=60) - began) for _ in range(responses)]
    client.stop_stream()
    return times


# %% tags=["triton"]
slow = {"parts": stream("parts", 40, 5, responses=40)}
slow["at_once"] = stream("at_once", 40, 5, responses=1)
for model, came in slow.items():
    print(f"{model:8} {len(came):2} responses: first {came[0]:.0f} ms, last {came[-1]:.0f} ms")

# %%
earlier = slow["at_once"][0] / slow["parts"][0]
later = slow["parts"][-1] / slow["at_once"][-1]
when = (
    "both at about the same time"
    if earlier < 3
    else "first: much earlier; last: at about the same time"
    if later < 1.75
    else "first: much earlier; last: much later"
)
compare("streams.first", when, premise=setup.forty(slow))
claim(
    len(slow["parts"]) == 40 and earlier > 3,
    f"The first of 40 parts came {earlier:.0f} times earlier than all at once; the last one after "
    f"{later:.2f} times as long.",
    "Run the cell with the 40 parts again.",
    premise=setup.forty(slow),
    id="streams.first",
)

# %% [markdown]
# A user who reads along waits for the first part only. A program that needs all parts gains nothing: both models work for 40 × 5 ms.

# %% [markdown]
# ## What a response costs
#
# Now 1,000 parts that take no time to compute. The models work equally little. So the difference between them is what 999 more responses cost, in server and client together. We take the fastest of ten tries:

# %% tags=["triton"]
quick = {}
for model in ("parts", "at_once"):
    responses = 1000 if model == "parts" else 1
    quick[model] = min(stream(model, 1000, 0, responses)[-1] for _ in range(10))
    print(f"{model:8} 1,000 parts without work: {quick[model]:.1f} ms")
print(f"so a response costs {(quick['parts'] - quick['at_once']) / 1000:.3f} ms")

# %%
claim(
    quick["parts"] > 2 * quick["at_once"],
    f"A thousand parts that take no time: {quick['parts']:.0f} ms one by one, "
    f"{quick['at_once']:.0f} ms at once.",
    "Run the cell above again.",
    id="streams.price",
)

# %% [markdown]
# So a part should take longer to compute than to send. A token of a language model does. A number of a vector does not: send many numbers in one response.

# %% [markdown]
# ## Your turn
#
# `yours` has the same network with a state of one number, and the client carries it. Change [its config](models/yours/config.pbtxt), so that the server keeps the state of each sequence, and begins with 0. Save the file, and run the cell.
#
# The check sends two sequences that take turns, so both must be open at once.

# %%
setup.yours(models)  # the network, and your config
lab.load("yours")
task("streams.kept", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# This client keeps its history. If the server has lost the state, and refuses a number, the client sends the history again:

# %%
show("at_work/resume.py")

# %% [markdown]
# It sends 10, 20 and 30 to `kept`, and pauses for 3 s before 20 and before 30. In each pause, the server forgets the sequence:

# %% tags=["triton"]
# %run at_work/resume.py kept frame 3 10 20 30

# %% [markdown]
# The answers are right nevertheless: 0.9 × 1 + 0.1 × 20 = 2.9. The longer the history, the longer it takes to send it again. Keep no more of it than your model's state depends on.

# %% [markdown]
# ## What to remember
#
# - Keep a large state in the server: that saves its transfer. With a small one, let any server answer.
# - A server's state is lost with the model, or after a long pause. Clients send their history again.
# - Answer in parts if a user reads along. Each response costs time: make parts that are worth it.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A state of 40 bytes, three servers behind a balancer. Where do you keep it?</summary>
#
# With the client. The transfer of 40 bytes takes hardly any time, and each request may go to any server.
#
# </details>
#
# <details><summary>A decoupled model sends 10,000 numbers, one per response. What do you change?</summary>
#
# Send them in a few responses of many numbers each. Each response costs time, however little is in it.
#
# </details>
#
# <details><summary>Users see the first word after 8 s, although the model is decoupled. Where do you look?</summary>
#
# At `queue` in the statistics: no part can come before the model has begun with the request. And at the model: perhaps it collects its parts before it sends them, as `at_once` does.
#
# </details>
