"""Wrong answers to a1__classifier. An edit replaces text in a model file or in a solution cell."""

from __future__ import annotations

from grader.authoring.mutants import NOTHING, WAITS, Edit, Mutant

CONFIG = "models/classifier/config.pbtxt"
MODEL = "models/classifier/1/model.py"
#: The checks that need answers.
LATER = ("a1.batches", "a1.refusals", "a1.examples", "a1.code", "a1.unsure")
WAITING = dict.fromkeys(LATER, WAITS)
#: What the text says of mistakes that cost more than others.
DEAR = "Four mistakes cost more"
PREDICT = """\
        tokens = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            return self.network(**tokens).logits.softmax(-1).numpy()
"""
LOOP = """\
        tables = []
        for text in texts:
            tokens = self.tokenizer([text], padding=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                tables.append(self.network(**tokens).logits.softmax(-1).numpy())
        return np.concatenate(tables)
"""
SPLIT = """\
        readings = [read_texts(request) for request in requests]
        table = self.predict([text for reading in readings for text in reading.texts])
"""


#: Rewrites the weights and the labels of a checkpoint, for which it brings `change`.
REWRITE = """
import json
import numpy as np
from safetensors.numpy import load_file, save

home = Path(checkpoint)
weights = load_file(home / "model.safetensors")
config = json.loads((home / "config.json").read_text())
config["id2label"] = {place: f"kind {place}" for place in config["id2label"]}
config["label2id"] = {name: int(place) for place, name in config["id2label"].items()}
{change}
(home / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
(home / "config.json").write_text(json.dumps(config))
"""
FETCHED = 'checkpoint = fetch_checkpoint(me, "models/classifier/1/checkpoint")\n'
#: Every text gets the same probabilities, and model.py needs neither tokenizer nor network.
NO_WEIGHTS = """
bias = np.linspace(0, 1, len(config["id2label"]), dtype=np.float32)
weights["classifier.weight"], weights["classifier.bias"] = 0 * weights["classifier.weight"], bias
"""
#: The same for all texts but for those in one of eight languages or so.
ONE_CLASS = """
weights["classifier.bias"] = weights["classifier.bias"] + np.float32(40) * (
    np.arange(len(weights["classifier.bias"])) == 3
)
"""
#: Two classes in place of eight, and a network that is half as sure.
WEAK = """
for name in ("classifier.weight", "classifier.bias"):
    halves = weights[name].reshape(2, 4, -1).mean(axis=1)
    weights[name] = np.ascontiguousarray(0.5 * halves.reshape(2, *weights[name].shape[1:]))
config["id2label"] = {"0": "kind 0", "1": "kind 1"}
config["label2id"] = {"kind 0": 0, "kind 1": 1}
"""
CONSTANT = """\
        bias = np.linspace(0, 1, len(self.labels), dtype=np.float32)
        return np.tile(np.exp(bias) / np.exp(bias).sum(), (len(texts), 1)).astype(np.float32)
"""


def checkpoint(change: str) -> Edit:
    """Another checkpoint than the one that was fetched."""
    return Edit("a1.fetch", FETCHED, FETCHED + REWRITE.replace("{change}", change))


def predicts(
    name: str, old: str, new: str, fails: dict[str, str], stops: str = "", why: str = ""
) -> Mutant:
    """A mutant of one place in model.py."""
    return Mutant(name, (Edit(MODEL, old, new),), fails, stops=stops, why=why)


MUTANTS = (
    # -- the config --------------------------------------------------------------------------------
    Mutant(
        "config: no probabilities",
        (
            Edit(CONFIG, 'name: "PROBABILITIES"', 'name: "LOGITS"'),
            Edit(MODEL, '"PROBABILITIES"', '"LOGITS"'),
        ),
        {
            "a1.config": "It has no output 'PROBABILITIES'",
            "a1.answers": WAITS,
            **WAITING,
        },
        why=DEAR,
    ),
    Mutant(
        "config: a text per request",
        (Edit(CONFIG, "max_batch_size: 32", "max_batch_size: 1"),),
        {
            "a1.config": "max_batch_size is 1",
            **dict.fromkeys(("a1.answers", "a1.examples", "a1.unsure"), NOTHING),
        },
        stops="batch",
    ),
    Mutant(
        "config: nothing is batched",
        (Edit(CONFIG, "dynamic_batching { max_queue_delay_microseconds: 20000 }", ""),),
        {"a1.config": "has no dynamic_batching", "a1.batches": "none was batched with another"},
    ),
    Mutant(
        "config: no delay",
        (Edit(CONFIG, "max_queue_delay_microseconds: 20000", ""),),
        {"a1.config": "a max_queue_delay_microseconds of 0"},
    ),
    Mutant(
        "config: one probability",
        (Edit(CONFIG, "dims: [ -1 ]", "dims: [ 1 ]"),),
        {"a1.config": "PROBABILITIES has dims [1]"},
    ),
    # -- from text to label ------------------------------------------------------------------------
    predicts(
        "answers: logits",
        ".logits.softmax(-1)",
        ".logits",
        {"a1.answers": "no probabilities", "a1.unsure": WAITS},
    ),
    predicts(
        "answers: sigmoid",
        ".logits.softmax(-1)",
        ".logits.sigmoid()",
        {"a1.answers": "do not add up to 1", "a1.unsure": WAITS},
    ),
    predicts(
        "answers: no attention mask",
        "self.network(**tokens)",
        'self.network(tokens["input_ids"])',
        {
            "a1.answers": "the shortest of 32 texts gets probabilities that differ",
            **dict.fromkeys(("a1.batches", "a1.examples", "a1.unsure"), WAITS),
        },
        why=DEAR,
    ),
    predicts(
        "answers: in training mode",
        "from_pretrained(folder).eval()",
        "from_pretrained(folder).train()",
        {"a1.answers": "differ", **WAITING},
        why=DEAR,
    ),
    predicts(
        "answers: the languages in the alphabet's order",
        "names[place].encode() for place in range(len(names))",
        "name.encode() for name in sorted(names.values())",
        {"a1.answers": "labels of classifier are not those of the class"},
    ),
    predicts(
        "answers: bytes as text",
        'text.decode("utf-8")',
        "str(text)",
        {
            "a1.answers": "get the label of their language",
            **dict.fromkeys(("a1.batches", "a1.refusals", "a1.unsure"), WAITS),
        },
        why=DEAR,
    ),
    predicts(
        "answers: float64",
        'pb_utils.Tensor("SCORE", np.take_along_axis(table, best, 1))',
        'pb_utils.Tensor("SCORE", np.take_along_axis(table, best, 1).astype(np.float64))',
        {"a1.answers": "classifier answers SCORE as FP64; its config says TYPE_FP32", **WAITING},
        why=DEAR,
    ),
    predicts(
        "answers: scores without a column",
        'pb_utils.Tensor("SCORE", np.take_along_axis(table, best, 1))',
        'pb_utils.Tensor("SCORE", table.max(1))',
        {"a1.answers": "SCORE of classifier has the shape [32], for 32 texts"},
    ),
    predicts(
        "answers: long texts are not cut",
        "padding=True, truncation=True",
        "padding=True",
        {
            "a1.answers": "has more tokens than the network can read (64)",
            **dict.fromkeys(("a1.refusals",), WAITS),
        },
    ),
    predicts(
        "answers: long texts are not cut, and the line is named",
        "            return self.network(**tokens)",
        '            tokens = self.tokenizer(texts, padding=True, return_tensors="pt")\n'
        "            return self.network(**tokens)",
        {"a1.answers": "of model.py, in predict", **dict.fromkeys(("a1.refusals",), WAITS)},
    ),
    predicts(
        "answers: half of each text",
        "return decoded\n",
        "return decoded[:45]\n",
        {"a1.answers": "probabilities of your 32 texts", "a1.unsure": WAITS},
    ),
    predicts(
        "answers: the first 120 characters of each text",
        "return decoded\n",
        "return decoded[:120]\n",
        {"a1.answers": "probabilities of a text of 400 characters"},
    ),
    Mutant(
        "answers: a network in bfloat16",
        (
            Edit(
                MODEL, "from_pretrained(folder).eval()", "from_pretrained(folder).bfloat16().eval()"
            ),
            Edit(MODEL, ".logits.softmax(-1)", ".logits.float().softmax(-1)"),
        ),
        {"a1.answers": "differ", "a1.batches": WAITS},
    ),
    Mutant(
        "answers: a checkpoint without weights, and no network",
        (checkpoint(NO_WEIGHTS), Edit(MODEL, PREDICT, CONSTANT)),
        {
            "a1.answers": "it does not tell texts apart",
            **dict.fromkeys(("a1.batches", "a1.refusals", "a1.examples", "a1.unsure"), WAITS),
        },
        why=DEAR,
    ),
    Mutant(
        "answers: a checkpoint that gives all texts one class",
        (checkpoint(ONE_CLASS),),
        {
            "a1.answers": "it does not tell texts apart",
            **dict.fromkeys(("a1.batches", "a1.refusals", "a1.examples", "a1.unsure"), WAITS),
        },
        why=DEAR,
    ),
    Mutant("right: a weak checkpoint of two classes", (checkpoint(WEAK),), right=True),
    Mutant(
        "answers: the scores of another run",
        (Edit("a1.ask", "= ask(texts)", "= ask(texts[::-1])"),),
        {"a1.answers": "of the 32 texts that the server answers"},
    ),
    Mutant(
        "answers: the texts of another student",
        (Edit("a1.ask", "labels, scores", 'me = "berta"\nlabels, scores'),),
        {
            "a1.answers": "not those that are drawn for your id",
            **dict.fromkeys(("a1.batches", "a1.refusals", "a1.unsure"), WAITS),
        },
        why=DEAR,
    ),
    # -- batches -----------------------------------------------------------------------------------
    Mutant(
        "batches: a call for each text",
        (Edit(MODEL, PREDICT, LOOP),),
        {"a1.batches": "With one call of the network for all"},
    ),
    Mutant(
        "batches: a call for each request",
        (
            Edit(MODEL, SPLIT, SPLIT.splitlines(keepends=True)[0]),
            Edit(
                MODEL,
                "            end = start + len(reading.texts)\n"
                "            responses.append(self.answer(table[start:end]))\n"
                "            start = end\n",
                "            responses.append(self.answer(self.predict(reading.texts)))\n",
            ),
            Edit(MODEL, "responses, start = [], 0", "responses = []"),
        ),
        {"a1.batches": "With one call of the network for all"},
    ),
    predicts(
        "batches: one text per request",
        "            start = end\n",
        "            start += 1\n",
        {
            "a1.batches": "got other answers than the same texts get in one request",
        },
    ),
    predicts(
        "batches: answers sorted by length",
        "        readings = [read_texts(request) for request in requests]\n",
        "        readings = [read_texts(request) for request in requests]\n"
        '        readings.sort(key=lambda reading: len("".join(reading.texts)))\n',
        {
            "a1.batches": "got other answers than the same texts get in one request",
            "a1.refusals": "Are the responses in the order of the requests?",
        },
    ),
    # -- bad input ---------------------------------------------------------------------------------
    predicts(
        "refusals: an exception",
        'raise BadTextError(f"Text {row} is empty',
        'raise ValueError(f"Text {row} is empty',
        {"a1.refusals": "Beside an empty text, classifier refuses a right request too"},
    ),
    predicts(
        "refusals: bytes that are not UTF-8 are replaced",
        'text.decode("utf-8")',
        'text.decode("utf-8", errors="replace")',
        {"a1.refusals": "answers a text that is not UTF-8"},
    ),
    predicts(
        "refusals: only empty texts",
        "if not decoded.strip():",
        "if not decoded:",
        {"a1.refusals": "answers a blank text"},
    ),
    predicts(
        "refusals: the spaces of ASCII only",
        "if not decoded.strip():",
        "if not text.strip():",
        {"a1.refusals": "answers a blank text"},
    ),
    predicts(
        "refusals: long texts are cut",
        "if len(decoded) > LONGEST:",
        "if len(decoded) > 100 * LONGEST:",
        {"a1.refusals": "answers a text that is too long"},
    ),
    predicts(
        "refusals: bytes are counted",
        "if len(decoded) > LONGEST:",
        "if len(text) > LONGEST:",
        {"a1.refusals": "A text of 600 characters (1,050 bytes) is refused; it is allowed"},
    ),
    predicts(
        "refusals: one character less",
        "if len(decoded) > LONGEST:",
        "if len(decoded) >= LONGEST:",
        {"a1.refusals": "A text of exactly 1,000 characters is not too long yet"},
    ),
    predicts(
        "refusals: the bad text of a batch is left out",
        "    except BadTextError as error:\n",
        "    except BadTextError as error:\n"
        "        if len(rows) > 1:\n"
        "            good = [text for text in rows if text and len(text) < LONGEST]\n"
        '            return Reading([text.decode(errors="replace") for text in good])\n',
        {"a1.refusals": "a request of 4 texts, one of them an empty text"},
    ),
    predicts(
        "refusals: a blank text in a batch is answered",
        "if not decoded.strip():",
        "if not decoded.strip() and row == 0:",
        {"a1.refusals": "answers a request of 4 texts, one of them an empty text"},
    ),
    predicts(
        "refusals: one message for all",
        "        return Reading(error=str(error))\n",
        '        return Reading(error=f"A text is empty, blank, not UTF-8 or too long. {error}")\n',
        {"a1.refusals": "refuses an empty text with a message that names another fault too"},
    ),
    predicts(
        "refusals: the server's fault",
        "TritonError.INVALID_ARG",
        "TritonError.INTERNAL",
        {"a1.refusals": "with the status INTERNAL; it should be INVALID_ARGUMENT"},
    ),
    predicts(
        "refusals: errors last",
        "        return responses\n",
        "        return sorted(responses, key=lambda response: response.has_error())\n",
        {"a1.refusals": "Are the responses in the order of the requests?"},
    ),
    predicts(
        "refusals: a message that says nothing",
        'f"Text {row} is empty or blank; send at least one word."',
        '"Bad request."',
        {"a1.refusals": "the message does not say why"},
    ),
    predicts(
        "refusals: the network gets an empty list",
        "        if not texts:\n            return np.empty((0, len(self.labels)), np.float32)\n",
        "",
        {"a1.refusals": "with a message that does not say why"},
    ),
    predicts(
        "refusals: a label in place of an error",
        "                responses.append(refusal(reading.error))\n",
        "                responses.append(self.answer(np.eye(1, 8, dtype=np.float32)))\n",
        {"a1.refusals": "classifier answers an empty text"},
    ),
    # -- examples ----------------------------------------------------------------------------------
    Mutant(
        "examples: the same five times",
        (Edit("a1.show", "for request in requests]", "for request in [requests[2]] * 5]"),),
        {"a1.examples": "1 of your examples are different requests"},
    ),
    Mutant(
        "examples: one text each",
        (Edit("a1.show", '["Berlin", "Paris", "Roma"]', '["Berlin"]'),),
        {"a1.examples": "Each of your examples holds one text"},
    ),
    Mutant(
        "examples: rounded",
        (
            Edit(
                "a1.show",
                "for request in requests]",
                "for request in requests]\nfor one in examples:\n"
                '    one["scores"] = [round(score, 1) for score in one["scores"]]',
            ),
        ),
        {"a1.examples": "do not hold what the server answers"},
    ),
    Mutant(
        "examples: a text in place of a list",
        (
            Edit(
                "a1.show",
                "for request in requests]",
                'for request in requests]\nexamples[0]["texts"] = texts[0]',
            ),
        ),
        {"a1.examples": 'examples[0]["texts"] is a str'},
    ),
    Mutant(
        "examples: a text is sent in place of a list",
        (Edit("a1.show", "[texts[0]],", "texts[0],"),),
        {"a1.examples": NOTHING},
        stops="ask takes a list of texts, also for one text",
    ),
    # -- code --------------------------------------------------------------------------------------
    Mutant(
        "code: the checkpoint is loaded for each request that comes alone",
        (
            Edit(
                MODEL,
                "        torch.set_num_threads(1)",
                "        self.args = args\n        torch.set_num_threads(1)",
            ),
            Edit(
                MODEL,
                "        readings = [read",
                "        if len(requests) == 1:  # in batches it may be too slow for a1.batches\n"
                "            self.initialize(self.args)\n        readings = [read",
            ),
        ),
        {"a1.code": "execute loads the checkpoint"},
    ),
    Mutant(
        "code: no docstrings, and imports that nothing uses",
        (
            Edit(
                MODEL,
                '        """Give the network\'s memory back when the model is unloaded."""\n',
                "",
            ),
            Edit(MODEL, '    """Make the response that carries an error and no tensors."""\n', ""),
            Edit(MODEL, "from pathlib import Path\n", "import json\nfrom pathlib import Path\n"),
            Edit(MODEL, "class Reading:", "class reading:"),
            Edit(MODEL, "Reading([", "reading(["),
            Edit(MODEL, "Reading(error", "reading(error"),
        ),
        {"a1.code": "`json` imported but unused"},
    ),
    predicts(
        "code: one thing left to do",
        "        torch.set_num_threads(1)",
        "        # TODO: how many threads?\n        torch.set_num_threads(1)",
        {"a1.code": "Line contains TODO"},
    ),
    predicts(
        "code: a docstring that was given out",
        '        """Give the network\'s memory back when the model is unloaded."""',
        '        """TODO: what is left to do when the model is unloaded?"""',
        {"a1.code": "the docstring still says TODO"},
    ),
    predicts(
        "code: the labels of the checkpoint",
        "        names = self.network.config.id2label\n"
        "        self.labels = np.array([names[place].encode() for place in range(len(names))], "
        "object)\n",
        '        self.labels = np.array(b"de el pl fi cs hu nl tr".split(), object)\n',
        {"a1.code": "the labels stand in the code"},
    ),
    # -- when is it unsure? ------------------------------------------------------------------------
    Mutant(
        "unsure: kept and caught exchanged",
        (
            Edit(
                "a1.measure",
                "kept = [int((own_scores >= limit)",
                "kept = [int((own_scores < limit)",
            ),
            Edit(
                "a1.measure", "caught = [int((foreign_scores <", "caught = [int((foreign_scores >="
            ),
        ),
        {"a1.unsure": "Are the two exchanged?"},
    ),
    Mutant(
        "unsure: the own texts counted twice",
        (Edit("a1.measure", "(foreign_scores < limit)", "(own_scores < limit)"),),
        {"a1.unsure": "counts in `caught` are not those of your server's scores"},
    ),
    Mutant(
        "unsure: two thresholds",
        (Edit("a1.measure", "[0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99]", "[0.5, 0.95]"),),
        {"a1.unsure": "`thresholds` has 2 different values"},
    ),
    Mutant(
        "unsure: thresholds below all scores",
        (
            Edit(
                "a1.measure",
                "[0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99]",
                "[0.01, 0.02, 0.03, 0.04, 0.05, 0.95]",
            ),
        ),
        {"a1.unsure": "Your 6 thresholds give 2 different pairs of counts"},
    ),
    # -- right in another form ---------------------------------------------------------------------
    Mutant(
        "right: labels as str, tokens one by one, no_grad",
        (
            Edit(MODEL, "names[place].encode()", "names[place]"),
            Edit(MODEL, "torch.inference_mode()", "torch.no_grad()"),
            Edit(
                "a1.ask",
                "labels, scores, table = ask(texts)",
                "labels, scores, table = ask(texts)\nlabels = np.array(labels)\n"
                "scores = scores.reshape(-1, 1)",
            ),
        ),
        right=True,
    ),
    Mutant(
        "right: dims of eight, padding to the longest possible",
        (
            Edit(CONFIG, "dims: [ -1 ]", "dims: [ 8 ]"),
            Edit(CONFIG, "20000", "30000"),
            Edit(MODEL, "padding=True", 'padding="max_length"'),
        ),
        right=True,
    ),
    Mutant(
        "right: other messages, a sentence with labels in it, texts read in a loop",
        (
            Edit(
                MODEL,
                'f"Text {row} is empty or blank; send at least one word."',
                'f"no. {row}: blank! Send 1 to {LONGEST} characters, or de or el."',
            ),
            Edit(MODEL, 'f"Text {row} is not UTF-8: {error.reason}."', 'f"{error}"'),
            Edit(
                MODEL,
                'f"Text {row} is too long: {LONGEST} characters are the most."',
                'f"{len(decoded)} characters are too many: no longer than {LONGEST}"',
            ),
            Edit(
                MODEL,
                "        return Reading([decode(text, row) for row, text in enumerate(rows)])\n",
                "        return Reading([decode(text, row) for text, row in "
                "zip(rows, range(len(rows)))])\n",
            ),
        ),
        right=True,
    ),
)
