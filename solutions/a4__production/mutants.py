"""Wrong answers to a4__production. An edit replaces text in a model file or in a solution cell."""

from __future__ import annotations

from grader.authoring.mutants import NOTHING, WAITS, Edit, Mutant

FP32 = "models/eights_fp32/config.pbtxt"
FP16 = "models/eights_fp16/config.pbtxt"
EIGHTS = "models/eights/config.pbtxt"
#: What the text says of mistakes that cost more than 40 points.
NO_NETWORK = "If `pth` is no state dict of this network, or its network answers the same"
NOT_LOADED = "Nothing can be asked of a model that does not load"
NOT_YOURS = "What was made of another id's pictures earns nothing"
FIGURES = ("a4.logits", "a4.changed", "a4.figures", "a4.closest")
#: Nothing can be compared with the network of `pth`.
AFTER_WEIGHTS = dict.fromkeys(
    ("a4.fp32", "a4.engine", "a4.fp16", *FIGURES, "a4.threshold", "a4.mended", "a4.production"),
    WAITS,
)
#: fp32 was not deployed, so its cell hands nothing over, and the cells after it stop as well.
NO_FP32 = dict.fromkeys(("a4.fp32", *FIGURES), NOTHING)
#: The logits of a served model are missing, so the cells that compare them stop.
NO_LOGITS = {"a4.changed": NOTHING, "a4.figures": NOTHING, "a4.closest": WAITS}
#: Checks of logits that are not the served models'.
AFTER_LOGITS = dict.fromkeys(("a4.changed", "a4.figures", "a4.closest"), WAITS)
#: fp32 cannot be exported in the right form: the cells that export or convert stop as well.
NO_EXPORT = NO_FP32 | dict.fromkeys(("a4.fp16", "a4.engine", "a4.mended", "a4.production"), NOTHING)

_EXPORT_FP32 = 'export(net, "models/eights_fp32/1/model.onnx", output_names=["logits"], **common)'
_HALVE = "halve(source, target, keep_io_types=True)"
_FROM_FP32 = "Path(target).write_bytes(Path(source).read_bytes())"
_HALVE_EIGHTS = (
    'file = "models/eights/1/model.onnx"\n'
    "halve(file, file, keep_io_types=True, op_block_list={})\n"
    "eights = deploy("
)
_MENDED_EIGHTS = Edit(
    "a4.decide",
    "decider = Decider(net, chosen).eval()",
    "decider = Decider(OnCounts(), chosen).eval()",
)


def one(
    name: str,
    where: str,
    old: str,
    new: str,
    fails: dict[str, str],
    stops: str = "",
    why: str = "",
) -> Mutant:
    """A mutant of one place in a file or a cell."""
    return Mutant(name, (Edit(where, old, new),), fails, stops=stops, why=why)


MUTANTS = (
    # -- weights -----------------------------------------------------------------------------------
    one(
        "weights: not folded",
        "a4.fold",
        "with torch.no_grad():",
        "with torch.no_grad():\n    first = EightsCNN().features[0]",
        {"a4.weights": "if it gets brightness", "a4.mended": WAITS},
    ),
    one(
        "weights: those of the last layer are 0",
        "a4.fold",
        "with torch.no_grad():",
        "with torch.no_grad():\n    list(net.parameters())[-2].zero_()",
        {
            **AFTER_WEIGHTS,
            **dict.fromkeys(("a4.threshold", "a4.changed", "a4.figures", "a4.closest"), NOTHING),
            "a4.weights": "answers the same to every picture",
            "a4.production": NOTHING,
        },
        stops="argmax of an empty sequence",
        why=NO_NETWORK,
    ),
    Mutant(
        "weights: the bias forgotten",
        (Edit("a4.fold", "first.bias -= ", "0 * "),),
        {
            "a4.weights": "the weight of features.0 is right, and its bias is not. → The bias "
            "becomes another one",
            "a4.mended": WAITS,
        },
    ),
    Mutant(
        "weights: the sum over all filters",
        (Edit("a4.fold", "sum((1, 2, 3))", "sum()"),),
        {
            "a4.weights": "its bias is not. → From all biases the same number was subtracted",
            **AFTER_WEIGHTS,
            **dict.fromkeys(("a4.threshold", *FIGURES[1:], "a4.production"), NOTHING),
        },
        stops="empty sequence",
        why=NO_NETWORK,  # all logits are equal
    ),
    Mutant(
        "weights: the sum of the new weight, divided by gain once more",
        (Edit("a4.fold", "-= camera.black *", "-= camera.black / camera.gain *"),),
        {"a4.weights": "its bias is not. → Gain was divided by twice", "a4.mended": WAITS},
    ),
    Mutant(
        "weights: the sum of the old weight",
        (Edit("a4.fold", "-= camera.black *", "-= camera.black * camera.gain *"),),
        {
            "a4.weights": "its bias is not. → The sum is that of the new weight",
            # At no threshold the precision is 0.9.
            **dict.fromkeys(("a4.threshold", "a4.mended", "a4.production"), WAITS),
        },
    ),
    Mutant(
        "weights: added to the bias",
        (Edit("a4.fold", "first.bias -=", "first.bias +="),),
        {"a4.weights": "its bias is not. → Black times the sum is sub", "a4.mended": WAITS},
    ),
    Mutant(
        "weights: the weight forgotten",
        (
            Edit("a4.fold", "    first.weight /= camera.gain\n", ""),
            Edit(
                "a4.fold",
                "first.weight.sum((1, 2, 3))",
                "first.weight.sum((1, 2, 3)) / camera.gain",
            ),
        ),
        {
            "a4.weights": "the bias of features.0 is right, and its weight is not",
            "a4.mended": WAITS,
        },
    ),
    Mutant(
        "weights: the cell that folds ran twice",
        (Edit("a4.fold", "first.bias -= ", "first.weight /= camera.gain\n    first.bias -= "),),
        {"a4.weights": "folds once more"}
        | dict.fromkeys(("a4.threshold", "a4.mended", "a4.production"), WAITS),
    ),
    Mutant(
        "weights: the whole module",
        (Edit("a4.fold", "net.state_dict()", "net"),),
        {"a4.weights": "it holds workbook.zoo.nets.EightsCNN", **AFTER_WEIGHTS},
        stops="Weights only load failed",
        why=NO_NETWORK,
    ),
    Mutant(
        "weights: a checkpoint with more in it",
        (Edit("a4.fold", "net.state_dict()", '{"epoch": 5, "net": net.state_dict()}'),),
        {"a4.weights": "holds epoch", **AFTER_WEIGHTS},
        stops="Missing key",
        why=NO_NETWORK,
    ),
    Mutant(
        "weights: for another student's camera",
        (Edit("a4.fold", "first = net", 'camera = own_camera("berta")\nfirst = net'),),
        {
            "a4.weights": "else the weights are those of the former id",
            **dict.fromkeys((*FIGURES, "a4.threshold", "a4.mended", "a4.production"), WAITS),
        },
        why=NOT_YOURS,
    ),
    # -- fp32 --------------------------------------------------------------------------------------
    Mutant(
        "fp32: a fixed batch",
        (Edit("a4.export", ', "dynamic_shapes": ({0: torch.export.Dim("batch")},)', ""),),
        {**NO_EXPORT, "a4.engine": "static dimensions"},
        stops="batch",
        why=NOT_LOADED,
    ),
    Mutant(
        "fp32: the exporter's own names",
        (Edit("a4.export", ', output_names=["logits"]', ""),),
        {**NO_FP32, "a4.fp16": NOTHING, "a4.engine": "has other outputs than"},
        stops="logits",
        why=NOT_LOADED,
    ),
    Mutant(
        "fp32: no comma, so dynamic_shapes is no tuple",
        (Edit("a4.export", 'Dim("batch")},)', 'Dim("batch")})'),),
        NO_EXPORT,
        stops="dynamic_shapes is a dict; a tuple with an entry per input is wanted",
        why=NOT_LOADED,
    ),
    Mutant(
        "fp32: small batches",
        (Edit(FP32, "max_batch_size: 1000", "max_batch_size: 64"),),
        {"a4.fp32": "max_batch_size is 64", "a4.logits": NOTHING, **NO_LOGITS},
        stops="batch",
    ),
    Mutant(
        "fp32: exported before it was folded",
        (Edit("a4.export", _EXPORT_FP32, _EXPORT_FP32.replace("(net", "(trained(me)")),),
        {
            "a4.fp32": "does not hold features.0.weight",
            "a4.fp16": WAITS,
            "a4.engine": "does not hold features.0.weight",
            "a4.figures": WAITS,  # no verdict is eight, so a precision is no number
        },
    ),
    Mutant(
        "fp32: weights in a second file",
        (
            Edit(
                "a4.export",
                _EXPORT_FP32,
                "torch.onnx.export(\n"
                "    net,\n"
                "    (torch.zeros(2, 1, 8, 8),),\n"
                "    verbose=False,\n"
                '    output_names=["logits"],\n'
                "    **common,\n"
                ').save("models/eights_fp32/1/model.onnx", external_data=True)',
            ),
        ),
        {"a4.fp32": "keeps weights in a second file"},
    ),
    one(
        "fp32: a softmax at the end",
        "a4.export",
        _EXPORT_FP32,
        _EXPORT_FP32.replace("net,", "torch.nn.Sequential(net, torch.nn.Softmax(1)),"),
        {
            "a4.fp32": "The logits of eights_fp32",
            "a4.fp16": WAITS,
            "a4.engine": "has the network's logits",
            "a4.logits": WAITS,
        },
    ),
    # -- fp16 --------------------------------------------------------------------------------------
    Mutant(
        "fp16: the fp32 file",
        (Edit("a4.convert", _HALVE, _FROM_FP32),),
        {
            "a4.fp16": "5,378 numbers as FLOAT; its weights should be FLOAT16",
            "a4.engine": "its weights should be FLOAT16",
        },
    ),
    one(
        "fp16: the first layer left in fp32",
        "a4.convert",
        _HALVE,
        "halve(source, target, keep_io_types=True, "
        "node_block_list=[onnx.load(source).graph.node[0].name])",
        {
            "a4.fp16": "its weights should be FLOAT16",
            "a4.engine": "its weights should be FLOAT16",
        },
    ),
    Mutant(
        "fp16: input and output in fp16 as well",
        (
            Edit("a4.convert", "keep_io_types=True", "keep_io_types=False"),
            Edit(FP16, "TYPE_FP32", "TYPE_FP16"),
        ),
        {
            "a4.fp16": "asks for another. → The task asks for TYPE_FP32 in image and logits",
            "a4.engine": "has other inputs than",
            "a4.logits": NOTHING,
            **NO_LOGITS,
        },
        stops="FP16",
    ),
    Mutant(
        "fp16: the model of task 2",
        (Edit("a4.convert", 'fp16 = deploy("models/eights_fp16").name', "fp16 = fp32"),),
        {"a4.fp16": "is about models/eights_fp16, and eights_fp32 was handed over"},
    ),
    # -- engine ------------------------------------------------------------------------------------
    Mutant(
        "engine: the fp32 file",
        (
            Edit(
                "a4.profile",
                'typed = content("models/eights_fp16',
                'typed = content("models/eights_fp32',
            ),
        ),
        {"a4.engine": "`typed` holds 5,378 numbers as FLOAT; its weights should be FLOAT16"},
    ),
    Mutant(
        "engine: a profile for small requests",
        (Edit("a4.profile", "(1, 100, 1000)", "(1, 8, 64)"),),
        {"a4.engine": "The profile takes 1 picture to 64 pictures in a request"},
    ),
    Mutant(
        "engine: no request with one picture",
        (Edit("a4.profile", "(1, 100, 1000)", "(100, 100, 1000)"),),
        {"a4.engine": "The profile takes 100 pictures to 1,000 pictures in a request"},
    ),
    Mutant(
        "engine: the optimum above the largest batch",
        (Edit("a4.profile", "(1, 100, 1000)", "(1, 2000, 1000)"),),
        {"a4.engine": "MIN<=OPT<=MAX"},
    ),
    Mutant(
        "engine: another size of picture",
        (Edit("a4.profile", '"image": (1, 8, 8)', '"image": (1, 9, 9)'),),
        {"a4.engine": "builds no engine from `typed` with this profile"},
    ),
    Mutant(
        "engine: the batch forgotten",
        (
            Edit(
                "a4.profile",
                'engines.profile_of({"image": (1, 8, 8)}, (1, 100, 1000))',
                '{"image": ((1, 8, 8), (1, 8, 8), (1, 8, 8))}',
            ),
        ),
        {"a4.engine": "builds no engine from `typed` with this profile"},
    ),
    Mutant(
        "engine: a larger profile than the config needs",
        (Edit("a4.profile", "(1, 100, 1000)", "(1, 1000, 1024)"),),
        right=True,
    ),
    # -- logits ------------------------------------------------------------------------------------
    one(
        "logits: probabilities",
        "a4.ask",
        "return np.concatenate(parts)[:, 1]",
        "e = np.exp(np.concatenate(parts))\n    return e[:, 1] / e.sum(axis=1)",
        {"a4.logits": "`logits_fp32` lie between 0 and 1", **AFTER_LOGITS},
    ),
    Mutant(
        "logits: of the other class",
        (Edit("a4.ask", "[:, 1]", "[:, 0]"),),
        {
            "a4.logits": "look like those of the other class",
            **AFTER_LOGITS,
            "a4.closest": "another verdict than PyTorch",  # for some data, near enough for a part
            "a4.threshold": "look like those of the other class",
        },
    ),
    Mutant(
        "logits: both columns",
        (
            Edit("a4.ask", "return np.concatenate(parts)[:, 1]", "return np.concatenate(parts)"),
            Edit("a4.ask", "logits(fp32), logits(fp16)", "logits(fp32), logits(fp16)[:, 1]"),
        ),
        {"a4.logits": "`logits_fp32` has the shape [6000, 2]", **NO_LOGITS},
        stops="could not be broadcast",
    ),
    one(
        "logits: PyTorch's in place of the server's",
        "a4.ask",
        "logits_fp32, logits_fp16 = logits(fp32), logits(fp16)",
        "logits_fp32, logits_fp16 = logits_pth + 0, logits(fp16)",
        {"a4.logits": "`logits_fp32` does not hold what eights_fp32 answered"},
    ),
    Mutant(
        "logits: both from fp32",
        (Edit("a4.ask", "logits(fp32), logits(fp16)", "logits(fp32), logits(fp32)"),),
        {"a4.logits": "`logits_fp16` holds the logits of eights_fp32", **AFTER_LOGITS},
    ),
    Mutant(
        "logits: fp32 and fp16 swapped",
        (Edit("a4.ask", "logits(fp32), logits(fp16)", "logits(fp16), logits(fp32)"),),
        {"a4.logits": "`logits_fp32` holds the logits of eights_fp16", **AFTER_LOGITS},
    ),
    Mutant(
        "logits: fp16's with something added",
        (
            Edit(
                "a4.ask",
                "logits_fp32, logits_fp16 = logits(fp32), logits(fp16)",
                "logits_fp32, logits_fp16 = logits(fp32), logits(fp16) + np.float32(0.01)",
            ),
        ),
        {"a4.logits": "The values in `logits_fp16` differ", **AFTER_LOGITS},
    ),
    # -- threshold ---------------------------------------------------------------------------------
    one(
        "threshold: the highest accuracy",
        "a4.choose",
        "np.argmax(np.where(precision >= 0.9, hits, 0))",
        "np.argmax(2 * hits - above)",
        {"a4.threshold": "It should be at least 0.9"},
    ),
    Mutant(
        "threshold: the first place where the precision is 0.9",
        (
            Edit(
                "a4.choose",
                "np.argmax(np.where(precision >= 0.9, hits, 0))",
                "np.flatnonzero(precision >= 0.9)[-1]",
            ),
        ),
        {
            "a4.threshold": "of the 608 eights. A lower threshold",
            "a4.production": "Correct the threshold of task 6 first",
        },
    ),
    one(
        "threshold: a probability",
        "a4.choose",
        "threshold = float(limits[best])",
        "threshold = float(1 / (1 + np.exp(-limits[best])))",
        {"a4.threshold": "this looks like a threshold for probabilities"},
    ),
    one(
        "threshold: that of >=, a picture's own logit",
        "a4.choose",
        "float(limits[best])",
        "float(min(logits_pth[logits_pth > limits[best]]))",
        {"a4.threshold": "verdicts"},  # if the picture is an eight, one fewer is found
    ),
    one(
        "threshold: on the logit of the next picture",
        "a4.choose",
        "float(limits[best])",
        "float(max(logits_pth[logits_pth < limits[best]]))",
        {"a4.threshold": "is the logit of a picture"},
    ),
    # -- changed -----------------------------------------------------------------------------------
    Mutant(
        "changed: wrong pictures, not changed ones",
        (Edit("a4.compare", "!= truth", "!= camera.is_eight"),),
        {"a4.changed": "Listed, but with the same verdict: "},
    ),
    one(
        "changed: True and False in place of numbers",
        "a4.compare",
        '"fp16": np.flatnonzero((logits_fp16 > threshold) != truth)',
        '"fp16": (logits_fp16 > threshold) != truth',
        {"a4.changed": "`changed['fp16']` holds True and False"},
    ),
    one(
        "changed: counts in place of numbers",
        "a4.compare",
        '"fp16": np.flatnonzero((logits_fp16 > threshold) != truth)',
        '"fp16": int(((logits_fp16 > threshold) != truth).sum())',
        {"a4.changed": "`changed['fp16']` is a number; a list of picture numbers is wanted"},
        stops="has no len()",
    ),
    one(
        "changed: counted from 1",
        "a4.compare",
        "np.flatnonzero((logits_fp16 > threshold) != truth)",
        "1 + np.flatnonzero((logits_fp16 > threshold) != truth)",
        {"a4.changed": "pictures with another verdict. Listed, but with the same verdict: "},
    ),
    one(
        "changed: the first one only",
        "a4.compare",
        "np.flatnonzero((logits_fp16 > threshold) != truth)",
        "np.flatnonzero((logits_fp16 > threshold) != truth)[:1]",
        {"a4.changed": "`changed['fp16']` has 1 picture. Missing: "},
    ),
    # -- figures -----------------------------------------------------------------------------------
    Mutant(
        "figures: false positives and false negatives exchanged",
        (Edit("a4.count", "called=scores > threshold, truth=truth", "truth, scores > threshold"),),
        {"a4.figures": "false positive of fp16"},
    ),
    Mutant(
        "figures: the digits as the truth",
        (
            Edit(
                "a4.count",
                "def row(scores):",
                "truth = camera.is_eight\n\n\ndef row(scores):",
            ),
            Edit(
                "a4.move",
                "nearest, left = {}",
                "truth = logits_pth > threshold\nnearest, left = {}",
            ),
        ),
        {"a4.figures": "true positive of fp32"},
    ),
    one(
        "figures: deviations of probabilities",
        "a4.count",
        "np.abs(scores - logits_pth)",
        "np.abs(1 / (1 + np.exp(-scores)) - 1 / (1 + np.exp(-logits_pth)))",
        {"a4.figures": "mean deviation of fp16"},
    ),
    Mutant(
        "figures: deviations with their sign",
        (Edit("a4.count", "np.abs(scores - logits_pth)", "scores - logits_pth"),),
        {"a4.figures": "without their sign"},
    ),
    Mutant(
        "figures: one model's in both rows",
        (Edit("a4.count", '"fp16": row(logits_fp16)', '"fp16": row(logits_fp32)'),),
        {"a4.figures": "mean deviation of fp16"},
    ),
    one(
        "figures: percent",
        "a4.count",
        "for name in FIGURES:\n",
        "for one in table.values():\n    one['accuracy'] *= 100\nfor name in FIGURES:\n",
        {"a4.figures": "rounded to 4 places. → Accuracy, precision and recall are shares from 0"},
    ),
    one(
        "figures: another name",
        "a4.count",
        "for name in FIGURES:\n",
        "for one in table.values():\n    one['Recall'] = one.pop('recall')\n"
        "for name in FIGURES[:9]:\n",
        {"a4.figures": "`table` has no recall of fp32. → Of fp32 it has mean deviation"},
    ),
    # -- closest -----------------------------------------------------------------------------------
    one(
        "closest: half a logit above PyTorch's own threshold",  # which may be the closest itself
        "a4.move",
        "np.argmin(differing)",
        "np.argmin(np.abs(limits - threshold - 0.5))",
        {"a4.closest": "another verdict than PyTorch; with another threshold, fewer"},
    ),
    one(
        "closest: a precision of 0.9 for each model",
        "a4.move",
        "np.argmin(differing)",
        "np.argmax(try_all(scores, camera.is_eight)[2] >= 0.9 * above)",
        {"a4.closest": "another verdict than PyTorch; with another threshold, fewer"},
    ),
    one(
        "closest: the former count",
        "a4.move",
        "int(differing[best])",
        "int(((scores > threshold) != truth).sum())",
        {"a4.closest": "`left['fp16']` is"},
    ),
    one(
        "closest: lists in place of counts",
        "a4.move",
        "int(differing[best])",
        "[]",
        {"a4.closest": "`left['fp32']` is empty. → It is a count: how many verdicts of"},
    ),
    # -- mended ------------------------------------------------------------------------------------
    Mutant(
        "mended: as plain fp16",
        (Edit("a4.mend", "export(OnCounts().eval()", "export(net"),),
        {"a4.mended": "deviate by"},
    ),
    Mutant(
        "mended: one layer in fp32, as in lecture 2",
        (
            Edit("a4.mend", "export(OnCounts().eval()", "export(net"),
            Edit("a4.mend", 'op_block_list=["Sub", "Div"]', 'op_block_list=["Conv"]'),
        ),
        {"a4.mended": "than FLOAT16. They are in: features.0.weight [16, 1, 3, 3]"},
    ),
    Mutant(
        "mended: not converted",
        (Edit("a4.mend", "halve(mended_file, ", "0 and halve(mended_file, "),),
        {"a4.mended": "holds no number as FLOAT16: it is not converted. → Run halve"},
    ),
    Mutant(
        "mended: the subtraction in fp16",
        (
            Edit(
                "a4.mend",
                'op_block_list=["Sub", "Div"]',
                'op_block_list=["Div"], max_finite_val=65504',
            ),
        ),
        {"a4.mended": "apart. The Sub that uses it is itself computed in fp16"},
    ),
    Mutant(
        "mended: the model of task 3",
        (Edit("a4.mend", 'mended = deploy("models/eights_mended").name', "mended = fp16"),),
        {"a4.mended": "is about models/eights_mended, and eights_fp16 was handed over"},
    ),
    one(
        "mended: black as a picture",
        "a4.mend",
        "(image - camera.black)",
        "(image - torch.full((1, 1, 8, 8), camera.black))",
        {"a4.mended": "all numbers are equal, so one is enough: "},
    ),
    one(
        "mended: black taken off twice",
        "a4.mend",
        "self.inside = trained(me)",
        "self.inside = net",
        {"a4.mended": "Is black taken off twice?"},
    ),
    Mutant(
        "mended: brightness computed in fp16, too",
        (Edit("a4.mend", ', op_block_list=["Sub", "Div"]', ""),),
        {"a4.mended": "deviate by"},
    ),
    Mutant(
        "mended: value_info is still there, and black is cut",
        (
            Edit(
                "a4.mend",
                "halve(mended_file, mended_file, keep_io_types",
                "onnx.save(float16.convert_float_to_float16(onnx.load(mended_file), keep_io_types",
            ),
            Edit("a4.mend", '["Sub", "Div"])', '["Sub", "Div"]), mended_file)'),
        ),
        {"a4.mended": "holds the number 10,000 in fp16"},
    ),
    Mutant(
        "mended: the first layer twice, once with the remainder",
        (
            Edit(
                "a4.mend",
                "        self.inside = trained(me)\n",
                "        self.inside = copy.deepcopy(net)\n"
                "        first = self.inside.features[0]\n"
                "        self.rest = torch.nn.Conv2d(1, 16, 3)\n"
                "        with torch.no_grad():\n"
                "            for name in ('weight', 'bias'):\n"
                "                p, rest = getattr(first, name), getattr(self.rest, name)\n"
                "                rest.copy_((p - p.half()).half())\n"
                "                p.copy_(p.half())\n",
            ),
            Edit(
                "a4.mend",
                "return self.inside((image - camera.black) / camera.gain)",
                "x = self.inside.features[0](image) + self.rest(image)\n"
                "        for layer in self.inside.features[1:]:\n"
                "            x = layer(x)\n"
                "        return self.inside.head(x.flatten(1))",
            ),
            Edit("a4.mend", 'op_block_list=["Sub", "Div"]', "min_positive_val=0"),
        ),
        {"a4.mended": "holds 5,540 numbers; the network has 5,378"},
    ),
    Mutant(
        "mended: the counts in fp16, which a CPU does not round",
        (
            Edit(
                "a4.mend",
                "        self.inside = trained(me)\n",
                "        self.inside = trained(me)\n"
                "        first = self.inside.features[0]\n"
                "        with torch.no_grad():\n"
                "            first.bias -= (\n"
                "                (camera.black - 13264.0)\n"
                "                / camera.gain\n"
                "                * first.weight.sum((1, 2, 3))\n"
                "            )\n"
                "            first.weight *= 32 / camera.gain\n",
            ),
            Edit("a4.mend", "(image - camera.black) / camera.gain", "(image - 13264.0) / 32.0"),
            Edit("a4.mend", 'op_block_list=["Sub", "Div"]', "max_finite_val=65504.0"),
        ),
        {"a4.mended": "your server may not show it.) → eights_mended/1"},
    ),
    one(
        "mended: an operator that is not computed in fp16",
        "a4.mend",
        "(image - camera.black) / camera.gain)",
        "torch.where(image > 0, (image - camera.black) / camera.gain, image))",
        {"a4.mended": "holds the operator "},
    ),
    # -- production --------------------------------------------------------------------------------
    Mutant(
        "production: no batching",
        (Edit(EIGHTS, "dynamic_batching { }\n", ""),),
        {"a4.production": "has no dynamic_batching"},
    ),
    one(
        "production: one picture waits for 20 seconds",
        EIGHTS,
        "dynamic_batching { }",
        "dynamic_batching { max_queue_delay_microseconds: 20000000 }",
        {"a4.production": "A picture that comes alone would wait for 20,000,000 microseconds"},
    ),
    Mutant(
        "production: at or above the threshold of another model",
        (
            Edit("a4.decide", "chosen = threshold", 'chosen = nearest["fp16"]\nlimit = threshold'),
            Edit("a4.decide", "Decider(net, chosen)", "Decider(net, threshold)"),
        ),
        {"a4.production": "verdicts of eights are not `logit >"},
    ),
    Mutant(
        "production: the verdict is the larger logit",
        (
            Edit(  # not in the cell of Decider: it is given, and the grader takes the course's
                "a4.decide",
                "chosen = threshold",
                "chosen = threshold\n"
                "def larger(self, image):\n"
                "    logits = self.network(image)\n"
                "    return logits, logits[:, 1:] > logits[:, :1]\n"
                "Decider.forward = larger",
            ),
        ),
        {"a4.production": "verdicts of eights are not"},
    ),
    one(
        "production: plain fp16 with PyTorch's threshold",
        "a4.decide",
        "eights = deploy(",
        _HALVE_EIGHTS.format(["Slice", "Greater"]),
        {"a4.production": "of 6,000 verdicts differ from PyTorch's"},
    ),
    Mutant(
        "production: the threshold rounded to fp16",
        (
            _MENDED_EIGHTS,
            Edit("a4.decide", "eights = deploy(", _HALVE_EIGHTS.format(["Sub", "Div", "Slice"])),
        ),
        {"a4.production": ": the converter has rounded the threshold to fp16"},
    ),
    Mutant(
        "production: the threshold stays in the notebook",
        (
            Edit("a4.decide", '["logits", "verdict"]', '["logits"]'),
            Edit("a4.decide", "Decider(net, chosen).eval()", "net"),
            Edit(
                EIGHTS,
                'output {\n  name: "verdict"\n  data_type: TYPE_BOOL\n  dims: [ 1 ]\n}\n',
                "",
            ),
        ),
        {"a4.production": "no output 'verdict'"},
    ),
    one(
        "production: the model of task 10",
        "a4.decide",
        'eights = deploy("models/eights").name',
        "eights = mended",
        {"a4.production": "is about models/eights, and eights_mended was handed over"},
    ),
    Mutant(
        "production: black is cut",
        (
            _MENDED_EIGHTS,
            Edit(
                "a4.decide",
                "eights = deploy(",
                'file = "models/eights/1/model.onnx"\n'
                "half = float16.convert_float_to_float16(\n"
                "    onnx.load(file),\n"
                "    keep_io_types=True,\n"
                '    op_block_list=["Sub", "Div", "Slice", "Greater"],\n'
                ")\n"
                "onnx.save(half, file)\n"
                "eights = deploy(",
            ),
        ),
        {"a4.production": "holds the number 10,000 in fp16"},
    ),
    # -- right answers in another form -------------------------------------------------------------
    Mutant(
        "right: the older exporter",
        (
            Edit(
                "a4.export",
                "common = {",
                "def export(network, path, output_names, input_names, dynamic_shapes):\n"
                "    names = [*input_names, *output_names]\n"
                "    torch.onnx.export(\n"
                "        network,\n"
                "        (torch.zeros(2, 1, 8, 8),),\n"
                "        path,\n"
                "        input_names=input_names,\n"
                "        output_names=output_names,\n"
                '        dynamic_axes={name: {0: "batch"} for name in names},\n'
                "        dynamo=False,\n"
                "    )\n\n\n"
                "common = {",
            ),
            Edit(
                "a4.mend",
                "self.inside = trained(me)",
                'self.inside = trained(me)\n        self.register_buffer("black", '
                "torch.tensor(camera.black))",
            ),
            Edit("a4.mend", "image - camera.black", "image - self.black"),
        ),
        right=True,
    ),
    Mutant(
        "right: lists, a table by figures, brightness by a sum and a product",
        (
            Edit(
                "a4.ask",
                "return np.concatenate(parts)[:, 1]",
                "return np.concatenate(parts)[:, 1].tolist()",
            ),
            Edit(
                "a4.ask",
                "logits_fp32, logits_fp16 = logits(fp32), logits(fp16)",
                "logits_fp32, logits_fp16 = map(np.array, (logits(fp32), logits(fp16)))",
            ),
            Edit(
                "a4.compare",
                "print(",
                "changed = {k: list(map(int, v)) for k, v in changed.items()}\nprint(",
            ),
            Edit(
                "a4.count",
                "for one in table.values()))",
                "for one in table.values()))\ntable = {f: {m: round(float(r[f]), 4) "
                "for m, r in table.items()} for f in FIGURES}",
            ),
            Edit(
                "a4.mend",
                "(image - camera.black) / camera.gain",
                "(image + -camera.black) * (1 / camera.gain)",
            ),
            Edit("a4.mend", '"Sub", "Div"', '"Add", "Mul"'),
        ),
        right=True,
    ),
    Mutant(
        "right: the mended network in production",
        (
            _MENDED_EIGHTS,
            Edit(
                "a4.decide",
                "eights = deploy(",
                _HALVE_EIGHTS.format(["Sub", "Div", "Slice", "Greater"]),
            ),
        ),
        right=True,
    ),
    Mutant(
        "right: PyTorch's logits as a tensor",
        (Edit("a4.ask", "[:, 1].numpy()", "[:, 1]"),),
        right=True,
    ),
    Mutant(
        "right: of equally good thresholds the highest",
        (
            Edit(
                "a4.choose",
                "np.argmax(np.where(precision >= 0.9, hits, 0))",
                "len(hits) - 1 - np.argmax(np.where(precision >= 0.9, hits, 0)[::-1])",
            ),
        ),
        right=True,
    ),
    Mutant(
        "right: a short delay; only the CPU",
        (
            Edit(
                EIGHTS,
                "dynamic_batching { }",
                "dynamic_batching { max_queue_delay_microseconds: 100000 }",
            ),
            Edit(
                EIGHTS, "instance_group { count: 1 }", "instance_group { count: 1 kind: KIND_CPU }"
            ),
        ),
        right=True,
    ),
)
