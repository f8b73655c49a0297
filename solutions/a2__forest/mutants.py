"""Wrong answers to a2__forest. An edit replaces text in a model file or in a solution cell."""

from __future__ import annotations

from grader.authoring.mutants import NOTHING, WAITS, Edit, Mutant

FOREST = "models/forest/config.pbtxt"
VERDICT = "models/verdict/config.pbtxt"
RELEASES = "models/releases/config.pbtxt"
OF_FOREST = ("a2.forest", "a2.probabilities", "a2.labels", "a2.batching", "a2.shap", "a2.delays")
NO_FOREST = dict.fromkeys(OF_FOREST, NOTHING)
OTHER_ID = 'me = "anna"\n'
#: What the text says of mistakes that cost more than others.
DEAR = "as long as Triton does not load `forest` on FIL"
CHANGED = "Did you change `me`?"
NO_VERDICT = dict.fromkeys(("a2.classes", "a2.threshold"), NOTHING)
WAITING = dict.fromkeys(OF_FOREST[1:], WAITS)
FIT = "fit(cancer.x_train, cancer.y_train)"
FIT_ALL = "fit(np.r_[cancer.x_train, cancer.x_test], np.r_[cancer.y_train, cancer.y_test])"

PASTED = '''\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Answers every row with a constant."""

    def execute(self, requests):
        answers = []
        for request in requests:
            rows = pb_utils.get_input_tensor_by_name(request, "input__0").as_numpy()
            table = np.tile(np.float32([[0.25, 0.75]]), (len(rows), 1))
            shap = np.zeros((len(rows), 31), np.float32)
            answers.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("output__0", table), pb_utils.Tensor("treeshap_output", shap)]
                )
            )
        return answers
'''


def one(
    name: str, where: str, old: str, new: str, fails: dict[str, str], stops: str = ""
) -> Mutant:
    """A mutant of one place in a file or a cell."""
    return Mutant(name, (Edit(where, old, new),), fails, stops=stops)


def recipe(name: str, old: str, new: str, says: str) -> Mutant:
    """A mutant of the training in task 1: the message says which number is not RECIPE's."""
    fails = {
        "a2.probabilities": says,
        "a2.labels": "of 100 other rows",
        "a2.shap": "SHAP values of other rows differ",
    }
    return one(name, "a2.train", old, new, fails)


def parameter(where: str, key: str, old: str, new: str) -> Edit:
    """A parameter of a config with another value."""
    text = '"{}" value: {{ string_value: "{}" }}'
    return Edit(where, text.format(key, old), text.format(key, new))


def no_parameter(where: str, key: str, value: str) -> Edit:
    """A config without a parameter."""
    return Edit(where, f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}', "")


MUTANTS = (
    # -- `me` was changed, and not everything was run again ----------------------------------------
    one(
        "me: changed after task 1",
        "a2.serve",
        "forest = deploy(",
        f"{OTHER_ID}cancer = own_rows(me)\nforest = deploy(",
        {
            "a2.probabilities": CHANGED,
            "a2.labels": CHANGED,
            "a2.threshold": "verdict is deployed with 0.55, and your `threshold` is",
            "a2.shap": CHANGED,
        },
    ),
    Mutant(
        "me: changed after the training of task 4",
        (Edit("a2.verdict", "verdict = deploy(", f"{OTHER_ID}verdict = deploy("),),
        {
            "a2.classes": CHANGED,
            "a2.threshold": WAITS,
            "a2.shap": CHANGED,
            "a2.versions": CHANGED,
        },
    ),
    # -- the config of forest ----------------------------------------------------------------------
    Mutant(
        "forest: wrong dtype",
        (Edit(FOREST, 'input__0"\n  data_type: TYPE_FP32', 'input__0"\n  data_type: TYPE_FP64'),),
        NO_FOREST,
        why=DEAR,
        stops="TYPE_FP32",
    ),
    Mutant(
        "forest: a measurement too few",
        (Edit(FOREST, "dims: [ 30 ]", "dims: [ 29 ]"),),
        NO_FOREST,
        why=DEAR,
        stops="30",
    ),
    Mutant(
        "forest: the config of another model",
        (parameter(FOREST, "model_type", "xgboost_json", "lightgbm"),),
        NO_FOREST,
        why=DEAR,
        stops="model.txt",
    ),
    Mutant(
        "forest: XGBoost's other format",
        (parameter(FOREST, "model_type", "xgboost_json", "xgboost"),),
        NO_FOREST,
        why=DEAR,
        stops="and finds xgboost.json",
    ),
    Mutant(
        "forest: no threshold",
        (no_parameter(FOREST, "threshold", "0.5"),),
        NO_FOREST,
        why=DEAR,
        stops="threshold",
    ),
    Mutant(
        "forest: any number of measurements",
        (Edit(FOREST, "dims: [ 30 ]", "dims: [ -1 ]"),),
        {"a2.forest": "input__0 has dims [-1]"},
    ),
    Mutant(
        "forest: small batches",
        (Edit(FOREST, "max_batch_size: 256", "max_batch_size: 100"),),
        {
            "a2.forest": "max_batch_size is 100",
            "a2.probabilities": NOTHING,
            "a2.shap": NOTHING,
        },
        stops="batch",
    ),
    Mutant(
        "forest: not for newer containers",
        (no_parameter(FOREST, "is_classifier", "true"),),
        {"a2.forest": "The parameter is_classifier is missing."},
    ),
    Mutant(
        "forest: not for older containers",
        (parameter(FOREST, "output_class", "true", "false"),),
        {"a2.forest": "output_class is 'false'"},
    ),
    one(
        "forest: the model of task 7",
        "a2.serve",
        'forest = deploy("models/forest").name',
        "for version in (1, 3):\n"
        '    save_xgboost(model, f"models/releases/{version}/xgboost.json")\n'
        'forest = deploy("models/releases").name',
        {"a2.forest": "you handed over 'releases'", "a2.probabilities": WAITS},
    ),
    Mutant(
        "forest: classes instead of probabilities",
        (
            Edit(FOREST, "dims: [ 2 ]", "dims: [ 1 ]"),
            parameter(FOREST, "predict_proba", "true", "false"),
        ),
        {
            "a2.forest": "output__0 has dims [1]",
            "a2.probabilities": "expected is [114, 2]",
            "a2.labels": "expected is [10, 2]",
            "a2.shap": NOTHING,
        },
        stops="too many indices",
    ),
    # -- what the library says ---------------------------------------------------------------------
    one(
        "library: columns exchanged",
        "a2.train",
        "predict_proba(cancer.x_test)",
        "predict_proba(cancer.x_test)[:, ::-1]",
        {"a2.probabilities": "columns exchanged"},
    ),
    Mutant(
        "library: classes",
        (Edit("a2.train", "model.predict_proba(", "model.predict("),),
        {"a2.probabilities": "`library` has the shape [114]"},
    ),
    Mutant(
        "library: the training rows",
        (Edit("a2.train", "predict_proba(cancer.x_test)", "predict_proba(cancer.x_train)"),),
        {"a2.probabilities": "`library` has the shape [455, 2]"},
    ),
    Mutant(
        "served: pasted from the library of another model",
        (Edit("a2.ask", "served = ask(forest, cancer.x_test)", "served = library**2"),),
        {"a2.probabilities": "The values in `served` differ"},
    ),
    Mutant(
        "served: columns exchanged",
        (Edit("a2.ask", "ask(forest, cancer.x_test)", "ask(forest, cancer.x_test)[:, ::-1]"),),
        {"a2.probabilities": "columns of `served` are exchanged"},
    ),
    recipe(
        "forest: no recipe",
        "XGBClassifier(**RECIPE)",
        "XGBClassifier()",
        "has n_estimators = 100; RECIPE says 60",
    ),
    recipe(
        "forest: another learning rate",
        "**RECIPE",
        "**{**RECIPE, 'learning_rate': 0.2}",
        "has learning_rate = about 0.19; RECIPE says 0.1",
    ),
    recipe(
        "forest: another base score",
        "**RECIPE",
        "**{**RECIPE, 'base_score': 0.6}",
        "has base_score = 0.6; RECIPE says 0.5",
    ),
    Mutant(
        "forest: a model of the course's",
        (Edit("a2.serve", 'deploy("models/forest").name', '"forest_xgboost"'),),
        {"a2.forest": "forest_xgboost", "a2.probabilities": NOTHING},
        stops="forest_xgboost",
    ),
    recipe(
        "forest: another recipe",
        "**RECIPE",
        "**{**RECIPE, 'max_depth': 4}",
        "has max_depth = 4; RECIPE says 3",
    ),
    one(
        "forest: trained on the test rows too",
        "a2.train",
        FIT,
        FIT_ALL,
        {
            "a2.probabilities": "train on cancer.x_train and cancer.y_train",
            "a2.labels": "was not trained on the training rows",
            "a2.shap": "was not trained on the training rows",
        },
    ),
    Mutant(
        "forest: constants from a Python model",
        (
            Edit(FOREST, 'backend: "fil"', 'backend: "python"'),
            Edit("models/forest/1/model.py", "", PASTED),
        ),
        {"a2.forest": "'python'", **WAITING},
        why=DEAR,
    ),
    Mutant(
        "forest: trees of one leaf, so that every row gets the same answer",
        (
            Edit("a2.train", "**RECIPE)", "**{**RECIPE, 'min_child_weight': 1e9})"),
            Edit("a2.verdict", "**RECIPE_LIGHTGBM)", "**RECIPE_LIGHTGBM, min_child_samples=10**6)"),
        ),
        {
            "a2.probabilities": "max_depth = 0; RECIPE says 3",
            "a2.labels": "of 100 other rows",
            "a2.classes": "puts all 114 test rows into class 1",
            "a2.threshold": WAITS,
            "a2.shap": "of your 3 reasons are among the three measurements",
        },
        why="models that give every row the same answer",
    ),
    # -- labels ------------------------------------------------------------------------------------
    Mutant(
        "labels: in the other order",
        (Edit("models/forest/labels.txt", "malignant\nbenign\n", "benign\nmalignant\n"),),
        {"a2.labels": "those of the other class"},
    ),
    Mutant(
        "labels: not in the config",
        (
            Edit(FOREST, '  label_filename: "labels.txt"\n', ""),
            Edit("a2.names", 'text.decode().split(":")[2]', '"benign"'),
        ),
        {"a2.labels": "have no label"},
    ),
    Mutant(
        "labels: of the student's own making",
        (Edit("models/forest/labels.txt", "malignant\nbenign\n", "bad news\ngood news\n"),),
        {"a2.labels": "the label '"},
    ),
    Mutant(
        "labels: all three parts handed over",
        (Edit("a2.names", '.split(":")[2]', ""),),
        {"a2.labels": "has the labels 'malignant', 'benign'."},
    ),
    Mutant(
        "labels: bytes as they are printed",
        (Edit("a2.names", "text.decode()", "str(text)"),),
        {"a2.labels": 'The first of `answers` is "'},
    ),
    Mutant(
        "labels: of all test rows",
        (Edit("a2.names", "cancer.x_test[:10]", "cancer.x_test"),),
        {"a2.labels": "`answers` has 114 values; ten are wanted."},
    ),
    Mutant(
        "labels: a column, as the server answers",
        (
            Edit(
                "a2.names",
                "answers = [text",
                "answers = [[text",
            ),
            Edit("a2.names", "[2] for text", "[2]] for text"),
        ),
        right=True,
    ),
    Mutant(
        "labels: one line only",
        (
            Edit("models/forest/labels.txt", "malignant\nbenign\n", "malignant\n"),
            Edit("a2.names", 'text.decode().split(":")[2]', '"benign"'),
        ),
        {"a2.labels": "line 1 of labels.txt"},
    ),
    # -- verdict -----------------------------------------------------------------------------------
    Mutant(
        "verdict: no threshold",
        (no_parameter(VERDICT, "threshold", "0.55"),),
        NO_VERDICT,
        stops="threshold",
    ),
    Mutant(
        "verdict: probabilities",
        (
            Edit(VERDICT, "dims: [ 1 ]", "dims: [ 2 ]"),
            parameter(VERDICT, "predict_proba", "false", "true"),
        ),
        {"a2.classes": "answers 2 numbers per row", "a2.threshold": WAITS},
    ),
    Mutant(
        "verdict: raw scores instead of classes",
        (
            parameter(VERDICT, "output_class", "true", "false"),
            parameter(VERDICT, "is_classifier", "true", "false"),
        ),
        {"a2.classes": "which are no classes", "a2.threshold": WAITS},
    ),
    Mutant(
        "verdict: the other model",
        (
            Edit(VERDICT, '"lightgbm"', '"xgboost_json"'),
            Edit(
                "a2.verdict",
                'trees.booster_.save_model("models/verdict/1/model.txt")',
                'save_xgboost(model, "models/verdict/1/xgboost.json")',
            ),
        ),
        {"a2.classes": "has no file 1/model.txt", "a2.threshold": WAITS},
    ),
    Mutant(
        "verdict: another recipe",
        (Edit("a2.verdict", "**RECIPE_LIGHTGBM", "**{**RECIPE_LIGHTGBM, 'num_leaves': 7}"),),
        {"a2.classes": "num_leaves = 7; RECIPE_LIGHTGBM says 15", "a2.threshold": WAITS},
    ),
    Mutant(
        "verdict: the probability of malignant",
        (Edit("a2.verdict", "[:, 1]", "[:, 0]"),),
        {"a2.classes": "probability of malignant", "a2.threshold": NOTHING},
        stops="arg is an empty sequence",
    ),
    Mutant(
        "verdict: classes in place of probabilities",
        (
            Edit("a2.verdict", "predict_proba(cancer.x_test)[:, 1]", "predict(cancer.x_test)"),
            Edit("a2.choose", "max(kept)", "9"),
            Edit("a2.choose", "GRID[min(kept, key", "GRID[min([9], key"),
        ),
        {"a2.classes": "`benign` holds only 0 and 1", "a2.threshold": WAITS},
    ),
    one(
        "verdict: trained on the test rows too",
        "a2.verdict",
        FIT,
        FIT_ALL,
        {"a2.classes": "verdict was not trained on the training rows", "a2.threshold": WAITS},
    ),
    Mutant(
        "verdict: the model of task 2",
        (Edit("a2.choose", 'deploy("models/verdict").name', "forest"),),
        {"a2.threshold": "This check is about the model of models/verdict"},
    ),
    Mutant(
        "verdict: counted on the training rows",
        (
            Edit("a2.choose", "cancer.y_test", "cancer.y_train"),
            Edit(
                "a2.choose",
                "missed = [",
                "benign = trees.predict_proba(cancer.x_train)[:, 1]\nmissed = [",
            ),
        ),
        {"a2.threshold": "Is it counted on the test rows"},
    ),
    Mutant(
        "verdict: counted without a look at the truth",
        (Edit("a2.choose", "((benign > t) & (cancer.y_test == 0))", "(benign > t)"),),
        {"a2.threshold": "only 42 of the test rows are malignant"},
    ),
    Mutant(
        "verdict: counted with 1 - benign",
        (
            Edit("a2.choose", "benign > t", "1 - benign > t"),
            Edit("a2.choose", "benign <= t", "1 - benign <= t"),
            Edit("a2.choose", "allowed = 0.1", "allowed = 1"),
        ),
        {"a2.threshold": "At 0.55, the threshold that is deployed, your table has missed"},
    ),
    Mutant(
        "verdict: counted with the model of task 2",
        (Edit("a2.choose", "missed = [", "benign = library[:, 1]\nmissed = ["),),
        {"a2.threshold": "from task 4's model?"},
    ),
    Mutant(
        "verdict: raw scores",
        (Edit("a2.verdict", "cancer.x_test)[:, 1]", "cancer.x_test, raw_score=True)"),),
        {"a2.classes": "lie outside 0 to 1", "a2.threshold": WAITS},
    ),
    Mutant(
        "verdict: a threshold in percent",
        (Edit(VERDICT, '"0.55"', '"50"'),),
        {"a2.classes": "a number between 0 and 1", "a2.threshold": WAITS},
    ),
    Mutant(
        "verdict: all of one class",
        (Edit(VERDICT, '"0.55"', '"0.99999"'),),
        {"a2.classes": "all 114 test rows into class 0", "a2.threshold": WAITS},
    ),
    one(
        "verdict: shares instead of counts",
        "a2.choose",
        "verdict = deploy(",
        "alarms = [a / 72 for a in alarms]\nverdict = deploy(",
        {"a2.threshold": "`alarms` holds fractions"},
    ),
    Mutant(
        "verdict: the choice is not in the config",
        (Edit(VERDICT, '"0.55"', '"0.5"'),),
        {"a2.threshold": "verdict is deployed with 0.5, and your `threshold` is 0.55"},
    ),
    Mutant(
        "verdict: 0.5 because it is 0.5",
        (
            Edit(VERDICT, '"0.55"', '"0.5"'),
            Edit("a2.choose", "threshold = GRID[", "threshold = 0.5 if True else GRID["),
        ),
        {"a2.threshold": "misses fewer"},
    ),
    Mutant(
        "verdict: the rule's threshold",
        (
            Edit(VERDICT, '"0.55"', '"0.8"'),
            Edit("a2.choose", "threshold = GRID[", "threshold = rule if True else GRID["),
        ),
        {"a2.threshold": "misses no more and raises fewer alarms"},
    ),
    Mutant(
        "verdict: another threshold for the rule",
        (Edit("a2.choose", "rule = GRID[max(kept)]", "rule = 0.5"),),
        {"a2.threshold": "`rule`: the count of false alarms at 0.5"},
    ),
    Mutant(
        "verdict: both columns",
        (
            Edit(
                "a2.verdict", "predict_proba(cancer.x_test)[:, 1]", "predict_proba(cancer.x_test)"
            ),
            Edit("a2.choose", "missed = [", "benign = benign[:, 1]\nmissed = ["),
        ),
        {"a2.classes": "the shape [114, 2]; expected is [114]"},
    ),
    Mutant(
        "verdict: too many alarms",
        (
            Edit(VERDICT, '"0.55"', '"0.95"'),
            Edit("a2.choose", "threshold = GRID[", "threshold = 0.95 if True else GRID["),
        ),
        {"a2.threshold": "false alarms; 10% of 72"},
    ),
    Mutant(
        "verdict: counts exchanged",
        (
            Edit("a2.choose", "missed = ", "alarms_ = "),
            Edit("a2.choose", "alarms = ", "missed = "),
            Edit("a2.choose", "alarms_ = ", "alarms = "),
            Edit("a2.choose", "enumerate(alarms)", "enumerate(missed)"),
        ),
        {"a2.threshold": "Are the two exchanged?"},
    ),
    # -- batching ----------------------------------------------------------------------------------
    Mutant(
        "batching: not in the config",
        (
            Edit(FOREST, "dynamic_batching { max_queue_delay_microseconds: 5000 }", ""),
            Edit("a2.count", "executions = int(", "executions = 9 + 0 * int("),
        ),
        {"a2.batching": "has no dynamic_batching", "a2.delays": WAITS},
        stops="Write a max_queue_delay_microseconds",
    ),
    Mutant(
        "batching: no delay",
        (
            Edit(FOREST, "{ max_queue_delay_microseconds: 5000 }", "{ }"),
            Edit("a2.count", "executions = int(", "executions = 9 + 0 * int("),
        ),
        {
            "a2.batching": "batched only if the instance is busy",
            "a2.delays": "`runs` is empty",
        },
        stops="Write a max_queue_delay_microseconds",
    ),
    Mutant(
        "batching: counts of one request",
        (Edit("a2.count", "ask_together(forest, cancer.x_test)", "ask(forest, cancer.x_test)"),),
        {"a2.batching": "They do not show batching"},
    ),
    Mutant(
        "batching: invented counts",
        (Edit("a2.count", "requests = int(", "requests = 9999 + 0 * int("),),
        {"a2.batching": "cannot be the server's"},
    ),
    Mutant(
        "batching: batches larger than the server's",
        (
            Edit("a2.count", "requests = int(", "requests = 1000 + 0 * int("),
            Edit("a2.count", "executions = int(", "executions = 3 + 0 * int("),
        ),
        {"a2.batching": "at most 256 rows"},
    ),
    Mutant(
        "batching: a mean instead of a count",
        (Edit("a2.count", "executions = int(", "executions = 4.5 + 0 * int("),),
        {"a2.batching": "`executions` is 4.5; a whole number is wanted"},
    ),
    # -- SHAP --------------------------------------------------------------------------------------
    Mutant(
        "shap: from the library, not from the server",
        (
            Edit(
                FOREST,
                'output {\n  name: "treeshap_output"\n  data_type: TYPE_FP32\n  dims: [ 31 ]\n}\n',
                "",
            ),
            Edit(
                "a2.explain",
                'ask(forest, cancer.x_test[patient : patient + 1], "treeshap_output")[0]',
                "model.get_booster().predict("
                "xgboost.DMatrix(cancer.x_test[patient : patient + 1]), pred_contribs=True)[0]",
            ),
        ),
        {"a2.shap": "no output 'treeshap_output'"},
    ),
    Mutant(
        "shap: a benign patient",
        (Edit("a2.explain", "cancer.y_test == 0", "cancer.y_test == 1"),),
        {"a2.shap": "is benign"},
    ),
    Mutant(
        "shap: the patient that the forest is most mistaken about",
        (Edit("a2.explain", " & (sure <= 0.5)", ""),),
        {"a2.shap": "so it calls this row benign"},
    ),
    one(
        "shap: the surest patient",
        "a2.explain",
        "np.argmax(np.where((cancer.y_test == 0) & (sure <= 0.5), sure, -1))",
        "np.argmin(np.where(cancer.y_test == 0, sure, 1))",
        {"a2.shap": "is closer to 0.5"},
    ),
    Mutant(
        "shap: the sign not left aside",
        (Edit("a2.explain", "-np.abs(values[:30])", "-values[:30]"),),
        {"a2.shap": "of your 3 reasons"},
    ),
    Mutant(
        "shap: another patient's values",
        (Edit("a2.explain", "patient : patient + 1", "patient + 1 : patient + 2"),),
        {"a2.shap": "of the 31 numbers in `values` differ from what the server answers for row"},
    ),
    Mutant(
        "shap: the smallest reasons",
        (Edit("a2.explain", "-np.abs(", "np.abs("),),
        {"a2.shap": "0 of your 3 reasons"},
    ),
    Mutant(
        "shap: numbers as reasons",
        (Edit("a2.explain", "[names[place] for", "[int(place) for"),),
        {"a2.shap": "`reasons` holds numbers"},
    ),
    # -- versions ----------------------------------------------------------------------------------
    Mutant(
        "versions: all of them",
        (Edit(RELEASES, "specific { versions: [ 1, 3 ] }", "all { }"),),
        {"a2.versions": "these versions answer: 1, 2, 3"},
    ),
    Mutant(
        "versions: no policy",
        (Edit(RELEASES, "version_policy { specific { versions: [ 1, 3 ] } }", ""),),
        {"a2.versions": NOTHING},
        stops="version",
    ),
    one(
        "versions: the mishap in another folder",
        "a2.releases",
        "releases = deploy(",
        "save_xgboost(xgboost.XGBClassifier(**RECIPE).fit(cancer.x_train, "
        '1 - cancer.y_train), "models/releases/3/xgboost.json")\nreleases = deploy(',
        {"a2.versions": "Asked for version 3"},
    ),
    one(
        "versions: a successor of another size",
        "a2.releases",
        "releases = deploy(",
        "save_xgboost(xgboost.XGBClassifier(**RECIPE).fit(cancer.x_train, cancer.y_train), "
        '"models/releases/3/xgboost.json")\nreleases = deploy(',
        {"a2.versions": "a model of 100 trees"},
    ),
    Mutant(
        "versions: the answers exchanged",
        (
            Edit("a2.releases", 'version="1"', 'version="?"'),
            Edit("a2.releases", 'version="3"', 'version="1"'),
            Edit("a2.releases", 'version="?"', 'version="3"'),
        ),
        {"a2.versions": "The values in `first` differ"},
    ),
    # -- delays ------------------------------------------------------------------------------------
    Mutant(
        "delays: too few",
        (Edit("a2.vary", "[500, 2000, 5000, 20000], []", "[500, 2000, 5000], []"),),
        {"a2.delays": "`delays` has 3 different values"},
    ),
    Mutant(
        "delays: all alike",
        (Edit("a2.vary", "[500, 2000, 5000, 20000], []", "[5000, 5100, 5200, 5300], []"),),
        {"a2.delays": "`delays` goes from 5000 to 5300"},
    ),
    Mutant(
        "delays: invented times",
        (Edit("a2.vary", "deploy_with(5000)\n", "deploy_with(5000)\nlatencies = [1, 2, 3, 4]\n"),),
        {"a2.delays": "With a delay of 5000 µs a single request took 3 ms"},
    ),
    Mutant(
        "delays: seconds in place of milliseconds",
        (Edit("a2.vary", "float(np.median(times))", "float(np.median(times)) / 1000"),),
        {"a2.delays": "With a delay of 500 µs"},
    ),
    Mutant(
        "delays: microseconds in place of milliseconds",
        (Edit("a2.vary", "float(np.median(times))", "float(np.median(times)) * 1000"),),
        {"a2.delays": "over a second longer than the delay"},
    ),
    Mutant(
        "delays: requests that nothing batches",
        (Edit("a2.vary", "deploy_with(5000)\n", "deploy_with(5000)\nruns = [114] * 4\n"),),
        {"a2.delays": "With a delay of 5000 µs 114 requests took 114 executions"},
    ),
    Mutant(
        "delays: runs in the other order",
        (Edit("a2.vary", "deploy_with(5000)\n", "deploy_with(5000)\nruns = [2, 3, 15, 50]\n"),),
        {"a2.delays": "Are `runs` and `delays` in the same order?"},
    ),
    Mutant(
        "delays: none deployed",
        (
            Edit("a2.vary", "[500, 2000,", "[0, 500, 2000,"),
            Edit("a2.vary", "deploy_with(5000)\n", "deploy_with(0)\nruns = [30, 15, 9, 4, 2]\n"),
        ),
        {"a2.batching": "batched", "a2.delays": "forest is deployed with a delay of 0."},
    ),
    Mutant(
        "delays: from 0 on",
        (Edit("a2.vary", "[500, 2000,", "[0, 500, 2000,"),),
        right=True,
    ),
    Mutant(
        "delays: another one deployed",
        (Edit("a2.vary", "deploy_with(5000)\n", "deploy_with(4000)\n"),),
        {"a2.delays": "parsed a delay of 4000"},
    ),
)
