# ---
# title: From one server to a fleet
# minutes: 29
# ---

# %% [markdown]
# # From one server to a fleet
#
# **Question.** One server is as fast as it can be, and more requests come than it can answer. How many servers do you need? Which of them gets a request? And what happens when one dies?
#
# First we simulate a fleet of servers. Then we start three real ones.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("fleet")
lab = setup.start(models)  # three servers on 127.0.0.2, .3 and .4, and a proxy before them

# %% [markdown]
# ## A service and its promise
#
# Users ask for pictures. Nine of ten are *previews*, computed for 0.3 s. One of ten is a *final* picture, 3 s. A server computes one at a time.
#
# The service promises (this is its *SLO*, service level objective): 99 of 100 previews come within 2 s. So their p99 is 2 s at most.

# %% tags=["triton"]
# %run fleet.py
import numpy as np
import pandas as pd


def choose_kinds(count, seed=1):
    """Random kinds of requests, and how many seconds each is computed."""
    chosen = np.where(np.random.default_rng(seed).random(count) < 0.1, "final", "preview")
    return chosen, np.where(chosen == "final", 3, 0.3)


def p99(run):
    """The p99 of previews, and that of final pictures, in seconds."""
    seconds_each = latency_ms(run.requests) / 1000
    return seconds_each.groupby(run.requests["kind"]).quantile(0.99)[["preview", "final"]]


# %% [markdown]
# ## How many servers?
#
# At eight in the evening, 6.3 requests come per second. On average one takes 0.9 × 0.3 s + 0.1 × 3 s = 0.57 s. So 6.3 × 0.57 = 3.6 servers are busy on average: three are too few.
#
# A *proxy*, a program before the servers, gives each request to the server with the fewest requests under way (`least_outstanding`).

# %%
predict(
    "fleet.size",
    "What is the smallest number of servers that keeps the promise at eight?",
    {
        "4: then they are busy in 90% of the time": "Requests come at random times. The more a "
        "server is busy, the longer the queue that each crowd leaves.",
        "5: then they are busy in 72% of the time": "Now and then all five draw final pictures, "
        "and previews wait behind them for seconds.",
        "8: then they are busy in 45% of the time": None,
    },
)

# %% [markdown]
# We simulate one hour with 4 servers, with 5, and so on. [fleet.py](fleet.py), which the cell above has run, has two functions for it: `arrivals` makes random times at which requests come. `simulate` computes which server gets each request, and when the answer comes.
#
# In the table, `busy` is the share of the time in which a server computes.

# %% tags=["triton"]
peak = arrivals(lambda second: 6.3, until=3600, seed=1)  # 6.3 in each second
peak_kinds, peak_s = choose_kinds(len(peak))
sizes = {}
for servers in (4, 5, 6, 7, 8, 30):
    run = simulate(peak, peak_s, servers=servers, balance="least_outstanding", kinds=peak_kinds)
    sizes[servers] = {"busy": peak_s.sum() / 3600 / servers, **p99(run)}
sizes = pd.DataFrame(sizes).T.rename_axis("servers")
sizes.round(2)

# %%
enough = int(sizes.index[sizes["preview"] <= 2].min())
fewer = sizes.index[sizes.index < enough].max()
compare(
    "fleet.size",
    "4: then they are busy in 90% of the time"
    if enough == 4
    else "5: then they are busy in 72% of the time"
    if enough == 5
    else "8: then they are busy in 45% of the time",
    premise=Premise(len(peak) > 20_000, "too few requests"),
)
claim(
    enough == 8 and sizes["final"][30] > 2.9,
    f"{enough} servers keep the promise. With {fewer}, p99 of previews is {sizes['preview'][fewer]:.1f} "
    f"s, with 4 {sizes['preview'][4]:.0f} s. And 30 servers leave p99 of final pictures at "
    f"{sizes['final'][30]:.1f} s.",
    "Run the cell above again.",
    id="fleet.size",
)

# %% [markdown]
# More servers shorten the waiting only: a final picture still takes 3 s.
#
# ## Servers on demand
#
# Only the evening needs eight servers. An *autoscaler* changes their number. Like [Kubernetes'](https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/), ours wants servers × measured / target. It measures the mean wait in the queue (`nv_inference_queue_duration_us`); the target is 0.1 s. If requests wait 0.2 s, it wants twice as many servers.

# %%
predict(
    "fleet.delay",
    "Two to ten servers on demand, and not always eight. A new server has to start and to load its "
    "models, which takes one minute, or ten. Does p99 of previews over the whole day stay below 2 s?",
    {
        "with one minute, and with ten": "The autoscaler orders when requests wait already. For ten "
        "minutes until the new server is there, they wait longer and longer.",
        "with one minute only": None,
        "never: requests must wait before a server is ordered": "They must. But if the new server is "
        "there after a minute, these are less than 1 of 100 previews.",
    },
)


# %% tags=["triton"]
def rate(second):
    """Requests per second: few at night, more at noon, most at eight in the evening."""
    noon, evening = second / 3600 - 12.5, second / 3600 - 20
    return 0.6 + 2.2 * np.exp(-((noon / 3) ** 2)) + 5.7 * np.exp(-((evening / 2.2) ** 2))


day = arrivals(rate, until=86_400, seed=4)
day_kinds, day_s = choose_kinds(len(day))

# %% [markdown]
# Three fleets: always eight servers, or on demand with a `delay` of 60 s, or of 600 s. A server is paid from its order on, and answers `delay` seconds later.
#
# The last column is what a million answers cost, if a server costs 1 per hour.

# %% tags=["triton"]
way = {"balance": "least_outstanding", "kinds": day_kinds}
fleets = {"always 8": simulate(day, day_s, servers=8, **way)}
for delay in (60, 600):
    rule = Scaling(target=0.1, least=2, most=10, delay=delay)
    fleets[f"{delay} s"] = simulate(day, day_s, servers=2, scaling=rule, **way)
costs = pd.DataFrame({name: p99(run) for name, run in fleets.items()}).T
costs["per million"] = [cost_per_million(run, 1.0) for run in fleets.values()]
costs.round(1)

# %%
compare(
    "fleet.delay",
    "with one minute, and with ten"
    if costs["preview"]["600 s"] < 2
    else "with one minute only"
    if costs["preview"]["60 s"] < 2
    else "never: requests must wait before a server is ordered",
    premise=Premise(len(day) > 100_000, "too few requests"),
)
worst = setup.worst_hour(fleets["60 s"])
claim(
    costs["preview"]["60 s"] < 2 < costs["preview"]["600 s"]
    and costs["per million"]["60 s"] < 0.8 * costs["per million"]["always 8"]
    and worst > 2,
    f"Over the day, p99 of previews is {costs['preview']['60 s']:.1f} s with a minute's delay, but "
    f"{worst:.1f} s in the worst hour. A million requests cost "
    f"{costs['per million']['60 s']:.0f}, not {costs['per million']['always 8']:.0f}. With ten minutes' "
    f"delay, p99 is {costs['preview']['600 s']:.1f} s, the cost {costs['per million']['600 s']:.0f}.",
    "Run the cell with the day again.",
    id="fleet.delay",
)
setup.draw_day(rate, fleets)

# %% [markdown]
# While a server starts, requests wait, and the autoscaler orders too many (picture). Make the start short (local weights). In the worst hour, one minute is too long: raise `least` before known peaks.
#
# ## Which balancing?
#
# Now three real servers, ten times as fast (promise: 0.2 s). Their [model](models/draw/1/model.py) only sleeps and needs no core, so they behave like three machines.

# %%
predict(
    "fleet.balance",
    "Three servers. Which way of choosing gives the shortest p99 of previews?",
    {
        "round robin: one after the other": "It does not look who is busy: a preview may stand "
        "behind a final picture while another server is idle.",
        "fewest requests: the least busy server": "When all three draw final pictures, "
        "a preview still waits for one of them.",
        "by kind: final pictures have a server of their own": None,
    },
)

# %% [markdown]
# The proxy is [Caddy](https://caddyserver.com/docs/caddyfile/directives/reverse_proxy). A *Caddyfile* says how it chooses. This is the third way, in [by_kind.Caddyfile](clients/by_kind.Caddyfile):
#
# ```
# @final header Kind final
# reverse_proxy @final {$TRITON_3}
# reverse_proxy {$TRITON_1} {$TRITON_2} {
#     lb_policy least_conn
# }
# ```
#
# `@final` names requests with the header `Kind: final`, which the client sends; for a model, write `path /v2/models/NAME/*`. `{$TRITON_3}` is the third server's address. `least_conn` is `least_outstanding`.

# %% [markdown]
# From [visitors.py](clients/visitors.py), `proxy` lets Caddy read another file. `visit` sends each request to the proxy at its time, and returns a row for each; `s` is the time until the answer.
#
# In the first two ways ([bare.Caddyfile](clients/bare.Caddyfile)), each server takes all kinds. The result is p99 in milliseconds. It needs 1,000 previews, so the cell takes 2½ minutes.

# %% tags=["triton"]
# %run clients/visitors.py
times = arrivals(lambda second: 25, until=45, seed=5)  # 25 per second, for 45 s
kinds, full_s = choose_kinds(len(times), seed=55)
sleeps = full_s / 10
ways = {
    "round_robin": ("bare.Caddyfile", "round_robin"),
    "least_outstanding": ("bare.Caddyfile", "least_conn"),
    "by_kind": ("by_kind.Caddyfile", ""),
}
served, measured = {}, {}
for name, (file, policy) in ways.items():
    proxy(file, TRITON_POLICY=policy)
    served[name] = visit(times, kinds, sleeps, tries=2)  # again if many were sent late
    measured[name] = 1000 * served[name].groupby("kind")["s"].quantile(0.99)
pd.DataFrame(measured).T.round()

# %%
shortest = pd.DataFrame(measured).loc["preview"].idxmin()
compare(
    "fleet.balance",
    "round robin: one after the other"
    if shortest == "round_robin"
    else "fewest requests: the least busy server"
    if shortest == "least_outstanding"
    else "by kind: final pictures have a server of their own",
    premise=setup.calm(served),
)

# %% [markdown]
# Which ways keep 200 ms? By kind, no preview waits for a final picture. The price: these wait longer, since one server has them all.
#
# **Is the simulation right?** It gets the times at which the requests were sent, and how long each took the model. Among equal servers it chooses at random: we take the median of 20 runs.

# %% tags=["triton"]
places = {"preview": [0, 1], "final": [2]}  # by kind: the numbers of the servers for each
table = {}
for name, real in served.items():
    options = {"balance": name, "kinds": real["kind"], "places": places}
    took = real["took"].fillna(0)
    chances = [simulate(real["arrival"], took, seed=seed, **options) for seed in range(20)]
    simulated = 1000 * np.median([p99(run)["preview"] for run in chances])
    table[name] = {"simulated": simulated, "measured": measured[name]["preview"]}
table = pd.DataFrame(table).T
table.round()  # p99 of previews, in ms

# %%
off = (table["measured"] / table["simulated"] - 1).abs().max()
order = [list(table[how].sort_values().index) for how in ("simulated", "measured")]
claim(
    off < 0.3 and order[0] == order[1],
    f"The measured p99 of previews is within {off:.0%} of the simulated one, in the same order: "
    f"{', '.join(order[0])}.",
    "Run the cells with the requests and the table again.",
    premise=setup.calm(served),
    id="fleet.simulated",
)

# %% [markdown]
# ## A server dies
#
# The proxy reads [bare.Caddyfile](clients/bare.Caddyfile) again: it chooses the server with the fewest requests under way.
#
# After about 1.3 s, one of the three servers is killed. The requests that it has then are lost, and not counted.

# %%
predict(
    "fleet.death",
    "Of the requests sent after 1.5 s, how many fail?",
    {
        "about a third": "So it would be if each server got equally many. But a dead server refuses "
        "at once, so it has the fewest requests under way while the others are busy.",
        "far more than a third": None,
        "next to none: the proxy tries another server": "Caddy does this only "
        "if it is told to: `lb_retries` with `fail_duration`.",
    },
)

# %%
crowd = times[times < 9] / 1.5  # 1.5 times as many per second


def failed_share(file):
    """Kill the second server after about 1.3 s; which share of the requests after 1.5 s fails?"""
    proxy(file)
    setup.kill_later(lab.fleet[1], 1.5)  # `visit` begins 0.2 s later
    found = visit(crowd, kinds, sleeps)
    setup.restart(lab.fleet[1])
    return (found.loc[found["arrival"] > 1.5, "error"] != "").mean()


bare = failed_share("bare.Caddyfile")
print(f"{bare:.0%} of the requests failed")

# %%
lost = (
    "far more than a third"
    if bare > 0.42
    else "about a third"
    if bare > 0.2
    else "next to none: the proxy tries another server"
)
compare("fleet.death", lost, premise=Premise(bare > 0, "the server did not die in time"))

# %% [markdown]
# The busier the others are, the more requests a dead server gets: so we sent 1.5 times as many. [Caddyfile](clients/Caddyfile) has four lines more:
#
# ```
# lb_retries 2
# fail_duration 1s
# health_uri {$TRITON_HEALTH:/v2/health/ready}
# health_interval 500ms
# ```
#
# Every 500 ms, the proxy asks each server on the path `TRITON_HEALTH`. One that does not say 200 gets no requests; one that refuses gets none for 1 s (`fail_duration`), so a retry (`lb_retries`) reaches another.

# %%
checked = failed_share("Caddyfile")
print(f"{checked:.0%} of the requests failed")

# %%
claim(
    bare > 0.42 and checked < 0.05,
    f"Without the four lines, the proxy lost {bare:.0%} of the requests; with them, {checked:.0%}.",
    "Run the cells with the deaths again.",
    premise=Premise(bare > 0, "the server did not die in time"),
    id="fleet.death",
)

# %% [markdown]
# ## A server that is loading
#
# A server may run and yet not answer, while its model loads. Triton has three paths. `health/live`: the process runs. `health/ready`, with `--strict-readiness=true` (Triton's default): no model is loading, and none has failed. `models/draw/ready`: the model `draw` is loaded.
#
# We let the third server load `draw` again, which shall take 5 s, and ask:

# %% tags=["triton"]
import threading

import httpx
import tritonclient.grpc as grpc

third = grpc.InferenceServerClient(os.environ["TRITON_3_GRPC"])
# !sed -i 's/string_value: "0"/string_value: "5"/' $TRITON_MODELS/draw/config.pbtxt


def load_again():
    third.unload_model("draw")
    thread = threading.Thread(target=third.load_model, args=["draw"])
    thread.start()
    return thread


loading = load_again()
for path in ("health/live", "health/ready", "models/draw/ready"):
    print(path, httpx.get(f"http://{os.environ['TRITON_3']}/v2/{path}").status_code)
loading.join()

# %% [markdown]
# 200 means yes, 400 no: a server that loads again is live, but not ready. One that starts answers nothing: Triton opens its ports when its models are loaded ([source](https://github.com/triton-inference-server/server/blob/main/src/main.cc)).
#
# Should the proxy ask for `live` or `ready`? We try both, while the third server loads. The result is the share of requests that fail.

# %% tags=["triton"]
failures = {}
for path in ("health/live", "health/ready"):
    again = load_again()
    proxy("Caddyfile", TRITON_HEALTH=f"/v2/{path}")
    found = visit(times[times < 2.5], kinds, sleeps)
    failures[path] = (found["error"] != "").mean()
    again.join()
pd.Series(failures).round(2)

# %%
claim(
    failures["health/live"] > 0.15 and failures["health/ready"] == 0,
    f"While a server loaded, the proxy that asks whether it lives lost {failures['health/live']:.0%} "
    "of all requests; the one that asks whether it is ready lost none.",
    "Run the cell above again.",
    id="fleet.loading",
)

# %% [markdown]
# ## The same in Kubernetes
#
# Kubernetes asks each server by [probes](https://kubernetes.io/docs/concepts/workloads/pods/probes/). From `docker/hub/kubernetes/triton.yaml` (not run):
#
# ```yaml
#           startupProbe:
#             httpGet: {path: /v2/health/live, port: http}
#             periodSeconds: 5
#             failureThreshold: 120
#           livenessProbe:
#             httpGet: {path: /v2/health/live, port: http}
#             periodSeconds: 10
#             timeoutSeconds: 5
#             failureThreshold: 6
#           readinessProbe:
#             httpGet: {path: /v2/health/ready, port: http}
# ```
#
# Until the first answer only the *startup* probe asks, up to ten minutes. Then a server that is not *live* for a minute starts again; one not *ready* gets no requests. [gRPC keeps one connection](https://kubernetes.io/blog/2018/11/07/grpc-load-balancing-on-kubernetes-without-tears/), so clients choose the server: `dns:///triton:8001` with `round_robin`.
#
# <details><summary>Update and autoscaler</summary>
#
# ```yaml
#     rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
# …
#   minReplicas: 1
#   maxReplicas: 4
# …
#         metric: {name: triton_queue_time_us}
#         target: {type: AverageValue, averageValue: "50000"}
# ```
#
# For a new version, one new server starts first. When it is ready, an old one goes, and so on; with a broken model, the old ones stay. The autoscaler wants one to four servers, and a mean wait of 50 ms, which prometheus-adapter computes.
#
# </details>

# %% [markdown]
# ## Your turn
#
# The cell loads a new, broken model, `report`, on each server, and takes `draw` from the third. Now nobody gets an answer. Copy all of `clients/Caddyfile` into a new cell, below `%%writefile {models}/Caddyfile`, and change it: requests shall reach the servers that have `draw`, no other. Then run this cell again.

# %%
setup.spoil(lab)
proxy("Caddyfile")
task("fleet.healthy", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# Take a CSV of your busiest hour, times in seconds: `arrival`, `kind`, `seconds` (computing, no queue). [A trace](../../1_architecture/03__schedulers/03__schedulers.ipynb) has them in nanoseconds: `REQUEST_START`, `COMPUTE_START` to `COMPUTE_END`. [how_many.py](at_work/how_many.py) adds servers until the promise is kept. Servers by kind: a CSV for each. For n instances, add n; it knows no batches.

# %% tags=["triton"]
log = pd.DataFrame({"arrival": peak, "kind": peak_kinds, "seconds": peak_s})  # the hour at eight
log.to_csv(models / "log.csv", index=False)
# %run at_work/how_many.py {models}/log.csv preview 2

# %% [markdown]
# ## What to remember
#
# - Keep short requests apart from long ones. Plan servers for the promise at the busiest time, and one more per kind in case one dies.
# - An autoscaler acts when users wait already. What matters is how soon a new server answers.
# - A proxy asks whether your model is *ready*, and tries another server if one refuses.

# %% [markdown]
# ## Check yourself
#
# <details><summary>One of ten servers dies, and 60 % of the requests fail. How can that be?</summary>
#
# The proxy chooses the server with the fewest requests under way. The dead one refuses at once, so it has the fewest while the others are busy. Health checks are missing, and retries that avoid it.
#
# </details>
#
# <details><summary>All requests take equally long. Is "fewest requests" better than round robin?</summary>
#
# No. They end in the order in which they began, so the next server in turn is free first, or has the shortest queue. If a server dies, round robin even loses fewer.
#
# </details>
#
# <details><summary>All servers answer, and yet Kubernetes sends them nothing. Where do you look?</summary>
#
# At the readiness probe, `/v2/health/ready`. With `--strict-readiness=true`, one model that does not load makes a server not ready. Ask for the model that you need, `/v2/models/NAME/ready`.
#
# </details>
