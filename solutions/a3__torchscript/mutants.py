"""Wrong answers to a3__torchscript. An edit replaces text in a model file or in a solution cell."""

from __future__ import annotations

from grader.authoring.mutants import NOTHING, WAITS, Edit, Mutant

READER = "models/reader/config.pbtxt"
LETTERS = "models/letters/1/model.py"
DETECT = "models/detect/config.pbtxt"
BLS = "models/detect_bls/1/model.py"

MODE = 'key: "INFERENCE_MODE" value: {{ string_value: "{}" }}'
SCRIPT = "torch.jit.script(Reader(facts.network(me, size)).eval())"
#: What the text says of mistakes that cost more than others.
DEAR = "What costs more, because then nothing can be compared"
#: The messages if reader did not load. Below: if the check of reader, or of letters, gave nothing.
NO_READER = dict.fromkeys(("a3.reader", "a3.versions", "a3.ensemble", "a3.bls"), NOTHING)
NO_READER |= {"a3.pads": WAITS}
READER_WAITS = dict.fromkeys(("a3.versions", "a3.ensemble", "a3.bls", "a3.pads"), WAITS)
LETTERS_WAIT = dict.fromkeys(("a3.ensemble", "a3.bls", "a3.pads"), WAITS)
NO_DETECT = {"a3.ensemble": NOTHING, "a3.bls": NOTHING, "a3.pads": WAITS}

_PAST_ERRORS = """
    try:
        ask_together(model, crowd)
    except ValueError as error:
        print(error)
"""

#: A script that answers the same to every row.
NOTHING_READ = """
class Nothing(torch.nn.Module):
    def __init__(self, scores):
        super().__init__()
        self.scores = torch.nn.Parameter(torch.from_numpy(scores).float().clone())

    def forward(self, ids, mask):
        return self.scores.expand(ids.size(0), self.scores.size(0)) + 0.0 * mask.sum()


"""

MUTANTS = (
    Mutant(
        "reader: a script that does not look at its input",
        (
            Edit("a3.serve", "for version, size", f"{NOTHING_READ}for version, size"),
            Edit("a3.serve", SCRIPT, "torch.jit.script(Nothing(facts.network(me, size).bias))"),
        ),
        {"a3.reader": "differ", **READER_WAITS},
        why=DEAR,
    ),
    # -- the trace ---------------------------------------------------------------------------------
    Mutant(
        "trace: rows filled up to the longest",
        (
            Edit(
                "a3.compare",
                "torch.from_numpy(part) for part in facts.table([row])",
                "torch.from_numpy(part[[number]]) for part in facts.table(texts.rows)",
            ),
        ),
        {"a3.trace": "`refused` is empty"},
    ),
    Mutant(
        "trace: compared with the truth",
        (Edit("a3.compare", "large(*tensors).argmax().item()", "texts.row_truth[number]"),),
        {"a3.trace": "Which language is right does not matter"},
    ),
    Mutant(
        "trace: rows counted from 1",
        (Edit("a3.compare", "enumerate(texts.rows)", "enumerate(texts.rows, 1)"),),
        {"a3.trace": "By your list the trace"},
    ),
    Mutant(
        "trace: a refused row is a changed one",
        (
            Edit(
                "a3.compare",
                "refused.append(number)",
                "refused.append(number)\n        changed.append(number)",
            ),
        ),
        {"a3.trace": "is in both lists"},
    ),
    Mutant(
        "trace: one changed row",
        (Edit("a3.compare", "print(", "changed = changed[:1]\nprint("),),
        {"a3.trace": "`changed` lacks rows, such as row"},
    ),
    Mutant(
        "trace: all changed rows but the last",
        (Edit("a3.compare", "print(", "changed = changed[:-1]\nprint("),),
        {"a3.trace": "`changed` lacks rows, such as row"},
    ),
    Mutant(
        "trace: all that are not refused",
        (Edit("a3.compare", "print(", "changed = sorted({*range(120)} - {*refused})\nprint("),),
        {"a3.trace": "`changed` has rows that do not belong there, such as row"},
    ),
    Mutant(
        "trace: the shortest of the refused rows only",
        (
            Edit(
                "a3.compare",
                '"changed")',
                '"changed")\nrefused.sort(key=lambda n: len(texts.rows[n]))\n'
                "size = len(texts.rows[refused[0]])\n"
                "refused = [n for n in refused if len(texts.rows[n]) == size]",
            ),
        ),
        {"a3.trace": "`refused` lacks rows, such as row"},
    ),
    Mutant(
        "trace: how many in place of which",
        (Edit("a3.compare", '"changed")', '"changed")\nrefused = len(refused)'),),
        {"a3.trace": "`refused` is one number. A list of row numbers is wanted"},
    ),
    Mutant(
        "trace: the id changed afterwards",
        (
            Edit("a3.compare", "print(", 'me = "anna"\nprint('),
            Edit("a3.serve", "for version,", 'me = "self-study"\nfor version,'),
        ),
        {"a3.trace": 'Both lists are those of the id "self-study"'},
    ),
    Mutant(
        "trace: arrays in place of lists",
        (
            Edit(
                "a3.compare",
                "print(",
                "refused, changed = np.array(refused), np.array(changed)\nprint(",
            ),
        ),
        right=True,
    ),
    # -- the files of reader -----------------------------------------------------------------------
    Mutant(
        "reader: traced",
        (
            Edit(
                "a3.serve",
                SCRIPT,
                "torch.jit.trace(Reader(facts.network(me, size)).eval(), (example, example))",
            ),
        ),
        {
            "a3.reader": "How was the file made",
            "a3.versions": WAITS,
            "a3.ensemble": WAITS,
            "a3.bls": NOTHING,
            "a3.pads": WAITS,
        },
        stops="out of range",
        why=DEAR,
    ),
    Mutant(
        "reader: in training mode",
        (Edit("a3.serve", ".eval()", ""),),
        {"a3.reader": "Asked the same twice", **READER_WAITS},
        why=DEAR,
    ),
    Mutant(
        "reader: small and large exchanged",
        (Edit("a3.serve", '((2, "small"), (3, "large"))', '((2, "large"), (3, "small"))'),),
        {"a3.reader": "facts.network(me, 'large')", "a3.versions": WAITS},
    ),
    Mutant(
        "reader: the large one twice",
        (Edit("a3.serve", '(2, "small")', '(2, "large")'),),
        {"a3.versions": "facts.network(me, 'small')"},
    ),
    # -- the config of reader ----------------------------------------------------------------------
    Mutant(
        "reader: numbers of 32 bits",
        (Edit(READER, "TYPE_INT64", "TYPE_INT32"),),
        NO_READER,
        stops="INT32",
        why=DEAR,
    ),
    Mutant(
        "reader: rows of one length",
        (Edit(READER, "dims: [ -1 ]", "dims: [ 64 ]"),),
        NO_READER,
        stops="64",
        why=DEAR,
    ),
    Mutant(
        "reader: inputs counted from 1",
        (Edit(READER, "INPUT__1", "INPUT__2"), Edit(READER, "INPUT__0", "INPUT__1")),
        NO_READER,
        stops="INPUT__2",
        why=DEAR,
    ),
    Mutant(
        "reader: any number of scores",
        (Edit(READER, "dims: [ 5 ]", "dims: [ -1 ]"),),
        {"a3.reader": "OUTPUT__0 has dims [-1]"},
    ),
    Mutant(
        "reader: small batches",
        (Edit(READER, "max_batch_size: 128", "max_batch_size: 100"),),
        NO_READER,
        stops="batch",
        why=DEAR,
    ),
    Mutant(
        "reader: on a GPU",
        (Edit(READER, "kind: KIND_CPU", "kind: KIND_GPU gpus: [ 0 ]"),),
        NO_READER,
        stops="GPU",
        why=DEAR,
    ),
    Mutant(
        "reader: INFERENCE_MODE not written down",
        (
            Edit(
                READER,
                'parameters { key: "INFERENCE_MODE" value: { string_value: "true" } }',
                "",
            ),
        ),
        {"a3.reader": "has no parameter INFERENCE_MODE"},
    ),
    Mutant(
        "reader: INFERENCE_MODE switched off",
        (Edit(READER, MODE.format("true"), MODE.format("false")),),
        {"a3.reader": "INFERENCE_MODE of reader is 'false', which switches it off"},
    ),
    Mutant(
        "reader: INFERENCE_MODE with a capital",
        (Edit(READER, MODE.format("true"), MODE.format("True")),),
        right=True,
    ),
    Mutant(
        "reader: inputs named as the arguments of forward",
        (
            Edit(READER, "INPUT__0", "ids"),
            Edit(READER, "INPUT__1", "mask"),
            Edit("a3.ask", '"INPUT__0": ids, "INPUT__1": mask', '"ids": ids, "mask": mask'),
            Edit("a3.policy", '"INPUT__0": ids, "INPUT__1": mask', '"ids": ids, "mask": mask'),
        ),
        {
            "a3.reader": "It has no input 'INPUT__0', only ids, mask",
            "a3.versions": WAITS,
            "a3.ensemble": NOTHING,
            "a3.bls": NOTHING,
            "a3.pads": WAITS,
        },
        stops="INPUT__",
        why=DEAR,
    ),
    Mutant(
        "reader: the id changed afterwards",
        (
            Edit("a3.ask", '"OUTPUT__0")', '"OUTPUT__0")\nme = "anna"'),
            # The check finds it out by the letters, which are deployed later.
            Edit("a3.letters_model", "letters = deploy(", 'me = "self-study"\nletters = deploy('),
        ),
        {"a3.reader": "What is deployed was made for another id", "a3.versions": WAITS},
    ),
    Mutant(
        "reader: the inputs in the other order",
        (
            Edit(READER, "INPUT__0", "INPUT__?"),
            Edit(READER, "INPUT__1", "INPUT__0"),
            Edit(READER, "INPUT__?", "INPUT__1"),
        ),
        right=True,
    ),
    # -- versions ----------------------------------------------------------------------------------
    Mutant(
        "versions: the newest only",
        (Edit(READER, "num_versions: 2", "num_versions: 1"),),
        {"a3.versions": NOTHING},
        stops="version",
    ),
    Mutant(
        "versions: all of them",
        (
            Edit(READER, "latest { num_versions: 2 }", "all { }"),
            Edit("a3.policy", "try:", 'gone = "version 1 of reader"\ntry:'),
        ),
        {"a3.versions": "these versions answer: 1, 2, 3"},
    ),
    Mutant(
        "versions: a message of one's own",
        (Edit("a3.policy", "gone = str(error)", 'gone = "it is gone"'),),
        {"a3.versions": "`gone` is not what the server says"},
    ),
    Mutant(
        "versions: a list",
        (Edit(READER, "latest { num_versions: 2 }", "specific { versions: [ 2, 3 ] }"),),
        right=True,
    ),
    # -- letters -----------------------------------------------------------------------------------
    Mutant(
        "letters: capitals are other letters",
        (Edit(LETTERS, "        text = text.casefold()\n", ""),),
        {"a3.letters": "For upper-case letters"},
    ),
    Mutant(
        "letters: lower in place of casefold",
        (Edit(LETTERS, "text.casefold()", "text.lower()"),),
        {"a3.letters": "For a ß"},
    ),
    Mutant(
        "letters: accents as they come",
        (Edit(LETTERS, 'unicodedata.normalize("NFC", text)', "text"),),
        {"a3.letters": "For an accent that comes as a character of its own"},
    ),
    Mutant(
        "letters: NFKC in place of NFC",
        (Edit(LETTERS, '"NFC"', '"NFKC"'),),
        {"a3.letters": "For a ½, which is one character and stays one"},
    ),
    Mutant(
        "letters: bytes not decoded",
        (Edit(LETTERS, '.decode("utf-8", "replace")', ""),),
        {
            "a3.letters": "must be str, not bytes. It comes from line 50 of "
            "models/letters/1/model.py, in numbers",
            **NO_DETECT,
        },
        stops="normalize",
        why=DEAR,
    ),
    Mutant(
        "letters: numbers of 32 bits",
        (Edit(LETTERS, "PADDING, np.int64", "PADDING, np.int32"),),
        {"a3.letters": "letters answers IDS as INT32; its config says TYPE_INT64", **NO_DETECT},
        stops="model 'reader' expects 'INT64'",
        why=DEAR,
    ),
    Mutant(
        "letters: filled up to a multiple of 0",
        (Edit("a3.vary", "pad_to(128)", "pad_to(0)"),),
        {"a3.letters": "The PAD_TO of letters, as the server parsed it, is '0'", **LETTERS_WAIT},
        why=DEAR,
    ),
    Mutant(
        "letters: the id changed afterwards",
        (
            Edit("a3.letters_model", "letters = deploy(", 'me = "anna"\nletters = deploy('),
            Edit("a3.join", "detect = deploy(", 'me = "self-study"\ndetect = deploy('),
        ),
        {"a3.letters": "What is deployed was made for another id"},
    ),
    Mutant(
        "letters: cut before the spaces are gone",
        (
            Edit(
                LETTERS,
                "        text = text.strip()\n        text = text[:MOST]\n",
                "        text = text[:MOST]\n        text = text.strip()\n",
            ),
        ),
        {"a3.letters": "letters refuses 200 spaces"},
    ),
    Mutant(
        "letters: not cut",
        (Edit(LETTERS, "        text = text[:MOST]\n", ""),),
        {"a3.letters": "MASK counts 200 letters"},
    ),
    Mutant(
        "letters: unknown ones left out",
        (
            Edit(
                LETTERS,
                "self.alphabet.get(letter, UNKNOWN) for letter in text]",
                "self.alphabet[letter] for letter in text if letter in self.alphabet]",
            ),
        ),
        {"a3.letters": "For a letter that is not in the alphabet"},
    ),
    Mutant(
        "letters: a letter for each byte",
        (Edit(LETTERS, '"utf-8", "replace"', '"latin-1"'),),
        {"a3.letters": "For a letter that is not in the alphabet"},
    ),
    Mutant(
        "letters: an exception for all",
        (
            Edit(
                LETTERS,
                "responses.append(pb_utils.InferenceResponse(error=error))",
                "raise pb_utils.TritonModelException(error.message())",
            ),
        ),
        {"a3.letters": "refuses a right request too"},
    ),
    Mutant(
        "letters: the last answer first",
        (Edit(LETTERS, "return responses", "return responses[::-1]"),),
        {
            "a3.letters": "gets other numbers than in one table",
            "a3.ensemble": WAITS,
            "a3.pads": WAITS,
        },
    ),
    Mutant(
        "letters: a mask of ones",
        (Edit(LETTERS, "mask = np.zeros((", "mask = np.ones(("),),
        {"a3.letters": "MASK counts", "a3.ensemble": WAITS},
    ),
    # -- the ensemble ------------------------------------------------------------------------------
    Mutant(
        "ensemble: numbers and mask crossed",
        (
            Edit(DETECT, 'key: "INPUT__0" value: "ids"', 'key: "INPUT__0" value: "mask"'),
            Edit(DETECT, 'key: "INPUT__1" value: "mask"', 'key: "INPUT__1" value: "ids"'),
        ),
        {"a3.ensemble": "INPUT__0 of reader gets MASK of letters", "a3.pads": WAITS},
    ),
    Mutant(
        "ensemble: of the small network",
        (
            Edit(
                DETECT,
                'model_name: "reader"\n    model_version: -1',
                'model_name: "reader"\n    model_version: 2',
            ),
        ),
        {"a3.ensemble": "The step of reader asks for version 2", "a3.pads": WAITS},
    ),
    Mutant(
        "ensemble: the newest version by its number",
        (
            Edit(
                DETECT,
                'model_name: "reader"\n    model_version: -1',
                'model_name: "reader"\n    model_version: 3',
            ),
        ),
        right=True,
    ),
    Mutant(
        "ensemble: larger batches than its parts",
        (Edit(DETECT, "max_batch_size: 128", "max_batch_size: 256"),),
        NO_DETECT,
        stops="batch",
    ),
    Mutant(
        "ensemble: a tensor that no step gives",
        (Edit(DETECT, 'key: "INPUT__1" value: "mask"', 'key: "INPUT__1" value: "Mask"'),),
        NO_DETECT,
        stops="Mask",
    ),
    Mutant(
        "ensemble: by hand, the arrays exchanged",
        (
            Edit(
                "a3.join", '"INPUT__0": ids, "INPUT__1": mask', '"INPUT__0": mask, "INPUT__1": ids'
            ),
        ),
        {"a3.ensemble": "The values in `by_hand` differ"},
    ),
    # -- the program -------------------------------------------------------------------------------
    Mutant(
        "bls: one request after the other",
        (
            Edit(
                BLS,
                "scores = self.scores(np.concatenate(texts))",
                "return [self.alone(part) for part in texts]",
            ),
        ),
        {"a3.bls": "executions of reader"},
    ),
    Mutant(
        "bls: the texts of the first request only",
        (
            Edit(BLS, "np.concatenate(texts)", "texts[0]"),
            Edit("a3.count", "    ask_together(model, crowd)", _PAST_ERRORS),
        ),
        {"a3.bls": "and gets SCORES of the shape"},
    ),
    Mutant(
        "bls: the ensemble handed over",
        (Edit("a3.program", "models/detect_bls", "models/detect"),),
        {"a3.bls": "detect is an ensemble. This check is about detect_bls"},
    ),
    Mutant(
        "bls: errors overlooked",
        (Edit(BLS, "if answer.has_error():", "if False:"),),
        {"a3.bls": "detect_bls refuses a right request too"},
    ),
    Mutant(
        "bls: an error becomes zeros",
        (
            Edit(
                BLS,
                "return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))",
                "return response(np.zeros((len(texts), 5), np.float32))",
            ),
        ),
        {"a3.bls": "detect_bls answers a text of nothing but spaces"},
    ),
    Mutant(
        "bls: words of its own",
        (Edit(BLS, "pb_utils.TritonError(str(error))", 'pb_utils.TritonError("a step failed")'),),
        {"a3.bls": "the message does not say why"},
    ),
    Mutant(
        "bls: it asks the ensemble",
        (
            Edit(
                BLS,
                'ids, mask = ask("letters", {"TEXT": texts}, ["IDS", "MASK"])\n',
                'return ask("detect", {"TEXT": texts}, ["SCORES"])[0]\n',
            ),
            Edit(
                BLS,
                'return ask("reader", {"INPUT__0": ids, "INPUT__1": mask}, ["OUTPUT__0"])[0]',
                "",
            ),
        ),
        {"a3.bls": "detect_bls asks detect"},
    ),
    Mutant(
        "bls: of the small network",
        (
            Edit(
                BLS,
                "model_name=model,",
                'model_name=model, model_version=2 if model == "reader" else -1,',
            ),
        ),
        {"a3.bls": "The scores of detect_bls differ"},
    ),
    Mutant(
        "bls: invented counts",
        (Edit("a3.count", "ensemble_runs, bls_runs = found", "ensemble_runs, bls_runs = 3, 1"),),
        {"a3.bls": "different lengths. With PAD_TO 1"},
    ),
    Mutant(
        "bls: executions since the load",
        (Edit("a3.count", "executions(READER) - before", "executions(READER) + 100"),),
        {"a3.bls": "a whole number from 1 to 24 is wanted"},
    ),
    # -- widths ------------------------------------------------------------------------------------
    Mutant(
        "pads: three widths",
        (Edit("a3.vary", "[1, 8, 32, 128]", "[1, 8, 32]"),),
        {"a3.pads": "`widths` has 3 different values"},
    ),
    Mutant(
        "pads: PAD_TO has no effect",
        (Edit(LETTERS, "// self.pad_to) * self.pad_to", "// 1)"),),
        # Its counts show it, or, if requests came late and shared no batch, a text's width.
        {"a3.pads": "With PAD_TO "},
    ),
    Mutant(
        "pads: invented counts",
        (Edit("a3.vary", "pad_to(128)", "runs = [24, 3, 2, 1]\npad_to(128)"),),
        {"a3.pads": "With PAD_TO 8 you counted 3 executions"},
    ),
    Mutant(
        "pads: letters not deployed in the loop",
        (
            Edit(
                "a3.vary",
                '    pad_to(width)\n    deploy("models/letters")\n',
                "    pad_to(width)\n",
            ),
        ),
        {"a3.pads": "With PAD_TO 32 you counted"},
    ),
    Mutant(
        "pads: the executions of several crowds",
        (Edit("a3.vary", "pad_to(128)", "runs = [10 * n for n in runs]\npad_to(128)"),),
        {"a3.pads": "24 texts cannot take more than 24"},
    ),
    Mutant(
        "pads: seconds",
        (Edit("a3.vary", "pad_to(128)", "took = [ms / 1000 for ms in took]\npad_to(128)"),),
        {"a3.pads": "Are these seconds?"},
    ),
    Mutant(
        "pads: widths as texts",
        (Edit("a3.vary", "pad_to(128)", "widths = [str(n) for n in widths]\npad_to(128)"),),
        {"a3.pads": "`widths` holds texts"},
    ),
    Mutant(
        "pads: arrays in place of lists",
        (
            Edit(
                "a3.vary",
                "pad_to(128)",
                "widths, runs, took = map(np.array, (widths, runs, took))\npad_to(128)",
            ),
        ),
        right=True,
    ),
    Mutant(
        "pads: another width deployed",
        (Edit("a3.vary", "pad_to(128)", "pad_to(16)"),),
        {"a3.pads": "parsed a PAD_TO of 16"},
    ),
)
