# ---
# title: "Assignment 2: a forest on FIL"
# minutes: 90
# ---

# %% [markdown]
# # Assignment 2: a forest on FIL
#
# Thirty measurements of the cell nuclei in a sample: is the tumour benign or malignant? Two
# models will answer, one of XGBoost and one of LightGBM. You will put both into Triton's FIL
# backend, make the server name its answers, batch them and explain one, and serve two versions
# side by side. There are seven tasks and one question: 100 points, about 90 minutes.

# %% [markdown]
# **How it works.** You write in the cells that say *Your code here*, and in the files under
# `models/` beside this notebook (double-click one in the file browser). Tasks 2 to 7 have checks;
# those of task 2 look at task 1 too. Run them as often as you like. If you are stuck,
# `hint("a2.forest")` shows one hint at a time.
#
# **Marks.** A check here sees whether your answers and your server fit together. For the marks it
# runs again: on rows that you have not seen, and against a model that follows the recipe exactly.
# So a model of another recipe may pass here and still lose marks.

# %% kind="given" id="a2.setup"
import queue
import time

import lightgbm
import matplotlib.pyplot as plt
import numpy as np
import tritonclient.grpc as grpc
import xgboost
from sklearn.datasets import load_breast_cancer

from grader.checks.a2_facts import GRID, RECIPE, RECIPE_LIGHTGBM
from grader.checks.notebook import check, hint
from workbook import measure
from workbook.server import connect, deploy
from workbook.zoo.data import breast_cancer
from workbook.zoo.forests import save_xgboost

cancer = breast_cancer()
names = load_breast_cancer().feature_names
server = connect()
client = server.grpc_client()
print(f"{len(cancer.x_train)} rows to train, {len(cancer.x_test)} to test, {server.url}")

# %% [markdown]
# ## Task 1: train (its points are in task 2)
#
# Boosting adds up many small trees. The sum is a raw score, and the logistic function makes a
# probability of it: here the probability of class 1, *benign*. Column 0 of `predict_proba` is the
# rest, *malignant*. The recipe below fixes everything, so that your model is the one that
# everybody gets.

# %% kind="given" id="a2.recipe"
print(RECIPE)
dict(enumerate(cancer.labels))

# %% [markdown]
# Train an `xgboost.XGBClassifier` with this recipe on `cancer.x_train` and `cancer.y_train`. Keep
# its `predict_proba` for `cancer.x_test` as `library`. Save the model with `save_xgboost(model,
# path)` to `models/forest/1/xgboost.json`: it writes JSON, in a form that older containers can
# read as well. (XGBoost has dropped its older binary format, `model_type: xgboost`.)

# %% kind="solution" id="a2.train"
### BEGIN SOLUTION
### STUB model = ...
### STUB library = ...
model = xgboost.XGBClassifier(**RECIPE).fit(cancer.x_train, cancer.y_train)
library = model.predict_proba(cancer.x_test)
save_xgboost(model, "models/forest/1/xgboost.json")
### END SOLUTION

# %% [markdown]
# ## Task 2: serve it (25 points)
#
# What must a server know about a file of trees? Its format, how long a row is, and what an answer
# should hold: a class, or a probability for each class. FIL reads this from `config.pbtxt`. It
# completes nothing by itself, its tensors are called `input__0` and `output__0`, and it knows
# float32 only.
#
# | parameter | says |
# |---|---|
# | `model_type` | the file's format, such as `xgboost_json`, `xgboost_ubj` or `lightgbm` |
# | `output_class` | this is a classifier; since container 25.09 also called `is_classifier` |
# | `predict_proba` | answer with probabilities, not with a class |
# | `threshold` | above which probability class 1 begins; read even where nothing is decided |

# %% [markdown]
# Open `models/forest/config.pbtxt` and replace every TODO. All 114 test rows should fit into one
# request. Then deploy the folder: `deploy(path)` copies it into the server's repository, loads
# it, and returns what became of it. Its `name` goes into `forest`.

# %% kind="solution" id="a2.serve"
### BEGIN SOLUTION
### STUB forest = ...  # deploy("models/forest").name
forest = deploy("models/forest").name
### END SOLUTION

# %% kind="check" id="a2.forest" points=10
check("a2.forest", model=forest)

# %% [markdown]
# Does the server answer as the library does? Here is a small client: it sends rows, and returns
# one output as an array. Ask `forest` for all test rows, and keep the answer as `served`. Before
# you look: will the two agree to the last digit?


# %% kind="given" id="a2.client"
def ask(model, rows, output="output__0", version="", classes=0):
    """Send rows (float32, one a patient) to a model, and return one of its outputs."""
    tensor = grpc.InferInput("input__0", rows.shape, "FP32")
    tensor.set_data_from_numpy(np.ascontiguousarray(rows))
    wanted = grpc.InferRequestedOutput(output, class_count=classes)
    answer = client.infer(model, [tensor], outputs=[wanted], model_version=version)
    return answer.as_numpy(output)


def numbers(value, *shape):
    """A value as an array of floats; None as long as it is not one of this shape."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        return None
    return array if array.shape == shape else None


# %% kind="solution" id="a2.ask"
### BEGIN SOLUTION
### STUB served = ...  # ask(…)
served = ask(forest, cancer.x_test)
### END SOLUTION

# %% kind="given" id="a2.difference"
tables = [numbers(table, 114, 2) for table in (served, library)]
if all(table is not None for table in tables):
    print(f"The greatest difference is {np.abs(tables[0] - tables[1]).max():.2g}.")

# %% kind="check" id="a2.probabilities" points=15
check("a2.probabilities", model=forest, library=library, served=served)

# %% [markdown]
# They agree, but perhaps not to the last digit. Both add 60 float32 numbers, in orders of their
# own, and each addition rounds. That is no error: it is what the check's tolerance comes from.
# Now look at the probabilities, and guess where you would put the border.

# %%
if (table := numbers(served, 114, 2)) is not None:
    for number, label in enumerate(cancer.labels):
        plt.hist(table[cancer.y_test == number, 1], bins=20, range=(0, 1), alpha=0.6, label=label)
    plt.axvline(0.5, color="grey", linestyle="--", label="0.5")
    plt.xlabel("probability of benign, as served")
    plt.ylabel("patients")
    plt.legend()
    plt.show()

# %% [markdown]
# ## Task 3: answers with names (10 points)
#
# Is 1 the good news or the bad news? A client should not have to know. Triton can answer with the
# top classes, as texts `value:index:label`, if the config says where the labels are. The file
# holds one label a line, and line 0 belongs to class 0.

# %% [markdown]
# Write `models/forest/labels.txt`, name it in `config.pbtxt` (`label_filename`, inside the
# output) and deploy again. Ask for the first ten test rows with `classes=1`: each answer is an
# array of bytes. Hand over the ten labels alone, as `answers`.

# %% kind="solution" id="a2.names"
### BEGIN SOLUTION
### STUB answers = ...
forest = deploy("models/forest").name
texts = ask(forest, cancer.x_test[:10], classes=1)
print(texts[0])
answers = [text.decode().split(":")[2] for text in texts.ravel()]
### END SOLUTION

# %% kind="check" id="a2.labels" points=10
check("a2.labels", model=forest, answers=answers)

# %% [markdown]
# ## Task 4: the server decides (25 points)
#
# Suppose that clients should get a verdict, not a probability. FIL answers 1 where the
# probability of class 1 is *above* the threshold, else 0. For two classes nothing else is needed.
# The second model comes from LightGBM, whose file has another format: `model.txt`.

# %% kind="given" id="a2.recipe_lightgbm"
print(RECIPE_LIGHTGBM)

# %% [markdown]
# Train a `lightgbm.LGBMClassifier` with this recipe on the training rows. Keep the test rows'
# probability of benign, one number a patient, as `benign`. Save the model with
# `booster_.save_model` to `models/verdict/1/model.txt`, complete `models/verdict/config.pbtxt`
# with a threshold of 0.5, and deploy it.

# %% kind="solution" id="a2.verdict"
### BEGIN SOLUTION
### STUB benign = ...
### STUB verdict = ...
trees = lightgbm.LGBMClassifier(**RECIPE_LIGHTGBM).fit(cancer.x_train, cancer.y_train)
benign = trees.predict_proba(cancer.x_test)[:, 1]
trees.booster_.save_model("models/verdict/1/model.txt")
verdict = deploy("models/verdict").name
### END SOLUTION

# %% kind="check" id="a2.classes" points=10
check("a2.classes", model=verdict, library=benign)

# %% [markdown]
# Two mistakes are possible. A malignant tumour called benign is *missed*. A benign one called
# malignant is a *false alarm*. Count both for each threshold in `GRID`, on the test rows, as two
# lists `missed` and `alarms`. (For a real product you would choose on rows kept apart from the
# final test.)

# %% kind="given" id="a2.grid"
print(GRID)

# %% [markdown]
# The clinic can bear false alarms for at most 10% of the benign patients, and wants to miss as
# few tumours as that allows. So take the highest threshold in `GRID` with at most 10% false
# alarms, as `threshold`. Write it into `models/verdict/config.pbtxt`, and deploy again.

# %% kind="solution" id="a2.choose"
### BEGIN SOLUTION
### STUB missed = ...
### STUB alarms = ...
### STUB threshold = ...
missed = [int(((benign > t) & (cancer.y_test == 0)).sum()) for t in GRID]
alarms = [int(((benign <= t) & (cancer.y_test == 1)).sum()) for t in GRID]
allowed = 0.1 * (cancer.y_test == 1).sum()
threshold = max(t for t, count in zip(GRID, alarms) if count <= allowed)
verdict = deploy("models/verdict").name
### END SOLUTION

# %% kind="check" id="a2.threshold" points=15
check("a2.threshold", model=verdict, missed=missed, alarms=alarms, threshold=threshold)

# %%
curves = [numbers(counts, len(GRID)) for counts in (missed, alarms)]
chosen = numbers(threshold)
if chosen is not None and all(curve is not None for curve in curves):
    plt.step(GRID, curves[0], where="mid", label="missed (malignant, called benign)")
    plt.step(GRID, curves[1], where="mid", label="false alarms (benign, called malignant)")
    plt.axvline(chosen, color="grey", linestyle="--", label=f"your threshold, {chosen:g}")
    plt.xlabel("threshold")
    plt.ylabel("patients")
    plt.legend()
    plt.show()

# %% [markdown]
# ## Task 5: batching, proven (10 points)
#
# Many clients send one row each. Run alone, each request pays the whole cost of a call. With
# `dynamic_batching` the server puts waiting requests together and calls the backend once. Speed
# would be a shaky proof of that. Counts are a firm one: fewer executions than requests.

# %% [markdown]
# Add `dynamic_batching` to `models/forest/config.pbtxt`, with a `max_queue_delay_microseconds` of
# 5000: so long may a request wait for company. Deploy. Then take `measure.statistics(server,
# forest)` before and after `ask_together`, and `measure.difference(before, after)`. That is a
# DataFrame with one row a model version. Hand over its `requests` and `executions`, as whole
# numbers.


# %% kind="given" id="a2.together"
def ask_together(model, rows):
    """Send each row as a request of its own, without waiting between them."""
    answers = queue.Queue()
    goal = counted(model) + len(rows)
    for row in rows:
        tensor = grpc.InferInput("input__0", [1, len(row)], "FP32")
        tensor.set_data_from_numpy(row[None])
        client.async_infer(model, [tensor], lambda result, error: answers.put(error))
    if errors := [error for _ in rows if (error := answers.get())]:
        raise errors[0]
    while counted(model) < goal:  # the server counts a moment after it has answered
        time.sleep(0.02)


def counted(model):
    return measure.statistics(server, model)["requests"].sum()


# %% kind="solution" id="a2.count"
### BEGIN SOLUTION
### STUB requests = ...
### STUB executions = ...
forest = deploy("models/forest").name
before = measure.statistics(server, forest)
ask_together(forest, cancer.x_test)
change = measure.difference(before, measure.statistics(server, forest))
requests = int(change["requests"].iloc[0])
executions = int(change["executions"].iloc[0])
print(f"{requests} requests in {executions} executions, batches {change['batches'].iloc[0]}")
### END SOLUTION

# %% kind="check" id="a2.batching" points=10
check("a2.batching", model=forest, requests=requests, executions=executions)

# %% [markdown]
# ## Task 6: one patient, explained (10 points)
#
# Look at the first plot again. A few malignant tumours lie far to the right: the forest is sure,
# and wrong. What misled it? SHAP values split the raw score of one row into a share for each
# measurement, and a bias. Above zero means: towards benign. Together they give the raw score,
# log(p / (1 - p)).

# %% [markdown]
# FIL computes them as a second output, `treeshap_output`: a value for each of the 30
# measurements, and the bias last. Add it to `models/forest/config.pbtxt` and deploy. Then find
# three things:
#
# - `patient`: of the malignant test rows, the one that `forest` gives the highest probability of
#   benign (its number in `cancer.x_test`);
# - `values`: its 31 SHAP values, as served;
# - `reasons`: the `names` of the three measurements with the greatest values, the sign left aside.

# %% kind="solution" id="a2.explain"
### BEGIN SOLUTION
### STUB patient = ...
### STUB values = ...
### STUB reasons = ...
forest = deploy("models/forest").name
sure = ask(forest, cancer.x_test)[:, 1]
patient = int(np.argmax(np.where(cancer.y_test == 0, sure, 0)))
values = ask(forest, cancer.x_test[patient : patient + 1], "treeshap_output")[0]
reasons = [names[place] for place in np.argsort(-np.abs(values[:30]))[:3]]
### END SOLUTION

# %% kind="check" id="a2.shap" points=10
check("a2.shap", model=forest, patient=patient, values=values, reasons=reasons)

# %%
if (shares := numbers(values, 31)) is not None:
    order = np.argsort(np.abs(shares[:30]))[-10:]
    colours = ["tab:green" if share > 0 else "tab:red" for share in shares[order]]
    plt.barh(names[order], shares[order], color=colours)
    plt.axvline(0, color="grey", linewidth=1)
    plt.title(f"Test row {patient}: towards malignant ←   → towards benign")
    plt.xlabel("SHAP value (raw score)")
    plt.show()

# %% [markdown]
# ## Task 7: two versions (10 points)
#
# A new model seldom replaces the old one overnight: for a while both must answer. Each version is
# a folder, and `version_policy` says which are served: `latest` (with a number), `all`, or
# `specific` (with a list). The two newest, for example, are
# `version_policy { latest { num_versions: 2 } }`; the list of `specific` is called `versions`.
# Without a policy Triton serves the newest only. A client may name a version; who names none gets
# the newest one served.

# %% [markdown]
# Here are three versions. Number 1 is small and well tried. Number 2 was a mishap: somebody
# exchanged the labels. Number 3 is the successor. Serve 1 and 3, and not 2: add a
# `version_policy` to `models/releases/config.pbtxt` (the rest is complete), and deploy it.

# %% kind="given" id="a2.three"
right, exchanged = cancer.y_train, 1 - cancer.y_train
for version, count, y in ((1, 20, right), (2, 60, exchanged), (3, 100, right)):
    release = xgboost.XGBClassifier(**{**RECIPE, "n_estimators": count}).fit(cancer.x_train, y)
    save_xgboost(release, f"models/releases/{version}/xgboost.json")

# %% [markdown]
# Ask for all test rows three times: version 1 (`first`), version 3 (`third`), and without naming
# a version (`plain`). `ask` takes the version as a text. The cell after yours asks for version 2:
# read what the server says to that.

# %% kind="solution" id="a2.releases"
### BEGIN SOLUTION
### STUB releases = ...
### STUB first = ...
### STUB third = ...
### STUB plain = ...
releases = deploy("models/releases").name
first = ask(releases, cancer.x_test, version="1")
third = ask(releases, cancer.x_test, version="3")
plain = ask(releases, cancer.x_test)
### END SOLUTION

# %% kind="given" id="a2.mishap"
if releases is not ...:
    try:
        print(f"Version 2 answers {ask(releases, cancer.x_test, version='2')[0]}.")
    except Exception as error:
        print(error)

# %% kind="check" id="a2.versions" points=10
check("a2.versions", model=releases, first=first, third=third, plain=plain)

# %% [markdown]
# ## A question to answer in words (10 points)
#
# A screening test is offered to every woman above fifty. Few of them have cancer, and whoever is
# called malignant gets a biopsy. Which threshold would you put into production, and why? Use your
# own counts from task 4. Say what each mistake costs and who bears it, and what your counts
# cannot tell you. Five to ten sentences; a person reads them.

# %% [markdown] kind="written" id="a2.why" points=10
# ### BEGIN SOLUTION
# At 0.5 LightGBM misses 3 of 42 malignant tumours and raises 4 false alarms among 72 benign ones.
# At 0.55 it misses 2 and still raises 4, at 0.8 it misses 2 and raises 7. From 0.55 on only the
# alarms grow: two tumours have a probability of benign above 0.99, which no useful threshold
# finds. A missed tumour may cost the patient her life; a false alarm costs her a biopsy and weeks
# of fear, and the clinic money. So I would go well above 0.5. But 0.55 lies just above the one
# tumour that decides it (0.503), so I would take 0.6 and confirm it on more patients.
#
# What the counts cannot tell: 114 patients are few, and one tumour more or less changes the
# picture. They come from a clinic, where 37% were malignant; at a screening it may be fewer than
# 1%, so that most alarms will be false even at a good threshold. The threshold was chosen on the
# rows that it is judged on. And the two sure misses need a better model or other measurements,
# not a threshold.
#
# **Rubric** (10 points)
#
# | points | for |
# |---|---|
# | 2 | a threshold, in the right direction: fewer missed tumours, so above 0.5 for P(benign) |
# | 3 | own counts from task 4, quoted rightly for at least two thresholds |
# | 2 | the cost of both mistakes, and who bears it |
# | 2 | a limit: few rows, fewer malignant tumours at a screening, or chosen on the test rows |
# | 1 | a conclusion that follows from what is said; another threshold than ours is fine |
# ### END SOLUTION

# %% [markdown]
# **Before you hand in:** restart the kernel and run all cells from top to bottom; every check
# should say what you expect. Then run `workbook submit a2` in a terminal. What to remember: the
# config says what a server may do, and the counts say what it did.
