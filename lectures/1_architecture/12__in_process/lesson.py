# ---
# title: In-process, and other ways in
# minutes: 24
# ---

# %% [markdown]
# # In-process, and other ways in
#
# **Question.** One program uses the model, and nobody else. Does it need a second process, ports and a network? And how does Triton get into programs that have a network of their own: Kafka, Ray?
#
# ![Triton; marked is the program that has Triton inside](architecture.svg)

# %%
import shutil

import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words
from workbook.server.capi import Core

models = folder("in_process")
setup.place_model(models)  # digits_onnx, from the course's repository
lab = laboratory(models)  # a Triton server of this notebook's own, in a process of its own

# %% [markdown]
# Here is the usual way in: a server with ports, and its model. Below, the same repository is served without ports.

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2 | grep -o '"version":"[^"]*"'
# grep -v parameters $TRITON_MODELS/digits_onnx/config.pbtxt

# %% [markdown]
# ## The library
#
# `tritonserver` is a thin program around a library. Its [C API](https://github.com/triton-inference-server/core/blob/main/include/triton/core/tritonserver.h) is open to every language that can call C. We load the library into *this* kernel.
#
# `core("Name", …)` calls the function `TRITONSERVER_Name` and raises its error; `core.new` returns the pointer that a function fills in (`workbook.server.capi.Core`).

# %%
import os

core = Core()
print(core.path.name, "· version of its API: {}.{}".format(*core.version()))

options = core.new("ServerOptionsNew")
core("ServerOptionsSetModelRepositoryPath", options, os.fsencode(os.environ["TRITON_MODELS"]))
core("ServerOptionsSetBackendDirectory", options, os.fsencode(core.place.backends))
core("ServerOptionsSetModelControlMode", options, setup.EXPLICIT)
core("ServerOptionsSetStartupModel", options, b"digits_onnx")
core("ServerOptionsSetGpuMetrics", options, False)
core("ServerOptionsSetLogFile", options, os.fsencode(models / "core.log"))

# %% [markdown]
# These are the options of `tritonserver`, one function each. Now the server. Does it open a port, or start a process? (Jupyter has some ports already.)

# %%
setup.stop_all()  # one that an earlier run of this cell has started
ports, processes = setup.look()
with core.environment():
    inside = setup.Inside(core, core.new("ServerNew", options), models)
now, more = setup.look()
for process in processes:
    more.remove(process)  # those that are new are left
print("ready:", core.yes("ServerIsReady", inside.pointer), "· new processes:", more)
print("ports before:", ports, "· now:", now)

# %%
claim(
    now == ports and len(more) > 0,
    "Triton is ready in this process, and no port was opened.",
    "Run the cells from the top on again.",
    id="in_process.start",
)

# %% [markdown]
# The new process is a stub: the ONNX backend of this course starts in Python, NVIDIA's is C++. For a request, `inside.infer` calls `InferenceRequestNew`, `InferenceRequestAddInput`, `InferenceRequestAppendInputData`, `InferenceRequestSetResponseCallback` and `ServerInferAsync`; the answer comes through the callback, into memory that we allocate. The price: a crash in Triton, or in a backend that is a C++ library, ends your program, too.

# %%
predict(
    "in_process.speed",
    "One picture, asked through the C API and over gRPC. How many times longer does gRPC take?",
    unit="×",
)

# %% [markdown]
# First over the network, with NVIDIA's clients:

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


ways = {
    "HTTP": network(http, os.environ["TRITON_HTTP"]),
    "gRPC": network(grpc, os.environ["TRITON_GRPC"]),
}


# %% tags=["triton"]
import time


def best_ms(ask, times=300):
    """The time of an answer: that of the fastest 5 %, which other programs disturbed least."""
    stamps = [time.perf_counter()]
    for _ in range(times):
        ask()
        stamps.append(time.perf_counter())
    return 1000 * np.quantile(np.diff(stamps), 0.05)


for name, ask_once in ways.items():
    print(f"{name}: {best_ms(ask_once):.2f} ms, logits {ask_once().round(2)[0, :3]} …")

# %% [markdown]
# Then all three, one after the other:

# %%
import pandas as pd

three = {"C API": lambda: inside.infer("digits_onnx", {"image": pictures[:1]})["logits"], **ways}
answers = [ask_way() for ask_way in three.values()]
ms = pd.Series({name: best_ms(ask_way) for name, ask_way in three.items()})
measure.plot_bars(ms.to_frame("ms"), title="One picture", below="ms, best 5 % of 300")

# %%
equal = Premise(
    all(np.allclose(answers[0], other, atol=1e-5) for other in answers), "the answers differ"
)
compare("in_process.speed", ms["gRPC"] / ms["C API"], unit="×", premise=equal)
claim(
    ms["C API"] < ms["gRPC"],
    f"The same answer, without the network's part of the time: {ms['C API']:.2f} ms instead of "
    f"{ms['gRPC']:.2f}.",
    "Other programs may take the cores: close them and run the cells of this section again.",
    premise=equal,
    id="in_process.speed",
)

# %% [markdown]
# *perf_analyzer* measures both ways over the network without a line of code. (In NVIDIA's container it also has a Triton inside, with `--service-kind triton_c_api`: [guide](https://github.com/triton-inference-server/perf_analyzer/blob/main/docs/benchmarking.md). That was not run here.) With one request under way:

# %% language="bash" tags=["triton"]
# for way in "-i http -u $TRITON_HTTP" "-i grpc -u $TRITON_GRPC"; do
#   echo "== $way"
#   perf_analyzer -m digits_onnx $way --concurrency-range 1 -p 500 -s 200 -r 20 |
#     grep throughput:
# done

# %% [markdown]
# ## What is inside, and what is not?
#
# Sixteen threads of this program take 360 pictures, and call the C API with one picture at a time. `digits_onnx` has `dynamic_batching { }` in its config.

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

before = inside.counts("digits_onnx")
with ThreadPoolExecutor(16) as pool:
    list(pool.map(lambda each: inside.infer("digits_onnx", {"image": each[None]}), pictures))
after = inside.counts("digits_onnx")
counted = pd.Series({name: after[name] - before[name] for name in after}, name="in this process")
counted.to_frame()

# %%
runs = counted["executions"]
none, each_time = "360: nothing joins requests without a network", "23: sixteen pictures each time"
few = "more than 23, and far fewer than 360"
alone = Premise(counted["requests"] == 360, f"the server counted {counted['requests']} requests")
seen = none if runs > 340 else each_time if runs <= 23 else few
compare("in_process.batches", seen, premise=alone)
claim(
    runs < 300,
    f"{runs} executions for 360 requests: the batcher works inside, too.",
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
# Schedulers, batchers, statistics, the cache and ensembles belong to the core. What a program inside lacks: HTTP, gRPC, the port for metrics, and what belongs to ports (TLS, restricted APIs). A program can still read the metrics with `TRITONSERVER_ServerMetrics`. The server with ports has them here (most are perf_analyzer's):

# %% language="bash" tags=["triton"]
# curl -s $TRITON_METRICS/metrics | grep '^nv_inference_exec_count'

# %% [markdown]
# ## C++ and Java
#
# C++ calls the C API. Header and library are in the container, under `/opt/tritonserver` ([complete example](https://github.com/triton-inference-server/server/blob/main/src/simple.cc)). Not run here:
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
# Java calls the same functions through [JavaCPP](https://github.com/bytedeco/javacpp-presets/tree/master/tritonserver):
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

# %% [markdown]
# <details><summary>Errata: the architecture slides</summary>
#
# [The slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) recommend a C++ API: a wrapper around the C API ([developer_tools](https://github.com/triton-inference-server/developer_tools/tree/main/server)). It is a library of its own, which you build. The jar in the SDK container binds the C API alone; the wrapper's bindings come with an option of the build script ([guide](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inprocess_java_api.md)). Use the C API.
#
# </details>

# %% [markdown]
# ## Python
#
# At work one does not call the C API by hand. NVIDIA's package [tritonserver](https://pypi.org/project/tritonserver/) wraps it in classes. Not run here, because this course has no container:
#
# ```python
# import numpy, tritonserver
#
# server = tritonserver.Server(model_repository="/models").start(wait_until_ready=True)
# image = numpy.zeros((1, 1, 8, 8), "float32")
# for response in server.model("digits_onnx").infer(inputs={"image": image}):
#     print(numpy.from_dlpack(response.outputs["logits"]))
# server.stop()
# ```

# %% [markdown]
# The containers have it as a wheel in `/opt/tritonserver/python` ([tutorial](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API)). PyPI has wheels since 2.70.0 (June 2026), for CPython 3.12 and glibc 2.39 or newer. They hold the bindings alone, 0.3 MB: `libtritonserver.so` must be there, as in the container. With another Python, pip finds 0.0.1.dev0, a placeholder whose installation fails on purpose.

# %% [markdown]
# ## Kafka and Ray Serve
#
# With the Python API Triton fits between two topics of Kafka ([complete example](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API/examples/kafka-io)). An excerpt, not run here; `server` is that of the section above:
#
# ```python
# consumer = Consumer({"bootstrap.servers": "kafka:9092", "group.id": "triton"})
# consumer.subscribe(["questions"])
# while True:
#     message = consumer.poll(1.0)
#     if message and not message.error():
#         text = message.value().decode()
#         for response in server.model("language").infer(inputs={"text": [[text]]}):
#             producer.produce("answers", response.outputs["label"].to_string_array()[0][0])
# ```

# %% [markdown]
# Ray Serve starts copies of a class; each holds a Triton ([complete example](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API/examples/rayserve)). Not run here:
#
# ```python
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

# %% [markdown]
# ## Your turn
#
# The Kafka program above has a weakness: it waits for each answer before it reads on. [The same loop](clients/bridge.py) with Python's queues asks the Triton inside this kernel. A message is a number and a picture; None ends the stream. Change the file, so that 360 messages need at most 60 executions. Then run the cell below.

# %%
show("clients/bridge.py")
shutil.copy("clients/bridge.py", models)
task("in_process.bridge", server=inside)

# %% [markdown]
# ## The same at work, without this course
#
# Is in-process worth it for your model? This program times the ways in. Here it has two. In NVIDIA's container it has the third, by the package `tritonserver`; that part was not run here.

# %%
show("at_work/ways.py")

# %% tags=["triton"]
# %run at_work/ways.py digits_onnx

# %% [markdown]
# ## What to remember
#
# - The core is a library with a C API. HTTP and gRPC are front ends that call it, as Java, Python and your program can.
# - In-process saves the network's time. Batching and statistics work as before; TLS and the metrics port are gone.
# - A crash in Triton ends your program, too.

# %% [markdown]
# ## Check yourself
#
# <details><summary>When is the C API the wrong choice?</summary>
#
# When several programs need the model, when it must be restarted or updated by itself, or when a crash of the model must not end your program.
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
