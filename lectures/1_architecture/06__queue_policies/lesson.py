# ---
# title: Queue policies
# minutes: 17
# ---

# %% [markdown]
# # Queue policies
#
# **Question.** More requests come than a model can serve. Who waits, who is refused, and who decides?
#
# The dynamic batcher's queue has a policy, and may have levels of priority ([guide](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/batcher.md#priority-levels)):
#
# ![Triton; marked are the dynamic batcher and the rate limiter](architecture.svg)

# %%
import setup
from workbook import measure
from workbook.lessons import attempt, claim, compare, folder, laboratory, predict, show, slots, task
from workbook.lessons.runs import record
from workbook.lessons.shared import sleeper

models = folder("queue_policies")

# %% [markdown]
# The model sleeps 20 ms per execution of up to 8 requests, so that the figures show the scheduler alone. Three policies:

# %%
ranked = "dynamic_batching { priority_levels: 2 default_priority_level: 2 }"
short = "dynamic_batching { default_queue_policy { max_queue_size: 4 } }"
hasty = """dynamic_batching { default_queue_policy {
  timeout_action: REJECT default_timeout_microseconds: 50000 allow_timeout_override: true } }"""
for name, policy in {"ranked": ranked, "short": short, "hasty": hasty}.items():
    sleeper.add(models, name, policy)
setup.add_flooded(models)
lab = laboratory(models)

# %% [markdown]
# ## Two levels
#
# `priority_levels: 2` gives two queues. A request names its level, where 1 is the most urgent; one that names none gets the default. In this plan, ordinary requests are always waiting. From time to time an urgent one arrives.

# %%
predict(
    "policies.urgent",
    "When is an urgent request computed?",
    {
        "at once: it interrupts the execution": "An execution that has begun is never "
        "interrupted. Priorities decide who is next.",
        "in the next execution": None,
        "in the next but one: the next is already formed": "Without priorities it could be so. "
        "With them, Triton forms no batch before an instance is free.",
        "in turn, like the others": "Then priorities would have no effect: the second queue is "
        "looked at only when the first is empty.",
    },
)

# %%
crowd = measure.every(0.5, 16, name="a") + measure.every(2.5, 34, name="b", after_ms=8)
urgent = [measure.Request(f"u{i}", 30 + 15 * i, priority=1) for i in range(4)]
mixed = attempt(lambda: record(lab, "ranked", crowd + urgent), setup.found_a_queue)
last = mixed.places[mixed.places["request_id"].str.startswith("u")]["end_ms"].max()
kind = {"u": "urgent", "a": "ordinary", "b": "ordinary"}
slots.draw(mixed.places, most=8, group=lambda name: kind[name[0]], until_ms=last)

# %%
waited = setup.executions_waited(mixed)
was_urgent = waited.index.str.startswith("u")
seen = "in the next execution" if waited[was_urgent].median() <= 1 else "in turn, like the others"
compare("policies.urgent", seen, premise=setup.found_a_queue(mixed))
first = waited[was_urgent].mean() < waited[~was_urgent].mean()
claim(
    first,
    f"Executions until its own: urgent {waited[was_urgent].mean():.1f}, others {waited[~was_urgent].mean():.1f}.",
    "Run the cell before this one again.",
    premise=setup.found_a_queue(mixed),
    id="policies.urgent",
)

# %% [markdown]
# With priorities, timeouts or a queue size, no batch is formed while the instances are busy ([source](https://github.com/triton-inference-server/core/blob/main/src/scheduler_utils.cc), `support_prefetching_`). A request that has left the queue could be neither overtaken nor refused.
#
# ## A queue with an end
#
# Without a limit, a queue may grow until requests wait for minutes. With `max_queue_size: 4`, a request that finds four others waiting is refused.

# %%
predict(
    "policies.served",
    "30 requests come within 3 ms, to an idle instance. How many are served, in how many executions?",
    {
        "4, in one: the queue holds no more": "The first execution takes its requests out of the queue, "
        "and the queue fills again.",
        "5 to 8, in two: first 1 to 4, then 4": None,
        "8, in one: a full batch": "The first execution begins as soon as one request is there, and "
        "then only four can wait.",
        "12, in two: first 8, then 4": "The first execution does not wait for seven others. "
        "It begins with what is there.",
    },
)


# %%
def rush_once():
    return record(lab, "short", measure.every(0.1, 30))


def was_a_rush(run):
    return setup.sent_within(run, 18) & setup.over_in_time(run)


rush = attempt(rush_once, was_a_rush)
served = len(rush.answers) - len(rush.refused)
options = {4: "4, in one: the queue holds no more", 12: "12, in two: first 8, then 4"}
seen = options.get(served, "5 to 8, in two: first 1 to 4, then 4")
compare("policies.served", seen, premise=was_a_rush(rush))
print(f"{served} of 30 were served. The others: {rush.refused['error'].iloc[0]}")
slots.draw(rush.places, answers=rush.answers, most=8)

# %% [markdown]
# A cross is a request that was refused. It is refused at once, so its client can try elsewhere. A queue of 4 also bounds the batch: it never fills more than 4 of the 8 slots.
#
# Now the same rush ten times:

# %%
table = setup.rushes(rush_once, 10)
table

# %%
two = table[table["executions"] == 2]  # the rush was over before the first one ended
queue = (two["second"] == 4).mean() > 0.5 and (two["first"] <= 4).all()
claim(
    queue,
    f"The first execution took {two['first'].min()} to {two['first'].max()} requests, the second mostly four.",
    "Run the two cells again, without other load.",
    premise=setup.enough(table),
    id="policies.served",
)

# %% [markdown]
# > **Erratum.** An earlier edition of this course counted 7, without a reason. With a policy, no batch is formed ahead. The batcher needs a moment to wake, and takes what has come by then, one to four requests. Then four can wait.
#
# Now look at the last column of the table. Runs can differ by half a second.

# %% [markdown]
# The reason is a race between two threads. When an execution ends, the instance's thread wakes the batcher, and then reports that the instance is free. If the batcher looks before that report, it sleeps again, although the instance is idle: until the next request comes, or for 500 ms ([source](https://github.com/triton-inference-server/core/blob/main/src/dynamic_batch_scheduler.cc), `default_wait_microseconds`).

# %%
begins = table["second begins, ms"].dropna()
late = (begins > 400).sum()
print(f"{late} of {len(begins)} second executions began more than 400 ms after the rush.")

# %% [markdown]
# Under steady load, new requests wake the batcher. In release 24.10, a request that a full queue refuses does not wake it.
#
# ## Timeouts
#
# A timeout bounds the time in the queue, not the computation. `REJECT` refuses; `DELAY` puts the request behind all others of its level. The model `hasty` refuses after 50 ms, and has `allow_timeout_override: true`.

# %%
predict(
    "policies.timeout",
    "Under overload, a client sends requests with a timeout of its own, 500 ms. How long does one "
    "that is served wait at most?",
    {
        "50 ms: as the config says": None,
        "500 ms: the client overrides the config": "A client can only shorten the wait: the "
        "shorter of the two timeouts counts.",
        "for ever: both together are an error": "Triton accepts both, and takes the shorter.",
    },
)


# %%
own = {"short": 25_000, "long": 500_000}
plan = [
    measure.Request(f"{k}{i}", 2 * i, timeout_us=us) for i in range(30) for k, us in own.items()
]


def overload():
    return record(lab, "hasty", plan)


def was_overload(run):
    return setup.sent_within(run, 100) & sleeper.slept(run.places)


timed = attempt(overload, was_overload)
slots.draw(timed.places, answers=timed.answers, most=8, until_ms=160)

# %%
waits = setup.longest_waits(timed)
held = was_overload(timed)
options = ["50 ms: as the config says", "500 ms: the client overrides the config"]
compare("policies.timeout", options[int(waits["long"] > 100)], premise=held)
shorter = waits["short"] < 37 and waits["short"] < waits["long"] < 100
claim(
    shorter,
    f"Served requests with a timeout of 25 ms waited {waits['short']:.0f} ms at most, those with "
    f"500 ms {waits['long']:.0f} ms.",
    "Run the cell before this one again.",
    premise=held,
    id="policies.timeout",
)

# %% [markdown]
# The crosses come late: in release 24.10 the batcher looks at timeouts only when an instance is free, or each half second. A client that must know sooner has to stop waiting by itself: with gRPC, `client.infer(…, client_timeout=0.05)`.
#
# ## Try policies
#
# The plan has 40 requests, 1.5 ms apart. The sliders set a timeout and a queue size; 0 means none.

# %%
from workbook.lessons import simulated


def setting(queue_size, timeout_ms):
    policy = {"max_queue_size": queue_size, "default_timeout_microseconds": 1000 * timeout_ms}
    return {"default_queue_policy": policy}, measure.every(1.5, 40)


values = {
    "queue_size": [8, 0, 4, 16, 32],
    "timeout_ms": [0, 30, 60],
}
bench = simulated.explore(lab, "short", setting, duration_ms=20, **values)

# %%
print(simulated.table(bench, timeout_ms=0))
tried = attempt(lambda: bench.serve(queue_size=16, timeout_ms=0), lambda run: run.premise)
near = abs(len(tried.run.refused) - tried.lost) <= 2
claim(
    near,
    f"The server refused {len(tried.run.refused)}, the simulation {tried.lost}.",
    "Run this cell again.",
    premise=tried.premise,
    id="policies.simulator",
)
tried

# %% [markdown]
# The simulator computes both outcomes of each race; the figure shows those nearest to the server's run.
#
# ## Your turn
#
# `flooded` can serve 200 requests per second. On ordinary days come 67, and sometimes ten at once: too many are refused. In a flood come 500. Find a policy for both; write it in a new cell (`%%writefile {models}/flooded/config.pbtxt`), then run `lab.load("flooded")`.

# %%
show(models / "flooded/config.pbtxt")
task("policies.flooded", server=lab, models=models)

# %% [markdown]
# ## What to remember
#
# - Priorities decide who is next; nothing interrupts an execution.
# - A full queue refuses at once; a timeout bounds the wait of requests that are in it.
# - Served in a rush: what the first execution takes, and what the queue holds.

# %% [markdown]
# ## Check yourself
#
# <details><summary>Why is a short queue kinder to users than a long one?</summary>
#
# Users who are refused at once can try elsewhere. In a long queue they wait for minutes and give up, and their requests may still be computed, for nobody.
#
# </details>
#
# <details><summary>A model has <code>max_queue_size: 4</code> and <code>max_batch_size: 64</code>. What is wrong?</summary>
#
# No execution can have more than four requests: a batch is formed from what waits in the queue. The queue should hold at least one batch per instance.
#
# </details>
#
# <details><summary>At night two clients each send a request every ten seconds, at the same moment. Some answers take half a second longer; by day, none does. Where do you look?</summary>
#
# At the model's config: is there a queue policy or a priority? Then the second request waits while the first is computed. When that execution ends, the batcher may lose the race, and no third request wakes it.
#
# </details>
#
# Next: [the model repository manager](../07__model_repository_manager/07__model_repository_manager.ipynb).
