# ---
# title: In-process, and other ways in
# minutes: 15
# ---

# %% [markdown]
# # In-process, and other ways in
#
# **Question.** One program uses the model, and nobody else. Does it need a second process, ports and a network? And how does Triton get into programs that have a network of their own: Kafka, Ray?
#
# ![Triton; marked is the program that has Triton inside](architecture.svg)

# %%
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd

import setup
from workbook import measure
from workbook.common import paths
from workbook.lessons import Premise, claim, compare, laboratory, predict, show, task
from workbook.lessons.shared import digits_model, timing
from workbook.server.capi import Core

# %% [markdown]
# ## The library
#
# `tritonserver` is a thin program around a library. Its [C API](https://github.com/triton-inference-server/core/blob/main/include/triton/core/tritonserver.h) is open to every language that can call C. We load the library into *this* kernel.
#
# `core("Name", …)` calls the function `TRITONSERVER_Name` and raises its error; `core.new` returns the pointer that a function fills in (`workbook.server.capi.Core`).

# %%
core, home = Core(), setup.home()
print(core.path.name, "· version of its API: {}.{}".format(*core.version()))

options = core.new("ServerOptionsNew")
core("ServerOptionsSetModelRepositoryPath", options, os.fsencode(paths.repository()))
core("ServerOptionsSetBackendDirectory", options, os.fsencode(core.place.backends))
core("ServerOptionsSetModelControlMode", options, setup.EXPLICIT)
core("ServerOptionsSetStartupModel", options, b"digits_onnx")
core("ServerOptionsSetGpuMetrics", options, False)
core("ServerOptionsSetLogFile", options, os.fsencode(home / "core.log"))

# %% [markdown]
# These are the options of `tritonserver`, one function each. Now the server. Compare this process's ports and its child processes before and after.

# %%
setup.stop_all()  # one that an earlier run of this cell has started
ports, processes = setup.look()
with core.environment():
    inside = setup.Inside(core, core.new("ServerNew", options), home)
now, more = setup.look()
for process in processes:
    more.remove(process)
print("ready:", core.yes("ServerIsReady", inside.pointer), "· new processes:", more)
quiet = now == ports and len(more) > 0
claim(
    quiet,
    "Triton is ready in this process, and no port was opened.",
    "Run the cells from the top on again.",
    id="in_process.start",
)

# %% [markdown]
# The new processes are stubs, one per version of the model: the ONNX backend of this course is Python, NVIDIA's is C++. A request is a C object; the answer comes through a callback, into memory that we allocate. The price: a crash in Triton, or in a backend that is a C++ library, ends your program, too.

# %%
predict(
    "in_process.speed",
    "One picture, asked through the C API and over gRPC. How many times longer does gRPC take?",
    unit="×",
)

# %%
import tritonclient.grpc as grpc

server = laboratory(paths.repository(), only=["digits_onnx"])
x = digits_model.pictures()[:360]
tensor = grpc.InferInput("image", [1, 1, 8, 8], "FP32").set_data_from_numpy(x[:1])
with grpc.InferenceServerClient(server.grpc_url) as client:
    ways = {"C API": lambda: inside.infer("digits_onnx", {"image": x[:1]})["logits"]}
    ways["gRPC"] = lambda: client.infer("digits_onnx", [tensor]).as_numpy("logits")
    answers = [way() for way in ways.values()]
    ms = timing.by_turns(ways, times=300).quantile(0.05)  # the best: disturbed least
measure.plot_bars(ms.to_frame("ms"), title="One picture", below="ms, best 5 % of 300")

# %%
equal = Premise(np.allclose(*answers, atol=1e-5), "the two answers differ")
compare("in_process.speed", ms["gRPC"] / ms["C API"], unit="×", premise=equal)
faster = ms["C API"] < ms["gRPC"]
claim(
    faster,
    "The same answer, without the network's part of the time.",
    "Other programs may take the cores: close them and run both cells again.",
    premise=equal,
    id="in_process.speed",
)

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
def ask(picture):
    return inside.infer("digits_onnx", {"image": picture[None]})["logits"]


before = inside.counts("digits_onnx")
with ThreadPoolExecutor(16) as pool:
    logits = list(pool.map(ask, x))
after = inside.counts("digits_onnx")
counted = pd.Series({name: after[name] - before[name] for name in after}, name="in this process")
counted.to_frame()

# %%
runs = counted["executions"]
few = "more than 23, and far fewer than 360"
seen = "360: nothing joins requests without a network" if runs > 340 else few
seen = "23: sixteen pictures each time" if runs <= 23 else seen
alone = Premise(counted["requests"] == 360, f"the server counted {counted['requests']} requests")
compare("in_process.batches", seen, premise=alone)
claim(
    runs < 300,
    f"{runs} executions for 360 requests: the batcher works inside, too.",
    "Run both cells again.",
    premise=alone,
    id="in_process.batches",
)

# %% [markdown]
# Schedulers, batchers, statistics, the cache and ensembles belong to the core. What is missing: HTTP, gRPC, the port for metrics, and what belongs to ports (TLS, restricted APIs). A program can still read the metrics with `TRITONSERVER_ServerMetrics`.

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
# > **Errata.** [The architecture slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) recommend a C++ API: a wrapper around the C API ([developer_tools](https://github.com/triton-inference-server/developer_tools/tree/main/server)). The wrapper is a library of its own, which you build. The jar in the SDK container has the bindings to the C API alone; those to the wrapper come with an option of the build script ([guide](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inprocess_java_api.md)). Use the C API.

# %% [markdown]
# ## Python
#
# NVIDIA's package [tritonserver](https://pypi.org/project/tritonserver/) wraps the C API in classes:
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
#
# The containers have it as a wheel in `/opt/tritonserver/python` ([tutorial](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API)).

# %% [markdown]
# > **Errata.** The first edition said: not on PyPI. Wheels are there since 2.70.0 (June 2026), for CPython 3.12 and glibc 2.39 or newer. They hold the bindings alone, 0.3 MB: the library `libtritonserver.so` must be there, as in the container. With another Python, pip finds 0.0.1.dev0, a placeholder whose installation fails on purpose.

# %% [markdown]
# ## Kafka and Ray Serve
#
# With the Python API Triton fits between two topics of Kafka ([complete example](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API/examples/kafka-io)). An excerpt, not run here:
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
shutil.copy("clients/bridge.py", home)
task("in_process.bridge", server=inside)

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
