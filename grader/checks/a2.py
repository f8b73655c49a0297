"""The checks of a2__forest: XGBoost and LightGBM on FIL.

Students get this file, so it holds no expected answer. A public check compares what the server
answers with what the student computed with the library. The hidden variants compare both with a
model that they train themselves.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

from grader.checks.define import define, require_close
from grader.checks.failure import Failure
from grader.checks.probe import Array, Probe
from workbook.zoo import data

#: The judge loads models of this backend only. Another one could run a student's code.
BACKENDS = ("fil",)

INPUT, OUTPUT, SHAP = "input__0", "output__0", "treeshap_output"
FEATURES = 30
#: The thresholds that task 4 compares, and the largest share of false alarms that it allows.
GRID = tuple(step / 100 for step in range(5, 100, 5))
ALARMS = 0.1
#: How many requests of one row the batching check sends at once.
TOGETHER = 100

#: The unit roundoff of float32.
UNIT = 2.0**-24
#: All leaves of the recipe's XGBoost trees have a smaller magnitude than this. The learning rate is
#: 0.1, and before it is applied, the leaves of a balanced first tree for two classes are below 2.
LEAF = 0.2


def margin_tolerance(trees: int) -> float:
    """The largest allowed difference of two raw scores of one row, sums over the recipe's trees.

    The server and the library add the same float32 terms in different orders. A float32 sum of
    T + 1 terms, in any order, has an error of at most (T + 1) u M. Here u is the unit roundoff, and
    M is the sum of the terms' magnitudes, at most T times `LEAF`. Two such sums differ by at most
    2 (T + 1) u M. Another u M is added for a library that rounds a float64 sum at the end.
    """
    return (2 * (trees + 1) + 1) * UNIT * trees * LEAF


def tolerance(trees: int) -> float:
    """The largest allowed difference of two probabilities of one row.

    A probability is the logistic function of the raw score. The slope of that function is at most
    1/4, so the difference of the scores counts a quarter. Computing the function adds at most four
    roundings.
    """
    return margin_tolerance(trees) / 4 + 4 * UNIT


def shap_tolerance(trees: int) -> float:
    """The largest allowed difference of two SHAP values of one measurement.

    A SHAP value is a sum over all trees, with a share of each of a tree's 8 leaves. The shares of
    one tree together are at most twice its largest leaf.
    """
    return 2 * (8 * trees + 1) * UNIT * trees * 2 * LEAF


def because(trees: int) -> str:
    """The reason for a tolerance, as a part of a message."""
    return f"two float32 sums over {trees} trees may be that far apart"


@functools.cache
def cancer() -> data.Split:
    """The data set of the task, read once per process."""
    return data.breast_cancer()


@define(
    "a2.forest",
    hints=(
        "Five places in models/forest/config.pbtxt say TODO. Two count something, one names what "
        "XGBoost wrote, one says what an answer looks like, and one is a size you may choose.",
        "dims leave the batch out: they describe one row. The input has a number for each "
        "measurement, the output one for each class. The 114 rows must fit into one batch.",
        "model_type is xgboost_json, because that is how save_xgboost writes. With predict_proba "
        '"true" and dims [ 2 ] the output holds both probabilities. Any max_batch_size from 114 '
        "on will do, such as 256.",
    ),
)
def forest(server: Probe, model: str) -> None:
    """FIL serves your forest: 30 measurements in, two probabilities out, 114 rows in one batch."""
    config = served_by_fil(server, model)
    faults = [
        *_tensor_faults(config, "input", INPUT, [FEATURES]),
        *_tensor_faults(config, "output", OUTPUT, [2]),
    ]
    rows, most = len(cancer().x_test), int(config.get("max_batch_size", 0))
    if most < rows:
        faults.append(f"max_batch_size is {most}, and the {rows} test rows are one request.")
    for key in ("output_class", "is_classifier"):
        if server.parameter(model, key) != "true":
            faults.append(
                f"The parameter {key} is {server.parameter(model, key)!r}. One container reads "
                "output_class, a newer one is_classifier: both are to be true."
            )
    if faults:
        raise Failure(
            f"As the server parsed the config of {model}:\n" + "\n".join(faults),
            help="Mend models/forest/config.pbtxt, and deploy the folder again.",
            # The model answers, so the checks that need this one can run.
            credit=0.5,
        )


@define(
    "a2.probabilities",
    needs=("a2.forest",),
    hints=(
        "Compare the first row of both by eye: print(served[0], library[0]).",
        "library is a table of two columns, as the model's predict_proba(rows) returns it for "
        "cancer.x_test: column 0 is malignant, column 1 benign. served comes from the server.",
        "library = model.predict_proba(cancer.x_test), with the model that you trained by "
        'xgboost.XGBClassifier(**RECIPE), and served = ask("forest", cancer.x_test).',
    ),
)
def probabilities(server: Probe, model: str, library: Array, served: Array) -> None:
    """The server gives the probabilities that the library gives."""
    served_by_fil(server, model)
    rows = cancer().x_test
    answer = _two_columns(server, model, rows)
    require_probabilities("library", library, len(rows))
    require_agreement("the server's probabilities", answer, np.asarray(library), "the library's")
    table = _numbers(served, "served")
    if table.shape == answer.shape and _near(table[:, ::-1], answer, tolerance(60)):
        raise Failure(
            "The two columns of `served` are exchanged.",
            help="Hand over what ask(…) returns, as it is.",
        )
    require_close(
        served,
        answer,
        what="the values in `served`",
        tolerance=0.0 + UNIT,
        because="the server answers the same rows in the same way",
        help=f'served = ask("{model}", cancer.x_test), after the last deploy.',
    )


@define(
    "a2.labels",
    needs=("a2.forest",),
    hints=(
        "Two files take part: config.pbtxt names labels.txt, which holds one label per line.",
        "Line 0 is the label of class 0. Which class is which? cancer.labels says it. In "
        'config.pbtxt, label_filename: "labels.txt" belongs into output__0.',
        'With classes=1 each row comes back as a text "value:index:label", as bytes. '
        '[text.decode().split(":")[2] for text in answer.ravel()] takes the labels out.',
    ),
)
def labels(server: Probe, model: str, answers: list[str]) -> None:
    """Asked for the top class, the server answers with its name."""
    served_by_fil(server, model)
    rows = cancer().x_test[:10]
    named = require_labels(server, model, rows)
    given = [a.decode(errors="replace") if isinstance(a, bytes) else a for a in _list(answers)]
    same = sum(isinstance(a, str) and a == b for a, b in zip(given, named, strict=False))
    if not same == len(given) == len(named):
        raise Failure(
            f"`answers` holds {len(given)} {'value' if len(given) == 1 else 'values'}; "
            f"{same} of the {len(named)} labels that the server answers for the first "
            f"{len(named)} test rows {'is' if same == 1 else 'are'} at its place there.",
            help="Hand over the label alone, the third part of value:index:label, for 10 rows. "
            "Ask again after the last deploy.",
        )


@define(
    "a2.classes",
    hints=(
        "How many numbers does one row of the answer hold, and who turns the probability into a "
        "class: you or the server?",
        "With predict_proba false FIL compares the probability of class 1 with the threshold, and "
        "answers one number per row: so dims: [ 1 ].",
        'model_type is "lightgbm", predict_proba "false", and one parameter more: '
        'parameters { key: "threshold" value: { string_value: "0.5" } }.',
    ),
)
def classes(server: Probe, model: str, library: Array) -> None:
    """The server decides: 1 where the library's probability of benign is above the threshold."""
    served_by_fil(server, model)
    rows = cancer().x_test
    benign = _numbers(library, "library")
    if benign.shape == (len(rows), 2):
        benign = benign[:, 1]  # the whole table says the same
    if benign.shape != (len(rows),):
        raise Failure(
            f"`library` has the shape {list(benign.shape)}; there are {len(rows)} test rows.",
            help="It is column 1 of predict_proba(cancer.x_test): the probability of benign.",
        )
    if outside := int(((benign < 0) | (benign > 1)).sum()):
        raise Failure(
            f"{outside} of {len(rows)} values in `library` lie outside 0 to 1, so they are no "
            "probabilities.",
            help="It is column 1 of predict_proba(cancer.x_test); a raw score is something else.",
        )
    decided = require_classes(server, model, rows, benign, "`library`")
    if len(np.unique(decided)) < 2:
        raise Failure(
            f"{model} puts all {len(rows)} test rows into class {decided[0]:g}: with the threshold "
            f"{_parameter(server, model):g} it decides nothing.",
            help="Begin with a threshold of 0.5.",
        )


@define(
    "a2.threshold",
    needs=("a2.classes",),
    hints=(
        "Higher thresholds call fewer tumours benign. So one of the two counts grows with the "
        "threshold, and the other one shrinks.",
        "missed: malignant, and p > threshold. alarms: benign, and not p > threshold. The highest "
        "threshold at which alarms is at most a tenth of all benign test rows is the one.",
        "alarms = [int(((benign <= t) & (cancer.y_test == 1)).sum()) for t in GRID]; then "
        "max(t for t, a in zip(GRID, alarms) if a <= 0.1 * (cancer.y_test == 1).sum()). "
        "Write it into config.pbtxt and deploy again.",
    ),
)
def threshold(
    server: Probe, model: str, missed: list[int], alarms: list[int], threshold: float
) -> None:
    """Your server uses the highest threshold with at most 10% false alarms."""
    split = cancer()
    benign = split.y_test == 1
    counts = {}
    for name, value in (("missed", missed), ("alarms", alarms)):
        counts[name] = _numbers(value, name)
        if counts[name].shape != (len(GRID),):
            raise Failure(
                f"`{name}` has the shape {list(counts[name].shape)}: there are {len(GRID)} "
                "thresholds in GRID.",
                help="One count per threshold, in the order of GRID.",
            )
        if (counts[name] % 1 != 0).any():
            raise Failure(
                f"`{name}` holds fractions; counts are wanted.",
                help="How many patients is it at each threshold? Whole numbers, not shares.",
            )
    if (np.diff(counts["missed"]) > 0).any() or (np.diff(counts["alarms"]) < 0).any():
        raise Failure(
            "`missed` should never grow with the threshold, nor `alarms` shrink; yours do.",
            help="Which rows does p > threshold call benign? Are the two exchanged?",
        )
    chosen = _number(threshold, "threshold")
    near = [place for place, step in enumerate(GRID) if abs(step - chosen) < 1e-6]
    if not near:
        raise Failure(f"{chosen:g} is not one of the thresholds in GRID.", help="Take one of them.")
    (place,) = near
    allowed = ALARMS * int(benign.sum())
    if counts["alarms"][place] > allowed:
        raise Failure(
            f"At {chosen:g} your table counts {counts['alarms'][place]:g} false alarms; "
            f"10% of {int(benign.sum())} benign rows are {allowed:g}.",
            help="Go down in GRID until the count is allowed.",
        )
    if place + 1 < len(GRID) and counts["alarms"][place + 1] <= allowed:
        raise Failure(
            f"At {chosen:g} your table counts {counts['alarms'][place]:g} false alarms, which is "
            "allowed; but so is the count at the next threshold in GRID.",
            help="Look for the highest one.",
        )
    decided = served_classes(server, model, split.x_test)
    served = {
        "alarms": int((benign & (decided == 0)).sum()),
        "missed": int((~benign & (decided == 1)).sum()),
    }
    for name, count in served.items():
        if count != counts[name][place]:
            raise Failure(
                f"At {chosen:g} your table has {name} = {counts[name][place]:g}; on the same rows "
                f"the server, whose threshold is {server.parameter(model, 'threshold')}, has "
                f"{count}.",
                help="Is your threshold in config.pbtxt, and deployed? Is the table right?",
            )
    require_parameter(server, model, chosen)


@define(
    "a2.batching",
    needs=("a2.forest",),
    hints=(
        "The config says what the server may do; the counts say what it did. Is dynamic_batching "
        "in models/forest/config.pbtxt, and did you deploy again?",
        "A request that comes while the instance is idle runs at once, alone. A delay makes the "
        "server wait for more requests: max_queue_delay_microseconds, inside dynamic_batching.",
        "dynamic_batching { max_queue_delay_microseconds: 5000 }. Then read "
        "measure.statistics(server, model) before and after ask_together, take measure.difference, "
        'and hand over int(change["requests"].iloc[0]) and the same of executions.',
    ),
)
def batching(server: Probe, model: str, requests: int, executions: int) -> None:
    """The server batches: many requests, fewer executions."""
    config = served_by_fil(server, model)
    if "dynamic_batching" not in config:
        raise Failure(
            f"The config of {model}, as the server parsed it, has no dynamic_batching.",
            help="Add it to models/forest/config.pbtxt, and deploy the folder again.",
        )
    sent, ran = _whole(requests, "requests"), _whole(executions, "executions")
    rows, largest = len(cancer().x_test), int(config.get("max_batch_size", 0))
    if not (sent >= 100 and 0 < ran < sent):
        raise Failure(
            f"Your counts: {sent:g} requests, {ran:g} executions. That proves no batching: the "
            f"task sends {rows} requests, and they must take fewer executions.",
            help="Read the counts before and after ask_together, and subtract.",
        )
    # Who counts over several calls of ask_together has a few times as many requests.
    if sent > 10 * rows or ran * largest < sent:
        raise Failure(
            f"Your counts: {sent:g} requests, {ran:g} executions. They cannot be the server's: "
            f"the task sends {rows} requests, and a batch of {model} has at most {largest} rows.",
            help="Read the counts before and after ask_together, and subtract.",
        )
    require_batches(server, model, cancer().x_train[:TOGETHER])


@define(
    "a2.shap",
    needs=("a2.forest",),
    hints=(
        "FIL has a second output, treeshap_output. It has to be in config.pbtxt before anybody can "
        "ask for it: a value for each measurement, and one more.",
        'output { name: "treeshap_output" data_type: TYPE_FP32 dims: [ 31 ] }. The patient is '
        "among the rows with y_test == 0: the one with the highest probability of benign.",
        'values = ask("forest", cancer.x_test[patient:patient + 1], "treeshap_output")[0]. The '
        "reasons are names[k] for the three largest abs(values[:30]); np.argsort helps.",
    ),
)
def shap(server: Probe, model: str, patient: int, values: Array, reasons: list[str]) -> None:
    """You can say which measurements misled the forest about one patient."""
    config = served_by_fil(server, model)
    if faults := _tensor_faults(config, "output", SHAP, [FEATURES + 1]):
        raise Failure(
            f"As the server parsed the config of {model}:\n" + "\n".join(faults),
            help="It is one value for each measurement and one for the bias.",
        )
    split = cancer()
    benign = _two_columns(server, model, split.x_test)[:, 1]
    number = _number(patient, "patient")
    row = int(number)
    if number != row or not 0 <= row < len(benign):
        raise Failure(f"There is no test row {number:g}.", help="Rows are counted from 0.")
    if split.y_test[row] != 0:
        raise Failure(
            f"The tumour of test row {row} is {split.labels[1]}.",
            help="Look among the rows that are malignant: cancer.y_test == 0.",
        )
    if benign[row] < benign[split.y_test == 0].max():
        raise Failure(
            f"The forest gives row {row} a probability of benign of {benign[row]:.3f}; it is more "
            "mistaken about another malignant one.",
            help="Take the highest probability of benign among the malignant rows.",
        )
    served = require_additive(server, model, split.x_test[row : row + 1])[0]
    require_close(
        values,
        served,
        what="the values in `values`",
        tolerance=UNIT * 4,
        because="the server explains the same row in the same way",
        help="Hand over the 31 values of treeshap_output for this one patient. Ask again after the "
        "last deploy.",
    )
    order = np.argsort(-np.abs(served[:FEATURES]), kind="stable")[:3]
    names = feature_names()
    wanted = [names[place] for place in order]
    given = [str(reason) for reason in _list(reasons)]
    if any(isinstance(reason, int | float | np.number) for reason in _list(reasons)):
        raise Failure(
            "`reasons` holds numbers; the names of the measurements are wanted.",
            help="names[k] is the name of measurement k.",
        )
    if sorted(given) != sorted(wanted):
        right = len(set(given) & set(wanted))
        raise Failure(
            f"{right} of your {len(given)} reasons are among the three measurements with the "
            "greatest SHAP values, the sign left aside.",
            help="Sort by abs(values) without the last one, which is the bias.",
            credit=0.5 if len(given) == 3 and right == 2 else 0.0,
        )


@define(
    "a2.versions",
    hints=(
        "Three folders, two of them served. Which policies does Triton know, and which one can "
        "leave out a version in the middle?",
        "`all` serves three and `latest` counts from the newest, so that it cannot pass over "
        "version 2. `specific` takes a list.",
        "version_policy { specific { versions: [ 1, 3 ] } }, at the top level of "
        "models/releases/config.pbtxt; then deploy.",
    ),
)
def versions(server: Probe, model: str, first: Array, third: Array, plain: Array) -> None:
    """Versions 1 and 3 answer, version 2 does not, and who asks for none gets the newest."""
    served_by_fil(server, model)
    ready = server.versions(model)
    if ready != (1, 3):
        raise Failure(
            f"Of {model}, these versions answer: {', '.join(map(str, ready))}.",
            help="Versions 1 and 3 are to answer. Look at version_policy.",
        )
    rows, truth = cancer().x_test, cancer().y_test
    served: dict[int | None, Array] = {}
    for version, name, value in ((1, "first", first), (3, "third", third), (None, "plain", plain)):
        asked = f"version {version}" if version else "no version"
        served[version] = _two_columns(server, model, rows, version)
        right = float(((served[version][:, 1] > 0.5) == truth).mean())
        if right < 0.8:
            raise Failure(
                f"Asked for {asked}, {model} is right about {right:.0%} of the test rows.",
                help="Which model lies in which folder? One of the three must never be served.",
            )
        require_close(
            value,
            served[version],
            what=f"the values in `{name}`",
            tolerance=UNIT,
            because="the server answers the same rows in the same way",
            help=f"Ask for cancer.x_test and {asked}, after the last deploy.",
        )
    if np.array_equal(served[1], served[3]):
        raise Failure(
            "Versions 1 and 3 give the same answers.",
            help="Is it the same file in both folders?",
        )


# -- used by the hidden variants as well ----------------------------------------------------------


def served_by_fil(server: Probe, model: str) -> dict[str, Any]:
    """A model's configuration as the server parsed it; fails unless FIL serves it."""
    config = server.config(model)
    if config.get("backend") != "fil":
        raise Failure(
            f"{model} is served by the backend {config.get('backend')!r}.",
            help='This assignment is about backend: "fil".',
        )
    return config


def require_probabilities(name: str, value: Array, rows: int) -> None:
    """Fail unless a value is a table of two probabilities for each of `rows` rows."""
    table = _numbers(value, name)
    if table.shape != (rows, 2):
        raise Failure(
            f"`{name}` has the shape {list(table.shape)}; expected is {[rows, 2]}: a row for each "
            "patient, a column for each class.",
            help="predict_proba gives such a table, predict does not.",
        )
    if not (np.abs(table.sum(axis=1) - 1) < 1e-5).all():
        raise Failure(
            f"The two columns of `{name}` do not add up to 1.",
            help="They should be the probabilities of malignant and of benign.",
        )


def require_agreement(
    what: str, got: Array, expected: Array, whose: str, *, trees: int = 60
) -> None:
    """Fail unless two tables of probabilities agree. Exchanged columns get a message of their own.

    Args:
        what: what the first table holds, for the message.
        got: the first table.
        expected: the second table.
        whose: what the second table is, for the message: "the library's".
        trees: the number of trees, on which the tolerance depends.
    """
    allowed = tolerance(trees)
    if got.shape == expected.shape and got.size and not _near(got, expected, allowed):
        if _near(got[:, ::-1], expected, allowed):
            raise Failure(
                f"Of {what} and {whose}, one has the two columns exchanged.",
                help="Column 0 is class 0, malignant; column 1 is class 1, benign.",
            )
        off = np.abs(got.astype(np.float64) - expected)
        if np.isfinite(off).all() and set(np.unique(got)) <= {0.0, 1.0}:
            raise Failure(
                f"{what[0].upper()}{what[1:]} are all 0 or 1: these are classes.",
                help="Look at predict_proba, and at the dims of the output.",
            )
    require_close(
        got,
        expected,
        what=what,
        tolerance=allowed,
        because=because(trees),
        help=f"They are compared with {whose}. Is it the same model, trained by RECIPE on the "
        "training rows, and deployed after you saved it?",
    )


def _near(one: Array, other: Array, allowed: float) -> bool:
    return bool(np.isfinite(one).all() and np.abs(one - other).max() <= allowed)


def require_labels(server: Probe, model: str, rows: Array) -> list[str]:
    """Fail unless the server names the top class of each row; returns the names, one per row."""
    answer = server.infer(model, {INPUT: rows}, outputs=[OUTPUT], classes=1)[OUTPUT]
    places = _two_columns(server, model, rows).argmax(axis=1)
    texts = [
        text.decode("utf-8", errors="replace") if isinstance(text, bytes) else str(text)
        for text in answer.ravel()
    ]
    names = cancer().labels
    parts = [text.split(":", maxsplit=2) for text in texts]
    if len(parts) != len(rows):
        raise Failure(f"{model} gives {len(parts)} top classes for {len(rows)} rows.")
    unnamed = [place for place, part in enumerate(parts) if len(part) < 3 or not part[2]]
    if unnamed:
        first = texts[unnamed[0]]
        raise Failure(
            f"{len(unnamed)} of {len(parts)} answers of {model} have no label. The first of them "
            f"is that to row {unnamed[0]}: {first[:60]!r}.",
            help=_unlabelled(server.config(model), first),
        )
    strange = next((part[2] for part in parts if part[2] not in names), None)
    if strange is not None:
        raise Failure(
            f"{model} answers with the label {strange[:60]!r}.",
            help="One label per line, nothing else; cancer.labels has them.",
        )
    wrong = sum(part[2] != names[place] for part, place in zip(parts, places, strict=True))
    if wrong:
        raise Failure(
            f"{wrong} of {len(parts)} labels are those of the other class.",
            help="The first line of labels.txt is the label of class 0.",
        )
    return [part[2] for part in parts]


def _unlabelled(config: dict[str, Any], answer: str) -> str:
    """What to look at when an answer, `value:index`, has no label."""
    file = next((o.get("label_filename") for o in config["output"] if o["name"] == OUTPUT), "")
    if not file:
        return "The config's output names a file of labels: label_filename."
    index = (*answer.split(":"), "?")[1]
    return (
        f"This answer is class {index}. Its label is line {index} of {file}, counted from 0: has "
        "the file a line for each class?"
    )


def served_classes(server: Probe, model: str, rows: Array) -> Array:
    """The classes that a model answers, one per row; fails where its answers are no classes."""
    answer = server.infer(model, {INPUT: rows}, outputs=[OUTPUT])[OUTPUT]
    if answer.size != len(rows):
        raise Failure(
            f"{model} answers {answer.size / len(rows):g} numbers per row; a class is one.",
            help="Look at predict_proba, and at the dims of the output.",
        )
    decided = answer.reshape(-1)
    if not np.isin(decided, (0.0, 1.0)).all():
        raise Failure(
            f"{model} answers numbers such as {float(decided[~np.isin(decided, (0, 1))][0]):.3g}, "
            "which are no classes.",
            help="Who decides, FIL or the caller? Look at output_class and predict_proba.",
        )
    return decided


def require_classes(
    server: Probe, model: str, rows: Array, probability: Array, whose: str
) -> Array:
    """Fail unless the served classes follow from probabilities and the threshold of the server.

    Rows whose probability is within `LIGHTGBM` of the threshold may have either class.

    Args:
        probability: the probability of class 1, per row.
        whose: where the probabilities come from, for the message.

    Returns:
        The served classes, one per row.
    """
    decided = served_classes(server, model, rows)
    limit = np.float32(_parameter(server, model))
    clear = np.abs(probability - limit) > LIGHTGBM
    wrong = int(((probability > limit) != (decided == 1))[clear].sum())
    if wrong == 0:
        return decided
    mirrored = np.abs(1 - probability - limit) > LIGHTGBM
    if ((1 - probability > limit) == (decided == 1))[mirrored].all():
        raise Failure(
            f"{wrong} of {len(rows)} classes do not follow from {whose}, and all do from 1 minus "
            "it: is it the probability of malignant?",
            help="Class 1 is benign, and the threshold is about class 1.",
        )
    raise Failure(
        f"{wrong} of {len(rows)} classes do not follow from {whose} and the threshold {limit:g} "
        "that the server parsed.",
        help="Is it the same model, trained by RECIPE_LIGHTGBM, and deployed after you saved it?",
    )


#: Two probabilities from float32 sums of 60 LightGBM trees may be this far apart: the rule of
#: `margin_tolerance`, for leaves below 0.7. Rows nearer to the threshold may have either class.
LIGHTGBM = (2 * 61 + 1) * UNIT * 60 * 0.7 / 4


def require_parameter(server: Probe, model: str, chosen: float) -> None:
    """Fail unless the server parsed the threshold that the student chose."""
    parsed = _parameter(server, model)
    if abs(parsed - chosen) > 1e-6:
        raise Failure(
            f"You chose {chosen:g}; the server parsed the threshold {parsed:g}.",
            help="Write your choice into models/verdict/config.pbtxt, and deploy the folder again.",
        )


def require_batches(server: Probe, model: str, rows: Array) -> None:
    """Send each row as a request of its own, all at once; fail unless they were batched."""
    alone = server.infer(model, {INPUT: rows}, outputs=[OUTPUT])[OUTPUT]
    before = server.counts(model)
    answers = server.together(model, [{INPUT: row[None]} for row in rows], outputs=[OUTPUT])
    deadline = time.monotonic() + 5
    change = server.counts(model) - before
    while change.requests < len(rows) and time.monotonic() < deadline:
        change = server.counts(model) - before  # the server counts after it has answered
    # The last executions may not be counted yet, so a difference of 10 % does not show batching.
    if change.executions > 0.9 * change.requests:
        raise Failure(
            f"{change.requests} requests at once took {change.executions} executions: hardly one "
            "was batched with another.",
            help="Is max_batch_size above 1? How long may a request wait for others?",
        )
    require_close(
        np.concatenate([answer[OUTPUT].reshape(1, -1) for answer in answers]),
        alone.reshape(len(rows), -1),
        what="the answers to single rows",
        tolerance=tolerance(60),
        because=because(60),
        help="Each request must get the answer to its own row.",
    )


def require_additive(server: Probe, model: str, rows: Array) -> Array:
    """SHAP values of rows; fails unless they add up to the raw score of the served probability."""
    answer = server.infer(model, {INPUT: rows}, outputs=[OUTPUT, SHAP])
    values, table = answer[SHAP], answer[OUTPUT]
    if values.shape != (len(rows), FEATURES + 1) or table.shape != (len(rows), 2):
        raise Failure(
            f"treeshap_output comes with the shape {list(values.shape)} and output__0 with "
            f"{list(table.shape)}, for {len(rows)} rows.",
            help="31 values and 2 probabilities per row.",
        )
    p = np.clip(table[:, 1].astype(np.float64), UNIT, 1 - UNIT)
    # The error of the logit of a probability rounded to float32, plus the error of the SHAP sum.
    allowed = 4 * UNIT / (p * (1 - p)) + shap_tolerance(60)
    off = np.abs(values.astype(np.float64).sum(axis=1) - np.log(p / (1 - p)))
    if not (off <= allowed).all():
        raise Failure(
            f"The SHAP values of {int((~(off <= allowed)).sum())} of {len(rows)} rows do not add "
            "up to the raw score log(p / (1 - p)).",
            help="Are both outputs from the same model?",
        )
    return values


def feature_names() -> tuple[str, ...]:
    """The names of the 30 measurements, in the order of the columns."""
    from sklearn.datasets import load_breast_cancer

    return tuple(str(name) for name in load_breast_cancer().feature_names)


def _two_columns(server: Probe, model: str, rows: Array, version: int | None = None) -> Array:
    answer = server.infer(model, {INPUT: rows}, outputs=[OUTPUT], version=version)[OUTPUT]
    if answer.shape != (len(rows), 2):
        raise Failure(
            f"{model} answers {len(rows)} rows with the shape {list(answer.shape)}; expected is "
            f"{[len(rows), 2]}.",
            help="Look at predict_proba, and at the dims of output__0.",
        )
    return answer


def _tensor_faults(config: dict[str, Any], side: str, name: str, dims: list[int]) -> list[str]:
    tensors = {tensor.get("name"): tensor for tensor in config.get(side, [])}
    if name not in tensors:
        return [f"It has no {side} {name!r}, only {', '.join(map(str, tensors))}."]
    parsed = [int(d) for d in tensors[name].get("dims", [])]
    return [] if parsed == dims else [f"{name} has dims {parsed}; one row of it is not that long."]


def _parameter(server: Probe, model: str) -> float:
    text = server.parameter(model, "threshold")
    try:
        threshold = float(text or "")
    except ValueError:
        threshold = np.nan
    if not 0 < threshold < 1:
        raise Failure(
            f"The threshold of {model}, as the server parsed it, is {text!r}.",
            help="It is compared with a probability: write a number between 0 and 1 into its "
            "string_value, with a point.",
        )
    return threshold


def _numbers(value: Any, name: str) -> Array:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Failure(f"`{name}` is not a number, or not made of numbers.") from None
    if not array.size or not np.isfinite(array).all():
        raise Failure(f"`{name}` is empty, or holds values that are not finite numbers.")
    return array


def _number(value: Any, name: str) -> float:
    """One number. An array or a list that holds one number counts as that number."""
    numbers = _numbers(value, name)
    if numbers.size != 1 or np.asarray(value).dtype.kind == "b":
        what = "True or False" if numbers.size == 1 else f"{numbers.size} values"
        raise Failure(f"`{name}` holds {what}; one number is wanted.")
    return float(numbers.reshape(-1)[0])


def _whole(value: Any, name: str) -> float:
    """A whole number, such as a count."""
    number = _number(value, name)
    if number % 1:
        raise Failure(f"`{name}` is {number:g}; a whole number is wanted.")
    return number


def _list(value: Any) -> list[Any]:
    """The items of a value as a list. A column such as ask(…) returns becomes a list, too."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    items = value if isinstance(value, list | tuple) else [value]
    return [i[0] if isinstance(i, list | tuple) and len(i) == 1 else i for i in items]
