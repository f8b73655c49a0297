# ---
# title: What goes wrong
# minutes: 27
# ---

# %% [markdown]
# # What goes wrong
#
# **Question.** A deployment has been made faster, and is to go live. Some mistakes stop it at once, some only make users unhappy. Which ones does the server find for you, and how do you find the others?
#
# We make each mistake on purpose, on a running server.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("wrong")
place(models, "../03__batching/models/batched", "../04__compile/models/compiled", "models/int8")
setup.prepare(models)  # the network's files, 200 pictures, and the right answers to them
lab = laboratory(models, only=["batched", "compiled"], cache=0)  # without a cache

# %% [markdown]
# ## What the server refuses
#
# `compiled` serves an ONNX file ([notebook 04](../04__compile/04__compile.ipynb)), `batched` a program in Python ([notebook 03](../03__batching/03__batching.ipynb)). Both networks take fp32. Four copies of them get a mistake each, in one line of the config. `kept` asks for a cache, and the server was started without one:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for model in onnx_half threads kept; do cp -rT compiled $model; done
# cp -rT batched python_half
# sed -i '0,/TYPE_FP32/s//TYPE_FP16/' {onnx,python}_half/config.pbtxt  # the first one: the input
# sed -i 's/intra_op_thread_count/intra_op_threads/' threads/config.pbtxt
# echo 'response_cache { enable: true }' >> kept/config.pbtxt

# %%
predict(
    "wrong.refused",
    "Which of the four models does the server refuse to load?",
    {
        "all four": "It can refuse only what it can compare with something. What would it compare "
        "the name of a parameter with, or the type in a Python program?",
        "onnx_half and python_half: the types are wrong": "The ONNX file says which type its input "
        "has. A program in Python says it nowhere.",
        "onnx_half only": None,
        "onnx_half, python_half and kept": "Only the ONNX file can be compared with its config. And "
        "a model that could be cached works without a cache, too.",
    },
)

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for model in onnx_half python_half threads kept; do
#   echo; echo "$model: "
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load -w 'HTTP %{http_code}\n'
# done | tee loads.txt

# %%
replies = setup.replies(models / "loads.txt")
refused = sorted(name for name, reply in replies.items() if "HTTP 200" not in reply)
which = {
    1: "onnx_half only",
    2: "onnx_half and python_half: the types are wrong",
    3: "onnx_half, python_half and kept",
    4: "all four",
}
compare(
    "wrong.refused",
    which.get(len(refused), "onnx_half only"),
    premise=Premise("onnx_half" in refused, "onnx_half was loaded"),
)
claim(
    refused == ["onnx_half"],
    "Of four wrong configs one is refused. The other three models are loaded.",
    "Run the cells from the first one of this section on again.",
    id="wrong.refused",
)

# %% [markdown]
# The server reads the config: its fields, and limits between them. Then the backend compares it with the model's file. Nobody checks what neither can compare: a type in a Python program, a cache that the server lacks, the name of a parameter. A backend [reads the names that it knows](https://github.com/triton-inference-server/onnxruntime_backend/blob/r24.10/src/onnxruntime.cc), and no others.

# %% [markdown]
# ## Read the message
#
# Three more that are refused. A message has several parts. Look for the one that names a field, a line or a file:

# %%
wrong = setup.mistakes(lab)
wrong

# %%
claim(
    len(wrong.refused) == 3 and setup.changed(lab, "compiled") == 0,
    "All three are refused. Nothing else is lost: compiled answers all 200 pictures as before.",
    "Run the cell above again.",
    id="wrong.message",
)

# %% [markdown]
# Earlier notebooks have provoked more: a [warm-up](../01__point_a/01__point_a.ipynb#Three-mistakes) of a wrong shape, [instances](../02__instances/02__instances.ipynb#Four-mistakes) larger than the memory, a [preferred batch](../03__batching/03__batching.ipynb#Three-mistakes) above `max_batch_size`, an [accelerator](../04__compile/04__compile.ipynb#Three-mistakes) that does not exist, a [cache](../07__cache/07__cache.ipynb#What-is-not-cached) on a decoupled model.
#
# ## What it cannot know
#
# `python_half` was loaded. Is it *ready*, and does it answer?

# %% tags=["triton"]
import os
import subprocess
import sys

import numpy as np
import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

address = os.environ["TRITON_GRPC"]
client = grpc.InferenceServerClient(address)
reference = np.load(models / "reference.npz")
pictures = list(reference["image"][:, None])


def tensor(array, name="image"):
    return grpc.InferInput(name, array.shape, "FP32").set_data_from_numpy(array)


# %% tags=["triton"]
replied = ""
try:
    client.infer("python_half", [tensor(pictures[0])])
except InferenceServerException as error:
    replied = error.message()
print("ready:", client.is_model_ready("python_half"))
print("a picture in fp32:", replied)

# %%
claim(
    client.is_model_ready("python_half") and "FP16" in replied,
    "python_half is ready, and refuses every picture of its users.",
    "Run the cells from the beginning on again.",
    id="wrong.ready",
)

# %% [markdown]
# *Ready* means: loaded. Only a request shows whether a model answers.
#
# Three deployments do answer, without any error. `alone` is `compiled` without a batcher: somebody lost the line. `kept` should answer from a cache. `int8` was calibrated by [this program](models/int8/quantize.py), and the network was trained on pixels between -1 and 1:

# %% tags=["triton"]
subprocess.run([sys.executable, models / "int8/quantize.py"], check=True)
# !grep PICTURES $TRITON_MODELS/int8/quantize.py

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT compiled alone; sed -i '/dynamic_batching/d' alone/config.pbtxt
# for model in int8 alone; do
#   curl -sX POST $TRITON_HTTP/v2/repository/models/$model/load
# done

# %% [markdown]
# Eight clients send the 200 pictures to each deployment, twice. Then we look: is it ready? How many pictures were in an execution? How many answers came from the cache? How many *verdicts*, sharp or blurred, are not those of the network?


# %% tags=["triton"]
import time
from concurrent.futures import ThreadPoolExecutor

import pandas as pd


def counts(model):
    time.sleep(0.2)  # the server counts a request a moment after its answer
    stats = client.get_inference_statistics(model).model_stats[0]
    hits = stats.inference_stats.cache_hit.count
    return np.array([stats.inference_count, stats.execution_count, hits])


def answered(model):
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda p: client.infer(model, [tensor(p)]).as_numpy("logits"), pictures)
        return np.concatenate(list(found))


# %% tags=["triton"]
looks = {}
for model in ("compiled", "alone", "kept", "int8"):
    before = counts(model)
    logits = [answered(model) for _ in range(2)][1]  # the same pictures twice
    computed, executions, hits = counts(model) - before
    looks[model] = {
        "ready": client.is_model_ready(model),
        "pictures per execution": round(computed / executions, 2),
        "cache hits": hits,
        "verdicts changed": (logits.argmax(1) != reference["logits"].argmax(1)).sum(),
    }
pd.DataFrame(looks).T

# %%
claim(
    looks["alone"]["pictures per execution"] == 1 < looks["compiled"]["pictures per execution"]
    and looks["kept"]["cache hits"] == 0
    and looks["int8"]["verdicts changed"] > 5 > looks["compiled"]["verdicts changed"],
    "All are ready. The statistics show that alone makes no batches, and kept has no hits. Only a "
    f"comparison with right answers shows that int8 changed {looks['int8']['verdicts changed']} of 200 verdicts.",
    "Run the cells of this section again.",
    id="wrong.looks",
)

# %% [markdown]
# Each mistake shows in one column only. So look at all of them. The verdicts need a file with inputs and right answers: keep one beside the model.
#
# An [accelerator in the wrong list](../06__accelerators/06__accelerators.ipynb#The-block-for-a-GPU) is silent, too.

# %% [markdown]
# ## Under load only
#
# [regions.py](clients/regions.py) puts a picture into *shared memory*, and sends the server the region's name ([lecture 1](../../1_architecture/09__wire/09__wire.ipynb#Shared-memory)). Each request under way should have a region of its own. Somebody made one for all: `count=1`. With one request under way, a test found all answers right.

# %%
predict(
    "wrong.region",
    "Now eight requests are under way, and all use the one region. What does the program get?",
    {
        "an error: the region is in use": "The server does not know what a client writes into its "
        "memory, or when. It reads it when it needs it.",
        "right answers, but slower": "Nobody waits for the region: the program writes the next "
        "picture into it while the server may not have read the one before.",
        "no error, and wrong answers": None,
    },
)

# %% tags=["triton"]
# %run clients/regions.py
wrong_answers = {}
for under_way, count in ((1, 1), (8, 1), (8, 8)):
    got = regions(address, "batched", pictures, under_way, count=count)
    errors = sum(isinstance(answer, Exception) for answer in got)
    pairs = zip(got, reference["logits"])
    off = [not isinstance(a, Exception) and abs(a - right).max() > 1e-3 for a, right in pairs]
    wrong_answers[under_way, count] = sum(off)
    print(f"{under_way} under way, regions: {count}. errors: {errors}, wrong: {sum(off)}")

# %%
mixed = wrong_answers[8, 1]
compare(
    "wrong.region",
    "no error, and wrong answers" if mixed else "right answers, but slower",
    premise=Premise(wrong_answers[8, 8] == 0, "answers were wrong with a region for each request"),
)
claim(
    mixed > 0 and wrong_answers[1, 1] == wrong_answers[8, 8] == 0,
    f"One region for eight requests: {mixed} of {len(pictures)} answers are wrong, without an error.",
    "Run the cell above again.",
    id="wrong.region",
)

# %% [markdown]
# Use a region for each request under way, and write into it again only after the answer.

# %% [markdown]
# The next program uses [callbacks](../08__clients/08__clients.ipynb), at most eight requests at a time. Its callback does not look at `error`. Where there is one, `result` is `None`, and the line that reads it raises. `seconds` is for us: without it, the program would wait as long as it takes.


# %% tags=["triton"]
import threading


def send_all(arrays, under_way=8, seconds=3):
    """Send arrays to batched; return how many answers came, and whether the program ends."""
    answers, free = [], threading.Semaphore(under_way)

    def keep(result, error):
        answers.append(result.as_numpy("logits").argmax())
        free.release()

    for array in arrays:
        free.acquire(timeout=seconds)
        client.async_infer("batched", [tensor(array)], keep)
    ends = all(free.acquire(timeout=seconds) for _ in range(under_way))  # all are back
    return len(answers), ends


# %%
predict(
    "wrong.callback",
    "Of 40 pictures, one has a wrong shape, and the server refuses it. What does the program do?",
    {
        "it ends with an error": "The callback runs in a thread of the library, and its error ends "
        "there. The program's own thread does not see it.",
        "it ends, with 39 answers": "The callback of the refused request never gives its permit "
        "back, and at its end the program waits for all eight.",
        "39 answers come, and it waits forever": None,
    },
)

# %% tags=["triton"]
outcomes = {"all right": send_all(pictures[:40])}
one_bad = [*pictures[:39], np.zeros((1, 3, 32, 32), np.float32)]
outcomes["one refused"] = send_all(one_bad)
for what, (count, ends) in outcomes.items():
    print(f"{what}: {count} answers, the program ends: {ends}")

# %%
count, ends = outcomes["one refused"]
compare(
    "wrong.callback",
    "it ends, with 39 answers" if ends else "39 answers come, and it waits forever",
    premise=Premise(outcomes["all right"] == (40, True), "right pictures were not all answered"),
)
claim(
    count == 39 and not ends and setup.changed(lab, "batched") == 0,
    "One refused picture: 39 answers come, and the program would wait forever. The server has lost "
    "nothing: batched answers all 200 pictures.",
    "Run the cell above again.",
    id="wrong.callback",
)

# %% [markdown]
# A callback stores `error or result`, and releases in any case, as in [callbacks.py](../08__clients/clients/callbacks.py).
#
# Other notebooks have three more: [one error that cancels 99 requests](../08__clients/08__clients.ipynb#One-request-fails), [a queue without an end](../../1_architecture/06__queue_policies/06__queue_policies.ipynb#A-queue-with-an-end), [a proxy before a server that is loading](../12__fleet/12__fleet.ipynb#A-server-that-is-loading).

# %% [markdown]
# ## Your turn
#
# Somebody prepared `launch`: [a config](models/launch/config.pbtxt), and a file that `quantize.py` beside it made. There are three mistakes, one of them like that of `int8`. In cells of your own, correct them in `$TRITON_MODELS/launch`, and load it. Run again, the next cell undoes your changes:

# %%
place(models, "models/launch")
setup.launch(models)  # with the program and the file of int8

# %%
task("wrong.launch", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# | look at | it shows |
# |---|---|
# | the reply to a load, the log | what the server refuses |
# | *ready* | models that are not loaded |
# | the server's config | a changed file that was not loaded |
# | statistics, metrics | no batches, no hits, a long queue |
# | right answers | wrong answers |
#
# This program looks at most of it:

# %%
show("at_work/before_it_goes_live.py")

# %% [markdown]
# `compiled` is as it should be. The config of `int8` was changed after the load, and nobody loaded it again:

# %% tags=["triton"]
# !sed -i "s/count: 1/count: 2/" {models}/int8/config.pbtxt
for model in ("compiled", "int8", "python_half"):
    print(f"\n{model}")
    config = models / model / "config.pbtxt"
    # !{sys.executable} at_work/before_it_goes_live.py {model} {config} {models}/reference.npz
# !sed -i "s/count: 2/count: 1/" {models}/int8/config.pbtxt

# %% [markdown]
# ## What to remember
#
# - The server refuses what it can compare: fields, limits, the model's file. Its message names the place.
# - *Ready* means loaded. Batches and hits are in the statistics; wrong answers show only beside right ones.
# - Test with as many requests under way as you will have, and with one that is refused.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A parameter in a config has no effect, and the server gave no error. What do you suspect?</summary>
#
# A misspelt name. The server passes parameters on without a check, and the backend reads those that it knows.
#
# </details>
#
# <details><summary>All models are ready, and all users get errors. How can that be?</summary>
#
# The config does not fit the users' requests: a type or a shape. The backend could not compare it with a file. Send one request after each load.
#
# </details>
#
# <details><summary>A program works in tests, and gives a few wrong answers in the evening. Where do you look?</summary>
#
# At what requests share: a region of memory, a buffer, a name. In tests one request was under way.
#
# </details>
