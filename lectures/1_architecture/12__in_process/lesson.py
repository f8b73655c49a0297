# ---
# title: In-process, and other ways in
# minutes: 28
# ---

# %% [markdown]
# # In-process, and other ways in
#
# **Question.** One program uses a model, and nobody else does. Must it ask a server, in a process of its own, with ports and a network? Or can it have Triton inside? What does it gain, and what does it lose?
#
# ![Triton; marked is the program that has Triton inside](architecture.svg)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words
from workbook.server.capi import Core

models = folder("in_process")
setup.place_model(models)  # digits_onnx, from the course's repository
lab = laboratory(models)  # a Triton server of this notebook's own, in a process of its own

# %% [markdown]
# First the usual way: a server with ports. Below, this kernel serves the same folder without them.

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2 | grep -o '"version":"[^"]*"'
# grep -v parameters $TRITON_MODELS/digits_onnx/config.pbtxt

# %% [markdown]
# ## Python
#
# This is the way for work: NVIDIA's package [tritonserver](https://pypi.org/project/tritonserver/) wraps Triton's library in classes. A whole program for NVIDIA's container; not run here, because this course's Triton comes without the package. For a model of your own, change the three places with a number:
#
# ```python
# import numpy
# import tritonserver
#
# # The same repository as for a server with ports; all its models are loaded.
# server = tritonserver.Server(model_repository="/models").start(wait_until_ready=True)
# image = numpy.zeros((1, 1, 8, 8), "float32")  # 1. your data; shape and type as in the config
# inputs = {"image": image}  # 2. the input's name
# for response in server.model("digits_onnx").infer(inputs=inputs):  # here, one response
#     logits = response.outputs["logits"]  # 3. the names of the model and of its output
#     print(numpy.from_dlpack(logits))  # as an array, without a copy
# server.stop()
# ```

# %% [markdown]
# The loop is there because a decoupled model answers several times. NVIDIA's containers have the package as a wheel: `pip install /opt/tritonserver/python/triton*.whl` ([guide](https://github.com/triton-inference-server/server/blob/main/python/openai/README.md), [tutorial](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API)).
#
# <details><summary>From PyPI</summary>
#
# PyPI has wheels since 2.70.0 (June 2026), for CPython 3.12 and glibc 2.39 or newer. They hold the bindings alone, 0.3 MB: `libtritonserver.so` must be there, as in the container. For another Python, pip finds only a placeholder that fails on purpose.
#
# </details>

# %% [markdown]
# ## The library
#
# What does the package call? A library with a [C API](https://github.com/triton-inference-server/core/blob/main/include/triton/core/tritonserver.h); the program `tritonserver` is a thin layer around it, too. Here *this* kernel calls it, to show what happens. At work, write the above.
#
# `Core` is a layer of the course: `core("Name", …)` calls the C function `TRITONSERVER_Name`, and raises its error; `core.new` returns what it has made.

# %%
import os

core = Core()
print(core.path.name, "· version of its API: {}.{}".format(*core.version()))

places = os.environ["TRITON_MODELS"], core.place.backends, models / "core.log"
repository, backends, log = map(os.fsencode, places)  # C takes bytes
options = core.new("ServerOptionsNew")  # beside each line: the same option of tritonserver
core("ServerOptionsSetModelRepositoryPath", options, repository)  # --model-repository
core("ServerOptionsSetBackendDirectory", options, backends)  # --backend-directory
core("ServerOptionsSetModelControlMode", options, setup.EXPLICIT)  # --model-control-mode
core("ServerOptionsSetStartupModel", options, b"digits_onnx")  # --load-model
core("ServerOptionsSetGpuMetrics", options, False)  # --allow-gpu-metrics
core("ServerOptionsSetLogFile", options, log)  # --log-file

# %% [markdown]
# `ServerNew` makes the server. Does it open a port, or start a process? Jupyter has some of both, so we look before and after.

# %%
setup.stop_all()  # the server of an earlier run of this cell
before = setup.look()
with core.environment():  # PATH and LD_LIBRARY_PATH for the processes that it may start
    server = core.new("ServerNew", options)
inside = setup.Inside(core, server)  # stops it when this kernel ends; reads its statistics
ports, processes = setup.new_since(before)
print("ready:", core.yes("ServerIsReady", server))
print("new ports:", ports or "none", "· new processes:", processes or "none")

# %%
claim(
    not ports and len(processes) > 0,
    "Triton is ready in this process, and no port was opened.",
    "Run the cells from the top on again.",
    id="in_process.start",
)

# %% [markdown]
# The new process is a stub: a part of this course's ONNX backend is written in Python. NVIDIA's is a C++ library inside your program. If that crashes, the program ends.
#
# ## One request
#
# The next file has all calls of one request. At work the package makes them, and so do the front ends.

# %% [markdown]
# `ServerInferAsync` in step 3 returns before the answer is there. Triton calls `on_response` with it later, from a thread of its own. `core.allocator` gives Triton memory for the outputs, and `core.outputs` copies them into arrays. The input is not copied, so `in_use` keeps it until `on_release` is called.

# %%
show("clients/c_api.py")

# %% [markdown]
# Now the same request over the network: do HTTP and gRPC agree? `best_ms`, for later, gives the time of a quick request: other programs make some slow, and with them the mean.

# %% tags=["triton"]
import os

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from sklearn.datasets import load_digits

pictures = (load_digits().images[:360, None] / 16).astype(np.float32)


def network(kind, address):
    """A function that asks for one picture, over HTTP or gRPC."""
    client = kind.InferenceServerClient(address)
    image = kind.InferInput("image", [1, 1, 8, 8], "FP32").set_data_from_numpy(pictures[:1])
    return lambda: client.infer("digits_onnx", [image]).as_numpy("logits")


# %% tags=["triton"]
import time

ways = {
    "HTTP": network(http, os.environ["TRITON_HTTP"]),
    "gRPC": network(grpc, os.environ["TRITON_GRPC"]),
}
for name, ask_once in ways.items():
    print(f"{name}: logits {ask_once().round(2)[0, :3]} …")


def best_ms(ask, times=300):
    """The milliseconds of a quick request: of 100 requests, 5 are quicker."""
    stamps = [time.perf_counter()]
    for _ in range(times):
        ask()
        stamps.append(time.perf_counter())
    return 1000 * np.quantile(np.diff(stamps), 0.05)


# %%
predict(
    "in_process.speed",
    "One picture, asked through the C API and over gRPC. How many times longer does gRPC take?",
    unit="×",
)

# %% [markdown]
# Each way is asked once, for the answer, and then 300 times. `infer` is the function of the file above:

# %%
import pandas as pd

from clients.c_api import infer


def ask_inside():
    return infer(core, server, "digits_onnx", "image", pictures[:1])["logits"]


three = {"C API": ask_inside, **ways}
answers = [ask_way() for ask_way in three.values()]
ms = pd.Series({name: best_ms(ask_way) for name, ask_way in three.items()})
measure.plot_bars(ms.to_frame("ms"), title="One picture", below="ms of a quick request")

# %%
equal = Premise(
    all(np.allclose(answers[0], other, atol=1e-5) for other in answers), "the answers differ"
)
compare("in_process.speed", ms["gRPC"] / ms["C API"], unit="×", premise=equal)
claim(
    ms["C API"] < ms["gRPC"],
    "The three answers are equal, and the C API's came sooner: it has no network.",
    "Other programs may take the cores: close them and run the cells of this section again.",
    premise=equal,
    id="in_process.speed",
)

# %% [markdown]
# Behind all three is the same core with the same model. HTTP and gRPC add messages: each is written, sent through a socket, and read again. This takes its time, however long the model computes. So in-process pays for fast models, and hardly for slow ones. Which of HTTP and gRPC is quicker depends on their client libraries, too.

# %% [markdown]
# ## What is inside, and what is not?
#
# Sixteen threads of this program call `infer` for 360 pictures, one picture at a time. `digits_onnx` has `dynamic_batching { }` in its config.

# %%
predict(
    "in_process.batches",
    "How many executions does the model need for the 360 pictures?",
    {
        "360: nothing joins requests without a network": "The batcher is a part of the core. "
        "HTTP and gRPC are front ends, and call the same C API as we do.",
        "23: sixteen pictures each time": "The batcher does not wait for the sixteenth. It takes "
        "what has come while the last batch was computed.",
        "more than 23, and far fewer than 360": None,
    },
)

# %%
from concurrent.futures import ThreadPoolExecutor


def ask_for_one(picture):
    return infer(core, server, "digits_onnx", "image", picture[None])


before = inside.counts("digits_onnx")
with ThreadPoolExecutor(16) as pool:
    list(pool.map(ask_for_one, pictures))
after = inside.counts("digits_onnx")
counted = {name: after[name] - before[name] for name in after}
print("{executions} executions for {requests} pictures in this process".format(**counted))

# %%
runs = counted["executions"]
none, each_time = "360: nothing joins requests without a network", "23: sixteen pictures each time"
few = "more than 23, and far fewer than 360"
alone = Premise(counted["requests"] == 360, f"the server counted {counted['requests']} requests")
seen = none if runs > 340 else each_time if runs <= 23 else few
compare("in_process.batches", seen, premise=alone)
claim(
    runs < 300,
    "Far fewer executions than requests: the batcher works inside, too.",
    "Run the cell with the threads again.",
    premise=alone,
    id="in_process.batches",
)

# %% [markdown]
# The same load over gRPC. A request spends part of its time on the way, so fewer wait together, and batches are often smaller. Here the [statistics](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md) come from the server's endpoint:

# %% tags=["triton"]
from concurrent.futures import ThreadPoolExecutor

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def executions():
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    return client.get_inference_statistics("digits_onnx").model_stats[0].execution_count


def ask_for(picture):
    image = grpc.InferInput("image", [1, 1, 8, 8], "FP32").set_data_from_numpy(picture[None])
    return client.infer("digits_onnx", [image]).as_numpy("logits").argmax()


so_far = executions()
with ThreadPoolExecutor(16) as threads:
    digits = list(threads.map(ask_for, pictures))
print(f"{executions() - so_far} executions for {len(digits)} pictures over gRPC")

# %% [markdown]
# Schedulers, batchers, statistics, the cache and ensembles belong to the core. `tritonserver` adds HTTP, gRPC, the port for metrics, and what belongs to ports: TLS, restricted APIs. A program with Triton inside reads its metrics with `TRITONSERVER_ServerMetrics`. The port below is our server's: it counts the 600 timed requests and the executions over gRPC, and nothing of this kernel's Triton:

# %% language="bash" tags=["triton"]
# curl -s $TRITON_METRICS/metrics | grep '^nv_inference_exec_count'

# %% [markdown]
# ## C++ and Java
#
# C++ calls the C API as our file does. Header and library are in NVIDIA's container, in `include` and `lib` of `/opt/tritonserver`. Below is how it begins, not run here; requests follow as above ([complete example](https://github.com/triton-inference-server/server/blob/main/src/simple.cc)):
#
# ```cpp
# #include <triton/core/tritonserver.h>
#
# int main() {
#   TRITONSERVER_ServerOptions* options = nullptr;
#   TRITONSERVER_ServerOptionsNew(&options);
#   TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, "/models");
#   TRITONSERVER_Server* server = nullptr;
#   return TRITONSERVER_ServerNew(&server, options) != nullptr;
# }
# ```

# %% [markdown]
# <details><summary>The same in Java</summary>
#
# Java calls the same functions through [JavaCPP](https://github.com/bytedeco/javacpp-presets/tree/master/tritonserver). Not run here:
#
# ```java
# import org.bytedeco.tritonserver.tritonserver.*;
# import static org.bytedeco.tritonserver.global.tritonserver.*;
#
# public class Hello {
#   public static void main(String[] words) {
#     TRITONSERVER_ServerOptions options = new TRITONSERVER_ServerOptions(null);
#     TRITONSERVER_ServerOptionsNew(options);
#     TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, "/models");
#     TRITONSERVER_Server server = new TRITONSERVER_Server(null);
#     TRITONSERVER_ServerNew(server, options);
#   }
# }
# ```
#
# </details>
#
# <details><summary>Errata: the architecture slides</summary>
#
# [The slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) recommend a C++ API: a wrapper around the C API ([developer_tools](https://github.com/triton-inference-server/developer_tools/tree/main/server)). It is a library of its own, which you build. The jar in the SDK container binds the C API alone; the wrapper's bindings come with an option of the build script ([guide](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inprocess_java_api.md)). Use the C API.
#
# </details>

# %% [markdown]
# ## Kafka and Ray Serve
#
# Requests may come without HTTP and gRPC. *Kafka* keeps messages in *topics*: this program reads questions from one, and writes answers to another ([complete example](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API/examples/kafka-io)). Not run here; `server` is that of the [Python program](#Python), `language` a model with a string in and out:
#
# ```python
# from confluent_kafka import Consumer, Producer
#
# producer = Producer({"bootstrap.servers": "kafka:9092"})
# consumer = Consumer({"bootstrap.servers": "kafka:9092", "group.id": "triton"})
# consumer.subscribe(["questions"])
# while True:
#     message = consumer.poll(1.0)  # waits for a second at most
#     if message and not message.error():
#         text = message.value().decode()
#         for response in server.model("language").infer(inputs={"text": [[text]]}):
#             producer.produce("answers", response.outputs["label"].to_string_array()[0][0])
#             producer.poll(0)  # takes what Kafka confirmed; else the producer's queue gets full
# ```

# %% [markdown]
# <details><summary>Ray Serve: copies of a class on many machines, each with a Triton inside</summary>
#
# Ray Serve spreads requests over the copies ([complete example](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API/examples/rayserve)). Not run here:
#
# ```python
# import tritonserver
# from ray import serve
#
# @serve.deployment(num_replicas=2)
# class Language:
#     def __init__(self):
#         self.triton = tritonserver.Server(model_repository="/models")
#         self.triton.start(wait_until_ready=True)
#
#     async def __call__(self, request) -> str:
#         text = request.query_params["text"]
#         responses = self.triton.model("language").infer(inputs={"text": [[text]]})
#         return next(iter(responses)).outputs["label"].to_string_array()[0][0]
#
# serve.run(Language.bind())
# ```
#
# </details>

# %% [markdown]
# ## Your turn
#
# The Kafka program has a weakness: it waits for each answer before it reads on. [The same loop](clients/bridge.py) with Python's queues asks the Triton in this kernel (`inside.infer` makes the calls of `c_api.py`). A message is a number and a picture; None ends the stream. Change the file: 360 messages, at most 60 executions, answers in any order.

# %% language="bash" tags=["triton"]
# cat clients/bridge.py

# %%
task("in_process.bridge", server=inside)

# %% [markdown]
# ## The same at work, without this course
#
# Is in-process worth it for your model? This program times requests to your server, and reads how long the core had them. In-process can save *the rest*, no more. For the core, HTTP and gRPC are the same work. Where its times differ, something disturbed the larger: repeat. With 1 picture, and 64:

# %%
show("at_work/ways.py")

# %% tags=["triton"]
# %run at_work/ways.py digits_onnx 1
# %run at_work/ways.py digits_onnx 64

# %% [markdown]
# | your case | then |
# |---|---|
# | one program asks; *the rest* is most of its time | in-process |
# | no port is allowed, or needed: Kafka or Ray brings all requests | in-process |
# | several programs ask | a server: each copy of Triton loads all models |
# | models change or crash without the program | a server |
# | large tensors, one machine | a server with [shared memory](../09__wire/09__wire.ipynb#Shared-memory) |

# %% [markdown]
# ## What to remember
#
# - One program alone needs no ports: the core is a library with a C API. HTTP and gRPC are front ends that call it, as your program can.
# - It gains the network's time. The core batches as before; TLS and the metrics port are gone.
# - The price: a crash in Triton ends your program, too.

# %% [markdown]
# ## Check yourself
#
# <details><summary>When is the C API the wrong choice?</summary>
#
# When several programs need the model, when it changes without the program, or when its crash must not end the program.
#
# </details>
#
# <details><summary>A Kafka consumer handles 40 messages per second with an idle model. More consumers do not fit in memory, as each holds a Triton. What do you change?</summary>
#
# Let one consumer have many requests under way: threads, asynchronous calls, or batches of messages. Each waits for its answer now, so the batcher never sees two.
#
# </details>
#
# <details><summary>Who batches, when there is neither HTTP nor gRPC?</summary>
#
# The core. Its dynamic batcher joins requests that wait, wherever they come from.
#
# </details>
#
# That was lecture 1. [The start](../../00__start/00__start.ipynb) lists what else there is.
