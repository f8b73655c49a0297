# ---
# title: LLM backends
# minutes: 30
# ---

# %% [markdown]
# # LLM backends
#
# **Question.** A language model writes one token (a word or a part of one) after the other. What do backends made for that gain over Hugging Face's Transformers, and what must you write?
#
# This takes up to 6 GB. With less than 16 GB, run the next cell's last line without `#`: it unloads `make lab`'s model.

# %%
import documents  # the slides' configs and tables
import measured  # the engine's metrics, and Transformers in this process
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words
from workbook.lessons.shared import documented

models = folder("llm_backends")  # an empty folder: files of an earlier run are deleted
setup.write_model(models)  # the folder vllm_model: the two files below, and the weights
lab = laboratory(models, only=[])  # a Triton server of this notebook's own
print(setup.engine())  # without `make vllm`, Transformers answers in vLLM's place
# from workbook.server import connect; connect().unload("llama_vllm")

# %% [markdown]
# ## Two files
#
# [vLLM](https://docs.vllm.ai/en/v0.32.0/configuration/engine_args/) is an *engine*: a program that holds the weights, and computes the next token of many requests together. Triton's vLLM backend starts one per model. You write only a config, and `model.json` with the engine's arguments: here the weights' folder, relative to the repository (a Llama of 5 million parameters), and two arguments for a CPU.

# %%
show("models/vllm_model/config.pbtxt", "models/vllm_model/1/model.json")

# %% language="bash" tags=["triton"]
# time curl -sX POST $TRITON_HTTP/v2/repository/models/vllm_model/load
# curl -s $TRITON_HTTP/v2/models/vllm_model/config | grep -oE '"max_batch_size":.|"decoupled":\w+'
# curl -s $TRITON_HTTP/v2/models/vllm_model | grep -oE '"name":"\w+"' | tr '\n' ' '

# %% [markdown]
# The backend has filled in the rest: the [tensors](https://github.com/triton-inference-server/vllm_backend/blob/main/src/model.py), `decoupled`, because an answer comes in pieces, and `max_batch_size` 0, because the engine makes the batches.
#
# ## Asking
#
# `generate` gives the whole answer, `generate_stream` the pieces ([generate](../../1_architecture/11__generate/11__generate.ipynb)). `sampling_parameters` is JSON in a text, so its quotes are escaped; its names are those of vLLM's [SamplingParams](https://docs.vllm.ai/en/v0.32.0/api/vllm/sampling_params/).

# %% language="bash" tags=["triton"]
# model=$TRITON_HTTP/v2/models/vllm_model
# sampling='"sampling_parameters": "{\"max_tokens\": 12, \"temperature\": 0}"'
# curl -s $model/generate -d '{"text_input": "A class definition", '"$sampling"'}'
# echo; echo
# curl -sN $model/generate_stream \
#   -d '{"text_input": "A class definition", "stream": true, '"$sampling"'}' | head -6
# # whole answers begin with the prompt, unless "exclude_input_in_output" is true

# %% tags=["triton"]
import json
import os
import subprocess

import requests
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
WANTED = ("exclude_input_in_output", "return_finish_reason", "return_num_output_tokens")


def ask(prompt, model="vllm_model", **sampling):
    """The answer: `text_output`, `finish_reason`, `num_output_tokens`; or `error`."""
    url = f"http://{os.environ['TRITON_HTTP']}/v2/models/{model}/generate"
    body = {"text_input": prompt, "sampling_parameters": json.dumps(sampling)}
    return requests.post(url, json=body | dict.fromkeys(WANTED, True), timeout=300).json()


# %% [markdown]
# How does the engine choose a token? With `temperature` 0 it takes the likeliest. Else it draws: from the `top_k` likeliest, or from those that together have the probability `top_p`; `seed` begins the draws. A text in `stop` ends the answer, and is left out. `finish_reason` is `length` if `max_tokens` has ended it.

# %% tags=["triton"]
prompt, drawn = "A class definition", {"max_tokens": 16, "temperature": 0.8, "top_p": 0.9}
likeliest = ask(prompt, max_tokens=16, temperature=0)
end = likeliest["text_output"][5:8]  # some characters of this answer, as a text to stop at
answers = {
    "temperature 0": likeliest,
    "top_k 1": ask(prompt, **drawn, top_k=1),  # draws from one token
    "seed 1": ask(prompt, **drawn, seed=1),
    "seed 1 again": ask(prompt, **drawn, seed=1),
    "seed 2": ask(prompt, **drawn, seed=2),
    f"stop {end!r}": ask(prompt, max_tokens=16, temperature=0, stop=[end]),
}
for name, answer in answers.items():
    print(f"{name:16}{answer['finish_reason']:8}{answer['text_output']!r}")

# %%
claim(
    answers["temperature 0"]["text_output"] == answers["top_k 1"]["text_output"]
    and answers["seed 1"]["text_output"] == answers["seed 1 again"]["text_output"]
    and answers[f"stop {end!r}"]["finish_reason"] == "stop",
    "Where one token can be drawn, it is the likeliest; a seed repeats a draw; stop ends an answer.",
    "Run the cell above again.",
    id="llm.sampling",
)

# %% [markdown]
# ## Eight clients
#
# Transformers computes a *static* batch: eight prompts begin together, and the next eight wait for the longest answer. vLLM decides anew at each token who is in the batch, so a new request takes the place of one that is done: *continuous batching*. Here answers have 8 to 96 tokens.

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


def tokens_per_second(clients, count):
    """Send `count` requests; each client sends its next one when it has its answer."""

    def one(tokens):
        # ignore_eos: the model cannot end its answer before max_tokens
        return ask("def f(x):", max_tokens=int(tokens), temperature=0, ignore_eos=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, lengths[:count]))
    return lengths[:count].sum() / (time.perf_counter() - began)


# %% tags=["triton"]
import pandas as pd

ways = {"served, 1 client": (1, 8), "served, 8 clients": (8, 24)}
speeds = pd.DataFrame({name: tokens_per_second(*way) for name, way in ways.items()} for _ in "123")
speeds.round(1).T  # three rounds, because other programs may disturb one of them

# %%
# The same answers by Transformers in this process, in static batches of 8
rounds = speeds.join(measured.static(lengths, batch=8))
rate = rounds.max()
display(measured.steps(lengths, rate).round(1))  # a step writes one token for each row of a batch
shown = rate.rename({"Transformers": "Transformers, batches of 8"}).to_frame("tokens per s")
measure.plot_bars(shown, title="The best of three rounds", below="tokens per second")

# %%
gain = rate["served, 8 clients"] / rate["served, 1 client"]
beside = rate["served, 8 clients"] / rate["Transformers"]
compare("llm.together", gain, unit="×", premise=measured.repeated(rounds))
claim(
    measured.as_expected(gain),
    f"8 clients get {gain:.1f} times the tokens per second of one. That is {beside:.0%} of what "
    "Transformers makes in this process, in static batches.",
    "Close other programs, and run this cell again.",
    premise=measured.repeated(rounds),
    id="llm.together",
)

# %% [markdown]
# Eight rows take far less than eight times as long as one: see `ms per step`. And *continuous batching* needs fewer steps than static batches, because no row waits for the longest answer. If Transformers is as fast all the same, its steps are shorter: it runs in this process, without a server, and 5 million parameters are few.

# %% [markdown]
# With 40 million parameters (`BENCHMARKS.md`), Transformers behind a dynamic batcher writes 111 tokens per second, vLLM in static batches 308, vLLM 590.
#
# <details><summary>The Llama page</summary>
#
# [It](../../00__start/00__start.ipynb#The-documents-behind-the-course) has 66.5 for the first and 363 for the last, with Llama 2 7B on an A10G: ×5.5. Above it is ×5.3, of which ×2.8 is the engine, and ×1.9 continuous batching.
#
# </details>
#
# ## Metrics
#
# Because of `REPORT_CUSTOM_METRICS`, the engine's counts are on the [metrics port](../../1_architecture/08__metrics/08__metrics.ipynb). While `num_requests_waiting` is above 0, the engine is full; sum / count is the mean wait for a first token:

# %% language="bash" tags=["triton"]
# curl -s $TRITON_METRICS/metrics | grep -E '^\w+:(generation_tokens|num_requests_(run|wait)|time_to_first)' |
#   grep -vE '_bucket|_created'

# %% [markdown]
# ## A config from a slide
#
# Where does one limit the length of prompts and answers? [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) do it in the config. They put tokenizer and weights beside it (not run here: this downloads them):
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

# %%
# A model `narrow` gets this config. What each message names is corrected, until the server takes it
# (half a minute). In its model.json we write two limits of our own.
narrow = {"max_model_len": 200, "max_num_seqs": 1}
printed = documents.HERE / "vllm_model/config.as_printed.pbtxt"
corrected = documented.correct(lab, "narrow", printed, documents.steps(models, "narrow", **narrow))
corrected

# %% tags=["triton"]
client.load_model("narrow")  # ask for more than 128 tokens; ignore_eos: no end before them
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
# The backend ignores these keys, and nobody warns. Limits are engine arguments (`max_model_len`) or sampling parameters (`max_tokens`).
#
# <details><summary>Errata: the backend slides</summary>
#
# Engine arguments belong in `1/model.json`; `model` is a folder or the hub's name. Tensors have names of the backend's own. `max_batch_size` is 0.
#
# </details>
#
# ## Engine arguments
#
# Eight clients ask `vllm_model`, then `narrow`, which has `max_num_seqs` 1. How many requests run together? The table has the [arguments](https://docs.vllm.ai/en/v0.32.0/configuration/engine_args/) that decide most ("–": vLLM chooses). *Keys and values* are what attention keeps of each token.

# %%
at_once = {name: measured.most_running(lab, name) for name in ("vllm_model", "narrow")}
print("Requests under way, at most:", at_once)
documents.arguments().style.set_properties(**{"text-align": "left"})

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
# ## Typical mistakes
#
# Three wrong requests to `narrow`, then four copies of its folder, each changed by the command above its message. They are: no model.json, a comma too many, an argument that vLLM has not, and a context longer than the model's.

# %% tags=["triton"]
client.load_model("narrow")
wrong = [
    ask("in" + 299 * " in", "narrow", max_tokens=4),  # a prompt longer than max_model_len
    ask("A list is", "narrow", max_token=8),
    ask("A list is", "narrow", max_tokens=8, temperature="hot"),
]
print(*[reply["error"] for reply in wrong], sep="\n\n")

# %% tags=["triton"]
client.unload_model("narrow")  # frees its engine's memory
refused = []
for change in (
    "rm 1/model.json",
    "sed -i 's/true/true,/' 1/model.json",
    """sed -i 's/"dtype"/"disable_log_requests": true, "dtype"/' 1/model.json""",
    "sed -i 's/len\": [0-9]*/len\": 4096/' 1/model.json",
):
    copied = f"cp -rT narrow mistake; cd mistake; {change}"
    subprocess.run(copied, shell=True, check=True, cwd=models)
    try:
        client.load_model("mistake")
    except InferenceServerException as error:
        refused.append(error.message().replace(os.environ["TRITON_MODELS"], ""))
        print(f"$ {change}\n{refused[-1].partition('state: ')[2][:200].strip()}\n")

# %%
claim(
    len({*refused, *map(str, wrong)}) == 7,
    "All four folders and all three requests are refused, each for a reason of its own.",
    "Run the cell before this one again.",
    id="llm.mistakes",
)

# %% [markdown]
# <details><summary>On a GPU (not verified here)</summary>
#
# Leave out `dtype` and `enforce_eager`. vLLM reserves 92 % of the memory (`gpu_memory_utilization`): beside the weights for keys and values, 0.5 MB per token in Llama 2 7B in fp16 (2 × 32 layers × 4,096 numbers × 2 bytes).
#
# </details>
#
# ## TensorRT-LLM
#
# The other engine, for NVIDIA's GPUs only. You copy [NVIDIA's folder](https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi): a program `1/model.py` for the Python backend, and the engine's arguments in `1/model.yaml`. What does this machine lack for it?

# %% language="bash" tags=["triton"]
# cp -rT models/tensorrt_llm $TRITON_MODELS/tensorrt_llm
# cat models/tensorrt_llm/1/model.yaml
# curl -sX POST $TRITON_HTTP/v2/repository/models/tensorrt_llm/load | grep -o 'No module named[^\\]*' || true

# %% [markdown]
# The package, which the image `trtllm-python-py3` has, and a GPU.
#
# Older guides, such as the slides, *build* an engine first: until version 1.2, `trtllm-build` compiled the weights for one kind of GPU. The table has the slides' options; 0.14 is the version of release 24.10. Then their config is corrected.
#
# <details><summary>Which backend answers here, without a GPU?</summary>
#
# A program of this course. It checks the parameters that NVIDIA's backend requires, so that you can correct a config. Then it asks for a GPU.
#
# </details>

# %%
options = documents.build()
of_slides = documents.HERE / "trt_llm_model/config.as_printed.pbtxt"
engine = documented.correct(lab, "trt_llm_model", of_slides, documents.engine_steps(models))
display(options)
for step, error in engine.errors.items():
    print(f"{step}: {error.what if error else 'loaded'}\n")

# %%
lacking = next(each for each in lab.index() if each["name"] == "tensorrt_llm").get("reason", "")
never = set(options["trtllm-build 0.14 has it"]) == {"no"}
only_a_gpu = "would refuse this config" not in engine.words("with the engine's folder")
claim(
    never and only_a_gpu and "No module named" in lacking,
    "trtllm-build 0.14 has none of these options. The corrected config lacks only a GPU, "
    "and the folder for the LLM API only the package tensorrt_llm.",
    "Run the cells of this section again.",
    id="llm.engine",
)

# %% [markdown]
# <details><summary>Errata: the backend slides</summary>
#
# ```
# transformers-cli download facebook/opt-125m
# trtllm-build --hf-model=./facebook_opt-125m --engine=./model.plan
#   --max-seq-len=512 --precision=fp16 --batch-size=8
# ```
#
# The first command filled a cache; the folder comes from `hf download facebook/opt-125m --local-dir facebook_opt-125m`. In [0.14](https://github.com/triton-inference-server/server/blob/main/docs/introduction/compatibility.md) (release 24.10), `convert_checkpoint.py` came before `trtllm-build`.
#
# </details>
#
# So begin without a build. A built engine needs TensorRT-LLM up to 1.2, as in [images of 26.07](../14__images/14__images.ipynb#Your-release-has) ([guide](https://docs.nvidia.com/deeplearning/triton-inference-server/archives/triton-inference-server-2730/user-guide/docs/getting_started/llm.html)); [1.3 builds none](https://nvidia.github.io/TensorRT-LLM/legacy/tensorrt-backend-removal.html).
#
# ## TensorRT or TensorRT-LLM?
#
# [TensorRT](../10__tensorrt/10__tensorrt.ipynb) compiles networks of any kind, TensorRT-LLM serves language models. The slides compare them in eleven rows. These three changed most:

# %%
documents.compared().loc[["inputs", "format", "tool"]]

# %% [markdown]
# The slides call vLLM simple, TensorRT-LLM optimized. Both read the same weights today, so measure both on your GPU.
#
# ## Your turn
#
# The next cell writes a folder `assistant` with several mistakes, unless it is there, and shows it. Correct both files in new cells (`%%writefile {models}/assistant/1/model.json`). Then `lab.load("assistant")`: it says what is wrong still.

# %%
from task import assistant

assistant(models)
show(models / "assistant/config.pbtxt", models / "assistant/1/model.json")
task("llm.assistant", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# | you have | take |
# |---|---|
# | many clients, Hugging Face weights | vLLM; on GPUs, measure TensorRT-LLM, too |
# | an engine of `trtllm-build` | the weights that it was built from, and model.yaml |
# | your own loop over tokens | a Python model |
#
# `my_llm` is for the image `vllm-python-py3` ([start](../14__images/14__images.ipynb#Which-one-to-take); not run). Change `model` and `max_model_len`. If `num_requests_waiting` grows, raise `max_num_seqs`.

# %%
show("at_work/my_llm/config.pbtxt", "at_work/my_llm/1/model.json", "at_work/stream.py")

# %% tags=["triton"]
# %run at_work/stream.py vllm_model "A class definition"

# %% [markdown]
# ## What to remember
#
# - vLLM: two small files. `model.json` has the engine's arguments, limits too. The backend fills in the rest, and ignores parameters that it does not read.
# - Continuous batching saves steps where many clients want answers of different lengths. What that gains depends on network and engine.
# - TensorRT-LLM reads the same weights; since 1.3 it builds no engines.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Two vLLM models shall share one GPU. The second one does not load. Why?</summary>
#
# The first has reserved 92 % of the memory, mostly for keys and values. Give both a `gpu_memory_utilization`, together below 1.
#
# </details>
#
# <details><summary>A team puts <code>dynamic_batching</code> into the config of its vLLM model, to make it faster. What does it gain?</summary>
#
# Nothing: the engine batches, per token. Dynamic batching needs a max_batch_size above 0, which the backend refuses.
#
# </details>
#
# Next: [ensembles](../12__ensembles/12__ensembles.ipynb).
