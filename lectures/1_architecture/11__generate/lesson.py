# ---
# title: Generate
# minutes: 24
# ---

# %% [markdown]
# # Generate
#
# **Question.** A language model makes its answer word by word. How do the words reach a client over HTTP, one by one, and what does a program need that speaks OpenAI's protocol?
#
# ![Triton; marked are clients, the front end for OpenAI's API and HTTP](architecture.svg)

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("generate")
setup.place_models(models)  # llama: a language model; parrot: it repeats the prompt
lab = laboratory(models)  # a Triton server of this notebook's own

# %% [markdown]
# The course's Llama is tiny: it knows Python's documentation, and little else.

# %% [markdown]
# ## Text in, text out
#
# The [generate extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md) takes flat JSON with one field per input of the model. Here `stream` is such an input: it says whether the model sends each piece as soon as it is made.

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2/models/llama/generate -d '{
#   "text_input": "The str method returns a copy of the",
#   "sampling_parameters": "{\"max_tokens\": 24, \"temperature\": 0}",
#   "stream": false
# }'

# %% [markdown]
# The same in Python, with a longer answer:

# %% tags=["triton"]
import json
import os
import time

import httpx
import pandas as pd

url = f"http://{os.environ['TRITON_HTTP']}/v2/models"
sampling = json.dumps({"max_tokens": 48, "temperature": 0, "ignore_eos": True})
body = {"text_input": "The str method returns a copy of the", "sampling_parameters": sampling}

at_once = httpx.post(f"{url}/llama/generate", json={**body, "stream": False}, timeout=60)
print(at_once.status_code, at_once.json()["text_output"])

# %% [markdown]
# Now with `"stream": true`, at the same address: the model sends one response per piece.

# %%
predict(
    "generate.many",
    "What does `generate` give the client when the model sends many responses?",
    {
        "status 200 and the whole text": "Triton does not know that these tensors are text. It "
        "joins nothing: a program in front of it has to.",
        "status 400 and an error": "The error is there, but the status says nothing of it. Check "
        "the body, not the status alone.",
        "status 200 and the first piece": "`generate` waits for the last response, counts the "
        "responses, and finds more than one.",
        "status 200 and an error": None,
    },
)

# %% tags=["triton"]
many = httpx.post(f"{url}/llama/generate", json={**body, "stream": True}, timeout=60)
print(many.status_code, many.text)

# %%
kind = "an error" if "error" in many.json() else "the whole text"
good = Premise(at_once.status_code == 200, "the first request failed, too")
compare("generate.many", f"status {many.status_code} and {kind}", premise=good)
claim(
    kind == "an error",
    "`generate` wants exactly one response. With more, the body is an error.",
    "Run the cell with the request again.",
    id="generate.one",
)

# %% [markdown]
# ## Piece by piece
#
# `generate_stream` sends each response at once, as a *server-sent event*: a line `data: …`, then an empty line. It is ordinary HTTP. With `-N`, curl prints each line as it comes.

# %% language="bash" tags=["triton"]
# curl -sN $TRITON_HTTP/v2/models/llama/generate_stream -d '{
#   "text_input": "The str method returns a copy of the",
#   "sampling_parameters": "{\"max_tokens\": 4, \"temperature\": 0}",
#   "stream": true
# }'


# %% tags=["triton"]
def stream(model, body):
    """The status and the events of a streamed answer, each with the seconds at which it came."""
    began, events = time.perf_counter(), []
    with httpx.stream("POST", f"{url}/{model}/generate_stream", json=body, timeout=60) as answer:
        for line in filter(None, answer.iter_lines()):
            event = json.loads(line.removeprefix("data: "))
            events.append({"s": time.perf_counter() - began, **event})
    return answer.status_code, pd.DataFrame(events)


# %% [markdown]
# When does a reader see the first piece, and when the last? Once streamed, and once not:

# %% tags=["triton"]
_, pieces = stream("llama", {**body, "stream": True})
_, whole = stream("llama", {**body, "stream": False})
pieces[["s", "text_output"]].head()

# %%
first = {"streamed": pieces["s"].iloc[0], "not streamed": whole["s"].iloc[0]}
last = {"streamed": pieces["s"].iloc[-1], "not streamed": whole["s"].iloc[-1]}
waits = pd.DataFrame({"until the first piece": first, "from there to the last": last}) * 1000
waits["from there to the last"] -= waits["until the first piece"]
measure.plot_bars(waits, title=f"{len(pieces)} pieces of llama", below="ms")

# %%
share = first["streamed"] / last["streamed"]
claim(
    len(pieces) > 2 and share < 0.75,
    f"The first of {len(pieces)} pieces came when {share:.0%} of the time was over.",
    "Does a proxy between you and the server collect answers? Run both cells again.",
    id="generate.stream",
)

# %% [markdown]
# ## The same over gRPC
#
# A model that may send any number of responses is [*decoupled*](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/decoupled_models.md): its config says so, beside the names of its inputs and outputs. `infer` over HTTP has one response per request. Can it ask such a model?

# %% language="bash" tags=["triton"]
# grep -E 'name:|decoupled' $TRITON_MODELS/parrot/config.pbtxt
# curl -s $TRITON_HTTP/v2/models/parrot/infer -d '{"inputs": [
#   {"name": "text_input", "shape": [1], "datatype": "BYTES", "data": ["a parrot"]}
# ]}'

# %% [markdown]
# It cannot. gRPC has a *stream*: requests go in, and responses come out, each to a callback. A model often does not know which word is its last. With `enable_empty_final_response`, an empty response follows, whose parameter `triton_final_response` is true: the request is done.

# %% tags=["triton"]
import queue

import numpy as np
import tritonclient.grpc as grpc

text = np.array([b"a parrot likes no"], object)
prompt = grpc.InferInput("text_input", text.shape, "BYTES").set_data_from_numpy(text)


# %% tags=["triton"]
def ask(model):
    """All responses to the request with this prompt."""
    answers, found, final = queue.Queue(), [], False
    with grpc.InferenceServerClient(os.environ["TRITON_GRPC"]) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(model, [prompt], enable_empty_final_response=True)
        while not final:
            result, error = answers.get(timeout=60)
            if error:
                raise error
            found.append(result.as_numpy("text_output"))
            final = result.get_response().parameters["triton_final_response"].bool_param
    return found


# %% tags=["triton"]
answers = ask("parrot")
print(*answers, sep="\n")
texts = [answer[0].decode() for answer in answers if answer is not None]
_, events = stream("parrot", {"text_input": "a parrot likes no"})

# %%
claim(
    texts == list(events["text_output"]) and len(texts) == 4,
    f"Both ways brought the same {len(texts)} pieces.",
    "Run the cell before this one again.",
    id="generate.grpc",
)

# %% [markdown]
# gRPC's stream serves many requests at a time, with any tensors. `generate_stream` takes one request, and needs no more than an HTTP client.
#
# ## An error in the middle
#
# A model can fail after half of its answer. The parrot does. In its [model.py](models/parrot/1/model.py), `execute` takes a sender from the request, calls `speak`, and ends the answer:
#
# ```python
# sender = request.get_response_sender()
# speech.speak(text, sampling, sender)
# sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
# ```
#
# And `speak`:

# %%
show("models/parrot/1/speech.py")

# %% [markdown]
# We ask for "a parrot likes no cat".

# %%
predict(
    "generate.status",
    "Four words have arrived when the model fails. Which HTTP status does the client see?",
    {
        "400 or 500: the request failed": "The status is the first line of an answer. It was "
        "sent with the first word, and cannot be changed later.",
        "none: the connection breaks": "The stream ends in order. Its last event carries the "
        "error as JSON.",
        "200: all is well": None,
    },
)

# %% tags=["triton"]
late, words = stream("parrot", {"text_input": "a parrot likes no cat"})
early, none = stream("parrot", {"text_input": "cat"})
print("status in the middle:", late, "· at the beginning:", early)
words.fillna("")

# %%
failed = "error" in words and "error" in none
status = "200: all is well" if late == 200 else "400 or 500: the request failed"
compare("generate.status", status, premise=Premise(failed, "the parrot did not fail"))
by_time = late == 200 and early >= 400 and len(words) == 5
claim(
    by_time,
    f"An error in the middle comes with status {late}, one at the beginning with {early}.",
    "Run the cell with the two requests again.",
    id="generate.status",
)

# %% [markdown]
# The status is sent with the first response, so it cannot tell of a later fault; so it was with `generate`, too. A client of `generate_stream` looks into *each* event for the field `error`.

# %% [markdown]
# ## OpenAI's protocol
#
# Many programs speak it. A front end turns a chat into a prompt (with the model's chat template), asks Triton, and writes OpenAI's form of the answer. `workbook openai` starts the course's own; here it runs in this kernel. After `make vllm`, vLLM's model answers. (The parrot has no tokenizer, so its `usage` is 0.)

# %%
os.environ["TRITON_OPENAI"] = setup.front_end(lab)  # host:port, as localhost:9000 at work

# %% language="bash" tags=["triton"]
# model=$(curl -s $TRITON_OPENAI/v1/models | grep -o 'llama[a-z_]*' | tail -1)
# curl -s $TRITON_OPENAI/v1/chat/completions -H 'Content-Type: application/json' -d '{
#   "model": "'$model'", "max_tokens": 24, "temperature": 0,
#   "messages": [{"role": "user", "content": "What is a list?"}]
# }'

# %% tags=["triton"]
from openai import OpenAI

openai = OpenAI(base_url=f"http://{os.environ['TRITON_OPENAI']}/v1", api_key="none")
name = max(model.id for model in openai.models.list() if model.id.startswith("llama"))
messages = [{"role": "user", "content": "What is a list?"}]
question = {"model": name, "messages": messages, "max_tokens": 24, "temperature": 0}

chat = openai.chat.completions.create(**question)
chunks = [chunk.choices[0] for chunk in openai.chat.completions.create(**question, stream=True)]
print(chat.choices[0].message.content, chat.usage, sep="\n")
joined = "".join(chunk.delta.content or "" for chunk in chunks)  # the last has no text
[(chunk.delta.content, chunk.finish_reason) for chunk in chunks[:2] + chunks[-2:]]

# %%
same = joined == chat.choices[0].message.content and chunks[-1].finish_reason is not None
claim(
    same,
    "OpenAI's client gets the same text whole and in pieces, and at last why it ended.",
    "Run the cells of this section again.",
    id="generate.openai",
)

# %% [markdown]
# NVIDIA's [front end](https://github.com/triton-inference-server/server/blob/main/python/openai/README.md) is in the containers with vLLM or TensorRT-LLM [since 24.12](../../2_backends/14__images/14__images.ipynb#Your-release-has); Triton runs inside it. Weights and tokenizers may come from Hugging Face. Not run here:
#
# ```console
# $ cd /opt/tritonserver/python/openai
# $ python3 openai_frontend/main.py --model-repository tests/vllm_models \
#     --tokenizer meta-llama/Meta-Llama-3.1-8B-Instruct
# $ curl -s localhost:9000/v1/models
# ```

# %% [markdown]
# ## Your turn
#
# The parrot ignores `sampling`. Change [its file](models/parrot/1/speech.py), and run the cell below: it says at most `max_tokens` words, and ends before the first word in `stop` (a text or a list). Each response gets a second tensor, `finish_reason` (it is in the config): empty, but in the last response `length` if `max_tokens` cut the text, else `stop`.

# %%
place(models, "models/parrot")
lab.load("parrot")
task("generate.stop", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# A client of `generate_stream` that you can build on: it shows the text as it comes, and does not take half an answer for a whole one.

# %%
show("at_work/stream.py")

# %% tags=["triton"]
# %run at_work/stream.py parrot "a parrot likes nuts"

# %% [markdown]
# ## What to remember
#
# - `generate` gives exactly one response, `generate_stream` each as it comes, over ordinary HTTP. gRPC's stream carries many requests.
# - The status comes with the first response. A later error is an event: look into each.
# - A front end speaks OpenAI's protocol. The model itself has to obey `max_tokens` and `stop`, and to say why it ended.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A dashboard counts HTTP statuses of a chat service and shows no failures. Users complain about answers that break off. What is missing?</summary>
#
# Errors after the first piece. They are events in answers with status 200. Count these events; Triton's own counter may miss errors that a model puts into an answer ([metrics](../08__metrics/08__metrics.ipynb)).
#
# </details>
#
# <details><summary>Streaming makes no token faster. Who gains?</summary>
#
# Whoever reads while the rest is made: the first piece comes early. A program that needs the whole answer gains nothing, and reads more bytes.
#
# </details>
#
# <details><summary>Why does a chat need a front end, when generate_stream takes text?</summary>
#
# A chat is a list of messages. Somebody has to make the prompt that this model was trained with, and to write the events in OpenAI's form.
#
# </details>
#
# Next: [in-process, and other ways in](../12__in_process/12__in_process.ipynb).
