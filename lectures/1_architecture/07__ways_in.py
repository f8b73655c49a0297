# ---
# title: Ways in
# minutes: 25
# ---

# %% [markdown]
# # Ways in
#
# **Question.** One model, many callers: a shell script, a web page, a bank, a program in the same process. Which way in does each of them take, and what does it cost?

# %% [markdown]
# | way | for |
# |---|---|
# | KServe v2 over HTTP or gRPC | any client on the network |
# | generate, OpenAI API | text in, text out |
# | C, C++, Java, Python API | Triton inside your own process, without a network |
#
# You will go through most of these doors, and read about the others. Run everything down to *What goes over the wire*; after that each section stands by itself, and you may begin with the door that you need.

# %%
import os
import subprocess
import time
from contextlib import contextmanager

os.environ["GRPC_VERBOSITY"] = "NONE"  # the client library's own log

import httpx
import numpy as np
import pandas as pd
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import InferenceServerException, shared_memory

from workbook import measure
from workbook.common import paths
from workbook.lessons import Premise, claim, compare, folder, laboratory, predict, write
from workbook.server import Triton
from workbook.server.capi import Core

server = laboratory(paths.repository(), only=["square", "countdown"])

# %% [markdown]
# ## What goes over the wire
#
# `measure.Tap` stands between client and server and counts the bytes. One request, 1,000 numbers, three forms: HTTP with JSON, HTTP with binary tensors, gRPC.

# %%
predict(
    "ways.json",
    "1,000 random FP32 numbers are 4,000 bytes. How many times more bytes does JSON send than gRPC?",
    unit="×",
)


# %%
def tensor(api, x, **options):
    return api.InferInput("INPUT", x.shape, "FP32").set_data_from_numpy(x, **options)


def timed(action, times):
    """Milliseconds that an action takes, after one to warm up."""
    action()
    began = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - began) * 1000 / times


# %%
@contextmanager
def tapped(api, server, **options):
    """A tap in front of a server, and a client that goes through it."""
    url = server.url if api is http else server.grpc_url
    with measure.Tap(url) as tap, api.InferenceServerClient(tap.address, **options) as client:
        yield tap, client


# %%
x = np.random.default_rng(1).random((1, 1000), dtype=np.float32)
sent = {}
with tapped(http, server) as (tap, client):
    for name, binary in {"HTTP, JSON": False, "HTTP, binary": True}.items():
        tap.reset()
        client.infer("square", [tensor(http, x, binary_data=binary)])
        sent[name] = tap.sent
with tapped(grpc, server) as (tap, client):
    client.infer("square", [tensor(grpc, x)])
    sent["gRPC"] = tap.sent
bars = pd.DataFrame({"bytes": sent})
measure.plot_bars(bars, title=f"One request with {x.size:,} numbers", below="bytes sent")

# %%
least = min(sent.values())
tapped_all = Premise(
    least >= x.nbytes,
    f"only {least} bytes of one of the requests went through the tap, for {x.nbytes} of numbers",
)
compare("ways.json", sent["HTTP, JSON"] / sent["gRPC"], unit="×", premise=tapped_all)
claim(
    sent["HTTP, JSON"] > 2 * sent["HTTP, binary"],
    "JSON is for people: it sends more than twice as much.",
    "Run the cell before this one again.",
    premise=tapped_all,
)
claim(
    abs(sent["HTTP, binary"] - sent["gRPC"]) < 0.2 * sent["gRPC"],
    "Binary tensors over HTTP are about as small as gRPC.",
    "Run the cell before this one again.",
    premise=tapped_all,
)

# %% [markdown]
# Of the bytes above, 4,000 are the numbers. The rest are names, shape and headers; with gRPC also the opening of an HTTP/2 connection, which later requests do not send again.
#
# With binary tensors, the header `Inference-Header-Content-Length` tells the server where JSON ends and raw bytes begin ([binary tensor data](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md)).

# %% [markdown]
# ## Generate: text in, text out
#
# The [generate extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md) takes flat JSON: one field per input. `generate` gives exactly one response, so we count down from 1. `generate_stream` sends each response as a server-sent event, a line `data: …`: counting down from 3, there are three.

# %%
url = f"{server.url}/v2/models/countdown"
print(httpx.post(f"{url}/generate", json={"start": 1}).json())
began, arrived = time.perf_counter(), []
body = {"start": 3, "delay_ms": 300}
with httpx.stream("POST", f"{url}/generate_stream", json=body) as stream:
    for line in filter(None, stream.iter_lines()):
        arrived.append(time.perf_counter() - began)
        print(f"{arrived[-1]:.2f} s  {line}")

# %%
claim(
    len(arrived) == 3 and arrived[2] - arrived[0] > 0.4,
    "The answers came one by one, not all at the end.",
    "Is something between you and the server that collects answers, a proxy?",
)

# %% [markdown]
# ## Keep-alive
#
# A connection costs a round trip before the first byte; with TLS, one or two more and some arithmetic.

# %%
predict("ways.connections", "20 requests through one HTTP client: how many connections?")

# %%
requests = 20
with measure.Tap(server.url) as tap:
    address = f"http://{tap.address}/v2/health/live"
    with httpx.Client() as client:
        [client.get(address) for _ in range(requests)]
    kept, _ = tap.connections, tap.reset()
    [httpx.get(address) for _ in range(requests)]
    anew = tap.connections
counted = Premise(anew == requests, f"the tap saw {anew} connections of {requests} clients")
compare("ways.connections", float(kept), premise=counted)
claim(
    kept == 1,
    f"One connection is kept; without it, {anew}.",
    "Run the cell again.",
    premise=counted,
)

# %% [markdown]
# A client that keeps its connection pays once. gRPC keeps its own, too. But a firewall may drop one that is silent. So a client can send *pings*. We stay silent for three seconds, and count.


# %%
def idle_bytes(server, **keepalive):
    options = grpc.KeepAliveOptions(**keepalive) if keepalive else None
    with tapped(grpc, server, keepalive_options=options) as (tap, client):
        client.is_server_live()
        time.sleep(0.5)
        tap.reset()
        time.sleep(3)
        return tap.sent


# %%
pings = {"keepalive_time_ms": 500, "keepalive_permit_without_calls": True}
pings["http2_max_pings_without_data"] = 0  # as many as it likes
allowed = [
    "--grpc-http2-min-recv-ping-interval-without-data=100",
    "--grpc-http2-max-ping-strikes=0",
]
with Triton(options=allowed) as patient:
    idle = {"silent": idle_bytes(patient), "pings": idle_bytes(patient, **pings)}
claim(
    idle["silent"] == 0 and idle["pings"] >= 34,
    f"Pings are small: {idle['pings'] // 17} of them in 3 s, 17 bytes each.",
    "Run the cell again; the machine may have been too busy for a ping in time.",
)

# %% [markdown]
# We asked for one every 500 ms, six in all. But the gRPC library under Python's client leaves at least a second between two pings ([source](https://github.com/grpc/grpc/blob/master/src/core/ext/transport/chttp2/transport/writing.cc)).

# %% [markdown]
# This server was told to allow them. By default Triton wants at least five minutes between pings. A client that pings sooner gets a strike. Two strikes are borne; at the third the server closes the connection with the words `too_many_pings`. Set both sides: [gRPC options](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#grpc-options).

# %% [markdown]
# ## Compression
#
# Both protocols can compress. Does it pay? It depends on the numbers. We send five requests each way; the time is their median.

# %%
predict(
    "ways.gzip",
    "1 MB of random FP32 numbers between 0 and 1, gzip: which part of the bytes is still sent?",
    ["under 10 %", "about half", "nearly all"],
)

# %%
noise = np.random.default_rng(1).random((1, 250_000), dtype=np.float32)


def compressed(client, tap, x, how):
    both = {"request_compression_algorithm": how, "response_compression_algorithm": how}
    took = []
    tap.reset()
    for _ in range(5):
        began = time.perf_counter()
        client.infer("square", [tensor(http, x)], **both)
        took.append((time.perf_counter() - began) * 1000)
    sent, received = (count / 5 / x.nbytes for count in (tap.sent, tap.received))
    return {"part sent": sent, "part received": received, "ms": np.median(took)}


# %%
rows = {}
with tapped(http, server) as (tap, client):
    for name, values in {"zeros": np.zeros_like(noise), "random": noise}.items():
        for how in (None, "gzip", "deflate"):
            rows[name, how or "none"] = compressed(client, tap, values, how)
table = pd.DataFrame(rows).T
table.round(3)

# %%
part, plainly = (table.loc[("random", how), "part sent"] for how in ("gzip", "none"))
all_of_it = Premise(0.99 < plainly < 1.1, f"without gzip, {plainly:.2f} of the bytes were sent")
answer = "nearly all" if part > 0.75 else "about half" if part > 0.1 else "under 10 %"
compare("ways.gzip", answer, premise=all_of_it)
claim(
    table.loc[("zeros", "gzip"), "part sent"] < 0.02 and part > 0.75,
    "Zeros shrink to nothing. Noise hardly shrinks.",
    "Run the cell before this one again.",
    premise=all_of_it,
)
claim(
    table.loc[("random", "gzip"), "ms"] > table.loc[("random", "none"), "ms"],
    "And compressing noise takes time, to and fro.",
    "Something may have disturbed the requests: run the two cells before this one again.",
    premise=all_of_it,
)

# %% [markdown]
# JPEG bytes look like noise to gzip: send them as they are, and decode on the server.
#
# With gRPC the client compresses its requests (`compression_algorithm="gzip"`). Answers are compressed only where the server says so. We ask two servers.

# %%
received = {}
for level in ("none", "high"):
    option = f"--grpc-infer-response-compression-level={level}"
    other = Triton(models=["square"], options=[option])
    with other, tapped(grpc, other) as (tap, client):
        zeros = tensor(grpc, np.zeros_like(noise))
        client.infer("square", [zeros], compression_algorithm="gzip")
        received[level] = tap.received
claim(
    received["high"] < received["none"] / 100,
    f"The answer: {received['none']:,} bytes at level none, {received['high']:,} at level high.",
    "Run the cell again.",
)

# %% [markdown]
# ## TLS
#
# What can someone on the wire read? The tap has kept what passed. First without TLS:


# %%
def listen(server, **options):
    """What passes the wire for one small request."""
    with tapped(grpc, server, **options) as (tap, client):
        client.infer("square", [tensor(grpc, np.ones((1, 4), np.float32))])
        return tap.heard


plain = listen(server)
wire = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in plain)
print(wire[wire.find("/inference") :][:40], wire[wire.find("square") :][:42], sep="\n")

# %% [markdown]
# Dots stand for bytes that are no letters. The service, the model's name, the input's name and type can be read; `···?` at the end are the ones, as FP32.

# %% [markdown]
# Now we make an authority of our own, and let it sign a certificate for the server and one for a client. The name in the certificate must be the one that clients call.

# %%
papers = folder("ways_in_papers")
write(papers / "names", "subjectAltName=DNS:localhost,IP:127.0.0.1")
papers = papers.resolve()
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout"]


def openssl(line, *more):
    subprocess.run(["openssl", *line.split(), *more], cwd=papers, check=True, capture_output=True)


# %%
openssl("req -x509 -days 2 -subj /CN=course -out root.pem", *KEY, "root.key")
for who in ("server", "client"):
    openssl(f"req -subj /CN={who} -out {who}.csr", *KEY, f"{who}.key")
    by_root = "-CA root.pem -CAkey root.key -CAcreateserial -extfile names"
    openssl(f"x509 -req -days 2 -in {who}.csr -out {who}.pem {by_root}")
sorted(file.name for file in papers.glob("*.pem"))

# %%
tls = {"cert": papers / "server.pem", "key": papers / "server.key"}
trust = {"ssl": True, "root_certificates": str(papers / "root.pem")}
secure = laboratory(paths.repository(), only=["square"], tls=tls)
secret = listen(secure, **trust)
claim(
    b"square" in plain and b"square" not in secret and len(secret) > 500,
    "Without TLS the model's name can be read on the wire; with TLS it cannot.",
    "Run the section's cells again, in their order.",
)


# %%
def comes_in(server, **options):
    with server.grpc_client(**options) as client:
        try:
            return client.is_server_live(client_timeout=5)
        except InferenceServerException as error:
            return f"no: {error.status()}"


doors = {"trusts our authority": comes_in(secure, **trust)}
doors["trusts the usual ones"] = comes_in(secure, ssl=True)
doors["speaks without TLS"] = comes_in(secure)
pd.Series(doors, name="comes in").to_frame()

# %%
claim(
    [answer is True for answer in doors.values()] == [True, False, False],
    "Only a client that trusts this certificate comes in.",
    "Look at the answers above: is the certificate's name the one that was called?",
)

# %% [markdown]
# **Mutual TLS.** Now the server, too, wants to see a certificate.

# %%
own = {"private_key": str(papers / "client.key"), "certificate_chain": str(papers / "client.pem")}
with Triton(tls={**tls, "root": papers / "root.pem"}) as mutual:
    known = comes_in(mutual, **trust, **own)
    unknown = comes_in(mutual, **trust)
secure.stop()
claim(
    known is True and unknown is not True,
    "The server knows its clients. One without a certificate gets "
    f"{str(unknown).rpartition('.')[2]}.",
    "Run the cells of this section again, in their order.",
)

# %% [markdown]
# Triton's HTTP endpoint has no TLS of its own: put a proxy that has it in front ([secure deployment](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/deploy.md)).

# %% [markdown]
# ## Shared memory
#
# A client on the same machine can leave its tensors in memory that the server reads. The request then says where they lie.

# %%
predict(
    "ways.shm",
    "16 MB in and 16 MB out through shared memory: how many kB cross the wire?",
    unit="kB",
)


# %%
REGIONS = [f"ways-{os.getpid()}-in", f"ways-{os.getpid()}-out"]


@contextmanager
def regions(client, size):
    """Two regions of shared memory, known to the server too."""
    made = [shared_memory.create_shared_memory_region(n, f"/{n}", size) for n in REGIONS]
    for name in REGIONS:
        client.register_system_shared_memory(name, f"/{name}", size)
    yield made
    time.sleep(0.5)  # the server lets go of a region a moment after its answer
    client.unregister_system_shared_memory()
    for handle in made:
        shared_memory.destroy_shared_memory_region(handle)


# %%
def shared(x):
    """A request's input and output that name their region instead of carrying a tensor."""
    source = grpc.InferInput("INPUT", x.shape, "FP32")
    source.set_shared_memory(REGIONS[0], x.nbytes)
    target = grpc.InferRequestedOutput("OUTPUT")
    target.set_shared_memory(REGIONS[1], x.nbytes)
    return source, target


# %%
big, ways = np.random.default_rng(1).random((1, 4_000_000), dtype=np.float32), {}
with tapped(grpc, server) as (tap, client), regions(client, big.nbytes) as (given, got):
    source, target = shared(big)
    shared_memory.set_shared_memory_region(given, [big])
    for name, ask in {
        "in the message": lambda: client.infer("square", [tensor(grpc, big)]),
        "shared memory": lambda: client.infer("square", [source], outputs=[target]),
    }.items():
        tap.reset()
        ways[name] = {"ms": timed(ask, 5), "kB on the wire": (tap.sent + tap.received) / 6000}
    squares = shared_memory.get_contents_as_numpy(got, np.float32, big.shape).copy()
pd.DataFrame(ways).round(1)

# %%
right = np.array_equal(squares, big * big)
claim(right, "The answer lies in our memory.", "Run the cell before this one again.")
wire = pd.DataFrame(ways).loc["kB on the wire"]
compare(
    "ways.shm",
    float(wire["shared memory"]),
    unit="kB",
    published="a name, an offset and a size for each tensor (shared memory extension)",
    premise=Premise(
        right and wire["in the message"] > 2 * big.nbytes / 1000,
        f"of both tensors only {wire['in the message']:,.0f} kB went through the tap",
    ),
)
claim(
    wire["shared memory"] < wire["in the message"] / 1000,
    "Names cross the wire, tensors do not.",
    "Run the cell before this one again.",
)
claim(
    ways["shared memory"]["ms"] < ways["in the message"]["ms"],
    "So it takes less time, too.",
    "Other programs may take the cores: close them and run the cell before this one again.",
)

# %% [markdown]
# The rest of the time is the Python backend, which copies tensors into a region of its own. With CUDA shared memory tensors stay on the GPU ([shared memory extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_shared_memory.md)).

# %% [markdown]
# ## Doors that stay shut
#
# Whoever may load models runs code on your server. Restricted endpoints want a header with a secret: the same list for HTTP and gRPC.

# %%
rule = "model-repository,shared-memory,logging:admin-key=open-sesame"
restricted = [f"--http-restricted-api={rule}", f"--grpc-restricted-protocol={rule}"]
key, answers = {"admin-key": "open-sesame"}, {}
with Triton(models=["square"], options=restricted) as guarded:
    ask, index = f"{guarded.url}/v2/models/square/generate", f"{guarded.url}/v2/repository/index"
    answers["infer, no key"] = httpx.post(ask, json={"INPUT": [3]}).status_code
    answers["index, no key"] = httpx.post(index).status_code
    answers["index, key"] = httpx.post(index, headers=key).status_code
    with guarded.grpc_client() as client:
        named = {f"triton-grpc-protocol-{name}": word for name, word in key.items()}
        client.get_model_repository_index(headers=named)
pd.Series(answers, name="HTTP status").to_frame()

# %%
claim(
    list(answers.values()) == [200, 403, 200],
    "Inference is open; the repository opens for those who know the word.",
    "Run the cell again.",
)

# %% [markdown]
# The secret crosses the wire in the clear: restrict *and* encrypt. The list of APIs: [limit endpoint access](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#limit-endpoint-access-beta).

# %% [markdown]
# ## The OpenAI API
#
# Many programs speak OpenAI's protocol. Container images with vLLM or TensorRT-LLM carry a front end for it ([source](https://github.com/triton-inference-server/server/tree/main/python/openai)). It runs Triton in its own process; weights and tokenizers may come from Hugging Face's hub.
#
# ```console
# $ python3 openai_frontend/main.py --model-repository models --tokenizer TOKENIZER
# $ curl -s localhost:9000/v1/chat/completions -H 'Content-Type: application/json' \
#     -d '{"model": "NAME", "messages": [{"role": "user", "content": "Hello"}]}'
# ```

# %% [markdown]
# On this machine, `workbook openai` opens such a door in front of a running server. It serves each model that takes `text_input` and `sampling_parameters` and answers with `text_output`. Ours needs no weights: a parrot repeats the words, one response each.

# %%
home = folder("ways_in_parrot")
write(
    home / "parrot/config.pbtxt",
    """
backend: "python"
max_batch_size: 0
input { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }
input { name: "sampling_parameters" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }
model_transaction_policy { decoupled: true }
instance_group { count: 1 kind: KIND_CPU }
""",
)
(home / "parrot/1").mkdir(exist_ok=True)

# %%
# %%writefile {home}/parrot/1/model.py
import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils

NAMES = ("text_input", "sampling_parameters")


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.repeat(request, request.get_response_sender())

    def repeat(self, request, sender):
        inputs = [pb_utils.get_input_tensor_by_name(request, name) for name in NAMES]
        text, sampling = (tensor.as_numpy()[0].decode() for tensor in inputs)
        for word in text.split()[: json.loads(sampling)["max_tokens"]]:
            piece = pb_utils.Tensor("text_output", np.array([f"{word} ".encode()], object))
            sender.send(pb_utils.InferenceResponse([piece]))
            time.sleep(0.1)  # a language model thinks at each word, too
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


# %% [markdown]
# The front end is a web application (`workbook/llm/openai.py`). Here it runs in a thread of this kernel, on a free port.

# %%
import socket
import threading

import uvicorn
from openai import OpenAI

from workbook.llm.openai import app

lab = laboratory(home)
ear = socket.create_server(("127.0.0.1", 0))
front = uvicorn.Server(uvicorn.Config(app(lab), log_level="error"))
threading.Thread(target=front.run, args=([ear],), daemon=True).start()
openai = OpenAI(base_url=f"http://127.0.0.1:{ear.getsockname()[1]}/v1", api_key="none")
[model.id for model in openai.models.list()]

# %% [markdown]
# OpenAI's own client asks, and does not notice who answers. A chat first, all at once:

# %%
words = "one model speaks to many callers"
chat = {"model": "parrot", "messages": [{"role": "user", "content": words}]}
whole = openai.chat.completions.create(**chat).choices[0].message.content
short = openai.completions.create(model="parrot", prompt=words, max_tokens=2).choices[0].text
whole, short

# %%
predict(
    "ways.chunks",
    "The same six words, streamed. How many chunks will the client get? "
    "Count an empty last one, too.",
)

# %%
pieces = []
for chunk in openai.chat.completions.create(**chat, stream=True):
    choice = chunk.choices[0]
    pieces.append(choice.delta.content)
    print(repr(choice.delta.content), choice.finish_reason or "")
complete = Premise("".join(pieces) == whole, f"the stream is not the whole answer: {pieces}")
compare("ways.chunks", float(len(pieces)), premise=complete)

# %%
claim(
    words.startswith(pieces[0].strip()) and pieces[-1] == "",
    "The pieces make up the whole answer; an empty one at the end says why it ended.",
    "Did you change the parrot? Then run the section's cells again, in their order.",
    premise=complete,
)

# %%
openai.close()
front.should_exit = True
lab.stop()

# %% [markdown]
# ## Without a front end: the C API
#
# `tritonserver` is a thin program around a library. Its [C API](https://github.com/triton-inference-server/core/blob/main/include/triton/core/tritonserver.h) is open to every language that can call C. The server wheel carries that library: we load it into *this* kernel.

# %%
core, started = Core(), []
print(core.path.name, "· API version", *core.version())

# %% [markdown]
# `core("Name", …)` calls `TRITONSERVER_Name` and raises its error; `core.new` returns the pointer that a function fills in. Nothing else stands between you and the library (`workbook/server/capi.py`).

# %%
options = core.new("ServerOptionsNew")
core("ServerOptionsSetModelRepositoryPath", options, os.fsencode(paths.repository()))
core("ServerOptionsSetBackendDirectory", options, os.fsencode(core.place.backends))
core("ServerOptionsSetModelControlMode", options, 2)  # explicit
core("ServerOptionsSetStartupModel", options, b"square")
core("ServerOptionsSetGpuMetrics", options, False)
core("ServerOptionsSetLogFile", options, os.fsencode(folder("ways_in_core") / "core.log"))
with core.environment():
    inner = core.new("ServerNew", options)
core("ServerOptionsDelete", options)
started.append(inner)
core.yes("ServerIsReady", inner), core.json("ServerMetadata", inner)["version"]

# %% [markdown]
# No port is open, no process was started but the model's stub. A request is a C object; the answer comes through a callback into memory that we allocate. The price: a crash in Triton or in a backend takes your program with it.

# %%
predict(
    "ways.inner",
    "The same small request, in this process and over gRPC: how many times longer does gRPC take?",
    unit="×",
)

# %%
row = np.arange(4, dtype=np.float32)[None]
over_grpc, asked = server.grpc_client(), tensor(grpc, row)
calls = {"C API": lambda: core.infer(inner, "square", {"INPUT": row})}
calls["gRPC"] = lambda: over_grpc.infer("square", [asked])
times = pd.DataFrame([{name: timed(call, 1) for name, call in calls.items()} for _ in range(300)])
took = times.quantile(0.05)  # the best ones: other programs disturb those least
results = calls["C API"]()["OUTPUT"], calls["gRPC"]().as_numpy("OUTPUT")
measure.plot_bars(took.to_frame("ms"), title="One small request", below="ms, best 5 % of 300")

# %%
equal = Premise(np.array_equal(*results), f"the two answers differ: {results}")
compare("ways.inner", took["gRPC"] / took["C API"], unit="×", premise=equal)
claim(
    np.array_equal(results[0], row * row) and took["C API"] < took["gRPC"],
    "The same answer, without the network's part of the time.",
    "Other programs may take the cores: close them and run the two cells again.",
    premise=equal,
)

# %%
try:
    core.infer(inner, "nobody", {"INPUT": row})
except Exception as error:
    print(error)

# %% [markdown]
# What C code starts, C code has to end. A server that was deleted must not be used again: that would end the kernel, too.

# %%
while started:
    ended = started.pop()
    core("ServerStop", ended)
    core("ServerDelete", ended)

# %% [markdown]
# ## The same in C++, Java and Python
#
# C++ needs the header and the library; the container has both under `/opt/tritonserver` ([simple.cc](https://github.com/triton-inference-server/server/blob/main/src/simple.cc) is complete).
#
# ```cpp
# #include <cstdio>
# #include <triton/core/tritonserver.h>
#
# int main() {
#   TRITONSERVER_ServerOptions* options = nullptr;
#   TRITONSERVER_ServerOptionsNew(&options);
#   TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, "/models");
#   TRITONSERVER_Server* server = nullptr;
#   TRITONSERVER_Error* error = TRITONSERVER_ServerNew(&server, options);
#   if (error != nullptr) return std::puts(TRITONSERVER_ErrorMessage(error)), 1;
#   bool ready = false;
#   TRITONSERVER_ServerIsReady(server, &ready);
#   std::printf("ready: %d\n", ready);
#   TRITONSERVER_ServerDelete(server);
# }
# ```

# %% [markdown]
# Java calls the same functions through [JavaCPP](https://github.com/bytedeco/javacpp-presets/tree/master/tritonserver); pointers become objects ([guide](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inprocess_java_api.md)).
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
#     boolean[] ready = {false};
#     TRITONSERVER_ServerIsReady(server, ready);
#     System.out.println("ready: " + ready[0]);
#   }
# }
# ```

# %% [markdown]
# NVIDIA's own Python package `tritonserver` lies in the container as a wheel (`/opt/tritonserver/python`), not on PyPI ([tutorial](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API)).
#
# ```python
# import numpy, tritonserver
#
# server = tritonserver.Server(model_repository="/models")
# server.start(wait_until_ready=True)
# for response in server.model("square").infer(inputs={"INPUT": numpy.ones((1, 4), "float32")}):
#     print(numpy.from_dlpack(response.outputs["OUTPUT"]))
# server.stop()
# ```

# %% [markdown]
# > **Errata.** The slides recommend a C++ API, a wrapper around the C API. That wrapper ([developer_tools](https://github.com/triton-inference-server/developer_tools/tree/main/server)) is no longer built ([source](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inprocess_java_api.md)): use the C API.

# %% [markdown]
# ## Kafka and Ray Serve
#
# With the Python API, Triton fits into other programs. One reads a topic, asks the model, writes a topic ([complete example](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API/examples/kafka-io)):
#
# ```python
# from confluent_kafka import Consumer, Producer
#
# consumer = Consumer({"bootstrap.servers": "kafka:9092", "group.id": "triton"})
# consumer.subscribe(["questions"])
# producer = Producer({"bootstrap.servers": "kafka:9092"})
# while True:
#     message = consumer.poll(1.0)
#     if message is None or message.error():
#         continue
#     text = message.value().decode()
#     for response in server.model("language").infer(inputs={"text": [[text]]}):
#         producer.produce("answers", response.outputs["label"].to_string_array()[0][0])
#     producer.poll(0)
# ```

# %% [markdown]
# Ray Serve starts replicas of a class and brings requests to them; each replica holds a Triton ([complete example](https://github.com/triton-inference-server/tutorials/tree/main/Triton_Inference_Server_Python_API/examples/rayserve)).
#
# ```python
# import tritonserver
# from fastapi import FastAPI
# from ray import serve
#
# app = FastAPI()
#
# @serve.deployment(num_replicas=2)
# @serve.ingress(app)
# class Language:
#     def __init__(self):
#         self.triton = tritonserver.Server(model_repository="/models")
#         self.triton.start(wait_until_ready=True)
#
#     @app.get("/language")
#     def language(self, text: str) -> str:
#         responses = self.triton.model("language").infer(inputs={"text": [[text]]})
#         return next(iter(responses)).outputs["label"].to_string_array()[0][0]
#
# serve.run(Language.bind(), route_prefix="/")
# ```

# %%
server.stop()

# %% [markdown]
# ## What to remember
#
# - HTTP and gRPC carry the same requests. JSON costs bytes; one kept connection saves many.
# - TLS is gRPC's; restricted APIs want a header; without both, whoever reaches the port is in charge.
# - Shared memory avoids the wire, the C API avoids the network altogether.

# %% [markdown]
# And the callers of the question?
#
# | caller | way in | cost |
# |---|---|---|
# | a shell script | HTTP with JSON | several times the bytes |
# | a web page | HTTP, or generate for text | a proxy for TLS |
# | a bank | gRPC with mutual TLS | a certificate for each client |
# | a program in the same process | C API | a crash takes the whole process |

# %% [markdown]
# ## Check yourself
#
# <details><summary>Your images are JPEG files. Should the client compress its requests?</summary>
#
# No. They are compressed already: gzip would cost time and save nothing. Send the JPEG bytes and decode on the server.
#
# </details>
#
# <details><summary>A gRPC client sends pings every 10 s, and its connection breaks after some. Why?</summary>
#
# The server allows one ping in five minutes by default and answers `too_many_pings`. Set the server's options too.
#
# </details>
#
# <details><summary>When is the C API the wrong choice?</summary>
#
# When several programs need the model, or it must be restarted by itself: a crash takes your program with it.
#
# </details>

# %% [markdown]
# That was lecture 1. [The start](../00__start.ipynb) lists what else there is: assignment 2 puts much of this to use.
