# ---
# title: Generate
# minutes: 16
# ---

# %% [markdown]
# # Generate
#
# **Question.** A language model makes its answer word by word. How do the words reach a client over HTTP, one by one, and what does a program need that speaks OpenAI's protocol?
#
# ![Triton; marked are clients, the front end for OpenAI's API and HTTP](architecture.svg)

# %%
import json
import time

import httpx
import pandas as pd

import setup
from workbook import measure
from workbook.lessons import Premise, claim, compare, laboratory, place, predict, show, task

host, name = setup.language_model()
url = f"{host.url}/v2/models/{name}"

# %% [markdown]
# The course's Llama is tiny: it knows Python's documentation, and little else. vLLM serves it after `make vllm`, else a Python model. Without weights, the model `parrot` repeats the prompt.
#
# ## Text in, text out
#
# The [generate extension](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md) takes flat JSON with one field per input. The model's input `stream` says whether it sends each piece as soon as it is made.

# %%
sampling = json.dumps({"max_tokens": 48, "temperature": 0, "ignore_eos": True})
prompt = "The str method returns a copy of the"
body = {"text_input": prompt, "sampling_parameters": sampling, "stream": False}
at_once = httpx.post(f"{url}/generate", json=body, timeout=60)
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
        "status 400 and an error": "The error is there, but the status is that of the first "
        "response, and this response was good. Check the body, not the status alone.",
        "status 200 and the first piece": "`generate` waits for the last response, counts the "
        "responses, and finds more than one.",
        "status 200 and an error": None,
    },
)

# %%
many = httpx.post(f"{url}/generate", json={**body, "stream": True}, timeout=60)
kind = "an error" if "error" in many.json() else "the whole text"
print(many.status_code, many.text)

# %%
good = Premise(at_once.status_code == 200, "the first request failed, too")
compare("generate.many", f"status {many.status_code} and {kind}", premise=good)
claim(
    kind == "an error",
    "`generate` wants exactly one response. The error comes with the status of the first.",
    "Look at the text above.",
    id="generate.one",
)

# %% [markdown]
# ## Piece by piece
#
# `generate_stream` sends each response at once, as a *server-sent event*: a line `data: …`, then an empty line. It is ordinary HTTP: no gRPC is needed.


# %%
def stream(url, body):
    """The status and the events of a streamed answer, each with the seconds at which it came."""
    began, events = time.perf_counter(), []
    with httpx.stream("POST", f"{url}/generate_stream", json=body, timeout=60) as answer:
        for line in filter(None, answer.iter_lines()):
            event = json.loads(line.removeprefix("data: "))
            events.append({"s": time.perf_counter() - began, **event})
    return answer.status_code, pd.DataFrame(events)


# %%
_, pieces = stream(url, {**body, "stream": True})
_, whole = stream(url, {**body, "stream": False})
first = {"streamed": pieces["s"].iloc[0], "not streamed": whole["s"].iloc[0]}
last = {"streamed": pieces["s"].iloc[-1], "not streamed": whole["s"].iloc[-1]}
waits = pd.DataFrame({"until the first piece": first, "until the last": last}) * 1000
waits["until the last"] -= waits["until the first piece"]
measure.plot_bars(waits, title=f"{len(pieces)} pieces of {name}", below="ms")

# %%
share = first["streamed"] / last["streamed"]
soon = len(pieces) > 2 and share < 0.75
claim(
    soon,
    f"The first of {len(pieces)} pieces came when {share:.0%} of the time was over.",
    "Does a proxy between you and the server collect answers? Run both cells again.",
    id="generate.stream",
)
pieces[["s", "text_output"]].head()

# %% [markdown]
# > **Errata.** The first edition of this lecture said that many answers to one request need gRPC's stream. `generate_stream` brings them over HTTP ([generate and generate_stream](https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md#generate-vs-generate_stream)). What HTTP's `infer` cannot do is to ask a decoupled model.

# %% [markdown]
# ## An error in the middle
#
# A model can fail after it has sent half of its answer. We have a parrot for that. It repeats the prompt, one word per response, and raises an error at the word *cat*. We ask for "a parrot likes no cat".

# %%
nest = setup.parrot("generate")
lab = laboratory(nest)
parrot = f"{lab.url}/v2/models/parrot"

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

# %%
late, words = stream(parrot, {"text_input": "a parrot likes no cat"})
early, none = stream(parrot, {"text_input": "cat"})
words.fillna("")

# %%
failed = "error" in words and "error" in none
status = "200: all is well" if late == 200 else "400 or 500: the request failed"
compare("generate.status", status, premise=Premise(failed, "the parrot did not fail"))
by_time = late == 200 and early >= 400 and len(words) == 5
claim(
    by_time,
    f"An error in the middle comes with status {late}, one at the beginning with {early}.",
    "Run the two cells before this one again.",
    id="generate.status",
)

# %% [markdown]
# So a client of `generate_stream` looks into *each* event for the field `error`.
#
# ## OpenAI's protocol
#
# Many programs speak it. A front end turns a chat into a prompt (with the model's chat template), asks Triton, and writes the answer as OpenAI's clients expect it. `workbook openai` starts the course's own (`workbook/llm/openai/`).

# %%
from openai import OpenAI

messages = [{"role": "user", "content": "What is a list?"}]
question = {"model": name, "messages": messages, "max_tokens": 24, "temperature": 0}
with setup.front_end(host) as address, OpenAI(base_url=address, api_key="none") as client:
    print("models:", [model.id for model in client.models.list()])
    answer = client.chat.completions.create(**question)
    chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**question, stream=True)]
print(answer.choices[0].message.content, answer.usage, sep="\n")
[(chunk.delta.content, chunk.finish_reason) for chunk in chunks[:2] + chunks[-2:]]

# %%
joined = "".join(chunk.delta.content or "" for chunk in chunks)  # the last has the reason only
same = joined == answer.choices[0].message.content and chunks[-1].finish_reason is not None
claim(
    same,
    "OpenAI's client gets the same text whole and in pieces, and at last why it ended.",
    "Run both cells again.",
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
show("models/parrot/1/speech.py")
place(nest, "models/parrot")
lab.load("parrot")
task("generate.stop", server=lab)

# %% [markdown]
# ## What to remember
#
# - `generate` gives exactly one response. `generate_stream` gives each response as it comes, over ordinary HTTP.
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
