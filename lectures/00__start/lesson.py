# ---
# title: Start here
# minutes: 18
# ---

# %% [markdown]
# # Triton Workbook
#
# Triton Inference Server is NVIDIA's open-source server for machine-learning models: programs send it tensors over the network, and it sends predictions back. You will serve real models on this machine, and measure what happens. You need not believe a number in this course: you measure it yourself.

# %% [markdown]
# ## Is the server there?
#
# It was started together with JupyterLab. Run the cells with Shift+Enter, from top to bottom.

# %%
import setup
from workbook.lessons import *  # predict, compare, task and so on: the course's own words

server = course_server("square")  # the server of `make lab`, with the model `square`

# %% [markdown]
# If no server answers: in a terminal, `workbook serve --detach` starts a server, `workbook status` shows its state, and `workbook doctor` says what this machine lacks.
#
# The cell has put the server's address into `TRITON_HTTP`. At work it is often `localhost:8000`. Everything that a client does goes there, for example with `curl`:

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2
# echo
# curl -si $TRITON_HTTP/v2/models/square/ready | head -1

# %% [markdown]
# The first answer names the server, its version, and its extensions of the [protocol](https://github.com/triton-inference-server/server/blob/main/docs/protocol/README.md). The second, `200 OK`, says that a model is ready. This is what the server is made of. Each notebook of lecture 1 marks the parts that it is about.
#
# ![Triton: front ends, core, backends, model repository](architecture.svg)

# %% [markdown]
# ## What it serves
#
# One folder, `model_repository/`, one subfolder per model. A *backend* is the part of Triton that runs models of one kind: Python, PyTorch, ONNX and so on. Most backends are C++ libraries. On a laptop, Python programs that follow the same rules take the place of some: the table calls them *stand-ins*, and all others Triton's own.

# %%
setup.table(server)

# %% [markdown]
# An *ensemble* is a chain of other models; notebook 3 of lecture 1 has one. The folder is a *model repository*. One of its models, whole:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# find square -type f -not -name '*.pyc'
# cat square/config.pbtxt square/1/model.py

# %% [markdown]
# The folder's name is the model's, and `1` is its version. The config names the backend, and the tensors that go in and out; `-1` is any size. `max_batch_size` lets one request bring up to 64 rows. `model.py` computes: it gets a list of requests, and gives back as many responses. Notebook 1 explains them line by line.

# %% [markdown]
# ## A first request
#
# The tensor's name and type are those of the config. The first number of its shape counts the rows: `[1, 4]` is one row of four numbers. JSON goes in, JSON comes out.

# %% language="bash" tags=["triton"]
# curl -s $TRITON_HTTP/v2/models/square/infer -d '{"inputs": [
#   {"name": "INPUT", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}'

# %% [markdown]
# ## How a lecture works
#
# Each begins with a question. You **predict**, run the experiment, and **compare**. Predictions are kept on this machine only. You may skip one.
#
# The comparison is a bar below the experiment: a cell whose code is hidden, because it would tell the answer. Run it like the others.

# %% [markdown]
# Try one. Python programs use the package `tritonclient`. Besides answers, the server gives statistics of each model: how many rows it has computed (*inferences*), and how many times it was called (*executions*). `counts` reads both.

# %% tags=["triton"]
import os
import time

import numpy as np
import tritonclient.http as http

client = http.InferenceServerClient(os.environ["TRITON_HTTP"])


def counts():
    time.sleep(0.1)  # the server counts a request a moment after it has answered it
    stats = client.get_inference_statistics("square")["model_stats"][0]
    return np.array([stats["inference_count"], stats["execution_count"]])


# %%
predict(
    "start.square",
    "The model square gets one request with 3 rows. How many executions will the server count?",
    {
        "3, one per row": "A model gets all rows of a request in one call. The 3 rows are counted, "
        "too, but as inferences.",
        "1": None,
        "2: one for the shape, one for the rows": "The server checks the shape itself, without the "
        "model. The model is called for the rows only.",
    },
)

# %% tags=["triton"]
numbers = [1, 2, 3]
rows = np.array(numbers, np.float32)[:, None]
tensor = http.InferInput("INPUT", rows.shape, "FP32").set_data_from_numpy(rows)
before = counts()
answer = client.infer("square", [tensor])
inferences, executions = counts() - before
print(answer.as_numpy("OUTPUT").tolist())

# %%
alone = Premise(inferences <= len(numbers), "another program has sent requests to this model")
known = {1: "1", 3: "3, one per row"}
compare("start.square", known.get(executions, str(executions)), premise=alone)
claim(
    executions == 1 and inferences == len(numbers),
    f"{len(numbers)} rows in one request are {len(numbers)} inferences in one execution.",
    "Run the last two cells again: another program may have used this server.",
    premise=alone,
    id="start.square",
)

# %% [markdown]
# The line "Holds" is a **claim**: what should hold on your machine, too. It may have a **premise**, for example that no other program used the server meanwhile. If that fails, the line says what differed, and you run the experiment again.

# %% [markdown]
# In a **task** you change something, here in a cell above. The check asks the server, and turns green when the task is done. One button checks again, the other gives hints.

# %%
task("start.five", server=server)

# %% [markdown]
# ## The same in NVIDIA's container
#
# At work the server is usually NVIDIA's container. It serves the same folders. This command starts release 24.10 with `square` ([quickstart](https://github.com/triton-inference-server/server/blob/main/docs/getting_started/quickstart.md)). It needs Docker, and was not run here:
#
# ```sh
# docker run --rm --gpus all --shm-size 1g \
#   -p 8000:8000 -p 8001:8001 -p 8002:8002 \
#   -v "$PWD/model_repository:/models" \
#   nvcr.io/nvidia/tritonserver:24.10-py3 \
#   tritonserver --model-repository /models \
#   --model-control-mode explicit --load-model square
# ```

# %% [markdown]
# | part | meaning |
# |---|---|
# | `--gpus all` | leave it out where there is no GPU |
# | `--shm-size` | shared memory: Python models get their tensors through it |
# | `-p` | the ports of HTTP, gRPC and metrics |
# | `-v` | left: your model repository; the container sees it as `/models` |
# | `--model-control-mode explicit --load-model square` | load this model only; without both options, all of them |

# %% [markdown]
# This file asks the server in the container; here it asks that of this notebook. For a model of your own, change the four places with a number:

# %%
show("at_work/first_client.py")

# %% tags=["triton"]
# %run at_work/first_client.py

# %% [markdown]
# ## The syllabus
#
# Lectures are for reading and measuring, assignments for building. The minutes count reading, running, and one task per notebook. They are estimates.

# %%
from workbook.lessons import syllabus

syllabus.table()

# %% [markdown]
# ## Four paths
#
# The hours begin after this notebook; pauses, and what you try beyond the tasks, come on top. The path of two hours shows what Triton does with requests. Those of four lead to a model of your own, in assignment 1 or 2. The one of eight adds metrics, two backends, and first steps to speed.

# %%
syllabus.routes()

# %% [markdown]
# The link *Next* at a notebook's end follows the syllabus. On a path, come back to this table. If you do all of it: assignment 1 after 2/02, 2 after 2/08, 3 and 6 after 2/12, 4 after 2/13, 5 after 3/06, 7 after 3/11.

# %% [markdown]
# ## The documents behind the course
#
# Five documents gave this course facts and configs. You need not read them. Three are slides of another course, in Russian:
#
# - *the architecture slides*: the plan of lecture 1 and assignment a1
# - *the backend slides*: the plan of lecture 2 and assignment a4
# - *the acceleration slides*: the plan of lecture 3

# %% [markdown]
# Two are web pages:
#
# - *the production guide*, in Chinese, a practitioner's article: configs for PyTorch, ONNX and TensorFlow, and a chat loop (lecture 2, assignment a6)
# - *the Llama page*, in Portuguese, a tutorial: an ensemble with a tokenizer, and measurements of vLLM (lecture 2)

# %% [markdown]
# ## Before you go on
#
# - Each lecture has a server of its own; only this notebook uses that of `make lab`.
# - Compare ratios with published results, not milliseconds: this machine is no data centre.
# - Click to open **Errata**: what older slides and guides got wrong.
# - Something is broken? Menu *Kernel*, *Restart Kernel and Run All Cells*.
#
# Next: [a first model](../1_architecture/01__first_model/01__first_model.ipynb).
