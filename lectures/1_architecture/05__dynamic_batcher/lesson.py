# ---
# title: The dynamic batcher
# minutes: 27
# ---

# %% [markdown]
# # The dynamic batcher
#
# **Question.** Often a model computes eight rows in one call much faster than in eight calls. Clients send single rows. Who joins them, and how much longer does each request take?
#
# The *dynamic batcher* does. It stands between the queue of a *stateless* model, which treats each request alone, and its instances ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#dynamic-batcher)):
#
# ![Triton; marked is the dynamic batcher](architecture.svg)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("dynamic_batcher")
place(models, "models/eager")
setup.digits(models)  # the course's models of digits, for the second half
lab = laboratory(models, only=["eager"])  # a Triton server of this notebook's own

# %% [markdown]
# ## A model that takes 20 ms
#
# This model sleeps 20 ms per execution, with one row or with eight. So a figure shows only what the batcher does. Below the files is the config as the server completed it: no delay, and batches of 8 preferred. `TRITON_HTTP` is the server's address, as `localhost:8000` would be at work.

# %%
show("models/eager/config.pbtxt", "models/eager/1/model.py")

# %% tags=["triton"]
# !curl -s $TRITON_HTTP/v2/models/eager/config | grep -o '"dynamic_batching":{[^}]*}'

# %% [markdown]
# `send_at` sends single rows at a steady pace, whether or not the earlier ones are answered. `counts` asks the server for its [statistics](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md): how many rows a model computed (*inferences*), in how many *executions*. Here a request is one row.

# %% tags=["triton"]
import os
import queue
import time

import numpy as np
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
row = grpc.InferInput("X", [1, 1], "FP32").set_data_from_numpy(np.ones((1, 1), np.float32))


# %% tags=["triton"]
def send_at(model, per_second, seconds=0.6):
    """Send rows at a steady pace; return how many per second were sent."""
    count, answers, began = round(per_second * seconds), queue.Queue(), time.perf_counter()

    def keep(result, error):
        answers.put(error or result)

    for number in range(count):
        time.sleep(max(0, began + number / per_second - time.perf_counter()))
        client.async_infer(model, [row], keep, request_id=f"r{number + 1}")
    took = time.perf_counter() - began
    for _ in range(count):
        answers.get()
    return (count - 1) / took


# %% tags=["triton"]
def counts(model):
    """The inferences and the executions of a model, since it was loaded."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics(model, as_json=True)["model_stats"][0]
    return np.array([int(stats.get(f"{name}_count", 0)) for name in ("inference", "execution")])


# %% [markdown]
# ## Load
#
# With `dynamic_batching { }` alone, the batcher may join requests, up to `max_batch_size`. No delay is set.

# %%
predict_curve(
    "batcher.load",
    "Requests come at a steady pace. How many of them share an execution, on average?",
    x=[25, 50, 100, 200, 400],
    y_range=(1, 8),
    unit="requests per execution",
    below="requests per second",
)

# %% tags=["triton"]
rates, reached, sizes = [25, 50, 100, 200, 400], [], []
for rate in rates:
    before = counts("eager")
    reached.append(send_at("eager", rate))
    inferences, executions = counts("eager") - before
    sizes.append(inferences / executions)
    print(f"{reached[-1]:3.0f} per second: {inferences} inferences, {executions} executions")

# %%
compare_curve("batcher.load", rates, sizes, premise=reached_rate(rates, reached))

# %% [markdown]
# Here is a part of such a run, request by request. The server's traces say when each one came, and with which others it was computed.

# %%
busy = record(lab, "eager", lambda: send_at("eager", 200, seconds=0.16))
slots.draw(busy.places, most=8)

# %% [markdown]
# Each execution takes what arrived during the one before; dashed slots stayed empty. Below 50 requests per second, each one finds an idle instance.
#
# 400 per second are eight per 20 ms. The mean is lower, because a run's first execution has one row, and its last one the rest. The same load, without a batcher:

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/eager $TRITON_MODELS/none
# sed -i '/dynamic_batching/d' $TRITON_MODELS/none/config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/none/load

# %%
alone = record(lab, "none", lambda: send_at("none", 200, seconds=0.16))
slots.draw(alone.places)

# %%
each = alone.count("executions") == alone.count("inferences")
fewer = busy.count("executions") < busy.count("inferences")
claim(
    fewer and each,
    f"Batched: {busy.count('executions'):.0f} executions for {busy.count('inferences'):.0f} "
    f"inferences; not batched: {alone.count('executions'):.0f} for {alone.count('inferences'):.0f}.",
    "Look at the configs of eager and none: only eager has dynamic_batching.",
    premise=sent_as_planned(busy.places, 5),
    id="batcher.executions",
)

# %% [markdown]
# Without `dynamic_batching`, each request waits longer than the one before, because the model is too slow for this load. So the proof of batching is in the statistics: fewer executions than inferences.
#
# ## A delay
#
# `max_queue_delay_microseconds` lets the batcher hold requests back.

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/eager $TRITON_MODELS/patient
# cd $TRITON_MODELS/patient
# delay='{ max_queue_delay_microseconds: 100000 }'
# sed -i "s/^dynamic_batching.*/dynamic_batching $delay/" config.pbtxt
# tail -1 config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/patient/load

# %%
predict(
    "batcher.delay",
    "The load is light, 33 requests per second. With a delay of up to 100 ms, what happens to the "
    "time of a request?",
    {
        "it falls: batches are efficient": "A batch saves time if requests would wait for the instance. "
        "Here each of them finds it idle.",
        "it stays: nobody has to wait for an idle instance": "The instance is idle, but the "
        "batcher holds the request back until its delay is over.",
        "it grows: requests wait for others": None,
    },
)

# %% [markdown]
# *perf_analyzer* is Triton's tool for load. It sends at the rate of `--request-rate-range`. It measures in windows of `-p` milliseconds, `-r` at most, until three of them agree within `-s` percent. `-f` names its report. *p99*: 99 of 100 requests took less.

# %% language="bash" tags=["triton"]
# for model in eager patient; do
#   echo "== $model"
#   perf_analyzer -m $model -i grpc -u $TRITON_GRPC --request-rate-range 33 \
#     -p 1000 -s 100 -r 20 -f $TRITON_MODELS/$model.csv | grep -E '(Avg|p99) latency|(Inference|Execution) count'
# done

# %%
light = measure.read_reports(models / "eager.csv", models / "patient.csv")
parts = light[["queue_ms", "compute_infer_ms"]]
measure.plot_bars(parts, title="Where a request's time goes", below="ms per request")

# %%
queued = light["queue_ms"]
ms = queued + light["compute_infer_ms"]
on_time = reached_rate([33, 33], light["throughput"])
grew = "it grows: requests wait for others"
stays = "it stays: nobody has to wait for an idle instance"
compare("batcher.delay", grew if ms["patient"] > 1.2 * ms["eager"] else stays, premise=on_time)
claim(
    ms["patient"] > 1.2 * ms["eager"] and queued["patient"] > queued["eager"],
    f"With the delay, a request took {ms['patient']:.0f} ms on average instead of {ms['eager']:.0f}: it "
    f"waited for {queued['patient']:.0f} ms in the queue.",
    "Run the cell with perf_analyzer again.",
    premise=on_time,
    id="batcher.delay",
)

# %% [markdown]
# So start without a delay. If the latency is within your budget and you want more throughput, raise `max_batch_size`, or the delay, or both, and measure: so says the [recommended process](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#recommended-configuration-process).
#
# ## A simulator
#
# The course has a simulator of Triton's scheduler. Here: 24 requests, and 20 ms per execution. Move the sliders; the button sends the same plan to Triton.

# %%
bench = setup.simulator(lab, "patient")

# %% [markdown]
# `preferred_batch_size: [ 4 ]` ends the delay as soon as four requests are there. A smaller batch is computed when its oldest request has waited for the whole delay. Set `prefers` to 0 to see what it changes.
#
# Does the real server agree? In the figure, the frames are its executions:

# %%
served = bench.serve(every_ms=15, delay_ms=100, prefers=4)
served

# %%
fours = served.agrees and served.run.sizes.count(4) > 3
claim(
    fours,
    "Triton formed the batches that the simulator expected, of the preferred size.",
    "Run this cell again.",
    premise=served.premise,
    id="batcher.preferred",
)

# %% [markdown]
# [Leave preferred sizes out](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#preferred-batch-sizes), unless some sizes are much faster than others, as with a TensorRT engine that has profiles for them.
#
# ## Digits, three times
#
# Now no sleeping. One small network reads digits in three frameworks. Each is there twice, with `dynamic_batching { }`, and as `…_alone` without it. Correctness first:

# %% tags=["triton"]
from sklearn.datasets import load_digits

kinds = ("onnx", "torch", "openvino")
names = [f"digits_{kind}{end}" for kind in kinds for end in ("", "_alone")]
pictures = (load_digits().images[:8, None] / 16).astype(np.float32)
for name in names:
    client.load_model(name)
    about = client.get_model_metadata(name)  # the frameworks name their tensors differently
    image = grpc.InferInput(about.inputs[0].name, pictures.shape, "FP32")
    image.set_data_from_numpy(pictures)
    logits = client.infer(name, [image]).as_numpy(about.outputs[0].name)
    print(f"{name:22} {logits.argmax(1)}  first logit {logits[0, 0]:.4f}")

# %% [markdown]
# OpenVINO's model is compiled for exactly eight rows, and pads smaller batches. ONNX Runtime and PyTorch compute as many rows as there are. For ONNX models, this course's server calls ONNX Runtime directly, without Python.

# %%
predict(
    "batcher.gain",
    "32 requests are under way at any time. Which framework gains least by batching?",
    {
        "OpenVINO": "A lone picture is padded to eight rows, so it costs as much as eight. In a batch, "
        "other requests fill these rows.",
        "PyTorch": "A call costs much beyond its rows, and the requests of a batch share that.",
        "ONNX Runtime": None,
        "all three alike": "The requests of a batch share what one call costs, and that differs.",
    },
)

# %% language="bash" tags=["triton"]
# for turn in 1 2; do  # twice, because other programs may disturb one of them
#   for model in digits_{onnx,torch,openvino}{,_alone}; do
#     perf_analyzer -m $model -i grpc -u $TRITON_GRPC --concurrency-range 32 \
#       -p 400 -s 200 -r 20 -f $TRITON_MODELS/$model.$turn.csv > /dev/null
#   done
# done

# %%
speed = setup.read_speeds(models)
setup.plot_gains(speed)

# %%
gain = speed["batched"] / speed["one by one"]
others = "a gain of ×3.3, for text recognition on an A100 (Triton tutorials, part 2)"
compare("batcher.gain", gain.idxmin(), published=others, premise=setup.one_gains_least(speed))
claim(
    gain.max() > 1.5,
    f"Batching multiplied the throughput on this CPU by {gain.min():.1f} to {gain.max():.1f}.",
    "Close other programs, and run the cell with perf_analyzer again.",
    premise=setup.repeated(speed),
    id="batcher.gain",
)

# %% [markdown]
# A Python model has to join the rows of its requests itself: [here is how](../../2_backends/02__python/02__python.ipynb#The-classifier). A loop computes them one by one.
#
# ## Your turn
#
# Somebody configured `crowded`, OpenVINO's digits, for large batches. Now a lone request takes too long. Correct [its config](models/crowded/config.pbtxt), so that lone requests are quick and many are batched. Save it, and run the cell.

# %%
setup.crowded(models)  # the network, and your config
lab.load("crowded")
task("batcher.crowded", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# Does batching pay for your model? This program asks your server and perf_analyzer. Where more requests under way raise only p99, and no longer the throughput, the model has all that it can compute.

# %%
show("at_work/batching.py")

# %% tags=["triton"]
# %run at_work/batching.py eager

# %% [markdown]
# ## What to remember
#
# - Batches form under load, without a delay. A delay makes them larger; at a light load, each request takes longer.
# - Proof of batching: fewer executions than requests.
# - A batch shares what a call costs beyond its rows. How much that gains differs from model to model: measure it.

# %% [markdown]
# ## Check yourself
#
# <details><summary>"Dynamic batching does not batch", says a user who tests with one blocking client. Why?</summary>
#
# One request is under way at a time. There is never a second one in the queue to join it with. A delay would only slow the client down.
#
# </details>
#
# <details><summary>With a batcher, executions are a quarter of the requests, but the throughput has not changed. Name two possible causes.</summary>
#
# The model loops over its requests and computes each alone. Or the clients are the limit: they send no faster than before.
#
# </details>
#
# <details><summary>A request every 12 ms, executions of 20 ms, two instances, no delay. What share of requests is batched?</summary>
#
# None: when a request comes, one of the two instances is always free.
#
# </details>
#
# Next: [queue policies](../06__queue_policies/06__queue_policies.ipynb).
