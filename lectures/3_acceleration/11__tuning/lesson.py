# ---
# title: Tuning
# minutes: 28
# ---

# %% [markdown]
# # Tuning
#
# **Question.** Instances, threads, batch size, delay: a model has dozens of possible settings. A person says: "99 of 100 answers within 40 ms, and as many answers as possible." Which setting is it, and how few measurements find it?
#
# The model, `given`, tells sharp pictures from blurred ones: the lecture's network, as [notebook 04](../04__compile/04__compile.ipynb) left it, in ONNX Runtime.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("tuning")
place(models, "../04__compile/models/compiled", name="given")
setup.prepare(models)  # the network in ONNX
lab = laboratory(models)  # a Triton server of this notebook's own
# !nproc  # the cores of this machine

# %% [markdown]
# ## A sweep
#
# `given` has two instances. Each computes batches of up to 16 pictures with one thread, and no batch waits for more requests. A *sweep* measures several settings in the same way. This program sends each setting as a config in the load command, starts perf_analyzer, and reads the server's counters:

# %%
show("at_work/sweep.py")

# %% [markdown]
# Nine settings, each with 8 and with 32 blocking clients: each client waits for its answer before it asks again. The last setting has everything at its largest: four instances, two threads each, batches of up to 16, and 5 ms in which a batch may fill. The sweep takes about a minute.

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
import json

import pandas as pd

columns = ["instances", "threads", "batch", "delay_ms", "clients"]
few = [(instances, threads, 16, 0) for instances in (1, 2, 4) for threads in (1, 2)]
few += [(2, 1, 4, 0), (2, 1, 16, 5), (4, 2, 16, 5)]
rows = [(*setting, clients) for setting in few for clients in (8, 32)]
pd.DataFrame(rows, columns=columns).to_csv(models / "few.csv", index=False)
# %run at_work/sweep.py given {models}/few.csv {models}/measured.csv


# %% tags=["triton"]
def better(file):
    """Of the two turns of each setting, the faster one: other programs only slow a turn down.

    Means: queue_ms, compute_ms per request, pictures per execution. Spread: faster over slower turn.
    """
    runs = pd.read_csv(models / file)
    runs["per_s"] = 1e6 * runs["clients"] / runs["Avg latency"]  # each has one request under way
    runs["p99_ms"] = runs["p99 latency"] / 1000
    runs["queue_ms"] = runs["Server Queue"] / 1000
    runs["compute_ms"] = runs["Server Compute Infer"] / 1000
    counts = runs["done"].map(lambda text: json.loads(text)["count"])
    pictures = counts.map(lambda each: sum(int(size) * n for size, n in each.items()))
    runs["pictures"] = pictures / counts.map(lambda each: sum(each.values()))
    runs["spread"] = runs.groupby(columns)["per_s"].transform(lambda two: two.max() / two.min())
    return runs.loc[runs.groupby(columns)["per_s"].idxmax()].set_index(columns).sort_index()


# %% tags=["triton"]
shown = ["per_s", "p99_ms", "queue_ms", "compute_ms", "pictures", "spread"]
measured = better("measured.csv")
given, late, largest = (measured.loc[(*key, 8)] for key in ((2, 1, 16, 0), few[-2], few[-1]))
measured[shown].round(1)

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
    f"of {largest['p99_ms']:.0f} ms, not {given['p99_ms']:.0f}.",
    "Run the cell with the sweep again.",
    premise=setup.repeated(measured),
    id="tuning.everything",
)

# %% [markdown]
# ## Who explains it
#
# The server's counters, in the table. (Do not trust a row whose `spread` is far above 1.)
#
# - A delay: more `pictures` per execution. But if one batch holds all eight clients, one instance computes, and the other has nothing to do.
# - More threads than cores: `compute_ms` grows.
# - More clients: without a delay, `queue_ms` grows.

# %% [markdown]
# Which of the three changes cost the largest setting most: instances, threads, or delay? For each, compare `given` with the row that differs in it alone, at 8 clients.

# %%
claim(
    late["queue_ms"] > given["queue_ms"] and late["pictures"] > 1.3 * given["pictures"],
    f"With a delay of 5 ms, 8 clients: {late['pictures']:.1f} pictures per execution, not "
    f"{given['pictures']:.1f}; {late['queue_ms']:.1f} ms in the queue, not {given['queue_ms']:.1f}; "
    f"the throughput is {late['per_s'] / given['per_s']:.2f} times that of given.",
    "Run the cell with the sweep again.",
    premise=setup.repeated(measured),
    id="tuning.delay",
)

# %% [markdown]
# ## The Pareto front
#
# A setting is on the *Pareto front* if no other one has both more throughput and a lower p99. Any other setting is worse in both than one on the front. A person sets a target; it chooses one of the front:

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


# %%
setup.draw(target, front, ours=measured)

# %% [markdown]
# ## The forecast
#
# Three numbers of instances, two of threads, four batch sizes, four delays, two loads: 192 runs.
#
# The course's [simulator](../../1_architecture/05__dynamic_batcher/05__dynamic_batcher.ipynb) plays clients, batcher and instances. It knows how long executions last in six settings (batches of up to 16, no delay). It forecasts by which *factor* other batches and delays change the results. A test with the others:

# %%
known = measured.query("batch == 4 or delay_ms == 5")
again = setup.forecast(measured, known.index.to_frame(index=False)).set_index(columns)
errors = (again[["per_s", "p99_ms"]] / known[["per_s", "p99_ms"]] - 1).abs().median()
waits = [(2, 1, 16, 5, 8), (2, 1, 4, 0, 8)]
forecast, seen = again.loc[waits, "per_s"].tolist(), known.loc[waits, "per_s"].tolist()
known[["per_s", "p99_ms"]].join(again[["per_s", "p99_ms"]], rsuffix=" forecast").round(1)

# %%
claim(
    forecast[0] < forecast[1] and seen[0] < seen[1],
    "8 clients, two instances: the simulator knows that batches of up to 16 with a delay of 5 ms are "
    f"slower than batches of up to 4 without: ×{forecast[0] / forecast[1]:.2f}, measured "
    f"×{seen[0] / seen[1]:.2f}. Its median error is {errors['per_s']:.0%} in throughput, "
    f"{errors['p99_ms']:.0%} in p99; its largest in p99 is "
    f"{(again['p99_ms'] / known['p99_ms'] - 1).abs().max():.0%}.",
    "Run the cells from the sweep on again.",
    premise=setup.repeated(measured),
    id="tuning.forecast",
)

# %% [markdown]
# So a forecast only chooses what is measured next. A row that was disturbed in both turns misleads all forecasts that begin with it.
#
# ## Ten candidates
#
# Of the 192, the simulator proposes the ten with the most throughput within the target. Clients are part of a setting: a service can limit them. Then the server judges the ten:

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
analyzer = (2, 1, 1, 0)  # the choice of NVIDIA's Model Analyzer, in a recorded run: see below
more = pd.DataFrame([(*analyzer, 8), (2, 1, 16, 0, 8), (2, 1, 16, 0, 32)], columns=columns)
candidates = pd.concat([pd.read_csv(models / "ten.csv"), more]).drop_duplicates()
candidates.to_csv(models / "candidates.csv", index=False)
# %run at_work/sweep.py given {models}/candidates.csv {models}/judged.csv
judged = better("judged.csv")
best = choice(judged)
judged[shown].round(1)

# %%
first = judged.loc[tuple(ten[columns].iloc[0])]
reached = first["per_s"] / judged.loc[best, "per_s"]
kept = sum(judged.loc[tuple(row), "p99_ms"] <= target for row in ten[columns].values)
claim(
    reached > 0.5,
    f"Of 192 runs, {len({*measured.index, *ten.set_index(columns).index})} were measured. The choice "
    f"is {dict(zip(columns, best))}. The simulator's first one has "
    f"{reached:.0%} of its throughput, and a p99 of {first['p99_ms']:.0f} ms; given with 32 clients "
    f"has {judged.loc[(2, 1, 16, 0, 32), 'per_s'] / judged.loc[best, 'per_s']:.0%}. "
    f"{kept} of the ten have a p99 within the target.",
    "Run the cells from the sweep on again.",
    premise=setup.repeated(judged),
    id="tuning.ten",
)

# %% [markdown]
# ## Model Analyzer
#
# [NVIDIA's tool](https://github.com/triton-inference-server/model_analyzer) searches by measurements alone. Give it an environment of its own: `python -m venv analyzer`, then `analyzer/bin/pip install triton-model-analyzer==1.58.0`. In mode *remote* it uses a server that runs, with explicit model control. Search *quick* measures a part of the settings. A recorded run follows:

# %% language="bash" tags=["triton"]
# grep -v '^#' clients/analyze.yaml
# command -v model-analyzer || { echo "No model-analyzer on PATH: not run."; exit 0; }
# out=$TRITON_MODELS/../analyzer scheme=http:
# model-analyzer profile -f clients/analyze.yaml -m $TRITON_MODELS \
#   --output-model-repository-path $out/configs --override-output-model-repository \
#   --export-path $out --checkpoint-directory $out/checkpoints \
#   --triton-http-endpoint $TRITON_HTTP --triton-grpc-endpoint $TRITON_GRPC \
#   --triton-metrics-url $scheme//$TRITON_METRICS/metrics

# %% tags=["triton"]
# !cat recorded/run.txt
heads = {"Throughput (infer/sec)": "per_s", "p99 Latency (ms)": "p99_ms"}
report = pd.read_csv("recorded/metrics-model-inference.csv").rename(columns=heads)
allowed = report[report["Satisfies Constraints"] == "Yes"]
pick = allowed.loc[allowed["per_s"].idxmax()]
report.drop(columns=["Model", "Batch", "Model Config Path"])

# %%
setup.draw(target, front, ours=judged, recorded=report)

# %%
twin_of = judged.loc[(*analyzer, 8)]
claim(
    twin_of["per_s"] > 0.4 * judged.loc[best, "per_s"],
    f"Model Analyzer tried {report['Model Config Path'].nunique()} configs and chose "
    f"{pick['Instance Group']}, batches of up to {pick['Max Batch Size']}, {pick['Concurrency']} "
    "clients. Measured here, that has "
    f"{twin_of['per_s'] / judged.loc[(2, 1, 16, 0, 8), 'per_s']:.2f} times the throughput of given "
    f"with 8 clients, and {twin_of['per_s'] / judged.loc[best, 'per_s']:.2f} times that of our "
    f"choice, which has {best[4]} clients.",
    "Run the cell in which the server judges the candidates again.",
    premise=setup.repeated(judged),
    id="tuning.analyzer",
)

# %% [markdown]
# (The recorded run had another hour and load: compare the shapes of the fronts, not their heights.) Model Analyzer searches instances and batch sizes; threads and delays you [list by hand](https://github.com/triton-inference-server/model_analyzer/blob/main/docs/config.md). It needs no simulator.
#
# ## A light load
#
# One client, and `given` with one change: four instances, smaller batches, or a delay.

# %%
predict(
    "tuning.light",
    "One blocking client. With which of these does a request spend clearly less time in the server "
    "(queue and computation) than with `given`?",
    {
        "four instances": "There is one request at a time, so one instance computes it, and the "
        "others have nothing to do.",
        "smaller batches": "With one request under way, each batch has one picture in any setting.",
        "a delay of 2 ms": "The request waits for others, which do not come.",
        "none of them": None,
    },
)

# %% tags=["triton"]
alone = pd.DataFrame([(2, 1, 16, 0), (4, 1, 16, 0), (2, 1, 4, 0), (2, 1, 16, 2)]).assign(clients=1)
alone.set_axis(columns, axis=1).to_csv(models / "alone.csv", index=False)
# %run at_work/sweep.py given {models}/alone.csv {models}/light.csv
light = better("light.csv")
light[shown].round(2)

# %%
quick = light["compute_ms"] + light["queue_ms"]
many, small = (quick[(2, 1, 16, 0, 1)] / quick[key] for key in ((4, 1, 16, 0, 1), (2, 1, 4, 0, 1)))
other = "smaller batches" if small > 1.4 else "none of them"
sooner = "four instances" if many > 1.4 else other
compare("tuning.light", sooner, premise=setup.repeated(light, 3))
claim(
    light["pictures"].max() == 1 and quick[(2, 1, 16, 2, 1)] > 2,
    "One client: each execution had one picture, in all settings. With the delay, a request spent "
    f"{quick[(2, 1, 16, 2, 1)]:.1f} ms in the queue and computing; else at most "
    f"{quick.drop((2, 1, 16, 2, 1)).max():.1f} ms.",
    "Run the cell above again.",
    id="tuning.light",
)

# %% [markdown]
# So tune for the load that you expect, and look at the light one, too. (Its p99 comes from too few requests.)
#
# ## The step
#
# The best of a dozen noisy measurements is partly chance. So the choice becomes a file, `tuned`, and is measured anew. `twin` is a copy of `given`: where these two differ, that is noise.

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
print(text)

# %%
from workbook.lessons import formats, scoreboard

turns_of = {"given": [], "twin": [], "tuned": []}
for name in turns_of:
    lab.load(name)
for _ in range(3):
    for name, each in turns_of.items():
        each.append(float(formats.under_load(lab, name, callers)["throughput"]))
per_s = pd.DataFrame(turns_of).median()
step, noise = per_s["tuned"] / per_s["given"], per_s["twin"] / per_s["given"]
changed = formats.changed(formats.served_logits(lab, "tuned"))
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
    "verdicts changed. Triton's tuning guide, on a GPU: +92 %.",
    "Run the cell before this one again.",
    id="tuning.step",
)

# %% [markdown]
# How much could any setting bring? A picture costs processor time: in the network (measured alone, in batches of eight), in the rest of the server, and in perf_analyzer, the client. The cores have only so much of it per second.
#
# First the scoreboard. It measures the step once more; do not trust it where it says *not steady*:

# %%
setup.add_row(lab, best, noise)  # none if the choice is given, or where `twin` differs
scoreboard.draw()  # the bar of 11 begins where that of 04 ends, because `given` is its model

spent = setup.processor_time(lab, "tuned", callers)
print("milliseconds per picture:", {name: round(ms, 2) for name, ms in spent.of_picture.items()})

# %%
claim(
    spent.busy < 1.2 * spent.cores,
    f"A picture takes {spent.of_picture['network']:.2f} ms of processor time in the network, "
    f"{spent.of_picture['server']:.2f} ms in the rest of the server, "
    f"{spent.of_picture['client']:.2f} ms in the client. So {spent.cores} cores give at most "
    f"{spent.most:,.0f} pictures per second{setup.of_point_a(spent.most)}. Measured: "
    f"{spent.per_s:,.0f}, with {spent.busy:.1f} cores busy.",
    "Close other programs, and run the cell before this one again.",
    id="tuning.limit",
)

# %% [markdown]
# With all cores busy, a setting can only make a picture cheaper. Beyond that: a network that costs less ([05](../05__precision/05__precision.ipynb)), clients on another machine, more cores.
#
# [Triton's tuning guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/performance_tuning.md) begins without a batcher: 168 per second became 323.
#
# ## Four mistakes
#
# A preferred batch size above `max_batch_size`, a negative delay, `count: 0`, and `KIND_GPU` without a GPU. One of them loads. Which?

# %%
wrong = setup.mistakes(lab)
wrong

# %%
claim(
    formats.changed(formats.served_logits(lab, "given")) <= 2,
    f"The server refused {len(wrong.refused)} of {len(wrong.changes)}, and given answers as before. "
    f"It loaded: {', '.join(wrong.loaded) or 'none'}.",
    "Run the cell before this one again.",
    id="tuning.mistakes",
)

# %% [markdown]
# ## Your turn
#
# `device` computes two batches at a time, each in 20 ms and 20 ms more per row. It has two instances, and its delay lets batches fill. The person who pays for it has eight clients, and wants 1.7 times as many answers per second. Above the task's cell, in one of your own, change `{models}/device/config.pbtxt`, and `lab.load("device")`.

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
# The sweep's program needs a server with explicit model control, `perf_analyzer`, and the address in `TRITON_GRPC`. Write the settings that you consider as a CSV file:

# %% tags=["triton"]
mine = "instances,threads,batch,delay_ms,clients\n2,1,16,0,8\n2,1,8,1,8\n"
(models / "mine.csv").write_text(mine)
# %run at_work/sweep.py given {models}/mine.csv {models}/mine_measured.csv
better("mine_measured.csv")[shown].round(1)

# %% [markdown]
# ## What to remember
#
# - A person sets the latency target; the Pareto front shows what it costs.
# - More is not better: threads share the cores, and a delay may put all clients into one batch. The processor time of a picture sets the limit.
# - Measure a few settings, let a simulator or Model Analyzer propose, and let the server judge.

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
# <details><summary>You tuned with 32 clients. At night there is one. What do you look at?</summary>
#
# At the queue time: a delay that fills batches by day makes a single client wait.
#
# </details>
