# ---
# title: Tuning
# minutes: 28
# ---

# %% [markdown]
# # Tuning
#
# **Question.** Instances, threads, batch size, delay: a model has dozens of possible settings. A person says: "99 of 100 answers within 40 ms, and as many answers as possible." Which setting is it, and how few measurements find it?
#
# This is the last step of the lecture's deployment.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("tuning")
place(models, "../04__compile/models/compiled", name="given")
print(setup.prepare(models))  # the best network of the notebooks before
lab = laboratory(models)  # a Triton server of this notebook's own

# %% [markdown]
# ## A sweep
#
# `given` has two instances with one thread each, batches of up to 16 pictures, and no delay. A *sweep* measures several settings in the same way. This program does it with perf_analyzer. The server gets each setting as a config in the load command, as [Model Analyzer](https://github.com/triton-inference-server/model_analyzer) does:

# %%
show("at_work/sweep.py")

# %% [markdown]
# Nine settings, each with 8 and with 32 blocking clients. In the last one, everything is at its largest: four instances, two threads each, batches of up to 16, and 5 ms in which a batch may fill.

# %%
predict(
    "tuning.everything",
    "Everything at its largest, 8 clients. How does its throughput compare with that of `given`?",
    {
        "about twice as high": "Eight threads want this machine's cores. And eight clients "
        "never fill a batch of 16, so each batch waits until its 5 ms are over.",
        "about as high": "Neither more threads than cores nor a delay comes for free.",
        "clearly lower": None,
    },
)

# %% tags=["triton"]
import pandas as pd

columns = ["instances", "threads", "batch", "delay_ms", "clients"]
few = [(instances, threads, 16, 0) for instances in (1, 2, 4) for threads in (1, 2)]
few += [(2, 1, 4, 0), (2, 1, 16, 5), (4, 2, 16, 5)]
rows = [(*setting, clients) for setting in few for clients in (8, 32)]
pd.DataFrame(rows, columns=columns).to_csv(models / "few.csv", index=False)
# %run at_work/sweep.py given {models}/few.csv {models}/measured.csv


# %% tags=["triton"]
def better(file):
    """Of the two turns of each setting, the one with the higher throughput."""
    runs = pd.read_csv(models / file)
    return runs.loc[runs.groupby(columns)["per_s"].idxmax()].set_index(columns).sort_index()


measured = better("measured.csv")
measured[["per_s", "p99_ms", "queue_ms", "compute_ms", "pictures"]].round(1)

# %%
turns = setup.repeated(pd.read_csv(models / "measured.csv"))
given, largest = measured.loc[(2, 1, 16, 0, 8)], measured.loc[(4, 2, 16, 5, 8)]
ratio = largest["per_s"] / given["per_s"]
level = "about twice as high" if ratio > 1.5 else "about as high"
compare("tuning.everything", "clearly lower" if ratio < 0.75 else level, premise=turns)
claim(
    ratio < 0.75,
    f"8 clients: everything at its largest has {ratio:.2f} times the throughput of given, and a p99 "
    f"of {largest['p99_ms']:.0f} ms, not {given['p99_ms']:.0f}.",
    "Run the cell with the sweep again.",
    premise=turns,
    id="tuning.everything",
)

# %% [markdown]
# ## Who explains it
#
# The server's counters, in the same table: `queue_ms` and `compute_ms` of a request, and `pictures` per execution. Compare two rows that differ in the delay only:

# %% tags=["triton"]
measured.loc[[(2, 1, 16, 0, 8), (2, 1, 16, 5, 8)]].T.drop("executions")

# %%
late = measured.loc[(2, 1, 16, 5, 8)]
claim(
    late["queue_ms"] > given["queue_ms"] and late["pictures"] > 1.3 * given["pictures"],
    f"With a delay of 5 ms, 8 clients: {late['pictures']:.1f} pictures per execution, not "
    f"{given['pictures']:.1f}; {late['queue_ms']:.1f} ms in the queue, not {given['queue_ms']:.1f}; "
    f"the throughput is {late['per_s'] / given['per_s']:.2f} times that of given.",
    "Run the cell with the sweep again.",
    premise=turns,
    id="tuning.delay",
)

# %% [markdown]
# - A delay makes batches larger. But nearly all clients are then in one batch: one instance computes, and the other has nothing to do.
# - More threads than cores: `compute_ms` grows, as executions wait for cores.
# - More clients: `queue_ms` grows.

# %% [markdown]
# ## The Pareto front
#
# A setting is on the *Pareto front* if no other one has both more throughput and a lower p99. Only these are worth a choice. The target chooses among them; a person decides it:

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


front(measured)[["per_s", "p99_ms", "queue_ms", "compute_ms", "pictures"]].round(1)

# %%
setup.draw(target, front, ours=measured)

# %% [markdown]
# ## The forecast
#
# Nine of how many? Three numbers of instances, two of threads, four batch sizes, four delays: 96 settings, each with two loads. To measure all takes 192 runs.
#
# The course's [simulator](../../1_architecture/05__dynamic_batcher/05__dynamic_batcher.ipynb) of Triton's scheduler needs to know how long an execution takes. The sweep has counted that, for each batch size:

# %%
lines = {key: setup.execution_ms(runs["executions"]) for key, runs in setup.pairs(measured)}
pd.DataFrame(lines, index=["ms per execution", "and per picture"]).T.round(2)

# %% [markdown]
# The simulator says by which *factor* a setting differs from the measured one with the same instances and threads. First the settings that we know, and were not used for this:

# %%
known = measured.query("batch == 4 or delay_ms == 5")
expected = setup.forecast(measured, known.index.to_frame(index=False)).set_index(columns)
errors = (expected[["per_s", "p99_ms"]] / known[["per_s", "p99_ms"]] - 1).abs()
known[["per_s", "p99_ms"]].join(expected, rsuffix=" forecast").round(1)

# %%
throughput, p99 = errors.median()
waits = (2, 1, 16, 5, 8), (2, 1, 4, 0, 8)
forecast, seen = (table.loc[list(waits), "per_s"].tolist() for table in (expected, known))
claim(
    forecast[0] < forecast[1] and seen[0] < seen[1],
    f"The simulator knows that the delay costs throughput: ×{forecast[0] / forecast[1]:.2f}, measured "
    f"×{seen[0] / seen[1]:.2f}. It misses throughput by {throughput:.0%}, and p99 by {p99:.0%} (medians).",
    "Run the cells from the sweep on again.",
    premise=turns,
    id="tuning.forecast",
)

# %% [markdown]
# Within 10 % of the throughput and 25 % of p99 is a good forecast. It takes an idle machine: a setting that was disturbed in both of its turns misleads all forecasts that begin with it. And in p99 is each moment in which another program had the core.
#
# ## Ten candidates
#
# The simulator looks at all 192, and proposes the ten with the most throughput within the target. The server judges them:

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
analyzer = (2, 1, 1, 0)  # what Model Analyzer found, see below
more = pd.DataFrame([(*analyzer, 8), (2, 1, 16, 0, 8), (2, 1, 16, 0, 32)], columns=columns)
judged = pd.concat([pd.read_csv(models / "ten.csv"), more]).drop_duplicates()
judged.to_csv(models / "candidates.csv", index=False)
# %run at_work/sweep.py given {models}/candidates.csv {models}/judged.csv
verdict = better("judged.csv")
verdict[["per_s", "p99_ms", "queue_ms", "compute_ms", "pictures"]].round(1)

# %%
best = choice(verdict)
first = verdict.loc[tuple(ten[columns].iloc[0])]
reached = first["per_s"] / verdict.loc[best, "per_s"]
claim(
    reached > 0.5,
    f"{len(rows) + len(ten)} of 192 runs were measured. The simulator's first candidate has "
    f"{reached:.0%} of the throughput of the best one, which is {dict(zip(columns, best))}.",
    "Run the cells from the sweep on again.",
    premise=setup.repeated(pd.read_csv(models / "judged.csv")),
    id="tuning.ten",
)

# %% [markdown]
# ## Model Analyzer
#
# NVIDIA's tool searches by measurements alone. It has an environment of its own: `python -m venv analyzer`, then `analyzer/bin/pip install triton-model-analyzer==1.58.0`. In mode *remote* it uses a server that runs, with explicit model control:

# %%
show("clients/analyze.yaml")

# %% language="bash" tags=["triton"]
# command -v model-analyzer || { echo "No model-analyzer on PATH: not run."; exit 0; }
# mkdir -p $TRITON_MODELS/../analyzer
# cd $TRITON_MODELS/../analyzer
# model-analyzer profile -f $OLDPWD/clients/analyze.yaml -m $TRITON_MODELS \
#   --output-model-repository-path $PWD/configs --override-output-model-repository \
#   --export-path $PWD --checkpoint-directory $PWD/checkpoints \
#   --triton-http-endpoint $TRITON_HTTP --triton-grpc-endpoint $TRITON_GRPC \
#   --triton-metrics-url http://$TRITON_METRICS/metrics

# %% [markdown]
# The course does not install it. Here is a recorded run, on a machine with two cores that other programs used, too:

# %%
show("recorded/run.txt")
names = {"Throughput (infer/sec)": "per_s", "p99 Latency (ms)": "p99_ms"}
report = pd.read_csv("recorded/metrics-model-inference.csv").rename(columns=names)
setup.draw(target, front, ours=verdict, recorded=report)

# %%
found = report.query("`Satisfies Constraints` == 'Yes'")
configs = found["Model Config Path"].nunique()
pick = found.loc[found["per_s"].idxmax()]
same = verdict.loc[(*analyzer, 8)]
claim(
    same["per_s"] > 0.4 * verdict.loc[best, "per_s"],
    f"Model Analyzer tried {configs} configs and chose {pick['Instance Group']}, batches of up to "
    f"{pick['Max Batch Size']}, {pick['Concurrency']} clients. Measured here beside ours, it has "
    f"{same['per_s'] / verdict.loc[best, 'per_s']:.2f} times the throughput of our choice.",
    "Run the cell in which the server judges the candidates again.",
    premise=setup.repeated(pd.read_csv(models / "judged.csv")),
    id="tuning.analyzer",
)

# %% [markdown]
# It searches instances and batch sizes, always with a batcher, and no threads or delays: these you [list by hand](https://github.com/triton-inference-server/model_analyzer/blob/main/docs/config.md). It needs nothing but the server, so it also works where no simulator knows the hardware. The simulator needs the counts of a few runs, and then tries any setting in a moment.

# %% [markdown]
# ## Where it does not help
#
# One client. Four instances, batches of up to 16, or a batcher that waits?

# %%
predict(
    "tuning.light",
    "One blocking client. Which of these makes its answers come sooner than from `given`?",
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
light[["mean_ms", "p99_ms", "queue_ms", "compute_ms", "pictures"]].round(2)

# %%
options = {(4, 1, 16, 0, 1): "four instances", (2, 1, 4, 0, 1): "smaller batches"}
options[(2, 1, 16, 2, 1)] = "a delay of 2 ms"
quick = light["compute_ms"] + light["queue_ms"]
gain = {name: quick[(2, 1, 16, 0, 1)] / quick[key] for key, name in options.items()}
sooner = max(gain, key=gain.get)
calm = setup.repeated(pd.read_csv(models / "light.csv"), 3)
compare("tuning.light", sooner if gain[sooner] > 1.4 else "none of them", premise=calm)
claim(
    light["pictures"].max() == 1 and quick[(2, 1, 16, 2, 1)] > 2,
    "One client: each execution had one picture, in all settings. With the delay, a request spent "
    f"{quick[(2, 1, 16, 2, 1)]:.1f} ms in the queue and computing; else at most "
    f"{quick.drop((2, 1, 16, 2, 1)).max():.1f} ms.",
    "Run the cell above again.",
    id="tuning.light",
)

# %% [markdown]
# So tune for the load that you expect, and look at the light one, too.
#
# ## The step
#
# The choice becomes a config file, `tuned`. First its answers are checked, then it is measured beside `given`:

# %% tags=["triton"]
instances, threads, batch, delay_ms, clients = map(int, best)
text = (models / "given/config.pbtxt").read_text()
for old, new in {
    "max_batch_size: 16": f"max_batch_size: {batch}",
    "count: 2": f"count: {instances}",
    'string_value: "1"': f'string_value: "{threads}"',
    "{ }": f"{{ max_queue_delay_microseconds: {1000 * delay_ms} }}",
}.items():
    text = text.replace(old, new)
# !cp -rT {models}/given {models}/tuned
(models / "tuned/config.pbtxt").write_text(text)
print(text)

# %%
from functools import partial

from workbook.lessons import formats, scoreboard

for name in ("given", "tuned"):
    lab.load(name)
print("verdicts changed:", formats.changed(formats.served_logits(lab, "tuned")))
what = f"{instances} instances, {threads} threads, batch {batch}, delay {delay_ms} ms"
load = {"measured": partial(formats.under_load, load=clients), "load": f"{clients} clients"}
step = scoreboard.add(lab, "tuning", before="given", after="tuned", what=what, **load)
scoreboard.draw()

# %%
scoreboard.table()

# %%
claim(
    step.changed <= 2,
    f"From given to tuned ×{step.gain:.2f}, {step.changed} verdicts of 200 changed. Published: +92 %.",
    "Run the cell before this one again.",
    id="tuning.step",
)

# %% [markdown]
# What differs: [Triton's tuning guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/performance_tuning.md) has a GPU, DenseNet, and begins with one instance without a batcher: 168 to 323 per second, while p99 grew from 13 to 36 ms. Model Analyzer needed 51 measurements. Here, the notebooks before have taken these steps, and two cores are soon busy.
#
# ## Four mistakes

# %%
wrong = setup.mistakes(lab)
wrong

# %%
claim(
    formats.changed(formats.served_logits(lab, "given")) <= 2,
    f"The server refused {len(wrong.refused)} of {len(wrong.changes)}, and given answers as before.",
    "Run the cell before this one again.",
    id="tuning.mistakes",
)

# %% [markdown]
# ## Your turn
#
# `device` computes two batches at a time, in 80 ms and 10 ms more per row. It has two instances, and its delay lets batches fill. The person who pays for it wants p99 of at most 150 ms for eight clients, and 1.8 times as many answers. Change `$TRITON_MODELS/device/config.pbtxt`, and load it.

# %%
show("models/device/config.pbtxt")
place(models, "models/device")
place(models, "models/device", name="device_as_given")
for name in ("device", "device_as_given"):
    lab.load(name)

# %%
task("tuning.device", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# The sweep's program needs a server with explicit model control, `perf_analyzer`, and the address in `TRITON_GRPC`. Write the settings that you consider as a CSV file:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# printf '%s\n' instances,threads,batch,delay_ms,clients 2,1,16,0,8 2,1,8,1,8 > mine.csv
# cat mine.csv

# %% tags=["triton"]
# %run at_work/sweep.py given {models}/mine.csv {models}/mine_measured.csv
better("mine_measured.csv").drop(columns="executions").round(1)

# %% [markdown]
# ## What to remember
#
# - A person sets the latency target; the Pareto front shows what it costs.
# - More is not better: threads share the cores, and a delay may put all clients into one batch.
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
# At the queue time: a delay that fills batches by day makes the lonely client wait.
#
# </details>
