# ---
# title: Start here
# minutes: 12
# ---

# %% [markdown]
# # Triton Workbook
#
# Triton Inference Server is NVIDIA's open-source server for machine-learning models: programs send it tensors over the network, and it sends predictions back. You will serve real models on this machine, and measure what happens. You need not believe a number in this course: you measure it yourself.

# %% [markdown]
# ## Is the server there?
#
# `make lab` has started it. Run the cells with Shift+Enter, from top to bottom.

# %%
from workbook.server import all_models, ensure

server = ensure("square")
print(server.url, server.metadata()["name"], server.metadata()["version"])

# %% [markdown]
# `ensure` finds the server, and loads the models that it lacks. If no server answers: in a terminal, `workbook serve --detach` starts a server, `workbook status` shows its state, and `make doctor` says what this machine lacks.
#
# This is what the server is made of. Each notebook of lecture 1 marks the parts that it is about.
#
# ![Triton: front ends, core, backends, model repository](architecture.svg)

# %% [markdown]
# ## What it serves
#
# One folder, `model_repository/`, one subfolder per model. A *backend* is the part of Triton that runs models of one kind: Python, PyTorch, ONNX and so on. Most backends are C++ libraries. On a laptop, Python programs that follow the same rules take their place: we call them *stand-ins*.

# %%
import pandas as pd

models = [m for m in all_models.status(server) if m.state == "READY"]
rows = [(m.backend, "stand-in" if m.stand_in else "Triton's own", m.name) for m in models]
table = pd.DataFrame(rows, columns=["backend", "served by", "models"])
pd.set_option("display.max_colwidth", None)
table.groupby(["backend", "served by"]).agg(", ".join)

# %% [markdown]
# ### The same in NVIDIA's container
#
# It is meant to serve the same folder unchanged. With Docker, `$IMAGE` being the address that [NVIDIA's quickstart](https://github.com/triton-inference-server/server/blob/main/docs/getting_started/quickstart.md) gives for release 24.10:
#
# ```sh
# docker run --rm --gpus all --shm-size 1g -p 8000-8002:8000-8002 \
#   -v $PWD/model_repository:/models --workdir /models $IMAGE \
#   tritonserver --model-repository /models
# ```
#
# Leave out `--gpus all` where there is no GPU. We have not run it: this course was built without Docker.

# %% [markdown]
# ## A first request
#
# The smallest model squares numbers. JSON goes in, JSON comes out.

# %%
tensor = {"name": "INPUT", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
answer = server.request("POST", "/v2/models/square/infer", json={"inputs": [tensor]})
answer["outputs"][0]["data"]

# %% [markdown]
# ## How a lecture works
#
# Each begins with a question. You **predict**, run the experiment, and **compare**. Predictions are kept on this machine only. You may skip one: what was measured is shown all the same.
#
# Try one. An *execution* is one call of the model. The first number of a tensor's shape counts its rows: `[3, 1]` is 3 rows.

# %%
from workbook import measure
from workbook.lessons import claim, compare, predict, task
from workbook.lessons.premises import counted

predict(
    "start.square",
    "The square model gets one request with 3 rows. How many executions will the server count?",
    {
        "3, one per row": "A model gets all rows of a request in one call. The 3 rows are counted, "
        "too, but as inferences.",
        "1": None,
        "0: it is too small to be counted": "The server counts every request that a model has "
        "computed, however small it is.",
    },
)

# %%
numbers = [1, 2, 3]
before = measure.statistics(server, "square")
rows = {"name": "INPUT", "shape": [len(numbers), 1], "datatype": "FP32", "data": numbers}
server.request("POST", "/v2/models/square/infer", json={"inputs": [rows]})
seen = measure.counted(server, "square", before, 1).iloc[0]
seen[["requests", "inferences", "executions"]].to_frame("count")

# %%
alone = counted(seen, 1)  # no other program has asked meanwhile
known = {1: "1", 3: "3, one per row"}
compare("start.square", known.get(seen.executions, str(seen.executions)), premise=alone)
claim(
    seen.executions == 1 and seen.inferences == len(numbers),
    f"{len(numbers)} rows in one request are {len(numbers)} inferences in one execution.",
    "Run the last two cells again: another program may have used this server.",
    premise=alone,
    id="start.square",
)

# %% [markdown]
# A **claim** says what should hold on your machine. Other programs can disturb an experiment. So a claim has a **premise**. If that fails, you read what differed; run the experiment again.
#
# In a **task** you change something. The check asks the server, and turns green when the task is done. One button checks again, the other gives hints.

# %%
task("start.five", server=server)

# %% [markdown]
# ## The syllabus
#
# Lectures are for reading and measuring, assignments for building. The minutes come from the notebooks themselves.

# %%
from workbook.lessons import syllabus

syllabus.table()

# %% [markdown]
# ## Three paths
#
# The path of two hours shows what Triton does with requests. The one of four adds the inside of the server and an assignment. The one of eight will cover the whole architecture, and the first notebooks on backends and speed. The table counts what is ready today. The time that is left over is for the self-checks.

# %%
syllabus.routes()

# %% [markdown]
# ## The documents behind the course
#
# Five documents gave this course facts, numbers and configs. Three are slides of another course, in Russian, by engineers:
#
# - *the architecture slides*: the plan of lecture 1 and assignment a1
# - *the backend slides*: the plan of lecture 2 and assignment a4
# - *the acceleration slides*: commands for TensorRT and fp16 in lecture 2

# %% [markdown]
# Two are web pages:
#
# - *the production guide*, in Chinese, a practitioner's article: configs for PyTorch, ONNX and TensorFlow, and a chat loop (lecture 2, assignment a6)
# - *the Llama page*, in Portuguese, a tutorial: an ensemble with a tokenizer, and measurements of vLLM (lecture 2)

# %% [markdown]
# ## Before you go on
#
# - Most experiments run on a server of their own; only this notebook uses the shared one.
# - Compare ratios with published results, not absolute numbers.
# - **Errata** boxes say what older slides and guides got wrong, or what has changed since.
# - Something is broken? In the menu: *Kernel*, *Restart Kernel and Run All Cells*.
#
# Next: [a first model](../1_architecture/01__first_model/01__first_model.ipynb).
