"""The checks of a4__production: one network as pth, ONNX in fp32 and in fp16, up to a verdict.

Students get this file, so it holds no expected answer. A public check computes each figure anew,
from the weights that the student handed over and from what the served models answer. The hidden
checks ask the models for other pictures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from grader.vocabulary import collect, figures, onnx_file, require, tensorrt_engine, values
from grader.vocabulary.define import define
from grader.vocabulary.failure import Failure, NotAttempted
from grader.vocabulary.probe import Array, Probe
from grader.vocabulary.values import array, whole

from . import engine as engines
from . import facts, files
from . import serving as models

#: The judge loads models of these backends only. Their models are data. No engine is loaded without
#: a GPU, and the judge's sandbox has none.
BACKENDS = ("onnxruntime", "tensorrt")
#: Modules that libraries import when they are first used. No program names them, and they take
#: seconds in each process.
IMPORTED_LATE = {
    "checks": ("sklearn.datasets",),  # the digits
    "notebook": (
        "torch._dynamo",  # an optimizer
        "torch.export._trace",  # torch.onnx.export, as the two that follow
        "torch.onnx._internal.exporter._compat",
        "onnxscript.function_libs.torch_lib.ops",
    ),
}
#: Tasks without hints, the written answers: for each, what to read in place of them.
NO_HINTS = {
    "a4.why": "Its table says what earns points. Read on: lecture 2, notebook 13, `fp16`.",
    "a4.choice": "Its table says what earns points. Read on: lecture 2, notebook 13, `Which "
    "verdicts change?` and `Another threshold`.",
}
#: The beginning of the help if a tensor has another type than the task asks for.
_TYPES = "The task asks for TYPE_FP32 in image and logits."
#: A table earns points if this share of its figures is right. The deviations alone do not reach it.
_MOSTLY = 0.7


@define(
    "a4.weights",
    server=False,
    hints=(
        "net.features[0] has weight, of the shape (16, 1, 3, 3), and bias, of the shape (16,). "
        "Divide the weight first: the new bias needs the new weight.",
        "Each of the 16 filters has a sum of its own. So the sum goes over the last three "
        "dimensions of the weight, and leaves the first: its shape is that of bias.",
        "first = net.features[0]; with torch.no_grad(): first.weight /= camera.gain; then "
        "first.bias -= camera.black * first.weight.sum((1, 2, 3)). At the end "
        'torch.save(net.state_dict(), "eights.pth").',
    ),
    read="Read on: PyTorch's documentation, `torch.save` and `state_dict`.",
)
def weights(server: Probe, me: str, pth: Array) -> None:
    """eights.pth holds the state dict of a network that finds eights in your camera's counts."""
    models.finds_eights(models.read(me, pth))


@define(
    "a4.fp32",
    after=("a4.weights",),
    hints=(
        "Three things must fit together: the names and the free batch of the export, the config, "
        "and the network that you have folded.",
        'export takes input_names=["image"], output_names=["logits"], and dynamic_shapes for a '
        "batch that is free. The config's dims leave the batch out: one picture has 1 x 8 x 8 "
        "numbers, one answer 2.",
        'export(net, "models/eights_fp32/1/model.onnx", input_names=[…], output_names=[…], '
        'dynamic_shapes=({0: torch.export.Dim("batch")},)). In the config: max_batch_size: 1000, '
        "TYPE_FP32 twice, dims: [ 1, 8, 8 ] and dims: [ 2 ].",
    ),
    read="Read on: lecture 2, notebook 05, exports a network and serves it.",
)
def fp32(server: Probe, me: str, pth: Array, model: str) -> None:
    """The server answers with your network in fp32: counts in, two logits out."""
    files.of_task(model, "eights_fp32")
    known = models.known(me, pth)
    _is_served(server, model, f"Correct models/{model}/config.pbtxt, and deploy the folder again.")
    files.same(server, model, known.network, "FLOAT")
    models.answers(server, model, known, known.pictures[:200], "your pictures")


@define(
    "a4.fp16",
    after=("a4.weights", "a4.fp32"),
    hints=(
        "Convert the fp32 file, not the network: halve does it. What should become of the input "
        "and the output?",
        "Clients must not notice: with keep_io_types=True the model takes and gives fp32, and the "
        "config stays as it is.",
        'halve("models/eights_fp32/1/model.onnx", "models/eights_fp16/1/model.onnx", '
        "keep_io_types=True). The config is that of eights_fp32.",
    ),
    read="Read on: lecture 2, notebook 13, section fp16.",
)
def fp16(server: Probe, me: str, pth: Array, model: str) -> None:
    """The server answers with your network in fp16, and clients need not know."""
    files.of_task(model, "eights_fp16")
    known = models.known(me, pth)
    keep = "keep_io_types=True keeps fp32 outside. The config is that of eights_fp32."
    _is_served(server, model, keep)
    files.same(server, model, known.network, "FLOAT16")
    models.answers_in_half(server, model, known, known.pictures[:200], "your pictures")


def _is_served(server: Probe, model: str, help: str) -> None:
    """Fail unless a config has the network's tensors; a small max_batch_size costs half."""
    config = require.backend(server, model, "onnxruntime")
    types = f"{_TYPES} {help}"
    require.tensors(config, inputs=facts.INPUTS, outputs=facts.OUTPUTS, help=types)
    with require.all_of(partial=0.5, help=help):
        require.batch_size(config, facts.REQUEST, because="a request has up to 1,000 pictures")


@define(
    "a4.engine",
    after=("a4.weights",),
    server=False,
    hints=(
        "Two things must fit the config of models/eights_tensorrt: the types of the file's input "
        "and output, and the batches of the profile.",
        "A client may send one picture alone, and as many as max_batch_size says. The optimum lies "
        "between the two. The shape of one picture is given without the batch.",
        'typed = content("models/eights_fp16/1/model.onnx"), and profile = engines.profile_of('
        '{"image": (1, 8, 8)}, (…, 100, …)): in the gaps stand the fewest pictures and the most.',
    ),
    read="Read on: lecture 2, notebook 10, `Profiles`.",
)
def built(server: Probe, me: str, pth: Array, typed: Any, profile: Any) -> None:
    """TensorRT builds an engine from your fp16 file and your profile, and it fits the config."""
    if _is_not_attempted(typed) and _is_not_attempted(profile):
        raise NotAttempted("A bonus; it is not attempted.")
    known = models.known(me, pth)
    data, shapes = engines.content(typed), engines.profile(profile)
    again = "Make models/eights_fp16/1/model.onnx again, and hand over its content."
    held = onnx_file.numbers_in(data, "`typed`", help=again)
    files.holds(held, "`typed`", known.network, "FLOAT16", again)
    if not tensorrt_engine.can_build():
        raise NotAttempted("TensorRT for RTX is not installed here, so no engine can be built.")
    engines.build(data, shapes)
    engines.takes_all_requests(shapes)
    collect.note("TensorRT has built your engine. Its answers are judged only where a GPU is.")


def _is_not_attempted(value: Any) -> bool:
    return isinstance(value, str) and value == facts.NOT_ATTEMPTED


@define(
    "a4.logits",
    after=("a4.weights", "a4.fp32", "a4.fp16"),
    hints=(
        "A logit is what the last layer gives, before any softmax. Which of the two columns "
        "belongs to an eight?",
        "camera.pictures has 6,000 pictures; a request takes 1,000 of them. Send six, and join the "
        "answers in their order: np.concatenate. Column 1 is the logit of class 1, eight.",
        "logits_fp32 = np.concatenate([ask(fp32, part) for part in np.split(camera.pictures, "
        "6)])[:, 1], the same with fp16, and for PyTorch "
        "net(torch.from_numpy(camera.pictures))[:, 1].numpy() within torch.inference_mode().",
    ),
    read="Read on: Triton's client examples, `InferInput` and `infer`.",
)
def logits(
    server: Probe,
    me: str,
    pth: Array,
    model_fp32: str,
    model_fp16: str,
    logits_pth: Array,
    logits_fp32: Array,
    logits_fp16: Array,
) -> None:
    """Each of the three models gives 6,000 logits of the class eight, one per picture."""
    known = models.known(me, pth)
    models.of_pth(known, logits_pth)
    pairs = {"logits_fp32": (logits_fp32, model_fp32), "logits_fp16": (logits_fp16, model_fp16)}
    served = models.served(server, known, model_fp32, model_fp16)
    for name, (given, model) in pairs.items():
        kinds = {group.get("kind") for group in server.config(model).get("instance_group", ())}
        models.of_served(
            name, given, model, served, known.rounding, is_on_cpu=kinds <= {"KIND_CPU"}
        )


@define(
    "a4.threshold",
    after=("a4.weights",),
    server=False,
    hints=(
        "try_all(logits_pth, camera.is_eight) gives for each threshold how many pictures lie above "
        "it, and how many of those show an eight. Which of the two is divided by the other?",
        "hits / above is the precision. It goes up and down, so look at all thresholds. Among "
        "those with 0.9 or more, the one that finds the most eights has the highest recall.",
        "limits, above, hits = try_all(logits_pth, camera.is_eight); np.where(hits / above >= 0.9, "
        "hits, 0) holds the hits where the precision is enough. Take the limit at the place of the "
        "largest, np.argmax(…).",
    ),
    read="Read on: scikit-learn's documentation, `precision_recall_curve`; it calls rows positive "
    "at or above a threshold.",
)
def threshold(server: Probe, me: str, pth: Array, logits_pth: Array, threshold: float) -> None:
    """At your threshold the precision is at least 0.9, and no other such one finds more eights."""
    known = models.known(me, pth)
    scores, limit = models.of_pth(known, logits_pth), _number("threshold", threshold)
    is_eight = known.camera.is_eight
    called = scores > limit
    most = models.most_found(scores, is_eight)
    is_right = called.any() and is_eight[called].mean() >= facts.PRECISION
    is_right = is_right and is_eight[called].sum() == most
    if not is_right and models.is_probability(scores, known.logits, is_eight, limit):
        raise Failure(
            f"`threshold` is {limit:.4g}: this looks like a threshold for probabilities.",
            help="Logits are compared with it, as the network answers them: no softmax and no "
            "logistic function.",
        )
    if not called.any():
        raise Failure(
            f"No picture has a logit above {limit:g}, so no verdict is eight.",
            help=f"Your logits go from {scores.min():.1f} to {scores.max():.1f}.",
        )
    precision = is_eight[called].mean()
    if precision < facts.PRECISION:
        raise Failure(
            f"Above {limit:.4g} lie the logits of {_many(called.sum())}. Of these, "
            f"{is_eight[called].sum()} show an eight: a precision of {precision:.4f}.",
            help=f"It should be at least {facts.PRECISION}.",
        )
    found = int(is_eight[called].sum())
    if found < most:
        raise Failure(
            f"Above {limit:.4g} the precision is {precision:.4f}, and the verdicts find {found} of "
            f"the {is_eight.sum()} eights. A lower threshold has a precision of at least "
            "0.9, too, and finds more.",
            help="The verdict is eight where the logit is above the threshold: at the threshold "
            "itself it is not. The precision goes up and down: look at all thresholds of PyTorch's "
            "logits, not of another model's.",
            credit=0.5 if found >= 0.8 * most else 0.0,
        )
    if models.is_on_a_logit(scores, limit, known.rounding):
        raise Failure(
            f"{limit:.7g} is the logit of a picture, or almost: in another format rounding alone "
            "decides about this picture.",
            help="Any number between two neighbouring logits gives the same verdicts. Take one in "
            "the middle.",
            credit=0.5,
        )


@define(
    "a4.changed",
    after=("a4.weights", "a4.fp32", "a4.fp16", "a4.logits", "a4.threshold"),
    hints=(
        "Compare two columns of true and false: the verdicts of PyTorch and those of a model, both "
        "at the same threshold.",
        "logits_fp16 > threshold are the verdicts of fp16. Where do they differ from logits_pth > "
        "threshold? np.flatnonzero gives the numbers of the pictures.",
        'changed = {"fp32": np.flatnonzero((logits_fp32 > threshold) != (logits_pth > '
        'threshold)), "fp16": the same with logits_fp16}.',
    ),
    read="Read on: `help(np.flatnonzero)`.",
)
def changed(
    server: Probe,
    me: str,
    pth: Array,
    model_fp32: str,
    model_fp16: str,
    logits_pth: Array,
    threshold: float,
    changed: dict[str, Any],
) -> None:
    """You know each picture for which a served model gives another verdict than PyTorch."""
    known = models.known(me, pth)
    limit, truth = _verdicts(known, logits_pth, threshold)
    answered = models.served(server, known, model_fp32, model_fp16)
    for name, model in (("fp32", model_fp32), ("fp16", model_fp16)):
        listed = _pictures(f"changed[{name!r}]", _part("changed", changed, name), len(truth))
        served = answered[model][:, facts.EIGHT]
        differ = (served > limit) != truth
        sure = np.abs(served - limit) > known.rounding.allowed
        missing, extra = int((differ & ~listed)[sure].sum()), int((listed & ~differ)[sure].sum())
        if missing or extra:
            faults = f" Missing: {_many(missing)} with another verdict." * bool(missing)
            faults += f" Listed, but with the same verdict: {_many(extra)}." * bool(extra)
            raise Failure(
                f"`changed[{name!r}]` has {_many(listed.sum())}.{faults} Compared are PyTorch and "
                f"{model}, both at the threshold {limit:.4g}.",
                help="Both verdicts are taken at the same threshold, on the logits of the models "
                "that are deployed now; what digits the pictures show does not matter here. The "
                "pictures are counted from 0.",
            )


@define(
    "a4.figures",
    after=("a4.weights", "a4.fp32", "a4.fp16", "a4.logits", "a4.threshold"),
    hints=(
        "PyTorch's verdicts are the truth here, not the digits themselves: a true positive is a "
        "picture that both call an eight.",
        "The deviations are those of the logits, picture by picture, without their sign: "
        "np.abs(logits_fp16 - logits_pth), and of that the mean, the largest, the smallest.",
        "figures(np.abs(logits_fp16 - logits_pth), logits_fp16 > threshold, logits_pth > "
        'threshold) makes the row of fp16, and table = {"fp32": …, "fp16": …}.',
    ),
    read="Read on: scikit-learn's documentation, `confusion_matrix` and `precision_score`.",
)
def table(
    server: Probe,
    me: str,
    pth: Array,
    model_fp32: str,
    model_fp16: str,
    engine: str,
    logits_pth: Array,
    threshold: float,
    table: dict[str, dict[str, float]],
) -> None:
    """Your table holds the figures of the models that are served."""
    known = models.known(me, pth)
    limit, truth = _verdicts(known, logits_pth, threshold)
    scores = models.scores(known, logits_pth)
    served = {"fp32": model_fp32, "fp16": model_fp16}
    if models.engine(server, engine):
        served["tensorrt"] = engine
    if not isinstance(table, Mapping) or not all(isinstance(v, Mapping) for v in table.values()):
        raise Failure(
            "`table` is no dict of dicts.",
            help='A DataFrame with one row per model becomes one by frame.to_dict("index").',
        )
    wanted: dict[str, figures.Figure] = {
        "mean deviation": figures.deviation(scores, "mean"),
        "largest deviation": figures.deviation(scores, "largest"),
        "smallest deviation": figures.deviation(scores, "smallest"),
        "true positive": figures.count(truth, limit, "true positive"),
        "false positive": figures.count(truth, limit, "false positive"),
        "false negative": figures.count(truth, limit, "false negative"),
        "true negative": figures.count(truth, limit, "true negative"),
        "accuracy": figures.accuracy(truth, limit),
        "precision": figures.precision(truth, limit),
        "recall": figures.recall(truth, limit),
    }
    answered = models.served(server, known, *served.values())
    _has_all("table", table, served)

    def compare(names: Iterable[str]) -> None:
        require.metrics_table(
            "table",
            table,
            served,
            lambda model: answered[model][:, facts.EIGHT],
            {name: wanted[name] for name in names},
            # Any figure within the tolerance is right, so the reason for it does not help here.
            tolerance=dataclasses.replace(known.rounding, because=""),
            places=4,
            partial=0.5,
        )

    try:
        compare(facts.FIGURES)
    except Failure as failure:
        helps = [help for names, help in _FIGURES_HELP.items() if _fails(compare, names)]
        credit = failure.credit if failure.credit >= 0.5 * _MOSTLY else 0.0
        raise Failure(failure.rationale, help=" ".join(helps), credit=credit) from None


def _fails(compare: Callable[[Iterable[str]], None], names: Iterable[str]) -> bool:
    """Whether one of these figures is not as it should be."""
    try:
        compare(names)
    except Failure:
        return True
    return False


#: The figures of a table, in groups, each with what to look at where one of the group is wrong.
_FIGURES_HELP = {
    facts.FIGURES[:3]: "Deviations are those of the logits of class eight, picture by picture, "
    "without their sign.",
    facts.FIGURES[3:7]: "What is true is what PyTorch says at your threshold, not which digit it "
    "is: a false positive is an eight for the served model, and not for PyTorch.",
    facts.FIGURES[7:]: "Accuracy, precision and recall are shares from 0 to 1, not percent, and "
    "follow from the four counts.",
}


def _has_all(name: str, table: Any, rows: Mapping[str, str]) -> None:
    """Fail where figures are missing in a table, and name those that it has."""
    is_turned = not any(row in table for row in rows)  # table[figure][row]
    for row in rows:
        has = [
            str(figure)
            for figure, part in (table.items() if is_turned else table.get(row, {}).items())
            if not is_turned or row in part
        ]
        lacking = [figure for figure in facts.FIGURES if figure not in has]
        if lacking:
            raise Failure(
                f"`{name}` has no {', '.join(lacking)} of {row}.",
                help=f"Of {row} it has {', '.join(has)[:300] or 'nothing'}; and its own keys are "
                f"{', '.join(map(str, table))[:300] or 'none'}. The names are those of FIGURES.",
            )


@define(
    "a4.closest",
    after=("a4.weights", "a4.fp32", "a4.fp16", "a4.logits", "a4.threshold"),
    hints=(
        "For one model: how many verdicts differ from PyTorch's, if its threshold is moved a "
        "little? Draw that number against the threshold, near the one you have.",
        "try_all(logits_fp16, logits_pth > threshold) counts the pictures above each threshold, "
        "and how many of them PyTorch calls eights. PyTorch's own threshold stays. Two kinds of "
        "verdicts differ: eights for the model alone, and eights for PyTorch alone.",
        "limits, above, hits = try_all(logits_fp16, truth), where truth is logits_pth > threshold; "
        "above - hits are eights for the model alone, truth.sum() - hits for PyTorch alone. Take "
        "the limit where the sum of both is smallest: np.argmin.",
    ),
    read="Read on: lecture 2, notebook 13, section Another threshold.",
)
def closest(
    server: Probe,
    me: str,
    pth: Array,
    model_fp32: str,
    model_fp16: str,
    logits_pth: Array,
    threshold: float,
    nearest: dict[str, float],
    left: dict[str, int],
) -> None:
    """Each model has the threshold that brings its verdicts closest to PyTorch's."""
    known = models.known(me, pth)
    limit, truth = _verdicts(known, logits_pth, threshold)
    answered = models.served(server, known, model_fp32, model_fp16)
    for name, model in (("fp32", model_fp32), ("fp16", model_fp16)):
        own = _number(f"nearest[{name!r}]", _part("nearest", nearest, name))
        one = f"It is a count: how many verdicts of {model} differ from PyTorch's. It may be 0."
        count = whole(
            f"left[{name!r}]", _part("left", left, name), least=0, most=len(truth), help=one
        )
        served = answered[model][:, facts.EIGHT]
        differ = ((served > own) != truth).sum()
        unsure = int((np.abs(served - own) <= known.rounding.allowed).sum())
        best = models.fewest(served, truth)
        if differ - unsure > best:
            raise Failure(
                f"With its threshold {own:.5g}, {model} gives {_many(differ)} another verdict "
                "than PyTorch; with another threshold, fewer.",
                help="PyTorch keeps the threshold of task 6, and only this model's moves, to each "
                "place between two neighbouring logits of its own. Wanted are PyTorch's verdicts, "
                "not the digits; and both kinds count: eights for the model alone, and eights for "
                "PyTorch alone.",
                credit=0.5 if name == "fp16" and differ < ((served > limit) != truth).sum() else 0,
            )
        if abs(count - differ) > unsure:
            raise Failure(
                f"`left[{name!r}]` is {count}; at {own:.5g}, {model} gives {_many(differ)} another "
                "verdict than PyTorch.",
                help="Count them at the threshold that you hand over.",
            )


@define(
    "a4.mended",
    after=("a4.weights",),
    hints=(
        "Where does the deviation come from? A weight of about 0.005 is rounded to 11 bits, and "
        "then multiplied by more than 10,000 counts. What would the first layer have to see "
        "instead?",
        "The network of the training took brightness, mostly between -1 and 2. Let the model "
        "itself turn counts into brightness first. In which type must that be computed?",
        "A torch module whose forward returns inside((image - camera.black) / camera.gain), where "
        "inside is trained(me); export it in eval() mode. Then halve it with an op_block_list that "
        "keeps these two operators in fp32: print the op_type of each model.graph.node.",
    ),
    read="Read on: onnxconverter_common's README, `op_block_list` and `node_block_list`.",
)
def mended(server: Probe, me: str, pth: Array, model: str) -> None:
    """All weights are fp16, and the logits deviate by a tenth as much as before, or less."""
    files.of_task(model, "eights_mended")
    config = require.backend(server, model, "onnxruntime")
    known = models.known(me, pth)
    require.tensors(config, inputs=facts.INPUTS, outputs=facts.OUTPUTS, help=_TYPES)
    files.all_in_half(server, model)
    models.deviates_less(server, model, known, known.pictures, "your pictures")
    models.deviates_less_in_half(server, model, known)


@define(
    "a4.production",
    after=("a4.weights",),
    hints=(
        "Decider(network, limit) is a module that returns the logits and the verdict. Which "
        "network and which threshold does it get for the variant that you have chosen?",
        "Export it as you exported that network. output_names has two names then, and the config "
        "two outputs: the second is TYPE_BOOL with dims: [ 1 ].",
        'export(Decider(net, chosen).eval(), "models/eights/1/model.onnx", output_names=["logits", '
        '"verdict"], …). For a variant in fp16 halve this file at the end, with "Slice" and '
        '"Greater" in the op_block_list as well. In the config: max_batch_size 1000, both outputs, '
        "and dynamic_batching { }.",
    ),
    read="Read on: lecture 1, notebook 05, for dynamic_batching; lecture 2, notebook 05, for the "
    "file.",
)
def production(
    server: Probe,
    me: str,
    pth: Array,
    logits_pth: Array,
    threshold: float,
    model: str,
    chosen: float,
) -> None:
    """The model in production decides itself, and at most one verdict in 1,000 is another one."""
    files.of_task(model, "eights")
    known = models.known(me, pth)
    own, allowed = _number("chosen", chosen), facts.ALLOWED * facts.PICTURES // 1_000
    _, truth = _verdicts(known, logits_pth, threshold, least=allowed + 1)
    config = require.backend(server, model, "onnxruntime")
    todo = (
        f"Complete models/{model}/config.pbtxt, and deploy the folder again. A config loads with "
        "gaps, too: the server takes tensors from the file, and 4 as max_batch_size."
    )
    outputs = {**facts.OUTPUTS, facts.VERDICT: ("BOOL", [1])}
    types = f"{_TYPES} verdict is TYPE_BOOL. {todo}"
    require.tensors(config, inputs=facts.INPUTS, outputs=outputs, help=types)
    with require.all_of(partial=0.5, help=todo):
        require.batch_size(config, facts.REQUEST, because="a request has up to 1,000 pictures")
        require.setting(config, "dynamic_batching")
    delay = int(config.get("dynamic_batching", {}).get("max_queue_delay_microseconds", 0))
    if delay > facts.LONGEST_DELAY:  # no credit: with a long one, nothing more can be asked
        raise Failure(
            f"A picture that comes alone would wait for {delay:,} microseconds: "
            f"max_queue_delay_microseconds is at most {facts.LONGEST_DELAY:,} here.",
            help=todo,
        )
    verdicts = models.decided(server, model, known, known.pictures, own)
    differ = int((verdicts != truth).sum())
    if differ > allowed:
        raise Failure(
            f"{differ} of {len(truth):,} verdicts differ from PyTorch's at the threshold of task "
            f"6; the customer accepts {allowed}.",
            help=files.large(server, model)
            or "Which file, and which threshold, came closest to PyTorch?",
        )
    files.compares_with(server, model, own)


def _verdicts(
    known: models.Known, logits_pth: Any, threshold: Any, least: int = 1
) -> tuple[float, Array]:
    """The threshold of task 6, and PyTorch's verdicts at it; `least` of both kinds are needed."""
    limit = _number("threshold", threshold)
    return limit, models.verdicts(models.scores(known, logits_pth), limit, least)


def _number(name: str, value: Any) -> float:
    """A threshold that was handed over."""
    return values.number(name, value, help="It is one number, as logits are: a float.")


def _many(count: int) -> str:
    """How many pictures, in words."""
    return f"{count} picture" + ("" if count == 1 else "s")


def _part(name: str, value: Any, key: str) -> Any:
    """One entry of a dict that was handed over."""
    if not isinstance(value, Mapping) or key not in value:
        raise Failure(
            f"`{name}` has no entry {key!r}.",
            help=f"It is a dict with an entry for each model: {name}[{key!r}].",
        )
    return value[key]


def _pictures(name: str, value: Any, count: int) -> Array:
    """Which pictures a list names: bool, (count,)."""
    listed = np.zeros(count, bool)
    numbers = "It holds the numbers of pictures: np.flatnonzero answers the places of True."
    try:
        given = np.asarray(value)
    except ValueError:
        raise Failure(f"`{name}` is no list of numbers.", help=numbers) from None
    if not given.ndim:
        what = "a number" if given.dtype.kind in "iuf" else "no list"
        raise Failure(f"`{name}` is {what}; a list of picture numbers is wanted.", help=numbers)
    if not given.size:  # also what np.where answers, a tuple with an empty array
        return listed
    if given.dtype == bool:
        raise Failure(f"`{name}` holds True and False; numbers are wanted.", help=numbers)
    places = array(name, given, whole=True, help=numbers).reshape(-1)
    if places.min() < 0 or places.max() >= count:
        raise Failure(f"`{name}` holds numbers that no picture has: they go from 0 to {count - 1}.")
    listed[places.astype(int)] = True
    return listed
