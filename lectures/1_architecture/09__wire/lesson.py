# ---
# title: On the wire
# minutes: 28
# ---

# %% [markdown]
# # On the wire
#
# **Question.** A program sends pictures to a model. How many bytes cross the wire, how long does it take, and how much of both can be saved?
#
# ![Triton; marked are clients, HTTP and gRPC](architecture.svg)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = setup.models()  # digits_onnx, square and nap
pings = ["--grpc-http2-min-recv-ping-interval-without-data=100", "--grpc-http2-max-ping-strikes=0"]
lab = laboratory(models, options=pings)  # the options are for the section on keep-alive

# %% [markdown]
# ## Three forms of one request
#
# The pictures are handwritten digits. Each has 8 × 8 pixels, each pixel is one FP32 number: 4 bytes. `digits_onnx` answers with 10 logits per picture.
#
# Triton's HTTP client can return the body of a request instead of sending it. With `binary_data=True`, which is the default, the tensor's bytes follow a short JSON part:

# %% tags=["triton"]
import os

import numpy as np
import pandas as pd
import tritonclient.http as http
from sklearn.datasets import load_digits


def request_body(x, binary):
    """The body of a request for the logits of pictures, and the size of its JSON part."""
    image = http.InferInput("image", x.shape, "FP32")
    image.set_data_from_numpy(x, binary_data=binary)
    logits = http.InferRequestedOutput("logits", binary_data=binary)
    body, size = http.InferenceServerClient.generate_request_body([image], outputs=[logits])
    return body, size or len(body)


digits = (load_digits().images[:, None] / 16).astype(np.float32)
body, size = request_body(digits[:1], binary=True)
print(body[:size].decode())
print(f"{len(body) - size} bytes follow, the first pixels are {body[size : size + 16].hex(' ', 4)}")

# %%
predict(
    "wire.json",
    "We send 64 pictures as JSON. Then we multiply each pixel by 0.9 and send them again. "
    "What happens to the bytes of the request?",
    {
        "nothing: there are as many numbers as before": "JSON is text. 0.5 has 3 characters; "
        "0.45, rounded to FP32 and written in full, is 0.44999998807907104.",
        "they grow by some per cent": "Look at the two JSON bars: nearly every number that is "
        "not 0 now needs about 20 characters in place of 3 to 6.",
        "they more than double": None,
    },
)

# %% tags=["triton"]
pictures = digits[:64]
darker = pictures * np.float32(0.9)
for name, x in {"as they are": pictures, "darker": darker}.items():
    for form in ("JSON", "binary"):
        content, length = request_body(x, form == "binary")
        (models / f"{form}, {name}.body").write_bytes(content)
        (models / f"{form}, {name}.header").write_text(f"Inference-Header-Content-Length: {length}")

# %% [markdown]
# The header `Inference-Header-Content-Length` says where the JSON part ends ([binary data](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md)). `curl` sends these bodies, and counts their bytes and those of the answers:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# echo form:request:answer > sizes.csv
# for body in *.body; do
#   form=${body%.body}
#   curl -s $TRITON_HTTP/v2/models/digits_onnx/infer -H @"$form.header" --data-binary @"$body" \
#     -o /dev/null -w "$form:%{size_upload}:%{size_download}\n" >> sizes.csv
# done
# cat sizes.csv

# %% [markdown]
# gRPC sends a protobuf message. Its fields are public, so its size can be counted, too:

# %% tags=["triton"]
import tritonclient.grpc as grpc
from tritonclient.grpc import service_pb2

over_grpc = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
message = service_pb2.ModelInferRequest(model_name="digits_onnx")
message.inputs.add(name="image", datatype="FP32", shape=pictures.shape)
message.raw_input_contents.append(pictures.tobytes())

image = grpc.InferInput("image", pictures.shape, "FP32")
image.set_data_from_numpy(pictures)
answer = over_grpc.infer("digits_onnx", [image]).get_response()
sizes = pd.read_csv(models / "sizes.csv", sep=":", index_col="form")
sizes.loc["gRPC"] = [message.ByteSize(), answer.ByteSize()]
sizes.loc[["gRPC"]]

# %%
measure.plot_bars(sizes, title=f"64 pictures are {pictures.nbytes:,} bytes", below="bytes")

# %%
seen = Premise(sizes["answer"].min() > 1000, "a request was refused")
request_bytes = sizes["request"]
rest = max(request_bytes["binary, darker"], request_bytes["gRPC"]) / pictures.nbytes - 1
text, dark = request_bytes["JSON, as they are"], request_bytes["JSON, darker"]
few, many = "they grow by some per cent", "they more than double"
same = "nothing: there are as many numbers as before"
compare("wire.json", many if dark > 2 * text else few if dark > 1.01 * text else same, premise=seen)
claim(
    rest < 0.05,
    f"In binary form, over HTTP or gRPC, a request needs {rest:.1%} more than its numbers, at most.",
    "Run the cells of this section again.",
    premise=seen,
    id="wire.forms",
)

# %% [markdown]
# The first pixels are sixteenths: 0.5, 0.0625. JSON writes them in few characters. Most other FP32 numbers need about 20. Headers are not counted here: with HTTP, some 200 bytes. How long the three forms take is measured in [A first model](../01__first_model/01__first_model.ipynb).

# %% [markdown]
# ## Eight requests at once
#
# `async_infer` sends a request and does not wait for its answer. The model [nap](models/nap/config.pbtxt) sleeps 200 ms per execution, and takes up to 8 requests in one. A client calls `async_infer` eight times at once.

# %%
predict(
    "wire.connections",
    "The client has its default settings. How many times does the server execute the model?",
    unit="executions",
)

# %% tags=["triton"]
import time


def burst(**options):
    """Eight requests at once over HTTP: the time until the last answer, and the executions."""
    before = over_grpc.get_inference_statistics("nap").model_stats[0]
    number = http.InferInput("X", [1, 1], "FP32")
    number.set_data_from_numpy(np.ones((1, 1), np.float32))
    with http.InferenceServerClient(os.environ["TRITON_HTTP"], **options) as client:
        began = time.perf_counter()
        sent = [client.async_infer("nap", [number]) for _ in range(8)]
        answers = [request.get_result() for request in sent]
        ms = (time.perf_counter() - began) * 1000
    time.sleep(0.1)  # the server counts a request a moment after it has answered
    after = over_grpc.get_inference_statistics("nap").model_stats[0]
    executions = after.execution_count - before.execution_count
    return {"ms": ms, "answers": len(answers), "executions": executions}


# %% tags=["triton"]
settings = {"default": {}, "concurrency=8": {"concurrency": 8}}
bursts = pd.DataFrame({name: burst(**options) for name, options in settings.items()}).T
bursts.round().astype(int)

# %%
default, wide = bursts.iloc[0], bursts.iloc[1]
both = Premise(bursts["answers"].min() == 8, "a request was not answered")
compare("wire.connections", float(default["executions"]), unit="executions", premise=both)
claim(
    wide["executions"] < default["executions"] and wide["ms"] < default["ms"] / 2,
    "With eight connections the same requests take less than half of the time.",
    "Other programs may take the cores: close them and run the cell above again.",
    premise=both,
    id="wire.connections",
)

# %% [markdown]
# Over HTTP/1.1 one connection carries one request at a time. The client library opens `concurrency` connections, by default 1. So seven requests wait *in the client*, and the server's batcher never sees them. With eight it does: one is executed at once, the others form a batch.
#
# gRPC uses HTTP/2: one connection carries many requests at once.

# %% [markdown]
# ## Keep-alive
#
# Both clients keep their connections, since opening one takes time. But a firewall may drop a connection that is silent. So a gRPC client can send *pings*:

# %% tags=["triton"]
often = grpc.KeepAliveOptions(
    keepalive_time_ms=500,  # a ping every 500 ms
    keepalive_permit_without_calls=True,  # also while no request is under way
    http2_max_pings_without_data=0,  # any number of them
)
with grpc.InferenceServerClient(os.environ["TRITON_GRPC"], keepalive_options=often) as pinging:
    print("The server answers:", pinging.is_server_live())

# %% [markdown]
# Nobody asks anything for three seconds. A relay between client and server counts the bytes that the client sends, first without these options:

# %%
silent, pinged = (setup.idle_bytes(lab, 3, options) for options in (None, often))
print(f"{silent} bytes without pings, {pinged} with pings")

# %%
claim(
    silent == 0 and pinged >= 34,
    f"A silent connection sends nothing. With pings it sent {pinged // 17}, of 17 bytes each.",
    "The machine may have been too busy for a ping in time: run the cell above again.",
    id="wire.keepalive",
)

# %% [markdown]
# By default the *server* wants five minutes between pings. At the third ping that comes too early it closes the connection: `too_many_pings`. So set both sides ([options](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#grpc-keepalive)). This server allows a ping every 100 ms (`--grpc-http2-min-recv-ping-interval-without-data=100`), and never closes for one (`--grpc-http2-max-ping-strikes=0`).
#
# <details><summary>Under the hood: fewer pings than asked for</summary>
#
# We asked for a ping every 500 ms, so for six. The gRPC library under Python's client waits for at least one second between two ([source](https://github.com/grpc/grpc/blob/master/src/core/ext/transport/chttp2/transport/writing.cc)).
#
# </details>

# %% [markdown]
# ## Compression
#
# Both protocols can compress requests and answers. We send all 1,797 pictures to `square` (it takes any numbers), and as many random numbers. The pictures are half zeros, and gzip makes them many times smaller.

# %%
predict(
    "wire.gzip",
    "Client and server run on this machine. With gzip, when does the answer to the pictures come?",
    {
        "sooner: far fewer bytes cross the wire": "Here the wire is the machine's memory. It "
        "carries bytes far faster than gzip can pack them.",
        "at the same time": "The client packs what it sends and the server unpacks it. That "
        "takes processor time: look at the column of milliseconds.",
        "later": None,
    },
)


# %% tags=["triton"]
def median_ms(action, *given, times=3, **options):
    """The median time of a call, after one call to warm up."""
    took = []
    for _ in range(times + 1):
        began = time.perf_counter()
        action(*given, **options)
        took.append((time.perf_counter() - began) * 1000)
    return float(np.median(took[1:]))


# %% tags=["triton"]
import gzip
import zlib

everything, rows = digits.reshape(1, -1), {}
noise = np.random.default_rng(1).random(everything.shape, np.float32)
packers = {None: bytes, "gzip": gzip.compress, "deflate": zlib.compress}  # as in the client
with http.InferenceServerClient(os.environ["TRITON_HTTP"]) as client:
    for kind, numbers in {"pictures": everything, "noise": noise}.items():
        tensor = http.InferInput("INPUT", numbers.shape, "FP32")
        tensor.set_data_from_numpy(numbers)
        plain, _ = client.generate_request_body([tensor])
        for how, pack in packers.items():
            ms = median_ms(client.infer, "square", [tensor], request_compression_algorithm=how)
            rows[kind, how or "none"] = {"ms": ms, "kB": len(pack(plain)) / 1000}
packed = pd.DataFrame(rows).T
packed.round(1)

# %%
slower = packed.loc[("pictures", "gzip"), "ms"] / packed.loc[("pictures", "none"), "ms"]
shrunk = packed.loc[("pictures", "none"), "kB"] / packed.loc[("pictures", "gzip"), "kB"]
left = packed.loc[("noise", "gzip"), "kB"] / packed.loc[("noise", "none"), "kB"]
fast, late = "sooner: far fewer bytes cross the wire", "later"
compare(
    "wire.gzip",
    late if slower > 1.2 else "at the same time" if slower > 0.8 else fast,
    premise=Premise(shrunk > 5, "gzip did not make the pictures much smaller"),
)
claim(
    left > 0.8,
    f"Noise hardly shrinks: {left:.0%} of the bytes are left.",
    "Run the cell above again.",
    id="wire.gzip",
)

# %% tags=["triton"]
extra = packed.loc["pictures"] - packed.loc[("pictures", "none")]
pays = -extra["kB"] / extra["ms"]
pays.drop("none").round(1).to_frame("pays where the wire is slower than … MB/s")

# %% [markdown]
# For comparison: 100 Mbit/s are 12.5 MB/s. Python's client packs gzip at its highest level, which searches long among repeated zeros; deflate at the default one. JPEG files are compressed, so they shrink as little as noise.
#
# Answers are packed if the client asks: `response_compression_algorithm`. Over gRPC it is `compression_algorithm`, and for answers the *server's* `--grpc-infer-response-compression-level` ([compression](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#compression-1)).

# %% [markdown]
# ## Shared memory
#
# A client on the server's machine can put its tensors into memory that both can read. The request then carries the name of a memory region, an offset and a size. We send 16 MB and get 16 MB back, first in the message:

# %% tags=["triton"]
big = np.random.default_rng(1).random((1, 4_000_000), np.float32)
inside = grpc.InferInput("INPUT", big.shape, "FP32")
inside.set_data_from_numpy(big)
ms_inside = median_ms(over_grpc.infer, "square", [inside])
reply = over_grpc.infer("square", [inside]).get_response()
print(f"{ms_inside:.0f} ms, an answer of {reply.ByteSize():,} bytes")
# For the next cell: the same tensors without data. It says in which memory they lie.
there, back = grpc.InferInput("INPUT", big.shape, "FP32"), grpc.InferRequestedOutput("OUTPUT")

# %% [markdown]
# Now with names in place of the tensors: make two regions, register them at the server, put the tensor in, ask, read the answer, and clean up:

# %% tags=["triton"]
import tritonclient.utils.shared_memory as shm

names = [f"wire-{os.getpid()}-{end}" for end in ("in", "out")]
regions = [shm.create_shared_memory_region(name, f"/{name}", big.nbytes) for name in names]
for name in names:
    over_grpc.register_system_shared_memory(name, f"/{name}", big.nbytes)
there.set_shared_memory(names[0], big.nbytes)
back.set_shared_memory(names[1], big.nbytes)

shm.set_shared_memory_region(regions[0], [big])
ms_shared = median_ms(over_grpc.infer, "square", [there], outputs=[back])
pointer = over_grpc.infer("square", [there], outputs=[back]).get_response()
squares = shm.get_contents_as_numpy(regions[1], np.float32, big.shape).copy()
print(f"{ms_shared:.0f} ms, an answer of {pointer.ByteSize():,} bytes")

time.sleep(0.5)  # the server releases a region a moment after its answer
for name, region in zip(names, regions):
    over_grpc.unregister_system_shared_memory(name)
    shm.destroy_shared_memory_region(region)

# %%
smaller = pointer.ByteSize() < reply.ByteSize() / 1000
claim(
    smaller and ms_shared < ms_inside and np.array_equal(squares, big * big),
    "Names cross the wire, tensors do not. The same answer comes sooner.",
    "Other programs may take the cores: close them and run the cells of this section again.",
    id="wire.shm",
)

# %% [markdown]
# The server still copies: the Python backend has shared memory of its own, between server and stub. With CUDA shared memory tensors stay on the GPU ([shared memory extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_shared_memory.md)).

# %% [markdown]
# ## Your turn
#
# [This client](clients/client.py) sends far too much. Open the file and change `classify`. Save it and run the cell below, until the task is green. The 360 pictures themselves are 92,160 bytes; the server counts how many it gets, and a relay what crosses the wire.

# %%
show("clients/client.py")
# !cp clients/client.py "{models}"
task("wire.client", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# How much does *your* client send? This program runs any command that reads the server's address from `TRITON_HTTP`. Here it runs curl three times, and each opens a connection of its own:

# %%
show("at_work/count_bytes.py")

# %% tags=["triton"]
# %run at_work/count_bytes.py bash -c 'for i in 1 2 3; do curl -s $TRITON_HTTP/v2 -o /dev/null; done'

# %% [markdown]
# ## What to remember
#
# - JSON is text: its size depends on the numbers. Send tensors as binary data, or over gRPC.
# - An HTTP client sends one request per connection at a time: `concurrency` says how many connections it has.
# - Compression pays on a slow wire and with data that shrinks. On one machine, shared memory sends names only.

# %% [markdown]
# ## Check yourself
#
# <details><summary>The dynamic batcher never makes a batch, although a program sends hundreds of asynchronous requests over HTTP. Where do you look first?</summary>
#
# At the client's number of connections. With one connection the server sees one request at a time.
#
# </details>
#
# <details><summary>A gRPC client sends pings every 10 s, and its connection breaks after some of them. Why?</summary>
#
# By default the server allows one ping in five minutes, and closes the connection at the third that is too early. The server's options must allow what the client does.
#
# </details>
#
# <details><summary>Cameras send JPEG files over a slow wire. Does gzip help?</summary>
#
# No. A JPEG file is compressed already. Send the file itself as a BYTES tensor, not its decoded pixels.
#
# </details>
#
# Next: [security](../10__security/10__security.ipynb).
