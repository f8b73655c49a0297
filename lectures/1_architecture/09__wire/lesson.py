# ---
# title: On the wire
# minutes: 17
# ---

# %% [markdown]
# # On the wire
#
# **Question.** A program sends pictures to a model. How many bytes cross the wire, how long does it take, and how much of both can be saved?
#
# ![Triton; marked are clients, HTTP and gRPC](architecture.svg)

# %%
import shutil
import time

import numpy as np
import pandas as pd
import tritonclient.grpc as grpc
import tritonclient.http as http

import setup
from workbook import measure
from workbook.lessons import Premise, claim, compare, laboratory, predict, show, task
from workbook.lessons.shared import digits_model, timing

models = setup.models()
server = laboratory(models)

# %% [markdown]
# ## Three forms of one request
#
# The pictures are handwritten digits. Each has 8 × 8 pixels, each pixel is one FP32 number: 4 bytes. `digits_onnx` answers with 10 logits per picture.
#
# `measure.Tap` passes on what client and server send, and counts the bytes. So we can see what one request costs in each form.


# %%
def count_bytes(api, x, **form):
    """The bytes of one request for the logits of pictures, and of its answer."""
    tensor = api.InferInput("image", x.shape, "FP32").set_data_from_numpy(x, **form)
    output = api.InferRequestedOutput("logits", **form)
    with setup.tapped(api, server) as (tap, client):
        client.is_server_live()  # opens the connection; it is kept for the next request
        tap.reset()
        client.infer("digits_onnx", [tensor], outputs=[output])
        return {"request": tap.sent, "answer": tap.received}


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

# %%
pictures = digits_model.pictures()[:64]
darker = pictures * np.float32(0.9)
forms = {"HTTP, JSON": (http, {"binary_data": False}), "HTTP, binary": (http, {})}
forms["gRPC"] = (grpc, {})
rows = {}
for name, (api, form) in forms.items():
    rows[name] = count_bytes(api, pictures, **form)
    rows[f"{name}, darker"] = count_bytes(api, darker, **form)
sent = pd.DataFrame(rows).T
measure.plot_bars(sent, title=f"64 pictures are {pictures.nbytes:,} bytes", below="bytes")

# %%
requests = sent["request"]
grown = requests["HTTP, JSON, darker"] / requests["HTTP, JSON"]
few, many = "they grow by some per cent", "they more than double"
now = many if grown > 2 else few if grown > 1.01 else "nothing: there are as many numbers as before"
seen = Premise(requests.min() > pictures.nbytes, "not all bytes went through the tap")
compare("wire.json", now, premise=seen)
print(
    f"The request in JSON has {requests.iloc[0]:,} bytes, of the darker ones {requests.iloc[1]:,}."
)
rest = requests.drop(["HTTP, JSON", "HTTP, JSON, darker"]).max() / pictures.nbytes - 1
claim(
    rest < 0.05,
    f"In binary form, over HTTP or gRPC, a request needs {rest:.1%} more than its numbers, at most.",
    "Run the cell before this one again.",
    premise=seen,
    id="wire.forms",
)

# %% [markdown]
# The first pixels are sixteenths: 0.5, 0.0625. JSON writes them in few characters. Most other FP32 numbers need about 20.
#
# In a binary request the header `Inference-Header-Content-Length` says where the JSON part ends and the raw bytes begin ([binary data](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md)).

# %% [markdown]
# ## Eight requests at once
#
# `async_infer` sends a request and does not wait for its answer. The model `nap` sleeps 200 ms per execution, and takes up to 8 requests in one. A client calls `async_infer` eight times at once.

# %%
predict(
    "wire.connections",
    "The client has its default settings. How many times does the server execute the model?",
    unit="executions",
)


# %%
def burst(connections):
    """Eight requests at once over HTTP: the time until the last answer, and the executions."""
    one = http.InferInput("X", [1, 1], "FP32").set_data_from_numpy(np.ones((1, 1), "f4"))
    before = measure.statistics(server, "nap")
    with setup.tapped(http, server, concurrency=connections) as (tap, client):
        began = time.perf_counter()
        sent = [client.async_infer("nap", [one]) for _ in range(8)]
        answers = [request.get_result() for request in sent]
        ms, opened = (time.perf_counter() - began) * 1000, tap.connections
    change = measure.counted(server, "nap", before, 8)
    executions = change["executions"].sum()
    return {"ms": ms, "connections": opened, "answers": len(answers), "executions": executions}


# %%
bursts = pd.DataFrame({f"concurrency={n}": burst(n) for n in (1, 8)}).T
default, wide = bursts.iloc[0], bursts.iloc[1]
opened = Premise(wide["connections"] > 1, "the second client opened one connection only")
compare("wire.connections", float(default["executions"]), unit="executions", premise=opened)
faster = wide["executions"] < default["executions"] and wide["ms"] < default["ms"] / 2
claim(
    faster,
    "With eight connections the same requests take less than half of the time.",
    "Other programs may take the cores: close them and run this cell again.",
    id="wire.connections",
)
bursts.round().astype(int)

# %% [markdown]
# Over HTTP/1.1 one connection carries one request at a time. The client library opens `concurrency` connections, by default 1. So seven requests wait *in the client*, and the server's batcher never sees them.
#
# gRPC uses HTTP/2: one connection carries many requests at once.

# %% [markdown]
# **Keep-alive.** Both clients keep their connections, since opening one takes time. But a firewall may drop a connection that is silent. So a gRPC client can send *pings*. Here nobody asks anything for three seconds; we count the bytes.

# %%
from workbook.server import Triton

often = {"keepalive_time_ms": 500, "keepalive_permit_without_calls": True}
often["http2_max_pings_without_data"] = 0  # no limit
allowed = ["--grpc-http2-min-recv-ping-interval-without-data=100"]
allowed += ["--grpc-http2-max-ping-strikes=0"]
with Triton(options=allowed) as patient:
    silent, pings = (setup.idle_bytes(patient, 3, **options) for options in ({}, often))
sent_pings = silent == 0 and pings >= 34
claim(
    sent_pings,
    f"A silent connection sends nothing. With pings it sent {pings // 17}, of 17 bytes each.",
    "The machine may have been too busy for a ping in time: run this cell again.",
    id="wire.keepalive",
)

# %% [markdown]
# We asked for a ping every 500 ms: six. The library under Python's client waits at least one second between two ([source](https://github.com/grpc/grpc/blob/master/src/core/ext/transport/chttp2/transport/writing.cc)).
#
# By default the *server* wants five minutes between pings. At the third ping that comes too early it closes the connection: `too_many_pings`. So set both sides ([options](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#grpc-keepalive)).

# %% [markdown]
# ## Compression
#
# Both protocols can compress requests and answers. We send all 1,797 pictures to `square` (it takes any numbers), and as many random numbers. The pictures are half zeros, and gzip makes them many times smaller. The table will have milliseconds and kB per request, both ways.

# %%
predict(
    "wire.gzip",
    "Client and server run on this machine. With gzip, when does the answer to the pictures come?",
    {
        "sooner: far fewer bytes cross the wire": "Here the wire is the machine's memory. It "
        "carries bytes far faster than gzip can pack them.",
        "at the same time": "Each side packs what it sends and unpacks what it gets. That "
        "takes processor time: look at the column of milliseconds.",
        "later": None,
    },
)

# %%
flat, rows = digits_model.pictures().reshape(1, -1), {}
kinds = {"pictures": flat, "noise": np.random.default_rng(1).random(flat.shape, "f4")}
with setup.tapped(http, server) as (tap, client):
    for kind, x in kinds.items():
        tensor = http.InferInput("INPUT", x.shape, "FP32").set_data_from_numpy(x)
        for how in (None, "gzip", "deflate"):
            both = {f"{part}_compression_algorithm": how for part in ("request", "response")}
            tap.reset()
            ms = timing.median_ms(client.infer, "square", [tensor], **both)
            rows[kind, how or "none"] = {"ms": ms, "kB": (tap.sent + tap.received) / 6 / 1000}
packed = pd.DataFrame(rows).T
packed.round(1)

# %%
plain, zipped = packed.loc[("pictures", "none")], packed.loc[("pictures", "gzip")]
slower = zipped["ms"] / plain["ms"]
late = "later" if slower > 1.2 else "at the same time" if slower > 0.8 else "sooner"
shrunk = Premise(zipped["kB"] < plain["kB"] / 5, "gzip did not make the pictures much smaller")
compare("wire.gzip", late, premise=shrunk)
for how, packing in packed.loc["pictures"].drop("none").iterrows():
    pays = (plain["kB"] - packing["kB"]) / (packing["ms"] - plain["ms"])
    print(f"{how} pays where the wire is slower than {pays:.1f} MB/s.")
noise = packed.loc[("noise", "gzip"), "kB"] / packed.loc[("noise", "none"), "kB"]
claim(
    noise > 0.8,
    f"Noise hardly shrinks: {noise:.0%} of the bytes are left.",
    "Run the cell before this one again.",
    id="wire.gzip",
)

# %% [markdown]
# The Python client packs gzip at its highest level and deflate at the default one: compare their rows for the pictures. JPEG files are compressed already, and shrink as little as noise.
#
# Over gRPC the client compresses requests with `compression_algorithm="gzip"`. Answers are compressed where the *server* was started with `--grpc-infer-response-compression-level` ([compression](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#compression-1)).

# %% [markdown]
# ## Shared memory
#
# A client on the server's machine can put its tensors into memory that both can read. The request then carries the name of a memory region, an offset and a size. We send 16 MB and get 16 MB back.

# %%
big, ways = np.random.default_rng(1).random((1, 4_000_000), "f4"), {}
tensor = grpc.InferInput("INPUT", big.shape, "FP32").set_data_from_numpy(big)
there, back = grpc.InferInput("INPUT", big.shape, "FP32"), grpc.InferRequestedOutput("OUTPUT")
with setup.tapped(grpc, server) as (tap, client), setup.regions(client, big.nbytes) as (mine, got):
    mine.put(big)
    there.set_shared_memory(mine.name, big.nbytes)
    back.set_shared_memory(got.name, big.nbytes)
    for way, given, wanted in (("in the message", tensor, None), ("shared memory", there, [back])):
        tap.reset()
        ms = timing.median_ms(client.infer, "square", [given], outputs=wanted)
        ways[way] = {"ms": ms, "kB": (tap.sent + tap.received) / 6 / 1000}
    squares = got.get(big.shape)

# %%
costs = pd.DataFrame(ways).T
less = (costs.iloc[1] < costs.iloc[0]).all() and np.array_equal(squares, big * big)
claim(
    less,
    "Names cross the wire, tensors do not. The same answer comes sooner.",
    "Other programs may take the cores: close them and run both cells again.",
    id="wire.shm",
)
costs.round(1)

# %% [markdown]
# The server still copies: the Python backend has shared memory of its own, between server and stub. With CUDA shared memory tensors stay on the GPU ([shared memory extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_shared_memory.md)).

# %% [markdown]
# ## Your turn
#
# [This client](clients/client.py) sends far too much. Open the file and change `classify`. Save it and run the cell below, until the task is green. The 360 pictures themselves are 92,160 bytes; the server counts how many it gets, and the tap what crosses the wire.

# %%
show("clients/client.py")
shutil.copy("clients/client.py", models)
task("wire.client", server=server)

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
