"""The checks of a2__forest: XGBoost and LightGBM on FIL.

Students get this file, so it holds no expected answer. A public check compares what the server
answers with what the student computed with the library. The hidden checks compare both with a model
that they train themselves.
"""

from __future__ import annotations

import numpy as np

from grader.checks import a2_facts as facts
from grader.checks import require
from grader.checks.define import define
from grader.checks.failure import Failure
from grader.checks.probe import Array, Probe
from grader.checks.values import array, choice, texts, whole

#: The judge loads models of this backend only. Another one could run a student's code.
BACKENDS = ("fil",)


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
    read="Read on: lecture 1, notebook 01, writes such a config step by step.",
)
def forest(server: Probe, model: str) -> None:
    """FIL serves your forest: 30 measurements in, two probabilities out, 114 rows in one batch."""
    config = require.backend(server, model, "fil")
    both = "One container reads output_class, a newer one is_classifier: both are to be true."
    mend = "Mend models/forest/config.pbtxt, and deploy the folder again."
    with require.all_of(partial=0.5, help=mend):  # the model answers: other checks can use it
        require.tensors(config, inputs=facts.INPUTS, outputs={facts.OUTPUT: ("FP32", [2])})
        require.batch_size(config, 114, because="the 114 test rows are one request")
        require.parameter(config, "output_class", "true", because=both)
        require.parameter(config, "is_classifier", "true", because=both)


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
    read="Read on: `help(xgboost.XGBClassifier.predict_proba)`.",
)
def probabilities(server: Probe, me: str, model: str, library: Array, served: Array) -> None:
    """The server gives the probabilities that the library gives."""
    split = facts.own_rows(me)
    answer = facts.ask(server, model, split.x_test)
    facts.follows_recipe(server, model)
    how = "predict_proba gives such a table, predict does not."
    table = require.probabilities("library", library, 114, split.labels, help=how)
    facts.agree("the server's probabilities", answer, table, "the library's")
    again = f'served = ask("{model}", cancer.x_test), after the last deploy.'
    require.same_answer("served", served, answer, help=again)


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
    read="Read on: Triton's documentation, protocol extension `classification`.",
)
def labels(server: Probe, me: str, model: str, answers: list[str]) -> None:
    """Asked for the top class, the server answers with its name."""
    require.backend(server, model, "fil")
    rows = {facts.INPUT: facts.own_rows(me).x_test[:10]}
    named = require.labels(server, model, rows, facts.OUTPUT, facts.LABELS)
    part = "Hand over the label alone, the third part of value:index:label, for the first 10 test "
    require.same_answer("answers", answers, named, help=f"{part}rows, asked after the last deploy.")


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
    read="Read on: task 2's table, and FIL's documentation, `threshold`.",
)
def classes(server: Probe, me: str, model: str, library: Array) -> None:
    """The server decides: 1 where the library's probability of benign is above the threshold."""
    split = facts.own_rows(me)
    how = "It is column 1 of predict_proba(cancer.x_test): the probability of benign."
    benign = require.probabilities("library", library, 114, split.labels, column=1, help=how)
    facts.follows_recipe_lightgbm(server, model)
    decided = facts.decided(server, model, split.x_test, benign, "`library`")
    if len(np.unique(decided)) < 2:
        raise Failure(
            f"{model} puts all {len(decided)} test rows into class {decided[0]:g}: with the "
            f"threshold {facts.threshold(server, model):g} it decides nothing.",
            help="Begin with a threshold of 0.5.",
        )


@define(
    "a2.threshold",
    needs=("a2.classes",),
    hints=(
        "Higher thresholds call fewer tumours benign. So one of the two counts grows with the "
        "threshold, and the other one shrinks. Print both side by side with GRID.",
        "missed: malignant, and p > threshold. alarms: benign, and not p > threshold. Keep the "
        "places of GRID whose alarms are at most a tenth of all benign test rows. The rule takes "
        "the last of them; the best one is found by comparing missed, then alarms.",
        "alarms = [int(((benign <= t) & (cancer.y_test == 1)).sum()) for t in GRID]; then "
        "kept = [k for k, a in enumerate(alarms) if a <= 0.1 * (cancer.y_test == 1).sum()], "
        "rule = GRID[max(kept)], threshold = GRID[min(kept, key=lambda k: (missed[k], alarms[k], "
        "-k))]. Write it into config.pbtxt and deploy again.",
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
    split, size = facts.own_rows(me), (len(facts.GRID),)
    per, how = "one count per threshold in GRID", "How many patients is it at each threshold?"
    miss = array("missed", missed, size, because=per, whole=True, help=how)
    alarm = array("alarms", alarms, size, because=per, whole=True, help=how)
    if (np.diff(miss) > 0).any() or (np.diff(alarm) < 0).any():
        raise Failure(
            "`missed` should never grow with the threshold, nor `alarms` shrink; yours do.",
            help="Which rows does p > threshold call benign? Are the two exchanged?",
        )
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
    decided, parsed = facts.classes(server, model, split.x_test), facts.threshold(server, model)
    for name, count, true in (
        ("alarms", alarm[place], (benign & (decided == 0)).sum()),
        ("missed", miss[place], (~benign & (decided == 1)).sum()),
    ):
        if count != true:
            raise Failure(
                f"At {chosen:g} your table has {name} = {count:g}; on the same rows the server, "
                f"whose threshold is {parsed:g}, has {true}.",
                help="Is your threshold in config.pbtxt, and deployed? Is the table right?",
            )
    if abs(parsed - chosen) > 1e-6:
        raise Failure(
            f"You chose {chosen:g}; the server parsed the threshold {parsed:g}.",
            help="Write your choice into models/verdict/config.pbtxt, and deploy the folder again.",
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
    read="Read on: lecture 1, notebook 05, shows each batch as a bar.",
)
def batching(server: Probe, model: str, requests: int, executions: int) -> None:
    """The server batches: many requests, fewer executions."""
    config = require.backend(server, model, "fil")
    add = "Add it to models/forest/config.pbtxt, and deploy the folder again."
    require.setting(config, "dynamic_batching", help=add)
    read = "Read the counts before and after ask_together, and subtract."
    require.batch_counts(requests, executions, sent=114, config=config, help=read)
    facts.batched(server, model, facts.own_rows().x_train[: facts.TOGETHER])


@define(
    "a2.shap",
    needs=("a2.forest",),
    hints=(
        "FIL has a second output, treeshap_output. It has to be in config.pbtxt before anybody can "
        "ask for it: a value for each measurement, and one more.",
        'output { name: "treeshap_output" data_type: TYPE_FP32 dims: [ 31 ] }. The patient is '
        "among the rows with y_test == 0 whose probability of benign is at most 0.5.",
        'values = ask("forest", cancer.x_test[patient:patient + 1], "treeshap_output")[0]. The '
        "reasons are names[k] for the three largest abs(values[:30]); np.argsort helps.",
    ),
    read="Read on: FIL's documentation, `treeshap_output`.",
)
def shap(
    server: Probe, me: str, model: str, patient: int, values: Array, reasons: list[str]
) -> None:
    """You can say which measurements weighed most in the closest call."""
    config, split = require.backend(server, model, "fil"), facts.own_rows(me)
    size = "It is one value for each measurement and one for the bias."
    require.tensors(config, outputs={facts.SHAP: ("FP32", [31])}, help=size)
    benign = facts.ask(server, model, split.x_test)[:, 1]
    row = whole("patient", patient, least=0, most=113, help="It is the number of a test row.")
    if split.y_test[row] != 0:
        raise Failure(
            f"The tumour of test row {row} is {split.labels[1]}.",
            help="Look among the rows that are malignant: cancer.y_test == 0.",
        )
    if benign[row] > 0.5:
        raise Failure(
            f"The forest gives row {row} a probability of benign of {benign[row]:.3f}: that is no "
            "close call, but a miss.",
            help="Look among the malignant rows with a probability of at most 0.5.",
        )
    if benign[row] < benign[(split.y_test == 0) & (benign <= 0.5)].max():
        raise Failure(
            f"The forest gives row {row} a probability of benign of {benign[row]:.3f}; another "
            "malignant row was a closer call.",
            help="Take the highest probability that is at most 0.5.",
        )
    served = facts.shares(server, model, split.x_test[row : row + 1])[0]
    again = "Hand over the 31 values of treeshap_output for this one patient. "
    require.same_answer("values", values, served, help=f"{again}Ask again after the last deploy.")
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
    """Versions 1 and 3 answer, version 2 does not, and who asks for none gets the newest."""
    require.backend(server, model, "fil")
    wanted = "Versions 1 and 3 are to answer. Look at version_policy."
    require.versions(server, model, (1, 3), help=wanted)
    split = facts.own_rows(me)
    served = {version: facts.ask(server, model, split.x_test, version) for version in (1, 3, None)}
    for version, name, value in ((1, "first", first), (3, "third", third), (None, "plain", plain)):
        asked = f"version {version}" if version else "no version"
        right = float(((served[version][:, 1] > 0.5) == split.y_test).mean())
        if right < 0.8:
            raise Failure(
                f"Asked for {asked}, {model} is right about {right:.0%} of the test rows.",
                help="Which model lies in which folder? One of the three must never be served.",
            )
        again = f"Ask for cancer.x_test and {asked}, after the last deploy."
        require.same_answer(name, value, served[version], help=again)
    if np.array_equal(served[1], served[3]):
        raise Failure(
            "Versions 1 and 3 give the same answers.", help="Is it the same file in both folders?"
        )


@define(
    "a2.delays",
    needs=("a2.batching",),
    hints=(
        "Do it once by hand: change the delay in config.pbtxt, deploy, count as in task 5, then "
        "time ten single requests. After that put it into a loop.",
        "re.sub can write the number into the config's text. time.perf_counter() before and after "
        "ask(forest, cancer.x_test[:1]) times one request, in seconds.",
        're.sub(r"(max_queue_delay_microseconds:)\\s*\\d+", rf"\\1 {delay}", text) gives the new '
        "text for config.pbtxt; deploy; then runs.append(…) and lonely.append(np.median(…)).",
    ),
    read="Lecture 1, notebook 05, draws what a delay does to each request.",
)
def delays(
    server: Probe, model: str, delays: list[int], runs: list[int], lonely: list[float]
) -> None:
    """You have measured what a delay brings to many requests, and what it costs a lonely one."""
    config = require.backend(server, model, "fil")
    most, least = facts.LONGEST_DELAY, facts.DELAYS
    require.delays(delays, runs, lonely, config=config, sent=114, at_least=least, longest=most)
