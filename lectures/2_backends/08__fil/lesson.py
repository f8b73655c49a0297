# ---
# title: "FIL: forests"
# minutes: 17
# ---

# %% [markdown]
# # FIL: forests
#
# **Question.** Some models are not networks: they are hundreds of decision trees. How does Triton serve them, and what is an answer?
#
# The *Forest Inference Library* (FIL) computes trees of XGBoost, LightGBM, scikit-learn and NVIDIA's cuML, on a CPU or a GPU. A missing value is sent as NaN. The data here are digits: rows of 64 pixels.

# %%
import lightgbm
import pandas as pd
import treelite
import tritonclient.grpc as grpc
import xgboost
from sklearn.ensemble import RandomForestClassifier

import setup
from workbook import zoo
from workbook.lessons import Premise, claim, compare, folder, laboratory, place, predict, show, task
from workbook.zoo.forests import save_xgboost

models = folder("fil")  # an empty folder: files of an earlier run are deleted
lab = laboratory(models, only=[])

# %% [markdown]
# ## A program from a slide
#
# The program of [the backend slides](../../00__start/00__start.ipynb#The-documents-behind-the-course) trains on two rows and saves `model.xgboost`: first as printed, with `gpu_hist`, then with `hist`. `setup.print_warnings` also prints XGBoost's warning.
#
# In the config, `output_class` asks for a class, and `threshold` divides class 1 from class 0.

# %%
dtrain = xgboost.DMatrix(data=[[1, 2], [3, 4]], label=[0, 1])
params = {"objective": "binary:logistic", "max_depth": 2, "eta": 1, "tree_method": "gpu_hist"}
try:
    xgboost.train(params, dtrain, num_boost_round=10)
except xgboost.core.XGBoostError as error:
    print(error)
hist = {**params, "tree_method": "hist"}
bst = xgboost.train(hist, dtrain, num_boost_round=10)
version = setup.version(models, "fil_model")
setup.print_warnings(bst.save_model, version / "model.xgboost")

# %%
from workbook.lessons.mistakes import refusal

place(models, "models/fil_model")
show("models/fil_model/config.pbtxt")
print(refusal(lab, "fil_model"))


def ask(model, rows):
    tensor = grpc.InferInput("input__0", rows.shape, "FP32").set_data_from_numpy(rows)
    with grpc.InferenceServerClient(lab.grpc_url) as client:
        return client.infer(model, [tensor])


# %% [markdown]
# > **Erratum.** XGBoost 3.1 [removed](https://github.com/dmlc/xgboost/blob/master/doc/changes/v3.1.0.rst) `gpu_hist` (on a GPU, add `"device": "cuda"`) and its binary file format: the file above holds UBJSON. FIL has [one default file name](https://github.com/triton-inference-server/fil_backend/blob/main/docs/model_config.md#model-filenames) per type: here `xgboost.json`, in a version folder. The document's `treelite_json` is no type.

# %%
predict(
    "fil.rows",
    "The model was trained with [1, 2] as class 0 and [3, 4] as class 1. How does FIL answer "
    "these two rows?",
    {
        "0 and 1": "That is what it should have learned. Look at its trees above: they have no "
        "split, and both rows get the same number.",
        "0 and 0": None,
        "1 and 1": "Both rows get the same probability, 0.5. But class 1 begins above the "
        "threshold, not at it.",
    },
)

# %%
save_xgboost(bst, version / "xgboost.json")
lab.load("fil_model")
rows = dtrain.get_data().toarray()  # float32
answers = ask("fil_model", rows).as_numpy("output__0")
both = f"{answers[0]:.0f} and {answers[1]:.0f}"
trees = {tree.strip() for tree in bst.get_dump()}
print(trees, bst.predict(dtrain), answers)
print("min_child_weight=0:", xgboost.train({**hist, "min_child_weight": 0}, dtrain).predict(dtrain))
compare("fil.rows", both, premise=Premise(len(trees) == 1, "the trees are not alike"))
claim(
    both == "0 and 0" and len(trees) == 1,
    "XGBoost splits nothing here: two rows weigh less than a leaf must by default "
    "(min_child_weight is 1). Both probabilities are 0.5, which is not above the threshold. "
    "Trained with min_child_weight=0, the model tells the rows apart.",
    "Run this cell again.",
    id="fil.document",
)

# %% [markdown]
# ## Files
#
# Now ten digits, with 1,437 rows to train and 360 to test: three libraries, and four of FIL's five formats. FIL completes nothing in a config, so each one needs input, output and `max_batch_size`.
#
# `predict_proba` asks for one probability per class, `cpu_nthread` the threads. `save_xgboost` writes files that FIL reads [before 26.01](../14__images/14__images.ipynb#Your-release-has), too.

# %%
digits = zoo.data.digit_rows()
train, x = (digits.x_train, digits.y_train), digits.x_test
boosted = xgboost.XGBClassifier(n_estimators=20, max_depth=4, base_score=0.5, n_jobs=1).fit(*train)
light = lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1).fit(*train)
forest = RandomForestClassifier(n_estimators=60, max_depth=10, random_state=0).fit(*train)

# %%
libraries = {"xgboost_json": boosted, "xgboost_ubj": boosted, "lightgbm": light}
libraries["treelite_checkpoint"] = forest
place(models, *(f"models/{kind}" for kind in libraries))
home = {kind: setup.version(models, kind) for kind in libraries}
save_xgboost(boosted, home["xgboost_json"] / "xgboost.json")
save_xgboost(boosted, home["xgboost_ubj"] / "xgboost.ubj")
light.booster_.save_model(home["lightgbm"] / "model.txt")
treelite.sklearn.import_model(forest).serialize(home["treelite_checkpoint"] / "checkpoint.tl")

# %%
own = {kind: library.predict_proba(x) for kind, library in libraries.items()}
table = setup.load_all(lab, x, own)
claim(
    table["classes changed"].sum() == 0 and table["largest difference"].astype(float).max() < 1e-5,
    "The server gives the libraries' probabilities; they differ by rounding only.",
    "Run the three cells above again.",
    id="fil.formats",
)
show("models/lightgbm/config.pbtxt")
table

# %% [markdown]
# The fifth type, `xgboost`, is the old binary, `xgboost.model`. FIL does not read pickles. Which release reads which files: [compatibility](https://github.com/triton-inference-server/fil_backend/blob/main/docs/model_support.md#version-compatibility).
#
# ## What an answer holds
#
# A question with two classes: is it an 8? Three configs of the same trees differ in `output_class` and `predict_proba`. Then come two thresholds, for these trees and for a random forest of scikit-learn.

# %%
predict(
    "fil.score",
    "With `output_class` set to false, and without `predict_proba`: what does a two-class XGBoost "
    "model answer for a row?",
    {
        "the sum of its leaves": "The file says that a logistic function follows the sum, and FIL "
        "applies it.",
        "the probability of class 1": None,
        "the probabilities of both classes": "That takes predict_proba, and two values per row. "
        "Look at the shapes in the table.",
        "class 0 or 1": "That is what output_class is for: it asks for a class.",
    },
)

# %%
eights = xgboost.XGBClassifier(n_estimators=20, max_depth=3, base_score=0.5, n_jobs=1)
eights.fit(digits.x_train, digits.y_train == 8)
kinds = "score", "verdict", "both"
place(models, *(f"models/{name}" for name in kinds))
show("models/score/config.pbtxt")
show("models/verdict/config.pbtxt")
show("models/both/config.pbtxt")
for name in kinds:
    save_xgboost(eights, setup.version(models, name) / "xgboost.json")
    lab.load(name)

# %%
score, verdict, pair = (ask(name, x).as_numpy("output__0") for name in kinds)
likely = eights.predict_proba(x)[:, 1]
seen = "the probability of class 1" if abs(score - likely).max() < 1e-5 else "the sum of its leaves"
unsure = setup.sure(likely)
compare("fil.score", seen, premise=unsure)
one = ((digits.y_test == 8) & (likely > 0.5)).argmax()
found = [(name, answer.shape, answer[one]) for name, answer in zip(kinds, (score, verdict, pair))]
pd.DataFrame(found, columns=["config", "shape of 360 answers", "answer for one 8"])

# %%
from pathlib import Path

counts = {}
config = Path("models/verdict/config.pbtxt").read_text()
for limit in ("0.5", "0.95"):
    (models / "verdict/config.pbtxt").write_text(config.replace('"0.5"', f'"{limit}"'))
    lab.load("verdict")
    counts[limit] = int(ask("verdict", x).as_numpy("output__0").sum())
few = counts["0.95"] == (likely > 0.95).sum() < counts["0.5"] == (likely > 0.5).sum()
claim(few, f"Called an 8, by threshold: {counts}.", "Run this cell again.", id="fil.threshold")
of_forest = setup.forest_counts(lab, models, digits, list(counts))
print("scikit-learn's forest, with a probability for each of the two classes:", of_forest)

# %% [markdown]
# An output with dims `[ 1 ]` loses that dimension: 360 numbers. With ten classes, and in the forest, the class with the highest score wins; a threshold must be given, and has no effect.
#
# > **Erratum.** FIL's guide calls 0.5 the default. The [source](https://github.com/triton-inference-server/fil_backend/blob/main/src/shared_state.h) has no default where `output_class` is true: write it. [From 25.09 on](../14__images/14__images.ipynb#Your-release-has), `output_class` is also called `is_classifier`.

# %% [markdown]
# ## Which pixels decide?
#
# A second output, `treeshap_output`, splits the sum of the leaves into a share for each pixel, and a bias (*SHAP values*). FIL computes it on a GPU and, as an [experiment](https://github.com/triton-inference-server/fil_backend/blob/main/docs/explainability.md) since 23.04, on the CPU.
#
# In the figure (surest 8, least sure 8, likeliest other digit), violet pixels speak for an 8, orange ones against it.

# %%
place(models, "models/shares")
show("models/shares/config.pbtxt")
save_xgboost(eights, setup.version(models, "shares") / "xgboost.json")
lab.load("shares")
shares = ask("shares", x).as_numpy("treeshap_output")
off = abs(shares.sum(axis=1) - eights.predict(x, output_margin=True)).max()
claim(
    off < 1e-3,
    f"65 shares add up to the sum of the leaves, within {off:.0e}.",
    "Run this cell again.",
    id="fil.shap",
)
setup.plot_shares(x, shares, score, digits.y_test)

# %% [markdown]
# ## One row, many rows
#
# 200 small trees in `xgboost_json`. A request has 1, 16 or 256 of the digits; one request is under way at a time. *In-process* is XGBoost in this notebook, with one thread.
#
# Two rounds take half a minute. `spread`: the gain over one row in one round, divided by that in the other.

# %%
predict(
    "fil.batch",
    "With 256 rows per request: how many times more rows per second than with one row?",
    unit="×",
)


# %%
from workbook.lessons import attempt


def measured():
    library = boosted.get_booster()
    return setup.speeds(lab, "xgboost_json", library.inplace_predict, x)


speeds = attempt(measured, setup.agreed)
setup.plot_speeds(speeds)

# %%
gains, apart = speeds.loc[256] / speeds.loc[1], speeds["spread"].max()
compare("fil.batch", round(float(gains["served"])), unit="×", premise=setup.agreed(speeds))
claim(
    gains["served"] > 5 * apart and gains["in-process"] > 5,
    f"A request with 256 rows takes {256 / gains['served']:.0f} times as long as one with a "
    f"single row (two rounds differed by a factor of up to {apart:.1f}). So a single row's time is mostly that of the call itself; in-process, too.",
    "Close other programs, and run the two cells above again.",
    premise=setup.agreed(speeds),
    id="fil.batch",
)
speeds.round(1)

# %% [markdown]
# So send many rows in one request, or use `dynamic_batching { }`, which the [guide](https://github.com/triton-inference-server/fil_backend/blob/main/docs/model_config.md#dynamic-batching) recommends nearly always. The two columns compare two libraries: the laptop's server computes with Treelite, not with XGBoost.
#
# On a GPU (not verified here) `algo`, `storage_type`, `threads_per_tree` and `blocks_per_sm` tune the speed; from 25.09 on `layout` and `chunk_size`.
#
# ## Typical mistakes

# %%
from workbook.lessons import mistakes

change, last = mistakes.config, 'key: "cpu_nthread" value: { string_value: "1"'
several = {
    "one underscore": change("output__0", "output_0"),
    "a pixel is missing": change("dims: [ 64 ]", "dims: [ 63 ]"),
    "no threshold": change('key: "threshold"', 'key: "treshold"'),
    "two values, dims of one": change(last, 'key: "predict_proba" value: { string_value: "true"'),
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
# <details><summary>Thousands of clients send one row each. What makes the server compute many together?</summary>
#
# Dynamic batching, which FIL's guide recommends: requests that wait are joined. The clients stay as they are.
#
# </details>
#
# Next: [DALI](../09__dali/09__dali.ipynb).
