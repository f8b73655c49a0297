# ---
# title: Tuning
# minutes: 28
# ---

# %% [markdown]
# # Tuning
#
# **Question.** A model has many settings: instances, threads, batch size, delay. Somebody asks: "99 of 100 answers within 40 ms, and as many answers per second as possible." Which settings are right, and how few measurements find them?
#
# The model, `given`, tells sharp pictures from blurred ones. It comes from [notebook 04](../04__compile/04__compile.ipynb), and runs in ONNX Runtime.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("tuning")
place(models, "../04__compile/models/compiled", name="given")
setup.prepare(models)  # the network in ONNX
lab = laboratory(models)  # a Triton server of this notebook's own
# !nproc; tail -3 {models}/given/config.pbtxt  # this machine's cores; the lines that we tune

# %% [markdown]
# ## A delay
#
# `given` has two instances, and each computes with one thread. `dynamic_batching { }` has no delay: a free instance takes what is in the queue, up to 16 pictures.
#
# First we change one setting. With a delay of 5 ms, a batch waits up to 5 ms for more pictures, unless it has 16 of them.

# %%
predict(
    "tuning.delay",
    "given with a delay of 5 ms. There are eight blocking clients: each waits for its answer before "
    "it asks again. The batches become larger. What happens to the throughput?",
    {
        "higher": "A picture may cost less in a larger batch. But a batch of 16 never fills, so each "
        "batch waits for 5 ms. Then one instance computes it, and the other has nothing to do.",
        "about the same": "Eight pictures never fill a batch of 16, so each batch waits for 5 ms. "
        "All clients wait with it.",
        "lower": None,
    },
)

# %% [markdown]
# A *sweep* measures several settings in the same way. The program `sweep.py`, shown at the end, reads them from a CSV file. It loads the model with each setting, and starts perf_analyzer. Our first sweep has two settings, with and without the delay:

# %% tags=["triton"]
settings = "instances,threads,batch,delay_ms,clients\n2,1,16,0,8\n2,1,16,5,8\n"
(models / "delay.csv").write_text(settings)
# %run at_work/sweep.py given {models}/delay.csv {models}/delayed.csv

# %% [markdown]
# The result has one row per setting. What to look at:
#
# - `per_s`: pictures per second. `p99_ms`: 99 of 100 answers came within this time.
# - `queue_ms`, `compute_ms`: the mean time in the queue, and in the execution.
# - `pictures`: how many an execution has, the mean.
# - `spread`: how far two measurements differ. Do not trust a row far above 1.


# %% tags=["triton"]
import json

import pandas as pd

columns = ["instances", "threads", "batch", "delay_ms", "clients"]


def better(file):
    """Each setting was measured twice: the faster row, as other programs only slow it down."""
    runs = pd.read_csv(models / file)
    runs["per_s"] = 1e6 * runs["clients"] / runs["Avg latency"]  # each has one request under way
    us = {"p99_ms": "p99 latency", "queue_ms": "Server Queue", "compute_ms": "Server Compute Infer"}
    runs[[*us]] = runs[[*us.values()]] / 1000
    counts = runs["done"].map(lambda text: json.loads(text)["count"])  # executions, by pictures
    pictures = counts.map(lambda each: sum(int(size) * n for size, n in each.items()))
    runs["pictures"] = pictures / counts.map(lambda each: sum(each.values()))
    runs["spread"] = runs.groupby(columns)["per_s"].transform(lambda two: two.max() / two.min())
    return runs.loc[runs.groupby(columns)["per_s"].idxmax()].set_index(columns).sort_index()


# %% tags=["triton"]
shown = ["per_s", "p99_ms", "queue_ms", "compute_ms", "pictures", "spread"]
delayed = better("delayed.csv")
delayed[shown].round(1)

# %%
prompt, late = (delayed.loc[(2, 1, 16, delay, 8)] for delay in (0, 5))
slower = late["per_s"] / prompt["per_s"]
compare(
    "tuning.delay",
    "lower" if slower < 0.9 else "higher" if slower > 1.1 else "about the same",
    premise=setup.repeated(delayed),
)
claim(
    late["queue_ms"] > prompt["queue_ms"] and late["pictures"] > 1.3 * prompt["pictures"],
    f"With a delay of 5 ms, 8 clients: {late['pictures']:.1f} pictures per execution, not "
    f"{prompt['pictures']:.1f}; {late['queue_ms']:.1f} ms in the queue, not "
    f"{prompt['queue_ms']:.1f}; the throughput is {slower:.2f} times that of given.",
    "Run the cell with the sweep again.",
    premise=setup.repeated(delayed),
    id="tuning.delay",
)

# %% [markdown]
# So larger batches are not the aim. A delay helps if requests come fast enough to fill a batch.
#
# ## More instances, more threads
#
# Now one, two or four instances, with one or two threads, without a delay. The last setting has everything at its largest: four instances, two threads, 5 ms. Each is measured with 8 and with 32 clients.

# %%
predict(
    "tuning.everything",
    "Everything at its largest, 8 clients. How does its throughput compare with that of `given`?",
    {
        "about twice as high": "Four instances have eight threads, which share this machine's "
        "cores. And eight clients never fill a batch of 16, so each batch waits until its 5 ms are "
        "over.",
        "about as high": "With more threads than cores each execution takes longer, and with the "
        "delay each batch waits.",
        "clearly lower": None,
    },
)

# %% tags=["triton"]
few = [(instances, threads, 16, 0) for instances in (1, 2, 4) for threads in (1, 2)]
few += [(4, 2, 16, 5)]
rows = [(*setting, clients) for setting in few for clients in (8, 32)]
pd.DataFrame(rows, columns=columns).to_csv(models / "few.csv", index=False)
# %run at_work/sweep.py given {models}/few.csv {models}/measured.csv
measured = better("measured.csv")
given, largest = (measured.loc[row] for row in ((2, 1, 16, 0, 8), (4, 2, 16, 5, 8)))
measured.xs(8, level="clients")[shown].round(1)

# %%
ratio = largest["per_s"] / given["per_s"]
level = "about twice as high" if ratio > 1.5 else "about as high"
compare(
    "tuning.everything",
    "clearly lower" if ratio < 0.75 else level,
    premise=setup.repeated(measured),
)
claim(
    ratio < 0.75,
    f"8 clients: everything at its largest has {ratio:.2f} times the throughput of given, and a p99 "
    f"of {largest['p99_ms']:.0f} ms, not {given['p99_ms']:.0f}. An execution takes "
    f"{largest['compute_ms']:.1f} ms, not {given['compute_ms']:.1f}.",
    "Run the cell with the sweep again.",
    premise=setup.repeated(measured),
    id="tuning.everything",
)

# %% [markdown]
# Compare the last row with `given`, `2 1 16 0`. Eight threads need eight cores. With fewer, they take turns, and each execution takes longer: `compute_ms`. The delay comes on top: `queue_ms`.

# %% [markdown]
# ## The Pareto front
#
# A setting is on the *Pareto front* if no other one has both more throughput and a lower p99. The question names a *target*: a p99 of at most 40 ms. `choice` takes the most throughput within the target. It is always on the front.

# %% tags=["triton"]
target = 40  # ms, p99


def front(table):
    """The rows that no other row beats in throughput and p99, from the lowest p99 on."""
    ordered = table.sort_values("p99_ms")
    return ordered[ordered["per_s"] > ordered["per_s"].cummax().shift(fill_value=0)]


def choice(table):
    """The row with the most throughput within the target; if there is none, the lowest p99."""
    within = table[table["p99_ms"] <= target]
    return within["per_s"].idxmax() if len(within) else table["p99_ms"].idxmin()


# %% [markdown]
# Each point is a row of the sweep, with 8 or 32 clients. The line is the front, and the dotted line the target. The choice is the highest point on the left of the dotted line:

# %%
setup.draw(target, front, measured=measured)

# %% [markdown]
# ## Ten candidates
#
# Other batch sizes and delays are not tried yet. All combinations are 192 runs: ten minutes. So a [*simulator*](../../1_architecture/05__dynamic_batcher/05__dynamic_batcher.ipynb) chooses: a program that plays clients, batcher and instances. It knows from the sweep how long executions take. Of the 192, it proposes the ten with the most throughput within the target. Then the server measures these ten.

# %%
import itertools

every = itertools.product((1, 2, 4), (1, 2), (2, 4, 8, 16), (0, 1, 2, 5), (8, 32))
expected = setup.forecast(measured, pd.DataFrame(every, columns=columns))
expected = expected.drop_duplicates(["per_s", "p99_ms"])  # one of those that do the same
within = expected[expected["p99_ms"] <= target]
ten = (within if len(within) > 9 else expected).nlargest(10, "per_s")
ten[columns].to_csv(models / "ten.csv", index=False)
ten.round(1)

# %% tags=["triton"]
analyzer = (2, 1, 1, 0, 8)  # the choice of NVIDIA's Model Analyzer, in a recorded run: see below
more = pd.DataFrame([analyzer, (2, 1, 16, 0, 8)], columns=columns)
proposed = pd.read_csv(models / "ten.csv")
candidates = pd.concat([proposed, more]).drop_duplicates()
candidates.to_csv(models / "candidates.csv", index=False)
# %run at_work/sweep.py given {models}/candidates.csv {models}/judged.csv
judged = better("judged.csv")
best = choice(judged.drop(index=[analyzer]))  # of ours
seen = judged.loc[[*proposed.itertuples(index=False, name=None)]]
judged[shown].round(1)

# %%
errors = abs(ten[["per_s", "p99_ms"]].values / seen[["per_s", "p99_ms"]] - 1).median()
reached = seen["per_s"].iloc[0] / judged.loc[best, "per_s"]
claim(
    reached > 0.5,
    f"Of 192 runs, {len({*measured.index, *ten.set_index(columns).index})} were measured. The choice "
    f"is {dict(zip(columns, best))}. The simulator's first one has {reached:.0%} of its throughput. "
    f"{(seen['p99_ms'] <= target).sum()} of the ten have a p99 within the target. The forecasts' "
    f"median error is {errors['per_s']:.0%} in throughput, {errors['p99_ms']:.0%} in p99.",
    "Run the cells from the sweep on again.",
    premise=setup.repeated(judged),
    id="tuning.ten",
)

# %% [markdown]
# The simulator saves measurements. But its forecasts of the ten differ little, and their errors are not small. So only the server can choose among the ten.

# %% [markdown]
# ## Model Analyzer
#
# [NVIDIA's tool](https://github.com/triton-inference-server/model_analyzer) searches by measurements alone. Its search *quick* goes from setting to setting, towards better ones. Here are its config, and a recorded run with this model on two cores: the best four within the target.
#
# <details><summary>Run it yourself</summary>
#
# ```bash
# python -m venv analyzer
# analyzer/bin/pip install triton-model-analyzer==1.58.0
# analyzer/bin/model-analyzer profile -f analyze.yaml -m models \
#   --output-model-repository-path configs --override-output-model-repository \
#   --triton-http-endpoint localhost:8000 --triton-grpc-endpoint localhost:8001
# ```
#
# In mode *remote* it uses a server that runs already, with explicit model control. [Its messages](recorded/run.txt) in this run tell what it could not do.
#
# </details>

# %% tags=["triton"]
# !tail -8 clients/analyze.yaml; head -3 recorded/run.txt
heads = {"Throughput (infer/sec)": "per_s", "p99 Latency (ms)": "p99_ms"}
report = pd.read_csv("recorded/metrics-model-inference.csv").rename(columns=heads)
allowed = report[report["Satisfies Constraints"] == "Yes"].nlargest(4, "per_s")
pick = allowed.iloc[0]
allowed[["Instance Group", "Max Batch Size", "Concurrency", "per_s", "p99_ms"]]

# %%
twin_of = judged.loc[analyzer]
claim(
    twin_of["per_s"] > 0.4 * judged.loc[best, "per_s"],
    f"Model Analyzer tried {report['Model Config Path'].nunique()} configs and chose "
    f"{pick['Instance Group']}, batches of up to {pick['Max Batch Size']}, {pick['Concurrency']} "
    "clients. Measured here, that has "
    f"{twin_of['per_s'] / judged.loc[(2, 1, 16, 0, 8), 'per_s']:.2f} times the throughput of given "
    f"with 8 clients, and {twin_of['per_s'] / judged.loc[best, 'per_s']:.2f} times that of our "
    f"choice, which has {best[4]} clients.",
    "Run the cell in which the server measures the candidates again.",
    premise=setup.repeated(judged),
    id="tuning.analyzer",
)

# %% [markdown]
# Its search changes instances, batch sizes and clients. Threads and delays you [list by hand](https://github.com/triton-inference-server/model_analyzer/blob/main/docs/config.md).
#
# ## Gain or noise?
#
# The best of a dozen noisy measurements is partly luck. So we write the choice into a config file, `tuned`, and measure again. `twin` is an exact copy of `given`: where these two differ, that is noise.

# %% tags=["triton"]
instances, threads, batch, delay_ms, callers = map(int, best)
text = (models / "given/config.pbtxt").read_text()
for old, new in {
    "max_batch_size: 16": f"max_batch_size: {batch}",
    "count: 2": f"count: {instances}",
    'string_value: "1"': f'string_value: "{threads}"',
    "{ }": f"{{ max_queue_delay_microseconds: {1000 * delay_ms} }}",
}.items():
    text = text.replace(old, new)
# !cp -rT {models}/given {models}/twin
# !cp -rT {models}/given {models}/tuned
(models / "tuned/config.pbtxt").write_text(text)
# !diff {models}/given/config.pbtxt {models}/tuned/config.pbtxt

# %%
from workbook.lessons import formats, scoreboard

turns_of = {"given": [], "twin": [], "tuned": []}
for name in turns_of:
    lab.load(name)
for _ in range(3):  # three times, in turns; the median counts
    for name, each in turns_of.items():
        each.append(float(formats.under_load(lab, name, callers)["throughput"]))
per_s = pd.DataFrame(turns_of).median()
step, noise = per_s["tuned"] / per_s["given"], per_s["twin"] / per_s["given"]
changed = formats.changed(formats.served_logits(lab, "tuned"))  # sharp/blurred, of 200 pictures
print(f"tuned ×{step:.2f} of given, twin ×{noise:.2f}; verdicts changed: {changed}")

# %%
same_config = tuple(best)[:4] == (2, 1, 16, 0)
found = (
    f"From given to tuned ×{step:.2f}. The copy of given, where nothing differs, has "
    f"×{noise:.2f}: a step no larger than that is noise."
)
claim(
    changed <= 2,
    f"{'The choice is given itself, and gains nothing.' if same_config else found} {changed} of 200 "
    "verdicts changed.",
    "Run the cell before this one again.",
    id="tuning.step",
)

# %% [markdown]
# The *scoreboard* collects what each notebook of this lecture has gained with this network. It measures the step once more. It gets no row if the choice is `given` itself, or if `twin` differs from `given` by more than a tenth.

# %%
setup.add_row(lab, best, noise)
scoreboard.draw()  # the bar of 11 begins where that of 04 ends, because `given` is its model

# %% [markdown]
# ## The limit
#
# Could any setting bring much more? *Processor time* is the time for which a core works. Each picture costs some in the network, in the rest of the server, and in perf_analyzer, the client. Two cores have 2,000 ms of it per second, whatever the setting.

# %%
spent = setup.processor_time(lab, "tuned", callers)
print("milliseconds per picture:", {name: round(ms, 2) for name, ms in spent.of_picture.items()})

# %%
claim(
    spent.busy < 1.2 * spent.cores,
    f"A picture takes {spent.of_picture['network']:.2f} ms of processor time in the network, "
    f"{spent.of_picture['server']:.2f} ms in the rest of the server, "
    f"{spent.of_picture['client']:.2f} ms in the client. So {spent.cores} cores give at most "
    f"{spent.most:,.0f} pictures per second. Measured: "
    f"{spent.per_s:,.0f}, with {spent.busy:.1f} cores busy.",
    "Close other programs, and run the cell before this one again.",
    id="tuning.limit",
)

# %% [markdown]
# If all cores are busy, more instances or threads bring nothing. Then a picture must cost less: a cheaper network ([notebook 05](../05__precision/05__precision.ipynb)), or clients on another machine. If some are free, more clients may use them, or other programs did. [Triton's tuning guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/performance_tuning.md) tunes a model for a GPU.

# %% [markdown]
# ## Your turn
#
# `device` stands for a machine that computes two batches at a time, each in 20 ms and 20 ms more per row. It has two instances and a delay. Its owner has eight blocking clients, and wants 1.7 times as many answers per second.
#
# Above the task's cell, in one of your own, change `{models}/device/config.pbtxt`, and `lab.load("device")`.

# %%
show("models/device/config.pbtxt")
place(models, "models/device")  # run again, it undoes your changes
place(models, "models/device", name="device_as_given")
for name in ("device", "device_as_given"):
    lab.load(name)

# %%
task("tuning.device", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# The sweep's program sends each setting as a config with the load command: no file changes. It needs a server with explicit model control, `perf_analyzer`, and the server's gRPC address in `TRITON_GRPC`. Write the settings that you consider for your model as a CSV file:

# %%
show("at_work/sweep.py")

# %% tags=["triton"]
mine = "instances,threads,batch,delay_ms,clients\n2,1,16,0,8\n2,1,8,1,8\n"
(models / "mine.csv").write_text(mine)
# %run at_work/sweep.py given {models}/mine.csv {models}/mine_measured.csv
better("mine_measured.csv")[shown].round(1)

# %% [markdown]
# ## What to remember
#
# - More is not better: threads share the cores, and a delay can put all clients into one batch.
# - A person sets the target for p99. Choose the most throughput within it, on the Pareto front.
# - Let a tool propose settings, and the server judge. Compare a gain with noise, and with the cores' limit.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Eight clients, four instances, batches of up to 8 and a delay. How many instances compute?</summary>
#
# Mostly one: all eight requests are in one batch. With batches of up to 2, all four do.
#
# </details>
#
# <details><summary>A setting has the most throughput, and p99 is twice the target. Is it on the Pareto front?</summary>
#
# Yes: no setting has more throughput. But it is not your choice.
#
# </details>
#
# <details><summary>A new setting has 1.08 times the throughput. A copy of the old one, measured beside it, has 1.1 times. What do you conclude?</summary>
#
# Nothing: without any change, the measurement differs by more than that. Measure longer, or on a quiet machine.
#
# </details>
