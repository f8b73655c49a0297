# ---
# title: From one server to a fleet
# minutes: 30
# ---

# %% [markdown]
# # From one server to a fleet
#
# **Question.** One server is as fast as it can be, and the traffic is larger than that. How many servers are needed, what stands before them, and what happens when one dies?
#
# We simulate a fleet, and check the simulation with three real servers.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("fleet")
lab = setup.start(models)  # three servers on 127.0.0.2, .3 and .4, and a proxy before them

# %% [markdown]
# ## A day's traffic
#
# A service draws pictures, each server one at a time. Nine of ten requests are previews, 0.3 s each; one is a final picture, 3 s. The promise to users, the *SLO* (service level objective): 99 of 100 previews come within 2 s (p99).
#
# In [fleet.py](fleet.py), `arrivals` gives random times; `simulate` gives each request's server and wait.

# %% tags=["triton"]
# %run fleet.py
import numpy as np
import pandas as pd


def rate(second):
    """Requests per second: few at night, more at noon, most at eight in the evening."""
    noon, evening = second / 3600 - 12.5, second / 3600 - 20
    return 0.6 + 2.2 * np.exp(-((noon / 3) ** 2)) + 5.7 * np.exp(-((evening / 2.2) ** 2))


def draw_lots(count, seed=1):
    """The kinds of requests, and how long each is computed."""
    names = np.where(np.random.default_rng(seed).random(count) < 0.1, "final", "preview")
    return names, np.where(names == "final", 3, 0.3)


# %% [markdown]
# ## How many servers?
#
# At eight, 6.3 requests come per second. On average one takes 0.9 × 0.3 s + 0.1 × 3 s = 0.57 s. So 6.3 × 0.57 = 3.6 servers are busy. Before them stands a *proxy*. It gives each request to the server with the fewest requests under way (`least_outstanding`).

# %%
predict(
    "fleet.size",
    "How many servers keep the promise at eight?",
    {
        "4: then they are busy in 90% of the time": "Requests come at random times. The more a "
        "server is busy, the longer the queue that each crowd leaves.",
        "5: then they are busy in 72% of the time": "Now and then all five draw final pictures, "
        "and previews wait behind them for seconds.",
        "8: then they are busy in 45% of the time": None,
    },
)


# %% tags=["triton"]
def p99(run):
    """p99 in seconds: of previews, of final pictures, of all."""
    found = run.requests.assign(s=latency_ms(run.requests) / 1000)
    each = found.groupby("kind")["s"].quantile(0.99)
    return {"preview": each["preview"], "final": each["final"], "all": found["s"].quantile(0.99)}


peak = arrivals(lambda second: 6.3 + 0 * second, until=3600, seed=1)  # 6.3 in each second
names, seconds = draw_lots(len(peak))
sizes = {}
for servers in (4, 5, 6, 7, 8, 30):
    run = simulate(peak, seconds, servers=servers, balance="least_outstanding", kinds=names)
    sizes[servers] = {"busy": seconds.sum() / 3600 / servers, **p99(run)}
sizes = pd.DataFrame(sizes).T.rename_axis("servers")
sizes.round(2)

# %%
enough = int(sizes.index[sizes["preview"] <= 2].min())
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
    enough > 5 and sizes["all"][30] > 2.9,
    f"{enough} servers keep the promise; with 4, p99 of previews is {sizes['preview'][4]:.0f} s. And 30 "
    f"servers leave p99 of all requests at {sizes['all'][30]:.1f} s: of a final picture.",
    "Run the cell above again.",
    id="fleet.size",
)

# %% [markdown]
# No number of servers makes a final picture take less than its 3 s.
#
# ## Which balancing?
#
# Now for real, ten times as fast. The [model](models/draw/1/model.py) sleeps, which needs no core: three Tritons are like three machines. The proxy, [Caddy](https://caddyserver.com/docs/caddyfile/directives/reverse_proxy), chooses by turns, by fewest requests, or *by kind*, which clients say in a header. `{$…}` are environment variables:

# %%
show("clients/by_kind.Caddyfile")

# %%
predict(
    "fleet.balance",
    "Three servers. Which way of choosing gives the shortest p99 of previews?",
    {
        "round robin: one after the other": "It does not look who is busy: a preview may stand "
        "behind a final picture while another server is idle.",
        "fewest requests: the least busy server": "When all three draw final pictures, "
        "a preview still waits for one of them.",
        "by kind": None,
    },
)

# %% tags=["triton"]
# %run clients/visitors.py
import subprocess


def proxy(file, **variables):
    """Let the running proxy read a file."""
    words = ["caddy", "reload", "-c", str(models / file), "-a", "caddyfile"]
    words += ["--address", os.environ["TRITON_ADMIN"]]
    subprocess.run(words, env={**os.environ, **variables}, check=True, capture_output=True)
    time.sleep(1.5)  # its health checks have looked at each server


# %% [markdown]
# [visitors.py](clients/visitors.py) sends the same requests in each way. The simulation takes the times at which they were sent, and how long each took the model. It chooses at random among equal servers, so we take the median of 20 runs.

# %% tags=["triton"]
times = arrivals(lambda second: 25 + 0 * second, until=12, seed=5)  # 25 × 0.057 s: 1.4 are busy
kinds, sleeps = draw_lots(len(times), seed=55)
ways = {
    "round_robin": ("bare.Caddyfile", "round_robin"),
    "least_outstanding": ("bare.Caddyfile", "least_conn"),
    "by_kind": ("by_kind.Caddyfile", ""),
}
served = {}
for name, (file, policy) in ways.items():
    proxy(file, TRITON_POLICY=policy)
    served[name] = visit(times, kinds, sleeps / 10, tries=2)  # again if many were sent late

# %% tags=["triton"]
table, places = {}, {"preview": [0, 1], "final": [2]}
for name, real in served.items():
    took = real["took"].fillna(0)
    options = {"balance": name, "kinds": real["kind"], "places": places}
    chances = [simulate(real["arrival"], took, seed=seed, **options) for seed in range(20)]
    expected = np.median([p99(run)["preview"] for run in chances])
    measured = real.loc[real["kind"] == "preview", "s"].quantile(0.99)
    table[name] = {"simulated": expected, "measured": measured}
table = pd.DataFrame(table).T * 1000  # p99 of previews, in ms
shortest, off = table["measured"].idxmin(), (table["measured"] / table["simulated"] - 1).abs().max()
order = [list(table[how].sort_values().index) for how in ("simulated", "measured")]
table.round()

# %%
calm = setup.calm(served)
compare(
    "fleet.balance",
    "round robin: one after the other"
    if shortest == "round_robin"
    else "fewest requests: the least busy server"
    if shortest == "least_outstanding"
    else "by kind",
    premise=calm,
)
claim(
    off < 0.3 and order[0] == order[1],
    f"The measured p99 of previews is within {off:.0%} of the simulated one, in the same order: "
    f"{', '.join(order[0])}.",
    "Run the cells with the requests and the table again.",
    premise=calm,
    id="fleet.simulated",
)

# %% [markdown]
# By kind, no preview stands behind a final picture. Do six servers keep the promise at eight, three for each kind?
#
# And does the fewest-requests rule always beat round robin? We try requests of equal length.

# %% tags=["triton"]
apart = {"preview": [0, 1, 2], "final": [3, 4, 5]}
split = simulate(peak, seconds, servers=6, balance="by_kind", kinds=names, places=apart)
print("six servers by kind, p99 in s:", {name: round(s, 2) for name, s in p99(split).items()})
equal = {}
for balance in ("random", "round_robin", "least_outstanding"):
    run = simulate(peak, np.full(len(peak), 0.3), servers=3, balance=balance)
    equal[balance] = latency_ms(run.requests).quantile(0.99)
print("equal requests, p99 in ms:", {name: round(ms) for name, ms in equal.items()})

# %%
claim(
    p99(split)["preview"] < 2 and equal["least_outstanding"] > 0.9 * equal["round_robin"],
    f"Six servers by kind keep the promise: p99 of previews is {p99(split)['preview']:.1f} s. But that "
    f"of final pictures is {p99(split)['final']:.1f} s; six servers for all had "
    f"{sizes['final'][6]:.1f} s. With equal requests, the fewest-requests rule gains nothing over "
    "round robin.",
    "Run the cell above again.",
    id="fleet.equal",
)

# %% [markdown]
# Requests of equal length end in the order in which they began. So the next in turn is always free first.
#
# ## A server dies
#
# With `bare.Caddyfile` the proxy takes the server with the fewest requests under way, and never asks whether a server lives. We kill one of three. Then again with `Caddyfile`, printed below the result.

# %%
predict(
    "fleet.death",
    "Of the requests that come afterwards, how many fail?",
    {
        "about a third": "So it would be if each server got equally many. But a dead server refuses "
        "at once, so it has the fewest requests under way.",
        "far more than a third": None,
        "next to none: the proxy tries another server": "Caddy does this only if it is told to: `lb_retries`.",
    },
)

# %%
crowd = times[times < 9] / 1.5  # 1.5 times as many, so that the servers that live are busy
kind, sleep = kinds[: len(crowd)], sleeps[: len(crowd)] / 10
shares = {}  # which share failed, of the requests from half a second after the death on
# bare.Caddyfile: no check in time. Caddyfile: a check every 0.5 s, and up to two more tries
for file, health in (("bare.Caddyfile", Health(999)), ("Caddyfile", Health(0.5, retries=2))):
    proxy(file)
    setup.kill_later(lab.fleet[1], 1.5)
    real = visit(crowd, kind, sleep)
    setup.restart(lab.fleet[1])
    death = [Event(1.5, "dies", 1)]
    run = simulate(crowd, sleep, balance="least_outstanding", health=health, events=death)
    for how, found in (("simulated", run.requests), ("measured", real)):
        shares[file, how] = (found.loc[found["arrival"] > 2, "error"] != "").mean()
print("share that failed", pd.Series(shares).unstack().round(2), sep="\n")
# !cat $TRITON_MODELS/Caddyfile

# %%
gone = Premise(shares["bare.Caddyfile", "measured"] > 0, "the server did not die in time")
lost = (
    "far more than a third"
    if shares["bare.Caddyfile", "measured"] > 0.42
    else "about a third"
    if shares["bare.Caddyfile", "measured"] > 0.2
    else "next to none: the proxy tries another server"
)
compare("fleet.death", lost, premise=gone)
claim(
    shares["bare.Caddyfile", "measured"] > 0.42 and shares["Caddyfile", "measured"] < 0.05,
    f"The proxy that does not check lost {shares['bare.Caddyfile', 'measured']:.0%} of the requests; the other one "
    f"{shares['Caddyfile', 'measured']:.0%}.",
    "Run the cell with the deaths again.",
    premise=gone,
    id="fleet.death",
)

# %% [markdown]
# Requests that the dead server had are not counted. They are lost with both files: Caddy sends a POST again [only if no connection came about](https://caddyserver.com/docs/caddyfile/directives/reverse_proxy). A client may.
#
# ## Before a server that is loading
#
# The third server loads `draw`, for 5 s. Three paths tell its state. The proxy asks `health/live` in the first run, `health/ready` in the second:

# %% tags=["triton"]
import threading

import httpx
import tritonclient.grpc as grpc

control, refused = grpc.InferenceServerClient(os.environ["TRITON_3_GRPC"]), {}
# !sed -i 's/string_value: "0"/string_value: "5"/' $TRITON_MODELS/draw/config.pbtxt
for path in ("health/live", "health/ready"):
    control.unload_model("draw")
    loading = threading.Thread(target=control.load_model, args=["draw"])
    loading.start()
    proxy("Caddyfile", TRITON_HEALTH=f"/v2/{path}")
    found = visit(times[times < 2.5], kinds, sleeps / 10)
    for each in ("health/live", "health/ready", "models/draw/ready"):
        print(each, httpx.get(f"http://{os.environ['TRITON_3']}/v2/{each}").status_code)
    refused[path] = (found["error"] != "").mean()
    loading.join()
# !sed -i 's/string_value: "5"/string_value: "0"/' $TRITON_MODELS/draw/config.pbtxt

# %%
claim(
    refused["health/live"] > 0.15 and refused["health/ready"] == 0,
    f"While a server loaded, the proxy that asks whether it lives lost {refused['health/live']:.0%} "
    "of all requests; the one that asks whether it is ready lost none.",
    "Run the cell above again.",
    id="fleet.loading",
)

# %% [markdown]
# A loading server *lives*, but is not *ready*. It refuses at once, so it has the fewest requests under way. With `--strict-readiness=true`, as here, one model that is not ready makes the server not ready.
#
# ## Servers on demand
#
# Every 15 s, Kubernetes' autoscaler wants [servers × measured / target](https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/), rounded up. What it measures is, here, the mean wait in the queue.

# %%
predict(
    "fleet.order",
    "A fleet of three has 2 requests per second, then at once 6.3: 8 servers would do. The target is a "
    "mean wait of 0.5 s, the most is 20 servers, and a new one needs five minutes to start. How many "
    "does the fleet order before the first new one is there?",
    {
        "5, so that there are 8": "The rule multiplies by measured / target. A wait has no upper "
        "bound: it grows as long as there are too few servers.",
        "17, so that there are 20": None,
        "one after the other, until there are enough": "The rule does not order one by one. Until the ordered "
        "ones are there, the wait grows, and it orders more. Only `most` ends that.",
    },
)

# %% tags=["triton"]
rise = arrivals(lambda second: np.where(second < 1800, 2, 6.3), until=3600, seed=4)
lots, draws = draw_lots(len(rise))
# As in Kubernetes, one decision adds at most four, or as many as there are
rule = Scaling(target=0.5, least=3, most=20, delay=300)
run = simulate(rise, draws, balance="least_outstanding", kinds=lots, scaling=rule)
ordered = run.servers[run.servers["since"].between(1800, 2100)]
print(len(ordered), "ordered before the first is there, at second:", *ordered["since"].astype(int))

# %%
order_of = "17, so that there are 20" if len(ordered) > 12 else "5, so that there are 8"
compare("fleet.order", order_of, premise=Premise(len(rise) > 10_000, "too few requests"))

# %% tags=["triton"]
# The whole day: eight servers always, or two to ten on demand for a mean wait of 0.1 s. A new one
# answers 60 or 600 s after the order, and is paid from the order on.
day = arrivals(rate, until=86_400, seed=4)
lots, draws = draw_lots(len(day))
fleets = {"always 8": simulate(day, draws, servers=8, balance="least_outstanding", kinds=lots)}
for delay in (60, 600):
    rule = Scaling(target=0.1, least=2, most=10, delay=delay)
    fleets[f"{delay} s"] = simulate(
        day, draws, servers=2, balance="least_outstanding", kinds=lots, scaling=rule
    )
price = 1.0  # an example: what one server costs per hour, in your currency
costs = {
    name: {**p99(run), "per million": cost_per_million(run, price)} for name, run in fleets.items()
}
costs = pd.DataFrame(costs).T
costs.round(1)  # p99 in s; the price of a million requests


# %%
claim(
    costs["preview"]["60 s"] < 2 < costs["preview"]["600 s"]
    and costs["per million"]["60 s"] < 0.8 * costs["per million"]["always 8"],
    f"Over the day, the promise holds with a minute's delay: a million requests cost "
    f"{costs['per million']['60 s']:.0f}, not {costs['per million']['always 8']:.0f}. With ten minutes, p99 of "
    f"previews is {costs['preview']['600 s']:.1f} s, for {costs['per million']['600 s']:.0f}.",
    "Run the cell with the day again.",
    id="fleet.delay",
)
setup.draw_day(rate, fleets)

# %% [markdown]
# The number swings: without a queue servers go, until a queue grows. Then many are ordered, and users wait for them. So make the start short: a small container, weights on a local disk. A larger `least` may help: try it above.
#
# ## A new version
#
# Each second, one more server loads version 2, while requests come:

# %% tags=["triton"]
servers = [grpc.InferenceServerClient(os.environ[f"TRITON_{number}_GRPC"]) for number in (1, 2, 3)]


def roll_out():
    for server in servers:
        time.sleep(1)
        server.load_model("draw")


# !rm -rf $TRITON_MODELS/draw/2
for server in servers:
    server.load_model("draw")
proxy("Caddyfile")
# !cp -r $TRITON_MODELS/draw/1 $TRITON_MODELS/draw/2
threading.Thread(target=roll_out).start()
rolled = visit(times[times < 6], kinds, sleeps / 10)
through = grpc.InferenceServerClient(os.environ["TRITON_PROXY_GRPC"])  # the proxy takes gRPC, too
x = grpc.InferInput("seconds", [1], "FP32").set_data_from_numpy(np.zeros(1, np.float32))
print("by gRPC: version", *through.infer("draw", [x]).as_numpy("version"))
pd.crosstab(rolled["arrival"].astype(int).rename("second"), rolled["version"])

# %%
claim(
    (rolled["error"] == "").all() and set(rolled.loc[rolled["arrival"] > 5.5, "version"]) == {2},
    f"Of {len(rolled)} requests none failed; at the end all were answered by version 2.",
    "Run the cell above again.",
    id="fleet.rollout",
)

# %% [markdown]
# Triton [answers with version 1](https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_management.md#model-control-mode-explicit) until version 2 is loaded. For some seconds users get answers of both.
#
# ## What a million requests cost
#
# Fleets for 100,000 small pictures per second, p99 within 20 ms, on machines with 16 cores (*CPU*) or an H100 (*GPU*). The speeds are those of the network `digits`, recorded in `docker/gpu/VERIFIED.md`.

# %% tags=["triton"]
prices = {"CPU": 1.0, "GPU": 5.0}  # of one machine per hour: examples
recorded = {("CPU", 1): 3084, ("GPU", 1): 2868, ("CPU", 64): 38_333, ("GPU", 64): 138_000}
rows = []
for (device, batch), per_second in recorded.items():
    batches = arrivals(lambda second, each=100_000 / batch: each + 0 * second, until=0.5)
    work = np.full(len(batches), batch / per_second)  # a machine takes one after the other
    for machines in range(int(100_000 / per_second) + 1, 10_000):
        if latency_ms(simulate(batches, work, servers=machines).requests).quantile(0.99) <= 20:
            break
    per_million = machines * prices[device] / 3600 / 100_000 * 1e6
    rows.append((device, batch, per_second, machines, per_million))
columns = ["device", "in a request", "pictures per s", "machines", "per million"]
fleets_for = pd.DataFrame(rows, columns=columns).set_index(columns[:2])
fleets_for.round(4)

# %%
claim(
    fleets_for.machines["GPU", 1] >= fleets_for.machines["CPU", 1]
    and fleets_for.machines["GPU", 64] < fleets_for.machines["CPU", 64],
    f"With one picture per request, {fleets_for.machines['GPU', 1]} machines with a GPU do what "
    f"{fleets_for.machines['CPU', 1]} without one do. With 64, it is {fleets_for.machines['GPU', 64]} against "
    f"{fleets_for.machines['CPU', 64]}.",
    "Run the cell above again.",
    id="fleet.gpu",
)

# %% [markdown]
# Batches save nine tenths on CPUs. At five times the price per hour, the GPU saves nothing here.
#
# ## The same in Kubernetes
#
# `docker/hub/kubernetes/triton.yaml` is such a fleet: checked against schemas, not run. [Kubernetes](https://kubernetes.io/docs/concepts/workloads/pods/probes/) asks:
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
# *Startup*: loading may take 120 × 5 s. *Liveness*: after 6 × 10 s without an answer, the server starts again. *Readiness* is our `health_uri`.

# %% [markdown]
# ```yaml
#   strategy:
#     rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
# …
#   minReplicas: 1
#   maxReplicas: 4
#   metrics:
#     - type: Pods
#       pods:
#         metric: {name: triton_queue_time_us}
#         target: {type: AverageValue, averageValue: "50000"}
# ```
#
# A *pod* is a server here. A new version: first one more, then an old one goes. Below `…` are `least`, `most` and `target` of the simulation: here a mean wait of 50 ms. Triton counts the requests, and their time in the queue.
#
# ## Mistakes
#
# `caddy adapt` reads a file as `reload` does, and changes nothing. Three mistakes:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# try() {
#   sed "$1" Caddyfile > mistake
#   caddy adapt -c mistake -a caddyfile 2>&1 > adapted.json | grep -o 'parsing.*'
# }
# try 's/lb_policy .*/lb_policy least_connections/'
# try 's/health_uri/health_url/'
# try 's/health_interval 500ms/health_interval 500/'
# curl -so answer -w 'The proxy still answers: %{http_code}\n' $TRITON_PROXY/v2/health/live

# %% [markdown]
# ## Your turn
#
# The cell loads a new, broken model, `report`, on each server, and takes `draw` from the third. Now nobody gets an answer. Change the file `{models}/Caddyfile` in an editor: requests shall reach the servers that have `draw`, and no other. Then run the cell again: it reloads the file, and checks.

# %%
setup.spoil(lab)
proxy("Caddyfile")
task("fleet.healthy", server=lab)

# %% [markdown]
# ## The same at work, without this course
#
# Take the log of your busiest hour. This program finds the number of servers, with [fleet.py](fleet.py):

# %%
show("at_work/how_many.py")

# %% tags=["triton"]
log = pd.DataFrame({"arrival": peak, "kind": names, "seconds": seconds})
log.to_csv(models / "log.csv", index=False)
# %run at_work/how_many.py {models}/log.csv preview 2

# %% [markdown]
# ## What to remember
#
# - Plan for the promise at the peak. With long requests apart from short ones, fewer servers keep it.
# - A proxy asks whether the model that you need is *ready*, and tries another server if a connection is refused.
# - An autoscaler on queue time acts when users wait already. What matters is how soon a new server answers.

# %% [markdown]
# ## Check yourself
#
# <details><summary>One of ten servers dies, and 60 % of the requests fail. How can that be?</summary>
#
# The proxy chooses the server with the fewest requests under way. The dead one refuses at once, so it always has the fewest. Health checks and retries are missing.
#
# </details>
#
# <details><summary>All servers answer, and yet Kubernetes sends them nothing. Where do you look?</summary>
#
# At the readiness probe. With `--strict-readiness=true`, one model that does not load makes a server not ready.
#
# </details>
