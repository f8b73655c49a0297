# ---
# title: LLM backends
# minutes: 17
# ---

# %% [markdown]
# # LLM backends
#
# **Question.** A language model writes token by token, and its answers differ in length. Which backends are made for that, what do they need, and gain over Transformers in a Python model?
#
# Each engine of vLLM takes up to 3 GB here; two run at a time, beside that of `make lab`: stop it.

# %%
import time
from pathlib import Path

from IPython.display import display

import documents
import measured
import setup
from workbook.lessons import claim, compare, folder, laboratory, mistakes, predict, show, task
from workbook.lessons.shared import documented

models = folder("llm_backends")  # an empty folder: files of an earlier run are deleted
lab = laboratory(models, only=[])
print(setup.engine())
# from workbook.server import connect; connect().unload("llama_vllm")  # that of `make lab`

# %% [markdown]
# | backend | fits | gains little, or does not fit |
# |---|---|---|
# | vLLM | Hugging Face weights, many clients | classifiers, a single client, very small networks |
# | TensorRT-LLM | the same, on NVIDIA's GPUs | CPUs |
# | Python | a loop of your own | many clients |
#
# ## A config from a slide
#
# [The backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) first save tokenizer and weights (not run: this downloads them), then show a config:
#
# ```python
# name, folder = "facebook/opt-125m", "./vllm_model"
# AutoTokenizer.from_pretrained(name).save_pretrained(folder)
# AutoModelForCausalLM.from_pretrained(name).save_pretrained(folder)
# ```

# %%
printed = Path("models/vllm_model/config.as_printed.pbtxt")
show(printed)
predict(
    "llm.parameters",
    "It has three parameters: model_checkpoint, max_input_length, max_output_length. What does "
    "the backend make of them?",
    {
        "it obeys them": "Then an answer would end after 128 tokens. Which keys are read is up to "
        "the backend's own program.",
        "it refuses them": "Parameters are any pairs of texts. The core passes them on, and does "
        "not know which keys a backend reads.",
        "it ignores them": None,
    },
)

# %%
began = time.perf_counter()  # this cell takes one to two minutes
steps = documents.steps(models)
corrected = documented.correct(lab, "vllm_model", printed, steps)
load_s = time.perf_counter() - began
corrected

# %% [markdown]
# > **Errata.** Engine arguments are in `1/model.json`; `model` is a folder or the hub's name. Tensors have [names of the backend's own](https://github.com/triton-inference-server/vllm_backend/blob/main/src/model.py), and it fills them in. The engine makes the batches. The backend reads other parameters, such as `REPORT_CUSTOM_METRICS`: the engine's counts on the metrics port. vLLM runs on CPUs.
#
# What a config needs (`KIND_MODEL`: the engine chooses its devices):

# %%
from workbook.lessons import Premise, attempt, place

show("models/vllm_model/config.pbtxt", models / "vllm_model/1/model.json")
filled = lab.config("vllm_model")
inputs = [each["name"] for each in filled["input"]]
print(inputs)
longer = setup.generate(lab, "vllm_model", "A list", max_tokens=140, temperature=0, ignore_eos=True)
made = "it ignores them" if longer["out"] == 140 else "it obeys them"
compare("llm.parameters", made, premise=Premise("out" in longer, "the model did not answer"))
batches, policy = filled["max_batch_size"], filled["model_transaction_policy"]
claim(
    made == "it ignores them" and batches == 0 and policy["decoupled"],
    f"After {len(corrected.refused)} refusals it is loaded: {len(inputs)} inputs, no batches, "
    f"decoupled. An answer of {longer['out']} tokens came, though max_output_length says 128.",
    "Run the cells of this section again.",
    id="llm.document",
)

# %% [markdown]
# Only `text_input` is needed. `return_finish_reason` and counts came [in 24.12](../14__images/14__images.ipynb#Your-release-has). `infer` cannot ask a decoupled model; `generate` (without `stream`), `generate_stream` and gRPC's stream can ([generate](../../1_architecture/11__generate/11__generate.ipynb)). `generate` returns the prompt unless `exclude_input_in_output` is true.
#
# ## Sampling, and streams
#
# `sampling_parameters` is JSON, with the names of vLLM's [SamplingParams](https://docs.vllm.ai/en/v0.32.0/api/vllm/sampling_params/). Temperature 0 takes the likeliest token; a `seed` repeats a draw, `stop` ends the answer.

# %%
prompt, drawn = "A class definition", {"max_tokens": 16, "temperature": 0.8, "top_p": 0.9}
likeliest = setup.generate(lab, "vllm_model", prompt, max_tokens=16, temperature=0)["text"]
replies = setup.answers(lab, "vllm_model", prompt, {
    "temperature 0": {"max_tokens": 16, "temperature": 0},
    "top_k 1": {**drawn, "top_k": 1},
    "seed 1": {**drawn, "seed": 1},
    "seed 1 again": {**drawn, "seed": 1},
    "seed 2": {**drawn, "seed": 2},
    "stop": {"max_tokens": 16, "temperature": 0, "stop": [likeliest[5:8]]},
})  # fmt: skip
replies.style.set_properties(**{"text-align": "left", "white-space": "pre-wrap"})

# %%
pieces = setup.stream(lab, "vllm_model", prompt, max_tokens=16, temperature=0)
text = replies["text"]
same = text["temperature 0"] == text["top_k 1"] == "".join(pieces["text"])
repeated = text["seed 1"] == text["seed 1 again"]
claim(
    same and repeated and replies.loc["stop", "reason"] == "stop",
    f"The likeliest tokens are the same whole and in {len(pieces)} pieces; a seed repeats a draw.",
    "Run the cell above again.",
    id="llm.sampling",
)
pieces.round(1).head()

# %% [markdown]
# ## Engine arguments
#
# All of vLLM's [engine arguments](https://docs.vllm.ai/en/v0.32.0/configuration/engine_args/) may stand in model.json. The table has those that decide most ("–": vLLM chooses the value itself, by the model or the machine). Two are tried first: a second model, `narrow`, takes 64 tokens per request, and one request at a time. This takes about a minute.

# %%
setup.write_model(models, "narrow", max_model_len=64, max_num_seqs=1)
lab.load("narrow")
for name in ("vllm_model", "narrow"):
    print(name, setup.generate(lab, name, setup.long_prompt(100), max_tokens=4))
at_once = {name: measured.most_running(lab, name) for name in ("vllm_model", "narrow")}
lab.unload("narrow")  # frees its engine's memory
counted = Premise(min(at_once.values()) > 0, "the engine's metric did not come in time")
claim(
    at_once["narrow"] == 1 < at_once["vllm_model"],
    f"8 clients ask: {at_once['vllm_model']} requests are under way, with max_num_seqs 1 only one.",
    "Run this cell again.",
    premise=counted,
    id="llm.arguments",
)
documents.arguments().style.set_properties(**{"text-align": "left", "white-space": "pre-wrap"})

# %% [markdown]
# ## Typical mistakes
#
# Five in the files, which takes about a minute, then three in requests:

# %%
tries = {
    "no model.json": lambda home: (home / "1/model.json").unlink(),
    "a comma too many": setup.comma,
    "an older name": setup.argument("disable_log_requests", True),
    "too long a context": setup.argument("max_model_len", 4096),
    "a GPU that is not there": mistakes.config("KIND_MODEL", "KIND_GPU gpus: [ 99 ]"),
}
broken = mistakes.provoke(lab, "narrow", tries)
broken

# %%
wrong = {"max_token": 8}, {"max_tokens": 8, "temperature": "hot"}
messages = [setup.refused_prompt(lab, "vllm_model", "A list is", **each) for each in wrong]
messages.append(setup.refused_prompt(lab, "vllm_model", setup.long_prompt(600)))
print(*messages, sep="\n\n")
rules = {error.rule for error in broken.refused.values()}
helped = all("to do" in each for each in messages)
claim(
    len(rules) == 5 and "" not in rules and helped,
    "All five folders and all three requests are refused, each for a reason of its own.",
    "Run both cells again.",
    id="llm.mistakes",
)

# %% [markdown]
# ## Eight clients
#
# In a static batch, as `generate` of Transformers makes it, all wait for the longest answer. vLLM decides anew at each token who is in the batch: *continuous batching*. Here answers have 8 to 96 tokens. `spread` is the best of three rounds over the second best. The measurement takes one to three minutes.

# %%
predict(
    "llm.together",
    "8 clients at once: how many times the tokens per second of a single client?",
    unit="×",
)

# %%
speeds = attempt(lambda: measured.speeds(lab, "vllm_model"), measured.repeated)
rate = speeds["tokens per s"]
gain = rate["served, 8 clients"] / rate["served, 1 client"]
beside = rate["served, 8 clients"] / rate["in-process, batches of 8"]
step_ms = 1000 / rate  # per token
compare("llm.together", gain, unit="×", premise=measured.repeated(speeds))
claim(
    measured.as_expected(gain),
    f"8 clients get {gain:.1f} times the tokens per second of one. That is {beside:.0%} of what "
    "Transformers makes in this process, in static batches. For a single client, a token takes "
    f"{step_ms['served, 1 client']:.1f} ms in the server, {step_ms['in-process, one by one']:.1f} "
    "ms with Transformers.",
    "Close other programs, and run this cell again.",
    premise=measured.repeated(speeds),
    id="llm.together",
)
speeds.round(1)

# %% [markdown]
# Below 100 %, vLLM is slower than static batches: in so small a network the engine's own work decides. With 40 million parameters and 8 clients (`BENCHMARKS.md`, November 2026):
#
# | tokens per second | equal lengths | mixed lengths |
# |---|---|---|
# | Transformers, static | 337 | 111 |
# | vLLM, static | 654 | 308 |
# | vLLM | 706 | 590 |
#
# [The Llama page](../../00__start/00__start.ipynb#The-documents-behind-the-course) measured 363 against 66.5 with Llama 2 7B, on an A10G.

# %% [markdown]
# ## Metrics
#
# Triton counts requests. The engine counts tokens, on the same [port](../../1_architecture/08__metrics/08__metrics.ipynb):

# %%
before = measured.count(lab, "vllm_model", "generation_tokens_total")
inside = setup.generate(
    lab, "vllm_model", "def f(x):", max_tokens=24, temperature=0, ignore_eos=True
)
after = measured.count(lab, "vllm_model", "generation_tokens_total", least=before + 24)
print(f"corrected and loaded in {load_s:.0f} s, {measured.memory_mb(lab, 'vllm_model'):.0f} MB")
alike = inside["text"] == measured.generate(["def f(x):"], 24)[0]
claim(
    after - before == 24 and alike,
    "The engine counted 24 tokens more. Transformers in this process writes the same ones.",
    "Run this cell again.",
    id="llm.metrics",
)
measured.counts(lab, "vllm_model").round(3)

# %% [markdown]
# On a GPU (not verified), leave `dtype`, `enforce_eager` out. vLLM reserves `gpu_memory_utilization` of the memory, by default 92 % (vLLM 0.32): two models need smaller shares. A model too large for one GPU takes `tensor_parallel_size`.
#
# <details><summary>Adapters, chats, cancelling, and the memory of keys and values</summary>
#
# The [backend](https://github.com/triton-inference-server/vllm_backend/blob/main/src/model.py) reads LoRA adapters from `multi_lora.json`, and ends a request whose client closes its stream. Clients apply the chat template, or (from 24.12 on) NVIDIA's [OpenAI front end](https://github.com/triton-inference-server/server/blob/main/python/openai/README.md) does. Keys and values of Llama 2 7B in fp16 take 0.5 MB per token (2 × 32 layers × 4,096 numbers × 2 bytes), of up to [`max_num_seqs`](https://docs.vllm.ai/en/v0.32.0/configuration/engine_args/) requests.
#
# </details>
#
# ## TensorRT-LLM
#
# The slides download a model and build an engine so. Release 24.10 has TensorRT-LLM [0.14](https://github.com/triton-inference-server/server/blob/main/docs/introduction/compatibility.md):

# %%
options = documents.build()
steps = documents.engine_steps(models)
of_slides = Path("models/trt_llm_model/config.as_printed.pbtxt")
engine = documented.correct(lab, "trt_llm_model", of_slides, steps)
place(models, "models/tensorrt_llm")
package = mistakes.refusal(lab, "tensorrt_llm")
never = set(options["trtllm-build 0.14 has it"]) == {"no"}
only_a_gpu = "would refuse this config" not in engine.words("where the engine is")
claim(
    never and only_a_gpu and "TensorRT-LLM is not installed" in package,
    "trtllm-build 0.14 has none of these options. The corrected config lacks only a GPU, "
    "and the folder for the LLM API (below) only the package tensorrt_llm.",
    "Run this cell again.",
    id="llm.engine",
)
print(documents.DOWNLOAD, documents.BUILD, sep="\n\n")
show(of_slides, "models/tensorrt_llm/config.pbtxt", "models/tensorrt_llm/1/model.yaml")
display(engine, options)

# %% [markdown]
# > **Errata.** `transformers-cli download` filled a cache (now `transformers download`); the folder comes from `hf download facebook/opt-125m --local-dir facebook_opt-125m`. Engines took two commands, `convert_checkpoint.py` and `trtllm-build`. TensorRT-LLM [1.3 has neither](https://nvidia.github.io/TensorRT-LLM/legacy/tensorrt-backend-removal.html): it reads Hugging Face weights. [NVIDIA's folder](https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend/all_models/llmapi) has `backend: "python"`, `1/model.py` and `1/model.yaml`, as shown above. Containers of 26.07 have [1.2](https://docs.nvidia.com/deeplearning/triton-inference-server/archives/triton-inference-server-2730/user-guide/docs/getting_started/llm.html), with both ways. Not verified on a GPU.

# %% [markdown]
# ## TensorRT or TensorRT-LLM?
#
# The backend slides compare eleven characteristics (`documents.compared()` shows all). Three rows have changed most:

# %%
documents.compared().loc[["inputs", "format", "tool"]]

# %% [markdown]
# The slides call vLLM simple, and TensorRT-LLM optimized for NVIDIA's GPUs. Today both read the same weights without a build, so measure both on your GPU.
#
# ## Your turn
#
# The next cell writes a folder `assistant`, unless it is there. It was put together from several sources. Correct its two files, and load it.

# %%
from task import assistant

assistant(models)
task("llm.assistant", server=lab)

# %% [markdown]
# ## What to remember
#
# - vLLM: two small files. `model.json` has the engine's arguments; tensors, decoupled and batch size are filled in.
# - Continuous batching gains with many clients and answers of different lengths, if the network is large enough that its steps take longer than the engine's own work.
# - TensorRT-LLM builds no engines any more. Look at the version in your container.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Two vLLM models shall share one GPU. The second one does not load. Why?</summary>
#
# The first one has reserved 92 % of the memory, mostly for keys and values. Give both a `gpu_memory_utilization`, together below 1.
#
# </details>
#
# <details><summary>A team puts <code>dynamic_batching</code> into the config of its vLLM model, to make it faster. What does it gain?</summary>
#
# Nothing. The backend takes requests as they come, and the engine batches per token. Dynamic batching needs a max_batch_size above 0, which the backend refuses.
#
# </details>
#
# <details><summary>A service has one user at a time, and short answers. Is vLLM worth it?</summary>
#
# Measure both. With one user there is nothing to batch, and the engine costs memory and a long start. A Python model may be enough; vLLM gains with many clients.
#
# </details>
#
# Next: [ensembles](../12__ensembles/12__ensembles.ipynb).
