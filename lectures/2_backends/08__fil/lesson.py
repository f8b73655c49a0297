# ---
# title: "FIL: forests"
# minutes: 29
# ---

# %% [markdown]
# # FIL: forests
#
# **Question.** Some models are not networks: they are hundreds of decision trees. How does Triton serve them, and what is an answer?
#
# The *Forest Inference Library* (FIL) computes trees of XGBoost, LightGBM, scikit-learn and NVIDIA's cuML, on a CPU or a GPU. A missing value is sent as NaN.

# %%
import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words

models = folder("fil")
place(models, *setup.CONFIGS)  # copies of the configs in models/, each with a version folder 1
lab = laboratory(models, only=[])  # a Triton server of this notebook's own, without a model yet

# %% [markdown]
# ## Files
#
# The data are digits: rows of 64 pixels, 1,437 to train and 360 to test. Three libraries learn which digit it is. Nothing here is Triton's yet.

# %% tags=["triton"]
import lightgbm
import numpy as np
import treelite
import xgboost
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

pixels, digits = load_digits(return_X_y=True)
rows = (pixels / 16).astype(np.float32)  # FIL computes with FP32 only
x_train, x, y_train, y = train_test_split(rows, digits, test_size=360, random_state=0)
boosted = xgboost.XGBClassifier(n_estimators=20, max_depth=4, base_score=0.5, n_jobs=1)
light = lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1)
forest = RandomForestClassifier(n_estimators=60, max_depth=10, random_state=0)
for library in (boosted, light, forest):
    library.fit(x_train, y_train)

# %% [markdown]
# FIL reads five formats. `model_type` in the config names the format, and with it the file that FIL looks for in the version folder:
#
# | `model_type` | [default name](https://github.com/triton-inference-server/fil_backend/blob/main/docs/model_config.md#model-filenames) | written by |
# |---|---|---|
# | `xgboost_json` | `xgboost.json` | XGBoost |
# | `xgboost_ubj` | `xgboost.ubj` | XGBoost |
# | `lightgbm` | `model.txt` | LightGBM |
# | `treelite_checkpoint` | `checkpoint.tl` | Treelite, from scikit-learn or cuML |
# | `xgboost` | `xgboost.model` | XGBoost before 3.1 |

# %% tags=["triton"]
boosted.save_model(models / "xgboost_json/1/xgboost.json")
boosted.save_model(models / "xgboost_ubj/1/xgboost.ubj")
light.booster_.save_model(models / "lightgbm/1/model.txt")
treelite.sklearn.import_model(forest).serialize(models / "treelite_checkpoint/1/checkpoint.tl")
# !cd $TRITON_MODELS && wc -c */1/*

# %% [markdown]
# FIL fills in nothing, so a config has the input, the output and `max_batch_size`. Its tensors are always called `input__0` and `output__0`. `predict_proba` asks for one probability per class; `cpu_nthread` is the number of threads.

# %%
show("models/lightgbm/config.pbtxt")

# %% tags=["triton"]
import os

import tritonclient.grpc as grpc

client = grpc.InferenceServerClient(os.environ["TRITON_GRPC"])
libraries = {"xgboost_json": boosted, "xgboost_ubj": boosted, "lightgbm": light}
libraries["treelite_checkpoint"] = forest


def ask(model, rows, output="output__0"):
    tensor = grpc.InferInput("input__0", rows.shape, "FP32")
    tensor.set_data_from_numpy(rows)
    return client.infer(model, [tensor]).as_numpy(output)


apart, changed = {}, {}
for name, library in libraries.items():
    client.load_model(name)
    served, own = ask(name, x), library.predict_proba(x)
    apart[name] = abs(served - own).max()
    changed[name] = int((served.argmax(1) != own.argmax(1)).sum())
    print(f"{name:20} largest difference {apart[name]:.0e}, other digits: {changed[name]} of 360")

# %%
claim(
    max(apart.values()) < 1e-5 and not any(changed.values()),
    "The server gives the libraries' probabilities; they differ by rounding only.",
    "Run the cells of this section again, in their order.",
    id="fil.formats",
)

# %% [markdown]
# A container [before 26.01](../14__images/14__images.ipynb#Your-release-has) refuses files of XGBoost 3.1 or newer, such as the first two. For it, train with an older XGBoost.
#
# <details><summary>Under the hood: which release reads which file</summary>
#
# Since 3.1 XGBoost writes two things that older FIL cannot read: `base_score` as a list, and a section `cats`. `save_xgboost` in the course's `workbook/zoo/forests.py` removes them. See [compatibility](https://github.com/triton-inference-server/fil_backend/blob/main/docs/model_support.md#version-compatibility).
#
# </details>

# %% [markdown]
# ## What an answer holds
#
# A question with two classes: is it an 8? One file of trees gets three configs. They differ in `output_class` ("the answer is a class") and `predict_proba`:

# %% language="bash" tags=["triton"]
# cd models  # beside this notebook
# grep -E 'dims: . [12] |output_class|predict_proba' {score,verdict,both}/config.pbtxt

# %%
predict(
    "fil.score",
    "XGBoost adds up the leaves that a row reaches, and a logistic function makes the probability of class 1 of this sum. What is the one number that `score` answers?",
    {
        "the sum of its leaves": "The file says that a logistic function follows the sum, and FIL "
        "applies it.",
        "the probability of class 1": None,
        "the probability of the likelier class": "Then nobody could tell which class it is. An "
        "answer below 0.5 belongs to class 0.",
    },
)

# %% tags=["triton"]
eights = xgboost.XGBClassifier(n_estimators=20, max_depth=3, base_score=0.5, n_jobs=1)
eights.fit(x_train, y_train == 8)
for name in ("score", "verdict", "both"):
    eights.save_model(models / name / "1/xgboost.json")
    client.load_model(name)

# %% tags=["triton"]
two = [(y == 8).argmax(), (y != 8).argmax()]  # the first 8, and the first other digit
score, likely = ask("score", x), eights.predict_proba(x)[:, 1]
for name in ("score", "verdict", "both"):
    answers = ask(name, x)
    print(f"{name:8} shape {answers.shape}, of two digits: {answers[two].tolist()}")
print("XGBoost: sum", eights.predict(x, output_margin=True)[two], "predict_proba", likely[two])

# %%
near = "the probability of class 1" if abs(score - likely).max() < 1e-5 else "the sum of its leaves"
compare("fil.score", near, premise=setup.sure(likely))

# %% [markdown]
# An output with dims `[ 1 ]` loses that dimension: its shape is (360,), and not (360, 1).
#
# Now the `threshold`: class 1 begins above it. Does a higher one call fewer digits an 8? We try 0.5 and 0.95, with XGBoost's trees, and with a scikit-learn forest, which has a probability for each of its two classes:

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for copy in verdict_95 forest_50 forest_95; do cp -rT verdict $copy; done
# sed -i 's/xgboost_json/treelite_checkpoint/' forest_*/config.pbtxt
# sed -i '/threshold/s/0\.5/0.95/' *_95/config.pbtxt
# grep threshold *_{50,95}/config.pbtxt

# %% tags=["triton"]
of_two = RandomForestClassifier(n_estimators=60, max_depth=8, random_state=1)
of_two.fit(x_train, y_train == 8)
for name in ("forest_50", "forest_95"):
    treelite.sklearn.import_model(of_two).serialize(models / name / "1/checkpoint.tl")
counts = {}
for name in ("verdict", "verdict_95", "forest_50", "forest_95"):
    client.load_model(name)
    counts[name] = int(ask(name, x).sum())
    print(f"{name:10} calls {counts[name]} of 360 digits an 8")

# %%
right = counts["verdict"] == (likely > 0.5).sum() and counts["verdict_95"] == (likely > 0.95).sum()
claim(
    right and counts["verdict_95"] < counts["verdict"],
    f"XGBoost's model calls {counts['verdict']} digits an 8 with the threshold 0.5, and "
    f"{counts['verdict_95']} with 0.95. The forest calls {counts['forest_50']} and "
    f"{counts['forest_95']} an 8.",
    "Run the two cells above again.",
    id="fil.threshold",
)

# %% [markdown]
# The threshold needs a model with one score. In the forest, and with ten classes, the class with the highest score wins; a threshold must be there, without effect.
#
# <details><summary>Errata: FIL's guide</summary>
#
# The guide calls 0.5 the default. The [source](https://github.com/triton-inference-server/fil_backend/blob/main/src/shared_state.h) has no default where `output_class` is true: write it. [From 25.09 on](../14__images/14__images.ipynb#Your-release-has), `output_class` is also called `is_classifier`.
#
# </details>

# %% [markdown]
# ## Which pixels decide?
#
# A second output, `treeshap_output`, splits the sum of the leaves into a share for each of the 64 pixels, and a bias (*SHAP values*). Below, violet pixels speak for an 8, and orange ones against it:

# %% tags=["triton"]
eights.save_model(models / "shares/1/xgboost.json")
client.load_model("shares")
shares = ask("shares", x, "treeshap_output")
sums = eights.predict(x, output_margin=True)
off = abs(shares.sum(1) - sums).max()
print(f"{shares.shape}; sum of shares and sum of leaves differ by {off:.0e} at most")
# !grep -A 3 treeshap $TRITON_MODELS/shares/config.pbtxt

# %%
setup.plot_shares(x, shares, score, y)

# %%
claim(
    off < 1e-3,
    f"65 shares add up to the sum of the leaves, within {off:.0e}.",
    "Run the cells of this section again.",
    id="fil.shap",
)

# %% [markdown]
# The figure has the surest 8, the least sure 8, and the likeliest other digit. FIL computes shares on a GPU and, as an [experiment](https://github.com/triton-inference-server/fil_backend/blob/main/docs/explainability.md) since 23.04, on the CPU.
#
# ## Two rows
#
# The program of [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) trains on two rows. In its config, dims `[ -1 ]` takes rows of any length:

# %% tags=["triton"]
dtrain = xgboost.DMatrix([[1, 2], [3, 4]], label=[0, 1])
params = {"objective": "binary:logistic", "max_depth": 2, "eta": 1, "tree_method": "hist"}
bst = xgboost.train(params, dtrain, num_boost_round=10)
bst.save_model(models / "fil_model/1/xgboost.json")
client.load_model("fil_model")
# !grep -v '^#' $TRITON_MODELS/fil_model/config.pbtxt

# %%
predict(
    "fil.rows",
    "The model was trained with [1, 2] as class 0 and [3, 4] as class 1. How does FIL answer "
    "these two rows?",
    {
        "0 and 1": "That is what it should have learned. Look at its trees: they have no "
        "split, and both rows get the same number.",
        "0 and 0": None,
        "1 and 1": "Both rows get the same probability, 0.5. But class 1 begins above the "
        "threshold, not at it.",
    },
)

# %% tags=["triton"]
two_answers = ask("fil_model", np.array([[1, 2], [3, 4]], np.float32))
trees = bst.get_dump()
print("served:", two_answers, "in-process:", bst.predict(dtrain))
print(f"{len(trees)} trees, the first one: {trees[0].strip()}")
other = xgboost.train({**params, "min_child_weight": 0}, dtrain).predict(dtrain)
print("trained with min_child_weight 0:", other)

# %%
both = f"{two_answers[0]:.0f} and {two_answers[1]:.0f}"
alike = len({tree.strip() for tree in trees}) == 1
compare("fil.rows", both, premise=Premise(alike, "the trees are not alike"))
claim(
    both == "0 and 0" and alike,
    "No tree has a split, because two rows weigh less than a leaf must by default "
    "(min_child_weight is 1). So both probabilities are 0.5, which is not above the threshold.",
    "Run the cells of this section again.",
    id="fil.document",
)

# %% [markdown]
# A strange answer may be the model's own: compare server and library first.
#
# <details><summary>Errata: the backend slides</summary>
#
# ```python
# params = {"tree_method": "gpu_hist", ...}
# bst.save_model("model.xgboost")
# ```
#
# XGBoost 3.1 [removed](https://github.com/dmlc/xgboost/blob/master/doc/changes/v3.1.0.rst) `gpu_hist` (on a GPU, write `hist` and `"device": "cuda"`) and its binary file format: a file called `model.xgboost` now holds UBJSON. FIL looks for `xgboost.json`. The slides' `treelite_json` is no type of FIL.
#
# </details>
#
# ## One row, many rows
#
# The 200 trees of `xgboost_json` (20 rounds, ten classes) get 1, 16 or 256 digits per request, one request at a time. *perf_analyzer* takes the digits from a file. `rate` measures XGBoost in this process, with one thread.

# %%
predict(
    "fil.batch",
    "With 256 rows per request: how many times more rows per second than with one row?",
    unit="×",
)

# %% tags=["triton"]
import json
import time

data = [{"input__0": row.tolist()} for row in x[:256]]
size = (models / "digits.json").write_text(json.dumps({"data": data}))


def rate(count):
    """Rows per second of XGBoost in this process, if each call computes `count` rows."""
    calls, began = 0, time.perf_counter()
    while time.perf_counter() < began + 0.25:
        boosted.get_booster().inplace_predict(x[:count])
        calls += 1
    return calls * count / (time.perf_counter() - began)


inside = [[rate(count) for count in (1, 16, 256)] for turn in (1, 2)]

# %% language="bash" tags=["triton"]
# cd $TRITON_MODELS
# for turn in 1 2; do  # twice, because other programs may disturb one of them
#   for rows in 1 16 256; do
#     echo -n "$rows rows per request:"
#     perf_analyzer -m xgboost_json -i grpc -u $TRITON_GRPC --input-data digits.json -b $rows \
#       -p 400 -s 200 -r 20 -f rows_$rows.$turn.csv | grep Throughput
#   done
# done

# %%
speeds = setup.read_speeds(models, inside)
setup.plot_speeds(speeds)

# %%
gains, spread = speeds.loc[256] / speeds.loc[1], max(speeds["spread"])
compare("fil.batch", round(float(gains["served"])), unit="×", premise=setup.agreed(speeds))
claim(
    gains["served"] > 5 * spread and gains["in-process"] > 5,
    f"A request with 256 rows takes {256 / gains['served']:.0f} times as long as one with a "
    f"single row (two rounds differed by a factor of up to {spread:.1f}). So a single row's time "
    "is mostly that of the call itself; in-process, too.",
    "Close other programs, and run the cells of this section again.",
    premise=setup.agreed(speeds),
    id="fil.batch",
)

# %% [markdown]
# So send many rows in one request, or use `dynamic_batching { }`, which the [guide](https://github.com/triton-inference-server/fil_backend/blob/main/docs/model_config.md#dynamic-batching) recommends nearly always: it joins waiting requests. The figure compares two libraries: this server computes with Treelite.
#
# On a GPU (not verified) `algo`, `storage_type`, `threads_per_tree` and `blocks_per_sm` tune the speed; from 25.09 on `layout` and `chunk_size`.
#
# ## Typical mistakes
#
# Each one changes a copy of `verdict`:

# %%
from workbook.lessons import mistakes

change = mistakes.config  # what is right in the config, and what takes its place
several = {
    "one underscore": change("output__0", "output_0"),
    "a pixel is missing": change("dims: [ 64 ]", "dims: [ 63 ]"),
    "no threshold": change('key: "threshold"', 'key: "treshold"'),
    "two values, dims of one": change(
        'key: "cpu_nthread" value: { string_value: "1"',
        'key: "predict_proba" value: { string_value: "true"',
    ),
    "another format": change('"xgboost_json"', '"xgboost_ubj"'),
    "the old format": change('"xgboost_json"', '"xgboost"'),
}
mistakes.provoke(lab, "verdict", several)

# %% [markdown]
# ## Your turn
#
# Somebody put a scikit-learn forest into `models/pickled`, as a pickle (`joblib.load` reads it). Make the server answer with its probabilities: write your commands in a new cell below the task, and load it with `lab.load("pickled")`.

# %%
setup.pickled(models)
task("fil.pickled", server=lab, models=models)

# %% [markdown]
# ## The same at work, without this course
#
# This program takes a file of XGBoost or LightGBM. It writes the folder and the config, loads the model, and compares the server's answers with Treelite's:

# %%
show("at_work/serve_forest.py")

# %% tags=["triton"]
# %run at_work/serve_forest.py {models}/lightgbm/1/model.txt which_digit
# %run at_work/serve_forest.py {models}/score/1/xgboost.json an_eight

# %% [markdown]
# ## What to remember
#
# - FIL reads files of trees. `model_type` names the format, and with it the file's default name; nothing is filled in.
# - `output_class`, `predict_proba` and `threshold` decide what an answer holds; `dims` of `output__0` must fit them.
# - For a single row, the call takes longer than the trees: send many rows together.

# %% [markdown]
# ## Check yourself
#
# <details><summary>A colleague trained with XGBoost 3.2 and saved "model.xgboost" for model_type xgboost. What happens?</summary>
#
# The server refuses it, as with the last mistake above: for this type, FIL looks for `xgboost.model`. Renamed, it would not be read either: XGBoost 3.2 writes UBJSON. Save it as `xgboost.json` or `xgboost.ubj`, and name that type.
#
# </details>
#
# <details><summary>Above, the forest with two classes ignores the threshold. Why?</summary>
#
# It has a probability for each class, and the class with the higher one wins. The threshold matters only where a model has one score, as boosted trees with two classes have.
#
# </details>
#
# Next: [DALI](../09__dali/09__dali.ipynb).
