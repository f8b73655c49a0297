# ---
# title: Start here
# minutes: 10
# ---

# %% [markdown]
# # Triton Workbook
#
# Triton Inference Server is NVIDIA's open-source server for machine-learning models: programs send it tensors over the network, and it sends predictions back. You will serve real models on this machine, and measure what happens. Nothing here asks you to believe a number: you make it yourself.

# %% [markdown]
# ## Is the server there?
#
# `make lab` has started it. Run the cells with Shift+Enter, from top to bottom.

# %%
from workbook.server import all_models, ensure

server = ensure("square")
print(server.url, server.metadata()["name"], server.metadata()["version"])

# %% [markdown]
# `ensure` loads the models that a notebook needs, where the server has lost them. No answer? In a terminal, `workbook serve --detach` starts a server, `workbook status` shows how it is, and `make doctor` says what this machine lacks.

# %% [markdown]
# ## What it serves
#
# One folder, `model_repository/`, one subfolder per model. A *backend* is the part of Triton that runs models of one kind: Python, PyTorch, ONNX and so on. Most backends are C++ libraries. On a laptop, Python programs that follow the same rules take their place: we call them *stand-ins*. NVIDIA's GPU container serves the same folder unchanged.

# %%
import pandas as pd

models = [m for m in all_models.status(server) if m.state == "READY"]
rows = [(m.backend, "stand-in" if m.stand_in else "Triton's own", m.name) for m in models]
table = pd.DataFrame(rows, columns=["backend", "served by", "models"])
pd.set_option("display.max_colwidth", None)
table.groupby(["backend", "served by"]).agg(", ".join)

# %% [markdown]
# ## A first request
#
# The smallest one squares numbers. JSON goes in, JSON comes out.

# %%
tensor = {"name": "INPUT", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
answer = server.request("POST", "/v2/models/square/infer", json={"inputs": [tensor]})
answer["outputs"][0]["data"]

# %% [markdown]
# ## How a lecture works
#
# Each begins with a question. You **predict**, run the experiment, and **compare**. Run the cell of a prediction, then type a number below the question and press Enter, or choose an option.
#
# You may skip it: what was measured is shown all the same. Predictions are kept on this machine and nowhere else.

# %% [markdown]
# Try one. An *execution* is one call of the model by the server; an *inference* is one row. The first number of a tensor's shape counts its rows: `[3, 1]` is 3 rows.

# %%
from workbook.lessons import Premise, claim, compare, predict

predict("start.square", "The square model gets 3 rows at once. How many executions will it count?")

# %%
from workbook import measure

numbers = [1, 2, 3]
before = measure.statistics(server, "square")
rows = {"name": "INPUT", "shape": [len(numbers), 1], "datatype": "FP32", "data": numbers}
server.request("POST", "/v2/models/square/infer", json={"inputs": [rows]})
seen = measure.difference(before, measure.statistics(server, "square"))
requests = seen["requests"].sum()
alone = Premise(requests == 1, f"the server counted {requests} requests, and one was sent here")
compare("start.square", float(seen["executions"].sum()), premise=alone)

# %% [markdown]
# A **claim** says what should hold on your machine, and what to try when it does not.
#
# Other programs can disturb an experiment. So each comparison has a *premise*: what must be so before a result means anything. Where it does not hold, you read what differed instead of a result, and run the experiment again.

# %%
claim(
    seen["executions"].sum() == 1 and seen["inferences"].sum() == len(numbers),
    f"{len(numbers)} rows in one request are {len(numbers)} inferences in one execution.",
    "Does somebody else use this server? Then run the last two cells again.",
    premise=alone,
)

# %% [markdown]
# ## The syllabus
#
# Lectures are for reading and measuring, assignments for building. The minutes come from the notebooks themselves. A number that the table skips is a notebook still to come.

# %%
from workbook.lessons import syllabus

syllabus.table()

# %% [markdown]
# ## Three paths
#
# Two hours show what Triton does with requests. Four add the inside of the server and an assignment. Eight will cover the whole architecture, and the first notebooks on backends and speed. The table counts the minutes of what is ready today, and how many notebooks are to come. Time left over is for self-checks.

# %%
syllabus.routes()

# %% [markdown]
# ## Rules of the house
#
# - Lectures start servers of their own for experiments. The shared one is never disturbed.
# - A result of your own stands beside a published one. Compare ratios, not absolute numbers.
# - **Errata** boxes say what older slides and guides got wrong, or what has changed since.
# - Broke something? In the menu: *Kernel*, *Restart Kernel and Run All Cells*.

# %% [markdown]
# Next: [a first model](1_architecture/01__first_model.ipynb).
