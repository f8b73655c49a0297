# ---
# title: "Assignment 7: make it fast"
# minutes: 120
# modules: [before, load, look, speed]
# ---

# %% [markdown]
# # Assignment 7: make it fast
#
# You take over a service that reads digits on pictures. It works, and it is slow: three models in
# an ensemble, written by people who had no time. Make it faster, as much as you can, without its
# clients noticing anything but speed. There are five tasks, in one deployment: 100 points.
#
# **What you should know.** Ensembles and Python models (lecture 2, notebooks 02 and 12), the
# dynamic batcher and queue policies (lecture 1, notebooks 05 and 06), and what makes a model fast
# (lecture 3, notebooks 01 to 05, 08 and 11). Plan for 120 minutes: 20 to look, 60 for task 1, 10
# for each other one.

# %% [markdown]
# **How it works.** You change the files under `models/` beside this notebook, in `work/`, and
# deploy them in the cell of task 1. A check that measures takes up to a minute. If you are stuck,
# `hint("a7.throughput")` shows one hint at a time; hints cost no points.
#
# **Everything behind `service` may change:** merge steps, write them anew, take another backend
# (`python`, `onnxruntime`, `openvino`, ensembles), batch, convert, choose instances and threads,
# refuse what comes too late. Only `service` and the steps of its ensemble are loaded for the marks.
#
# **What clients see stays:** `service` takes `picture`, UINT8, 64 × 64 × 3, up to 8 in a request,
# and answers `scores`, FP32, ten numbers. Clients show scores with two decimals. So each score may
# be off by 0.005, half a unit of the last one, and not more.

# %% [markdown]
# **Marks.** A figure is always a ratio to the service as you found it, measured in the same minute:
# a slow computer costs nothing. On a busy one a figure may be far off. For the marks all checks run
# again on another computer, and go on until the rounds agree. They send pictures that nobody has
# seen, each once, and compare the answers that they time with the network's scores. While the one
# is measured, the other is not loaded.
#
# **A fast wrong answer is worth nothing.** While scores are wrong, or refused, or `service` does
# not load, `a7.throughput` earns nothing, and all other checks wait for it or fail. So compare
# after each change: `compare(me, "service")` takes a few seconds.

# %% kind="given" id="a7.setup"
import matplotlib.pyplot as plt
import numpy as np
import onnx
from onnx import helper, numpy_helper

from grader.assignments.a7__speed import facts
from grader.assignments.a7__speed.look import compare, measure, serve_found
from grader.vocabulary.notebook import check, deploy, hint

# %% [markdown]
# **Your network.** Your id decides its weights. In a class, write the id that your instructor knows
# you by. If you study by yourself, leave it as it is.
#
# The class has a list of the fastest services. Write a name of your own choice for it, up to 24
# characters; with `""` you stand there as "no name". The list gives no points.

# %%
me = "self-study"
alias = ""

# %% [markdown]
# The next cell writes your network into `models/network/1/model.onnx`, and serves everything as it
# was found under other names: `before_service` and its steps. You compare with it. Leave it as it
# is: the checks write and load it anew.

# %% kind="given" id="a7.found"
facts.write_network(me)
found = serve_found(me)
pictures, digits = facts.draw(np.random.default_rng(1), 8)
figure, axes = plt.subplots(1, 8, figsize=(9, 1.5))
for axis, picture, digit in zip(axes, pictures, digits):
    axis.imshow(picture)
    axis.set_title(str(digit), fontsize=9)
    axis.axis("off")
plt.show()

# %% [markdown]
# ## First look, then change
#
# Read the files under `models/`, and `clients/client.py`: 16 such clients run, and each sends one
# picture per request. They belong to other people and stay as they are. `measure(model)` does what
# they do, three times, and reads the statistics of each step before and after. On a busy computer
# the three differ much: then measure again. *waits* is the time in the queue, *computes* the time
# in the model, *batch* how many pictures an execution had. *outside of them* is the rest: the way
# there and back, and the client.
#
# Before you run it, guess: which of the three steps takes the most time, and by how much?

# %%
measure(found)

# %% [markdown]
# ## Task 1: throughput (40 points)
#
# Answer more pictures per second than the service that you found.
#
# | throughput | below ×1.25 | ×2 | ×4 | ×8 | ×16 and more |
# |---|---|---|---|---|---|
# | points of 40 | 0 | 10 | 20 | 30 | 40 |
#
# In between it goes on evenly: each doubling is worth 10 points. ×16 can be reached in several
# ways. Whoever goes on from there rises in the list of the class. Change one thing at a time, and
# write down what it gave: task 5 asks for it.

# %% [markdown]
# `deploy("models/…")` copies a folder into the server's repository and loads it: the steps first,
# then `service`. What a Python model prints, and its exceptions, are in the server's log:
# `workbook status` in a terminal names the file. Where files come from code (an ONNX file that you
# convert), the code belongs here, too, since this notebook runs again for the marks.
#
# If `service` no longer needs a step, leave the step's files in `models/`: `workbook submit` asks
# for the files that you were given.


# %% kind="solution" id="a7.build"
### BEGIN SOLUTION
### STUB service = ...  # deploy("models/service").name, after its steps
def fused(path):
    """The network of a file with all that is around it, as one graph: pictures to scores."""
    network = onnx.load(path)
    # Grey, the mean of 3 x 3 and the mean of 4 x 4 are sums with fixed weights, one after the
    # other. So they are one sum: a convolution with 6 x 6 weights for each colour.
    line = np.convolve(np.ones(3), np.ones(4)) / 12
    kernel = np.multiply.outer([0.299, 0.587, 0.114], np.outer(line, line))
    constants = {
        "kernel": kernel[None].astype(np.float32),
        "edge": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "axes": np.array([1, 2, 3]),
        "one": np.array(1, np.float32),
    }

    def node(kind, inputs, output, **attributes):
        return helper.make_node(kind, inputs.split(), [output], **attributes)

    first = [
        node("Transpose", "picture", "planes", perm=[0, 3, 1, 2]),
        node("Cast", "planes", "numbers", to=onnx.TensorProto.FLOAT),
        node("Pad", "numbers edge", "edged", mode="edge"),
        node("Conv", "edged kernel", "grey", strides=[4, 4]),
        node("ReduceMean", "grey axes", "mean"),
        node("Sub", "grey mean", "centred"),
        node("Mul", "centred centred", "squares"),
        node("ReduceMean", "squares axes", "variance"),
        node("Sqrt", "variance", "deviation"),
        node("Add", "deviation one", "divisor"),
        node("Div", "centred divisor", "small"),
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(
        [*first, *network.graph.node, node("Softmax", "logits", "scores", axis=1)],
        "service",
        [helper.make_tensor_value_info("picture", onnx.TensorProto.UINT8, ["n", 64, 64, 3])],
        [helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["n", 10])],
        [*network.graph.initializer, *tensors],
    )
    return helper.make_model(graph, opset_imports=network.opset_import, ir_version=9)


onnx.save(fused("models/network/1/model.onnx"), "models/service/1/model.onnx")
service = deploy("models/service").name
### END SOLUTION

# %%
if service is not ...:
    measure(service)
    compare(me, service)

# %% kind="check" id="a7.throughput" points=40
check("a7.throughput", me=me, model=service, alias=alias)

# %% [markdown]
# ## Task 2: soon, under traffic (15 points)
#
# Real traffic does not wait for answers. Pictures come at random times (a Poisson process), twice
# as many per second as the service that you found could answer. 99 of 100 must be answered within
# six times what *one* picture took as found, while nothing else was sent. For more the points
# become fewer; at 24 times there are none.
#
# What slows each answer costs points in both tasks. A delay in the batcher may help in task 1; here
# a long one costs points.

# %% kind="check" id="a7.latency" points=15
check("a7.latency", me=me, model=service)

# %% [markdown]
# ## Task 3: what has stayed (20 points)
#
# Names, types, shapes and scores are as they were, also for unusual pictures (10 points). Bad input
# is refused, and the others are answered (5). The service takes at most 300 MB of memory;
# at 600 MB there are no points (5). The one that you found takes about 150 MB. These three checks
# wait until `a7.throughput` has earned something.

# %% kind="check" id="a7.same" points=10
check("a7.same", me=me, model=service)

# %% kind="check" id="a7.refusals" points=5
check("a7.refusals", me=me, model=service)

# %% kind="check" id="a7.memory" points=5
check("a7.memory", me=me, model=service)

# %% [markdown]
# ## Task 4: survive an overload (15 points)
#
# Someone sends the pictures of a whole year: 64 to 700 clients with 8 pictures per request, so
# many that each would wait for 0.6 s if all were in the queue. Who waits for more than 0.2 s has
# left. Then an answer helps nobody, and delays the others. A client that is refused comes again
# after 1 s.
#
# - 65 of 100 requests are *answered or refused* within 0.2 s. A refusal has a message. A request
#   without a reply counts as too late.
# - Half of what 16 such clients get answered per second is still answered in time.
# - Afterwards single pictures get the right scores.

# %% [markdown]
# A timeout bounds the wait; a full queue may stop the batcher (lecture 1, notebook 06). If a cell
# says that `service` could not be unloaded, enter `workbook stop` in a terminal, then `workbook
# serve --detach`, and run all cells from the top. For the marks this check comes last.

# %% kind="check" id="a7.overload" points=15
check("a7.overload", me=me, model=service)

# %% [markdown]
# ## Task 5: in your words (10 points)
#
# Write to the colleague who takes over after you (about 200 words):
#
# 1. What have you changed, in which order, and what did each change give? Quote your figures.
# 2. Which change gave less than you had expected, or made it slower, and why?
# 3. Where does the time go now, and what would you do next?

# %% [markdown] kind="written" id="a7.words" points=10
# ### BEGIN SOLUTION
# (Figures of one computer with two processors.) As found: 126 pictures per second, and 9 ms for one
# picture alone, most of it in `prepare`. A batcher for each step changed nothing (130), since
# `prepare` loops over pictures. With numpy on whole pictures: 1,370. numpy in `decide`, too: 1,360.
# Then batches of up to 32 in each step: 2,800, because an execution of the network reads 8 MB of
# weights, for one picture or for 32. All steps in one Python model: 4,100, since no tensor goes
# from process to process. One ONNX graph without Python: 7,500.
#
# A second instance of `network` made the ensemble slower (2,500): both processors were busy
# already, and each execution had fewer pictures. numpy in `decide` gave nothing: it takes ten
# numbers.
#
# Now the request itself takes most of the time: with 8 pictures per request the service answers
# 21,000 per second. Next I would ask the clients to send several pictures per request. On a GPU:
# preprocessing there, too (not verified on a GPU).
#
# **Rubric** (10 points)
#
# | points | for |
# |---|---|
# | 4 | at least three changes, in their order, each with figures before and after |
# | 2 | why the largest of them helped: where the time went before, by measurement |
# | 2 | a change that gave less or was worse, and a reason that fits |
# | 2 | where the time goes now, and a next step that fits it |
# ### END SOLUTION

# %% [markdown]
# **If you like this:** how far can you go? Static int8 within the bound, weights in fp16, OpenVINO,
# a smaller border of copies. The notebook of the class shows the ratio that the grader has found.
#
# **Before you hand in:** run `workbook submit a7` in a terminal, which takes some minutes. What to
# remember: measure first; change one thing at a time; compare the answers each time; and a service
# needs a limit.
