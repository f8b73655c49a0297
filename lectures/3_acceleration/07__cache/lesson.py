# ---
# title: The response cache
# minutes: 28
# ---

# %% [markdown]
# # The response cache
#
# **Question.** Users ask for the same things again and again, and a server may keep its answers. How much faster does that make a deployment, and when does it cost more than it brings?
#
# Its two switches were in [lecture 1](../../1_architecture/02__inside_the_server/02__inside_the_server.ipynb). Here we measure what it is worth.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("cache")
place(models, "../03__batching/models/batched", "models/thumbnail", "models/label")
setup.prepare(models)  # the networks' files, and 200 pictures as pictures.npy
lab = laboratory(models, cache=1 << 20)  # with --cache-config=local,size=1048576

# %% [markdown]
# ## The deployment with a cache
#
# `batched` is the deployment of notebook 03: a dynamic batcher and two instances. [The acceleration slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) start the server with `--cache-config local,size=1048576`, and so does this notebook. The model's switch is one line of its config:

# %% language="bash" tags=["triton"]
# cp -rT $TRITON_MODELS/batched $TRITON_MODELS/kept
# echo 'response_cache { enable: true }' >> $TRITON_MODELS/kept/config.pbtxt
# tail -3 $TRITON_MODELS/kept/config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/kept/load

# %% [markdown]
# ## Traffic with favourites
#
# What people ask for often follows [Zipf's law](https://en.wikipedia.org/wiki/Zipf%27s_law): number *k* of the favourites gets 1/*k*^*s* of the requests of number 1. With *s* = 0 all are alike. There are 10,000 pictures; each run of the cell makes new ones.

# %% tags=["triton"]
import base64
import json

import numpy as np

photos, repeated = np.load(models / "pictures.npy"), []
for s in (0, 1, 1.3, 2):
    weights = np.arange(1.0, 10_001) ** -s
    numbers = np.random.default_rng(1).choice(10_000, 400, p=weights / weights.sum())
    new, steps = np.random.default_rng().random(), []
    for number in numbers:
        picture = photos[number % 200].copy()
        picture[0, 0, :2] = new, number / 10_000  # two pixels tell the pictures apart
        steps.append({"image": {"b64": base64.b64encode(picture.tobytes()).decode()}})
    (models / f"traffic_{s}.json").write_text(json.dumps({"data": steps}))
    np.savetxt(models / f"keys_{s}.txt", numbers, fmt="%d")
    repeated.append(100 * (1 - len(set(numbers)) / len(numbers)))
print("of 100 requests, sent before:", *(f"{share:.0f}" for share in repeated))

# %% [markdown]
# ## How much faster?

# %%
predict_curve(
    "cache.gain",
    "Eight clients are under way. How many times the throughput of `batched` does `kept` have?",
    x=[2, 40, 72, 94, 100],
    y_range=(0, 20),
    unit="times",
    below="of 100 requests, sent before",
)

# %% [markdown]
# With `--request-count 400`, perf_analyzer sends each recorded request once; it may warn of a small sample. The fifth run repeats the fourth one's traffic. `hits` reads Triton's own count.

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# hits() { curl -s $TRITON_METRICS/metrics | grep 'num_hits_per_model{model="kept"' | cut -d' ' -f2; }
# send() {  # model, traffic, name of the report
#   perf_analyzer -m $1 -i grpc -u $TRITON_GRPC --concurrency-range 8 --request-count 400 \
#     --input-data traffic_$2.json --verbose-csv -f $3.csv > $3.txt || cat $3.txt
# }
# rm -f hits.txt
# for s in 0 1 1.3 2 again; do
#   before=$(hits)
#   send batched ${s/again/2} before_$s
#   send kept ${s/again/2} after_$s
#   sleep 0.2
#   echo $s $(($(hits) - before)) >> hits.txt
# done
# cat hits.txt

# %% tags=["triton"]
import pandas as pd

runs = pd.read_csv(models / "hits.txt", sep=" ", names=["traffic", "hits"])
for name in ("before", "after"):
    files = [models / f"{name}_{traffic}.csv" for traffic in runs["traffic"]]
    mean = [pd.read_csv(file)["Avg latency"][0] for file in files]  # microseconds
    runs[name] = [8 / (us / 1e6) for us in mean]  # Little's law: 8 are under way
runs["gain"] = runs["after"] / runs["before"]
share = runs["hits"] / 400
quick = runs["before"].median() / runs["after"].max()  # a hit's time, as a part of a miss's time
runs["forecast"] = 1 / (1 - share + share * quick)
runs.round(2)

# %%
fresh = setup.fresh(runs["hits"], repeated)
compare_curve(
    "cache.gain", [2, 40, 72, 94, 100], runs["gain"].to_list(), premise=fresh & setup.alike(runs)
)
claim(
    runs["gain"].iloc[-1] > 3 and runs["gain"].iloc[-1] > 2 * runs["gain"].iloc[0],
    f"With nothing but repetitions the throughput was {runs['gain'].iloc[-1]:.1f} times that of "
    f"batched, with next to none {runs['gain'].iloc[0]:.1f} times.",
    "Run the cells from the traffic on again.",
    premise=fresh & setup.alike(runs),
    id="cache.gain",
)

# %% [markdown]
# If *h* is the share of hits, the misses still take the share 1 - *h* of the time: with half of the requests as hits ×2 at most, with nine of ten ×10. The `forecast` adds a hit's own time, taken from the last row. Without repetitions nothing is gained. Gains above that bound show disturbed runs.

# %% [markdown]
# ## Why: the server's counters

# %% tags=["triton"]
import os
import time

import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])


def counts(model):
    """How many inferences a model has computed, and its cache's hits and misses."""
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics(model, as_json=True)["model_stats"][0]
    times = stats["inference_stats"]
    kept = [int(times.get(f"cache_{name}", {}).get("count", 0)) for name in ("hit", "miss")]
    return np.array([int(stats.get("inference_count", 0)), *kept])


def tensor(name, array):
    return grpc.InferInput(name, array.shape, "FP32").set_data_from_numpy(array)


# %% tags=["triton"]
before = counts("kept")
new = photos[:1] + np.float32(np.random.default_rng().random())
answers = [client.infer("kept", [tensor("image", new)]).as_numpy("logits") for _ in range(20)]
computed, hits, misses = counts("kept") - before
print(f"{computed} computed, {hits} hits, {misses} misses")
# !curl -s $TRITON_METRICS/metrics | grep -E '^nv_cache.*(_per_model.*kept|_util|_entries|_evictions)'

# %%
same = all(np.array_equal(answer, answers[0]) for answer in answers)
claim(
    computed == misses == 1 and hits == len(answers) - 1 and same,
    f"Of {len(answers)} equal requests the model computed {computed}; all answers are equal.",
    "Run the cell above again: it takes another picture.",
    premise=Premise(
        computed + hits == len(answers),
        f"{len(answers)} requests were sent, and the server counted {computed + hits}",
    ),
    id="cache.counters",
)

# %% [markdown]
# Plot hits over hits and misses, the *hit rate*, from these [metrics](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md).
#
# ## A cheap model with a large input
#
# `thumbnail` takes every 16th pixel of a photo of 3 MB. Here it is with a cache and without:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# cp -rT thumbnail thumbnail_kept
# echo 'response_cache { enable: true }' >> thumbnail_kept/config.pbtxt
# grep -vE '^#|^$' thumbnail_kept/config.pbtxt
# curl -sX POST $TRITON_HTTP/v2/repository/models/thumbnail_kept/load

# %%
predict(
    "cache.cheap",
    "One client sends the same photo all the time. Who spends more time in the server on a request?",
    {
        "the model without a cache: it computes each time": "Taking some pixels is next to no work. "
        "To find a kept answer, the server must hash all 3 MB.",
        "the model with a cache: hits only": None,
        "both take the same time": "A hit saves a tiny computation, and costs a hash of 3 MB.",
    },
)


# %% tags=["triton"]
def server_ms(model, photo, count=30):
    """The server's time per request, as its statistics have it, in milliseconds."""

    def total():
        time.sleep(0.1)
        stats = client.get_inference_statistics(model, as_json=True)["model_stats"][0]
        return int(stats["inference_stats"]["success"].get("ns", 0)) / 1e6

    before = total()
    for _ in range(count):
        client.infer(model, [tensor("photo", photo)])
    return (total() - before) / count


# %% tags=["triton"]
photo = np.random.default_rng().random((3, 512, 512), np.float32)
plain, cached = [], []
for _ in range(3):  # in turns
    plain.append(server_ms("thumbnail", photo))
    cached.append(server_ms("thumbnail_kept", photo))
print("without a cache:", *(f"{ms:.2f} ms" for ms in plain))
print("with a cache:   ", *(f"{ms:.2f} ms" for ms in cached))

# %%
slower = min(cached) / min(plain)
sides = (
    "the model with a cache: hits only"
    if slower > 1.3
    else "the model without a cache: it computes each time"
    if slower < 0.77
    else "both take the same time"
)
compare("cache.cheap", sides, premise=setup.repeats(plain, cached))
claim(
    slower > 1.3,
    f"A hit took the server {min(cached):.1f} ms, a computation {min(plain):.1f} ms.",
    "Run the cell above again.",
    premise=setup.repeats(plain, cached),
    id="cache.cheap",
)

# %% [markdown]
# The key of a kept answer is [a hash](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/response_cache.md) of *all* bytes of the inputs, computed for each request, hit or miss. So the cache harms cheap models with large inputs.
#
# ## When memory is short
#
# A thumbnail has 12 KB, so the 1,048,576 bytes hold 84. Then the answer that was used least recently makes room.

# %%
predict(
    "cache.loop",
    "A hundred different photos are sent, in three rounds, always in the same order. How many of the "
    "last round's 100 requests are hits?",
    {
        "none": None,
        "about 84: those that have room": "The answer that is asked for next is the one that was "
        "used longest ago. It has just been thrown out.",
        "all": "A hundred answers of 12 KB are more than the memory holds.",
    },
)

# %% tags=["triton"]
base = np.random.default_rng().random((3, 512, 512), np.float32)


def rounds(different, times=3):
    """Send different photos in the same order, several times; return the hits of the last round."""
    for _ in range(times):
        before = counts("thumbnail_kept")
        for number in range(different):
            base[0, 0, 0] = number
            client.infer("thumbnail_kept", [tensor("photo", base)])
        _, hits, _ = counts("thumbnail_kept") - before
    return hits


hundred, seventy = rounds(100), rounds(70)
print(f"hits in the last round: {hundred} of 100, {seventy} of 70")
# !curl -s $TRITON_METRICS/metrics | grep -E '^nv_cache_(util|num_entries|num_evictions)'

# %%
looped = "none" if hundred < 10 else "all" if hundred == 100 else "about 84: those that have room"
compare("cache.loop", looped, premise=Premise(seventy == 70, f"only {seventy} of 70 were hits"))
claim(
    hundred < 10 and seventy == 70,
    f"Of 100 photos in a loop {hundred} were hits, of 70 all {seventy}.",
    "Run the cell with the rounds again: does somebody else use this server?",
    id="cache.loop",
)

# %% [markdown]
# A cache a little too small may be worth nothing: `nv_cache_num_evictions` grows. Enlarge `size`; all models share it.
#
# ## Redis
#
# Servers can share [a cache in redis](https://github.com/triton-inference-server/redis_cache), as in the course's `docker/gpu/compose.yaml`. Each look-up crosses the network.
#
# ```
# tritonserver … --cache-config=redis,host=redis --cache-config=redis,port=6379
# ```
#
# Does it refuse answers when it is full, or drop old ones? An installed redis is started with that file's options, and overfilled:

# %% language="bash" tags=["triton"]
# command -v redis-server || { echo "No redis-server on PATH: not run."; exit 0; }
# redis-server --port 6390 --save "" --appendonly no --maxmemory 2mb \
#   --maxmemory-policy allkeys-lru --daemonize yes > /dev/null; sleep 1
# seq 20000 | sed 's/.*/SET key:& an-answer-of-some-length/' | redis-cli -p 6390 | sort | uniq -c
# redis-cli -p 6390 info | grep -E '^(maxmemory_policy|evicted_keys|db0)'
# redis-cli -p 6390 shutdown nosave

# %%
setup.redis()  # does this machine's Triton have the library?

# %% [markdown]
# ## The scoreboard
#
# The usual eight pictures, sent again and again, would be hits only. So this row is measured with Zipf's law, *s* = 1, and the figure says so. No published figure stands beside it: the slides promise a considerable speed-up "in some scenarios".

# %%
from workbook.lessons import scoreboard

scoreboard.add(
    lab,
    "cache",
    before="batched",
    after="kept",
    what="the response cache",
    measured=setup.zipf_traffic,
    load="Zipf's law, s = 1",
)
scoreboard.draw()

# %% [markdown]
# ## What is not cached
#
# The server says which models cannot have a cache. The third refusal is only a misspelt field:

# %%
setup.mistakes(lab)

# %% [markdown]
# Only inputs in the processor's memory, not on a GPU, [can be looked up](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/response_cache.md).
#
# ## A new edition
#
# `label` answers with its edition, and has a cache. It is asked, its program is changed, it is loaded again, and asked again:


# %% tags=["triton"]
def ask(number):
    x = np.full(1, number, np.float32)
    return client.infer("label", [tensor("X", x)]).as_numpy("edition")[0].decode()


# !rm -rf $TRITON_MODELS/label/2; sed -i 's/autumn/spring/' $TRITON_MODELS/label/1/model.py
client.load_model("label")
print("numbers 0 to 4:", *map(ask, range(5)))
# !sed -i 's/spring/autumn/' $TRITON_MODELS/label/1/model.py
client.load_model("label")
again, other = [ask(number) for number in range(5)], ask(np.random.default_rng().random() + 9)
print("loaded again:  ", *again, "and another number:", other)

# %%
claim(
    set(again) == {"spring"} and other == "autumn",
    "After the load, kept answers are still those of the old program; only new questions reach the "
    "new one.",
    "Run the cell above again.",
    id="cache.stale",
)

# %% [markdown]
# The key has the model's name, version and inputs, but not its weights or program. A load empties no cache.
#
# ## Your turn
#
# The cache of `label` stays on. Let users get "autumn" for the numbers 0 to 4 by the same requests. In a cell of your own, change the folder `$TRITON_MODELS/label`, and load the model as above. Then:

# %%
task("cache.new_edition", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# Before you switch a cache on, ask your log. This program forecasts hits and speed-up for several sizes. Its two times, here 20 and 2 ms, you measure as `server_ms` does above: with inputs that are always new, then with equal ones:

# %%
show("at_work/would_it_pay.py")

# %% tags=["triton"]
# %run at_work/would_it_pay.py {models}/keys_1.3.txt 20 2

# %% [markdown]
# ## What to remember
#
# - Use it when inputs repeat often and computing takes milliseconds: with a share *h* of hits, the gain is at most 1/(1 - *h*).
# - Not when inputs are new, large or cheap to compute, or answers are random. New weights: a new version.
# - Look at the hit rate, and at evictions: many mean too little memory.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Three of four requests are hits. How much faster, at most?</summary>
#
# Four times: the misses still need a quarter of the time.
#
# </details>
#
# <details><summary>The hit rate is 2 %, although the log shows many equal requests. Where do you look?</summary>
#
# At evictions: the memory may be too small, so that an answer is gone before it is asked for again. Then at the inputs: a time stamp or noise in them makes each one new.
#
# </details>
#
# <details><summary>A model was retrained and loaded in place of the old one. Some users still get old answers. Why?</summary>
#
# Name and version are the same, so kept answers are still found. Make a new version.
#
# </details>
