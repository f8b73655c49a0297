"""The checks of a2__forest: XGBoost and LightGBM on FIL.

Students get this file, so it holds no expected answer. A public check compares what the server
answers with what the student computed with the library. The hidden checks compare both with a model
that they train themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from grader.vocabulary import require, tolerance
from grader.vocabulary.collect import fault
from grader.vocabulary.define import define
from grader.vocabulary.failure import Failure
from grader.vocabulary.probe import Array, Probe
from grader.vocabulary.require_config import text_parameter
from grader.vocabulary.values import array, choice, texts, whole
from workbook.zoo import data

from . import facts

#: The judge loads models of this backend only. Another one could run a student's code.
BACKENDS = ("fil",)
#: Tasks without hints, the written answers: for each, what to read in place of them.
NO_HINTS = {
    "a2.delay": "Look at your two curves. Read on: lecture 1, notebook 05, `A delay`.",
    "a2.why": "Look at your counts of task 4: `print(*zip(GRID, missed, alarms), sep='\\n')`.",
}

#: NVIDIA's guide to FIL.
_GUIDE = "https://github.com/triton-inference-server/fil_backend/blob/main/docs/"
_AGAIN = "Ask again after the last deploy, and after a change of `me`."


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
    read="Read on: lecture 1, notebook 01, writes such a config step by step; lecture 2, notebook "
    "08, says what FIL's parameters do.",
)
def forest(server: Probe, model: str) -> None:
    """FIL serves your forest: 30 measurements in, two probabilities out, 114 rows in one batch."""
    config = require.backend(server, model, "fil")
    facts.require_named(model, "forest")
    todo = "Correct models/forest/config.pbtxt, and deploy the folder again."
    with require.all_of(partial=0.5, help=todo):  # the model answers: other checks can use it
        require.tensors(config, inputs=facts.INPUTS, outputs={facts.OUTPUT: ("FP32", [2])})
        require.batch_size(config, 114, because="the 114 test rows are one request")
        for key in ("output_class", "is_classifier"):
            _require_true(config, key)


def _require_true(config: Mapping[str, Any], key: str) -> None:
    """Note a fault unless a parameter is "true"."""
    found = text_parameter(config, key)
    if found != "true":
        value = "is missing" if found is None else f"is {found!r}"
        fault(
            f"The parameter {key} {value}. Older containers read output_class, newer ones "
            "is_classifier: both are to be true.",
            heading="As the server parsed the config of forest:",
        )


@define(
    "a2.probabilities",
    after=("a2.forest",),
    hints=(
        "Compare the first row of both by eye: print(served[0], library[0]).",
        "library is a table of two columns, as the model's predict_proba(rows) returns it for "
        "cancer.x_test: column 0 is malignant, column 1 benign. served comes from the server.",
        "library = model.predict_proba(cancer.x_test), with the model that you trained by "
        'xgboost.XGBClassifier(**RECIPE), and served = ask("forest", cancer.x_test).',
    ),
    read="Read on: `help(xgboost.XGBClassifier.predict_proba)`; lecture 2, notebook 08.",
)
def probabilities(server: Probe, me: str, model: str, library: Array, served: Array) -> None:
    """The server gives the probabilities that the library gives."""
    split = facts.own_rows(me)
    answer = facts.ask(server, model, split.x_test)
    facts.follows_recipe(server, model)
    facts.trained_on(server, model, split)
    how = "predict_proba(cancer.x_test) gives such a table: a row for each test row."
    table = require.probabilities("library", library, 114, split.labels, help=how)
    facts.agree("the server's probabilities", answer, table, "the library's")
    require.same_answer("served", served, answer, help=f"It is for all test rows. {_AGAIN}")


@define(
    "a2.labels",
    after=("a2.forest",),
    hints=(
        "Two files take part: config.pbtxt names labels.txt, which holds one label per line.",
        "Line 0 is the label of class 0. Which class is which? cancer.labels says it. In "
        'config.pbtxt, label_filename: "labels.txt" stands inside output__0.',
        'With classes=1 each row comes back as a text "value:index:label", as bytes. '
        '[text.decode().split(":")[2] for text in answer.ravel()] takes the labels out.',
    ),
    read="Read on: Triton's documentation, protocol extension `classification`: "
    "https://github.com/triton-inference-server/server/blob/main/docs/protocol/"
    "extension_classification.md",
)
def labels(server: Probe, me: str, model: str, answers: list[str]) -> None:
    """Asked for the top class, the server answers with its name."""
    require.backend(server, model, "fil")
    split = facts.own_rows(me)
    rows = {facts.INPUT: split.x_test[:10]}
    served_labels = require.labels(server, model, rows, facts.OUTPUT, facts.LABELS)
    facts.trained_on(server, model, split)
    part = "Hand over the label alone, the third part of value:index:label, for the first ten test "
    given = texts("answers", answers, help=f"{part}rows.")
    if len(given) != 10:
        count = f"{len(given)} value{'s' * (len(given) != 1)}"
        raise Failure(f"`answers` has {count}; ten are wanted.", help=f"{part}rows.")
    if not {*given} & {*facts.LABELS}:
        raise Failure(
            f"The first of `answers` is {given[0][:40]!r}; {model} has the labels "
            f"{', '.join(map(repr, facts.LABELS))}.",
            help=f"{part}rows. The server sends bytes: text.decode() makes a text of them.",
        )
    require.same_answer("answers", given, served_labels, help=f"{part}rows. {_AGAIN}")


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
    read="Read on: task 2's table; lecture 2, notebook 08; and FIL's guide, on `threshold`: "
    f"{_GUIDE}model_config.md",
)
def classes(server: Probe, me: str, model: str, library: Array) -> None:
    """The server decides: 1 where the library's probability of benign is above the threshold."""
    facts.require_named(model, "verdict")
    split = facts.own_rows(me)
    how = "It is column 1 of predict_proba(cancer.x_test): the probability of benign."
    benign = require.probabilities("benign", library, 114, split.labels, column=1, help=how)
    if np.isin(benign, (0, 1)).all():
        raise Failure(
            "`benign` holds only 0 and 1: these are classes, and probabilities are wanted.",
            help="predict gives classes, predict_proba gives probabilities.",
        )
    facts.follows_recipe_lightgbm(server, model)
    facts.trained_on_lightgbm(server, model, split)
    decided = facts.decided(server, model, split.x_test, benign, "`benign`")
    if len(np.unique(decided)) < 2:
        raise Failure(
            f"{model} puts all {len(decided)} test rows into class {decided[0]:g}: with the "
            f"threshold {facts.threshold(server, model):g} it decides nothing.",
            help="Begin with a threshold of 0.5.",
        )


@define(
    "a2.threshold",
    after=("a2.classes",),
    hints=(
        "Higher thresholds call fewer tumours benign. So one of the two counts grows with the "
        "threshold, and the other one shrinks. Print both side by side with GRID.",
        "missed: malignant, and p > threshold. alarms: benign, and not p > threshold. Keep the "
        "places of GRID whose alarms are at most a tenth of all benign test rows. The rule takes "
        "the last of them; the best one is found by comparing missed, then alarms.",
        "alarms = [int(((benign <= t) & (cancer.y_test == 1)).sum()) for t in GRID]; then "
        "kept = [k for k, a in enumerate(alarms) if a <= 0.1 * (cancer.y_test == 1).sum()], "
        "rule = GRID[max(kept)], threshold = GRID[min(kept, key=by_mistakes)]. Write it into "
        "config.pbtxt and deploy again.",
    ),
    read="Read on: `print(*zip(GRID, missed, alarms), sep='\\n')` shows your table.",
)
def threshold(
    server: Probe,
    me: str,
    model: str,
    missed: list[int],
    alarms: list[int],
    rule: float,
    threshold: float,
) -> None:
    """Your server uses the best threshold with at most 10% false alarms."""
    facts.require_named(model, "verdict")
    split, size = facts.own_rows(me), (len(facts.GRID),)
    per, how = "one count per threshold in GRID", "How many patients is it at each threshold?"
    miss = array("missed", missed, size, because=per, whole=True, help=how)
    alarm = array("alarms", alarms, size, because=per, whole=True, help=how)
    for name, counts, kind in (("missed", miss, 0), ("alarms", alarm, 1)):
        there = int((split.y_test == kind).sum())
        if counts.max() > there:
            raise Failure(
                f"`{name}` goes up to {counts.max():g}; only {there} of the test rows are "
                f"{split.labels[kind]}.",
                help=f"Count on the test rows, and of these only the {split.labels[kind]} ones.",
            )
    if (np.diff(miss) > 0).any() or (np.diff(alarm) < 0).any():
        raise Failure(
            "`missed` should never grow with the threshold, nor `alarms` shrink; yours do.",
            help="Which rows does p > threshold call benign? Are the two exchanged?",
        )
    _require_served_counts(server, model, split, miss, alarm)
    benign = split.y_test == 1
    allowed = facts.ALARMS * benign.sum()
    by_rule = choice("rule", rule, facts.GRID, of="the thresholds in GRID")
    place = choice("threshold", threshold, facts.GRID, of="the thresholds in GRID")
    chosen = facts.GRID[place]
    for name, at in (("rule", by_rule), ("threshold", place)):
        if alarm[at] > allowed:
            raise Failure(
                f"`{name}`: at {facts.GRID[at]:g} your table counts {alarm[at]:g} false alarms; "
                f"10% of {benign.sum()} benign rows are {allowed:g}.",
                help="Go down in GRID until the count is allowed.",
            )
    if (alarm[by_rule + 1 :] <= allowed).any():
        raise Failure(
            f"`rule`: the count of false alarms at {facts.GRID[by_rule]:g} is allowed, but so is "
            "the one at a higher threshold in GRID.",
            help="The rule takes the highest one that keeps the limit.",
        )
    kept = np.flatnonzero(alarm <= allowed)
    best = min(kept, key=lambda k: (miss[k], alarm[k], -k))
    if best != place:
        raise Failure(
            f"`threshold`: by your own table {chosen:g} misses {miss[place]:g} and raises "
            f"{alarm[place]:g} false alarms. Another threshold that keeps the limit "
            f"{_better(miss[best] - miss[place], alarm[best] - alarm[place])}.",
            help="Compare missed first, then alarms; of equal ones take the highest threshold.",
        )
    parsed = facts.threshold(server, model)
    if abs(parsed - chosen) > 1e-6:
        raise Failure(
            f"{model} is deployed with {parsed:g}, and your `threshold` is {chosen:g}.",
            help="Write it into models/verdict/config.pbtxt, and deploy the folder again.",
        )


def _require_served_counts(
    server: Probe, model: str, split: data.Split, missed: Array, alarms: Array
) -> None:
    """Fail unless the server makes the mistakes that a table counts at the deployed threshold."""
    parsed = facts.threshold(server, model)
    decided, benign = facts.classes(server, model, split.x_test), split.y_test == 1
    at = np.flatnonzero(np.abs(np.array(facts.GRID) - parsed) < 1e-6)
    for name, counts, true in (
        ("missed", missed, (~benign & (decided == 1)).sum()),
        ("alarms", alarms, (benign & (decided == 0)).sum()),
    ):
        if (counts[at] != true).any():  # `at` is empty where none of GRID is deployed
            raise Failure(
                f"At {parsed:g}, the threshold that is deployed, your table has {name} = "
                f"{counts[at][0]:g}; on the test rows the server has {true}.",
                help="Is it counted on the test rows, with `benign`, the probability of benign "
                "from task 4's model? Missed: malignant, called benign. Alarms: benign, called "
                "malignant. Did you change `me`? Then run everything from task 1 again.",
            )


def _better(missed: float, alarms: float) -> str:
    """In which way a threshold is better, from the differences of its counts."""
    if missed < 0:
        return "misses fewer"
    if alarms < 0:
        return "misses no more and raises fewer alarms"
    return "has the same two counts and is higher"


@define(
    "a2.batching",
    after=("a2.forest",),
    hints=(
        "The config says what the server may do; the counts say what it did. Is dynamic_batching "
        "in models/forest/config.pbtxt, and did you deploy again?",
        "A request that comes while the instance is idle runs at once, alone. A delay makes the "
        "server wait for more requests: max_queue_delay_microseconds, inside dynamic_batching.",
        "dynamic_batching { max_queue_delay_microseconds: 5000 }. Then read "
        "measure.statistics(server, model) before and after ask_together, take measure.difference, "
        'and hand over int(change["requests"].iloc[0]) and the same of executions.',
    ),
    read="Read on: lecture 1, notebook 05, shows each batch as a bar.",
)
def batching(server: Probe, model: str, requests: int, executions: int) -> None:
    """The server batches: many requests, fewer executions."""
    config = require.backend(server, model, "fil")
    add = "Add it to models/forest/config.pbtxt, and deploy the folder again."
    require.setting(config, "dynamic_batching", help=add)
    read = "Read the counts before and after ask_together, and subtract."
    require.batch_counts(requests, executions, sent=114, config=config, help=read)
    # Without a delay it depends on chance what is batched: so the delay is looked at first.
    if not facts.delay(config):  # task 8 may have left another one than task 5's
        raise Failure(
            "dynamic_batching has no delay above 0, so a request is batched only if the instance "
            "is busy when it comes.",
            help="Write the max_queue_delay_microseconds of task 5 into dynamic_batching, or one "
            "of your delays of task 8 that is above 0, and deploy the folder again.",
            credit=0.5,
        )
    facts.batched(server, model, facts.own_rows().x_train[: facts.TOGETHER])


@define(
    "a2.shap",
    after=("a2.forest",),
    hints=(
        "FIL has a second output, treeshap_output. It has to be in config.pbtxt before anybody can "
        "ask for it: a value for each measurement, and one more.",
        'output { name: "treeshap_output" data_type: TYPE_FP32 dims: [ 31 ] }. The patient is '
        "among the rows with y_test == 0 whose probability of benign is at most 0.5.",
        'values = ask("forest", cancer.x_test[patient:patient + 1], "treeshap_output")[0]. The '
        "reasons are names[k] for the three largest abs(values[:30]); np.argsort helps.",
    ),
    read=f"Read on: lecture 2, notebook 08, and FIL's guide: {_GUIDE}explainability.md",
)
def shap(
    server: Probe, me: str, model: str, patient: int, values: Array, reasons: list[str]
) -> None:
    """You know which measurements weighed most for the malignant row that is closest to 0.5."""
    config, split = require.backend(server, model, "fil"), facts.own_rows(me)
    size = "It is one value for each measurement and one for the bias."
    require.tensors(config, outputs={facts.SHAP: ("FP32", [31])}, help=size)
    facts.trained_on(server, model, split)
    benign = facts.ask(server, model, split.x_test)[:, 1]
    row = whole("patient", patient, least=0, most=113, help="It is the number of a test row.")
    if split.y_test[row] != 0:
        raise Failure(
            f"The tumour of test row {row} is {split.labels[1]}.",
            help="Look among the rows that are malignant: cancer.y_test == 0.",
        )
    if benign[row] > 0.5:
        raise Failure(
            f"The forest gives row {row} a probability of benign of {benign[row]:.3f}, so it "
            "calls this row benign. The task asks for a row that it calls malignant.",
            help="Look among the malignant rows with a probability of at most 0.5.",
        )
    if benign[row] < benign[(split.y_test == 0) & (benign <= 0.5)].max():
        raise Failure(
            f"The forest gives row {row} a probability of benign of {benign[row]:.3f}; another "
            "malignant row is closer to 0.5.",
            help="Take the highest probability that is at most 0.5.",
        )
    served = facts.shares(server, model, split.x_test[row : row + 1])[0]
    _require_shares(values, served, row)
    order = np.argsort(-np.abs(served[:30]), kind="stable")[:3]
    given = texts("reasons", reasons, help="names[k] is the name of measurement k.")
    right = len({facts.feature_names()[place] for place in order}.intersection(given))
    if not right == len(given) == 3:
        raise Failure(
            f"{right} of your {len(given)} reasons are among the three measurements that weigh "
            "most.",
            help="A share far below 0 weighs as much as one far above it. The last value is the "
            "bias, which is no measurement.",
            credit=0.5 if len(given) == 3 and right == 2 else 0.0,
        )


def _require_shares(values: Any, served: Array, row: int) -> None:
    """Fail unless a student handed over the SHAP values that the server answers for a row."""
    what = f"Hand over the 31 values of treeshap_output for row {row} alone. {_AGAIN}"
    given = array("values", values, (31,), because="30 measurements and the bias", help=what)
    allowed = tolerance.rounding(float(np.abs(served).max())).allowed
    if wrong := int((np.abs(given - served) > allowed).sum()):
        raise Failure(
            f"{wrong} of the 31 numbers in `values` differ from what the server answers for row "
            f"{row}, your `patient`.",
            help=what,
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
    read="Read on: lecture 1, notebook 07, has all three policies.",
)
def versions(server: Probe, me: str, model: str, first: Array, third: Array, plain: Array) -> None:
    """Versions 1 and 3 answer, version 2 does not; without a version, the newest one answers."""
    require.backend(server, model, "fil")
    facts.require_named(model, "releases")
    wanted = "Versions 1 and 3 are to answer. Look at version_policy."
    require.versions(server, model, (1, 3), help=wanted)
    split = facts.own_rows(me)
    for number in (1, 3):
        facts.trained_on(server, model, split, number)
    served = {version: facts.ask(server, model, split.x_test, version) for version in (1, 3, None)}
    for version, name, value in ((1, "first", first), (3, "third", third), (None, "plain", plain)):
        which = f"version {version}" if version else "no version"
        right = float(((served[version][:, 1] > 0.5) == split.y_test).mean())
        if right < 0.8:
            raise Failure(
                f"Asked for {which}, {model} is right about {right:.0%} of the test rows.",
                help="Which model lies in which folder? One of the three must never be served.",
            )
        again = f"They are for cancer.x_test and {which}. {_AGAIN}"
        require.same_answer(name, value, served[version], help=again)
    if np.array_equal(served[1], served[3]):
        raise Failure(
            "Versions 1 and 3 give the same answers.", help="Is it the same file in both folders?"
        )


@define(
    "a2.delays",
    after=("a2.batching",),
    hints=(
        "Do it for one delay first: deploy_with, one ask_together that is not counted, then five "
        "counts and ten single requests. After that put it into a loop.",
        "np.median takes the median of a list. milliseconds(forest, cancer.x_test[:1]) times one "
        "request.",
        "For each delay: deploy_with(delay), ask_together(…); then runs.append(int(np.median("
        "[count_executions(forest, cancer.x_test) for _ in range(5)]))) the same for latencies.",
    ),
    read="Read on: lecture 1, notebook 05, draws what a delay does to each request.",
)
def delays(
    server: Probe, model: str, delays: list[int], runs: list[int], latencies: list[float]
) -> None:
    """You have measured what a delay brings to many requests, and what it costs a single one."""
    config = require.backend(server, model, "fil")
    most, least = facts.LONGEST_DELAY, facts.DELAYS
    require.delays(delays, runs, latencies, config=config, sent=114, at_least=least, longest=most)
    waits, ran, took = array("delays", delays), array("runs", runs), array("latencies", latencies)
    _require_latencies(waits, took)
    _require_runs(waits, ran)
    if not facts.delay(config):
        raise Failure(
            "forest is deployed with a delay of 0.",
            help="Deploy it with one of your delays that is above 0.",
        )


def _require_latencies(waits: Array, took: Array) -> None:
    """Fail if a single request took more than a second longer than the delay."""
    for wait, ms in zip(waits, took, strict=True):
        if ms > wait / 1000 + 1000:
            raise Failure(
                f"With a delay of {wait:g} µs a single request took {ms:g} ms by your list: "
                "over a second longer than the delay.",
                help="Are they milliseconds? If they are, the machine was busy: measure again.",
            )


def _require_runs(waits: Array, ran: Array) -> None:
    """Fail if long delays made no batches, or far smaller ones than short delays made."""
    for wait, count in zip(waits, ran, strict=True):
        if wait >= facts.LONG_DELAY and count > 0.9 * 114:
            raise Failure(
                f"With a delay of {wait:g} µs 114 requests took {count:g} executions by your list: "
                "hardly any shared one.",
                help="Are they sent by ask_together, and was the folder deployed with this delay?",
            )
    short, long = int(waits.argmin()), int(waits.argmax())
    if ran[long] > 3 * ran[short] + 5:  # counts of single tries jump, medians much less
        raise Failure(
            f"By your list 114 requests took {ran[short]:g} executions with {waits[short]:g} µs, "
            f"and {ran[long]:g} with {waits[long]:g} µs. A longer delay makes larger batches, so "
            "fewer executions.",
            help="Are `runs` and `delays` in the same order? Is each count the median of five "
            "tries? If both are so, the machine was busy: measure again.",
        )
