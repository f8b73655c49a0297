# ---
# title: LLM backends
# minutes: 29
# ---

# %% [markdown]
# # LLM backends
#
# **Question.** You have the weights of a language model. Which files must you write so that Triton serves it? And how can one copy of the model answer eight users at once?

# %%
import documents  # the slides' configs and tables
import measured  # the engine's metrics
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words
from workbook.lessons.shared import documented

models = folder("llm_backends")  # an empty folder: files of an earlier run are deleted
setup.write_model(models)  # the folder vllm_model: the two files below, and the weights
lab = laboratory(models, only=[])  # a Triton server of this notebook's own
print(setup.engine())  # without `make vllm`, Transformers answers in vLLM's place
# This notebook takes up to 6 GB. With less than 16 GB, unload the model of `make lab`:
# from workbook.server import connect; connect().unload("llama_vllm")

# %% [markdown]
# ## Two files
#
# A language model writes one *token* after the other: a word or a part of one. [vLLM](https://docs.vllm.ai/en/v0.32.0/configuration/engine_args/) is an *engine*: a program that holds the weights, and computes the next token of many requests together. You write two files: `config.pbtxt` names the backend, and `1/model.json` has the *engine arguments*, the options with which vLLM starts.

# %% language="bash" tags=["triton"]
# cat $TRITON_MODELS/vllm_model/config.pbtxt $TRITON_MODELS/vllm_model/1/model.json

# %% [markdown]
# `model` is the folder of the weights, here of a Llama with 5 million parameters. The other two arguments are for a CPU.
#
# Now we load the model. This takes some seconds, because the engine starts. Then we ask Triton for the config that it uses. Look for what our file does not say:

# %% language="bash" tags=["triton"]
# curl -sX POST $TRITON_HTTP/v2/repository/models/vllm_model/load
# curl -s $TRITON_HTTP/v2/models/vllm_model/config |
#   grep -oE '"max_batch_size":\w+|"decoupled":\w+|"name":"text_\w+"'

# %% [markdown]
# The backend has filled in the rest:
#
# - `max_batch_size` is 0. Triton makes no batches of these requests; the engine does.
# - `decoupled` is true. One request may get several responses, so that an answer can come in pieces.
# - The [tensors](https://github.com/triton-inference-server/vllm_backend/blob/main/src/model.py) have names of the backend's own.

# %% [markdown]
# ## Asking
#
# We ask by the endpoint [generate](../../1_architecture/11__generate/11__generate.ipynb). Each request brings [sampling parameters](https://docs.vllm.ai/en/v0.32.0/api/vllm/sampling_params/), which say how the engine chooses tokens: `max_tokens` ends the answer, and with `temperature` 0 the likeliest token is taken. They are JSON in a string.

# %% tags=["triton"]
import json
import os

import requests


def ask(prompt, model="vllm_model", **sampling):
    """The server's reply to one prompt, or its error."""
    url = f"http://{os.environ['TRITON_HTTP']}/v2/models/{model}/generate"
    body = {"text_input": prompt, "sampling_parameters": json.dumps(sampling)}
    body["exclude_input_in_output"] = True  # else the answer begins with the prompt
    body["return_num_output_tokens"] = True
    return requests.post(url, json=body, timeout=300).json()


ask("A class definition", max_tokens=16, temperature=0)

# %% [markdown]
# ## Eight clients
#
# vLLM computes in *steps*. A step writes the next token of each request that is in the batch. So eight clients can share each step.
#
# We compare one client with eight. A client sends its next request when it has its answer. Answers have 8 to 96 tokens, because those of real users differ, too.

# %%
predict(
    "llm.together",
    "8 clients at once: how many times the tokens per second of a single client?",
    unit="×",
)

# %% tags=["triton"]
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

lengths = np.random.default_rng(0).permutation(np.geomspace(8, 96, 24).round().astype(int))


def tokens_per_second(clients, model="vllm_model"):
    def one(tokens):  # ignore_eos: the model cannot end its answer before max_tokens
        ask("def f(x):", model, max_tokens=int(tokens), temperature=0, ignore_eos=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, lengths))
    return lengths.sum() / (time.perf_counter() - began)


# %% tags=["triton"]
import pandas as pd

ways = {"1 client": 1, "8 clients": 8}
rounds = pd.DataFrame({name: tokens_per_second(n) for name, n in ways.items()} for _ in range(3))
rate = rounds.max()
rounds.round(1)  # three rounds of the same 24 requests; the best one counts

# %%
gain = rate["8 clients"] / rate["1 client"]
compare("llm.together", gain, unit="×", premise=measured.repeated(rounds))
claim(
    measured.as_expected(gain),
    f"8 clients get {gain:.1f} times the tokens per second of one.",
    "Close other programs, and run the cell before this one again.",
    premise=measured.repeated(rounds),
    id="llm.together",
)

# %% [markdown]
# How can that be? If eight clients get ×4, a step for eight requests takes at most 8 / 4 = 2 times as long as a step for one. So each user waits at most twice as long, and the server writes four times as much.

# %% [markdown]
# Answers differ in length. In a *static* batch, eight requests would begin together, and the next eight would wait for the longest answer. vLLM decides anew at each step who is in the batch: a new request takes the place of one that is done. This is *continuous batching*: while requests wait, no place in the batch stays empty.

# %% [markdown]
# ## A config from a slide
#
# Where does one limit the length of prompts and answers? [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) do it in the config below. Beside it they save the weights and the *tokenizer*, which cuts text into tokens (not run here: this downloads them):
#
# ```python
# name, folder = "facebook/opt-125m", "./vllm_model"
# AutoTokenizer.from_pretrained(name).save_pretrained(folder)
# AutoModelForCausalLM.from_pretrained(name).save_pretrained(folder)
# ```

# %%
show("models/vllm_model/config.as_printed.pbtxt")
predict(
    "llm.parameters",
    "model_checkpoint, max_input_length, max_output_length: what does the backend make of them?",
    {
        "it obeys them": "Then an answer would end after 128 tokens. Which keys are read is up to "
        "the backend's own program.",
        "it refuses them": "Parameters are any pairs of texts. The core passes them on, and does "
        "not know which keys a backend reads.",
        "it ignores them": None,
    },
)

# %% [markdown]
# A second model, `narrow`, gets this config. We correct what each message of the server names, until it loads the model (half a minute). The three parameters stay as printed. `narrow` has a `model.json`, too, with two engine arguments more. Read the two refusals:

# %%
narrow = {"max_model_len": 200, "max_num_seqs": 1}
printed = documents.HERE / "vllm_model/config.as_printed.pbtxt"
corrected = documented.correct(lab, "narrow", printed, documents.steps(models, "narrow", **narrow))
corrected

# %% tags=["triton"]
import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
client.load_model("narrow")
# More than max_output_length. ignore_eos: the model cannot end its answer before.
longer = ask("A list", "narrow", max_tokens=140, temperature=0, ignore_eos=True)
tokens = longer["num_output_tokens"]
print(tokens, "tokens:", longer["text_output"][:60])

# %%
ignored = "it ignores them" if tokens == 140 else "it obeys them"
compare("llm.parameters", ignored, premise=Premise(tokens > 0, "the model did not answer"))
claim(
    tokens == 140,
    f"After {len(corrected.refused)} refusals the config is loaded. An answer of {tokens} tokens came, "
    "though max_output_length says 128.",
    "Run the cells of this section again.",
    id="llm.document",
)

# %% [markdown]
# The backend ignores these keys, and nothing warns you. Two limits work: the engine argument `max_model_len`, for prompt and answer together, and the sampling parameter `max_tokens` of each request.
#
# <details><summary>Errata: the backend slides</summary>
#
# Engine arguments belong in `1/model.json`; `model` is a folder, or a name on Hugging Face's hub. The tensors have names of the backend's own. `max_batch_size` is 0.
#
# </details>

# %% [markdown]
# ## Engine arguments
#
# These matter most:
#
# - `max_model_len`: most tokens of a prompt and its answer.
# - `max_num_seqs`: most requests in one step.
# - `gpu_memory_utilization`: the engine's share of the GPU's memory; 0.92 if you do not change it.
# - `disable_log_stats`: with `true`, no metrics.
#
# `narrow` has `max_num_seqs` 1. Eight clients ask `vllm_model`, then `narrow`. How many requests are in a step, at most?

# %%
client.load_model("narrow")
at_once = {name: measured.most_running(lab, name) for name in ("vllm_model", "narrow")}
print("Requests under way, at most:", at_once)

# %%
counted = Premise(min(at_once.values()) > 0, "the engine's metric did not come in time")
claim(
    at_once["narrow"] == 1 < at_once["vllm_model"],
    f"8 clients ask: {at_once['vllm_model']} requests are under way, with max_num_seqs 1 only one.",
    "Run the cell before this one again.",
    premise=counted,
    id="llm.arguments",
)

# %% [markdown]
# ## Metrics
#
# The config's parameter `REPORT_CUSTOM_METRICS` puts the engine's own counts on the [metrics port](../../1_architecture/08__metrics/08__metrics.ipynb). We read them while eight clients ask `narrow`. How many requests wait? And do eight clients still gain, if they cannot share a step? Compare with the table of [Eight clients](#Eight-clients):

# %% tags=["triton"]
client.load_model("narrow")
with ThreadPoolExecutor(1) as pool:
    speed = pool.submit(tokens_per_second, 8, "narrow")
    time.sleep(0.7)  # the clients are busy for longer
    lines = requests.get(f"http://{os.environ['TRITON_METRICS']}/metrics").text.splitlines()
    print(f"narrow, 8 clients: {speed.result():.0f} tokens per second")
counts = ("num_requests_running", "num_requests_waiting", "generation_tokens_total")
for line in lines:
    if 'model="narrow"' in line and any(f":{count}{{" in line for count in counts):
        print(line)
client.unload_model("narrow")  # frees its engine's memory

# %% [markdown]
# ## TensorRT-LLM
#
# NVIDIA's own engine, for its GPUs only. You copy [NVIDIA's folder](https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi): a program `1/model.py` for the Python backend, and the engine's arguments in `1/model.yaml`. Our `model.py` has only the program's import. What does this machine lack for it?

# %% language="bash" tags=["triton"]
# cp -rT models/tensorrt_llm $TRITON_MODELS/tensorrt_llm
# cat models/tensorrt_llm/1/model.yaml
# curl -sX POST $TRITON_HTTP/v2/repository/models/tensorrt_llm/load | grep -o 'No module named[^\\]*' || true

# %% [markdown]
# It lacks the package, which the image `trtllm-python-py3` has, and a GPU.
#
# In older guides, such as the slides, commands first *build* an engine, for one kind of GPU:
#
# ```
# transformers-cli download facebook/opt-125m
# trtllm-build --hf-model=./facebook_opt-125m --engine=./model.plan
#   --max-seq-len=512 --precision=fp16 --batch-size=8
# ```
#
# We correct the slides' config step by step, and print each message. Without a GPU, a program of this course answers for NVIDIA's backend: it checks the required parameters.

# %%
of_slides = documents.HERE / "trt_llm_model/config.as_printed.pbtxt"
engine = documented.correct(lab, "trt_llm_model", of_slides, documents.engine_steps(models))
for step, error in engine.errors.items():
    print(f"{step}: {error.what if error else 'loaded'}\n")

# %%
options = documents.build()
lacking = next(each for each in lab.index() if each["name"] == "tensorrt_llm").get("reason", "")
never = set(options["trtllm-build 0.14 has it"]) == {"no"}
only_a_gpu = "would refuse this config" not in engine.words("with the engine's folder")
claim(
    never and only_a_gpu and "No module named" in lacking,
    "trtllm-build 0.14 has none of the slides' options. The corrected config lacks only a GPU, "
    "and the folder for the LLM API only the package tensorrt_llm.",
    "Run the cells of this section again.",
    id="llm.engine",
)

# %% [markdown]
# <details><summary>Errata: the backend slides</summary>
#
# The first command filled a cache; the folder comes from `hf download facebook/opt-125m --local-dir facebook_opt-125m`.
#
# The options are not those of [0.14](https://github.com/triton-inference-server/server/blob/main/docs/introduction/compatibility.md) (release 24.10). There, `convert_checkpoint.py --dtype float16` came first. `trtllm-build` then had `--checkpoint_dir`, `--output_dir`, `--max_seq_len` and `--max_batch_size`.
#
# </details>
#
# Begin without a build: [since 1.3](https://nvidia.github.io/TensorRT-LLM/legacy/tensorrt-backend-removal.html), TensorRT-LLM reads the weights as they are. A built engine needs 1.2 or older ([guide](https://docs.nvidia.com/deeplearning/triton-inference-server/archives/triton-inference-server-2730/user-guide/docs/getting_started/llm.html)).

# %% [markdown]
# ## TensorRT or TensorRT-LLM?
#
# [TensorRT](../10__tensorrt/10__tensorrt.ipynb) compiles networks of any kind. TensorRT-LLM serves language models: it keeps what it has computed of earlier tokens, and batches per step, like vLLM. It is optimized for NVIDIA's GPUs. vLLM reads the same weights, so you can measure both. In the slides' table of TensorRT and TensorRT-LLM, these three rows changed most:

# %%
documents.compared().loc[["inputs", "format", "tool"]]

# %% [markdown]
# ## Your turn
#
# The next cell shows the folder `assistant`, which the server refuses. Both files have mistakes. Correct them in new cells, which begin with `%%writefile {models}/assistant/1/model.json`, or `…/assistant/config.pbtxt`. Then `lab.load("assistant")` says what is still wrong.

# %%
from task import assistant

assistant(models)  # writes the folder, unless it is there
show(models / "assistant/config.pbtxt", models / "assistant/1/model.json")
task("llm.assistant", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# `my_llm` is for a GPU, in the image `vllm-python-py3` ([start](../14__images/14__images.ipynb#Which-one-to-take); not run here). The arguments for a CPU are gone.
#
# `clients.py` measures how many clients a model serves well. Take the most whose answers are fast enough, and set `max_num_seqs` to this number.

# %%
show("at_work/my_llm/1/model.json", "at_work/clients.py")

# %% tags=["triton"]
# %run at_work/clients.py vllm_model 1 4 16

# %% [markdown]
# ## What to remember
#
# - A vLLM model is two small files: `config.pbtxt` names the backend, `1/model.json` has the engine arguments. The backend fills in the rest.
# - The engine makes the batches, anew at each step. So many clients share one copy of the weights.
# - The backend ignores parameters that it does not read. Test your limits with a request.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A team puts <code>dynamic_batching</code> into the config of its vLLM model, to make it faster. What does it gain?</summary>
#
# Nothing: the engine batches, per step. Dynamic batching needs a `max_batch_size` above 0, which the backend refuses.
#
# </details>
#
# <details><summary>Two vLLM models shall share one GPU. The second one does not load. Why?</summary>
#
# The first has taken 92 % of the memory: the default of `gpu_memory_utilization`. Give both models a value, together below 1.
#
# </details>
#
# <details><summary>Eight users ask at once, and the metrics show <code>num_requests_running</code> 1 and <code>num_requests_waiting</code> 7. Where do you look?</summary>
#
# Into `1/model.json`: `max_num_seqs` is 1, as in `narrow`.
#
# </details>
#
# Next: [ensembles](../12__ensembles/12__ensembles.ipynb).
