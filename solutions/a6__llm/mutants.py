"""Wrong answers to a6__llm. An edit replaces text in a model file or in a solution cell.

vLLM takes half a minute to start. So most of these leave its task out: its two checks then say that
nothing was handed over.
"""

from __future__ import annotations

from typing import Any

from grader.authoring.mutants import NOTHING, WAITS, Edit, Mutant

CHAT = "models/chat/1/model.py"
WRITING = "models/chat/1/writing.py"
STREAM = "models/chat_stream/1/model.py"
ENGINE = "models/chat_vllm/1/model.json"

_LEFT_OUT = (
    Edit("a6.engine", "", "chat_vllm = of_vllm = facts.NOT_ATTEMPTED"),
    Edit("a6.measure", "", "rates = ..."),
)
_NO_VLLM = dict.fromkeys(("a6.vllm", "a6.speed"), "not attempted")
#: What waits for `chat` and for the drawing.
CHAT_WAITS = dict.fromkeys(
    ("a6.sampling", "a6.stops", "a6.refusals", "a6.stream", "a6.clients", "a6.knobs"), WAITS
)
DRAWING_WAITS = {"a6.knobs": WAITS}


#: Deploys a network whose scores are the same whatever it reads: each is multiplied by 0.
_SAME_SCORES = """
import onnx
from onnx import TensorProto, helper

_file = "models/llama_step/1/model.onnx"
_step = onnx.load(_file)
for _node in _step.graph.node:
    _node.output[:] = ["scores" if name == "logits" else name for name in _node.output]
_step.graph.initializer.append(helper.make_tensor("nothing", TensorProto.FLOAT, [], [0.0]))
_step.graph.node.append(helper.make_node("Mul", ["scores", "nothing"], ["logits"]))
onnx.save(_step, _file)
deploy("models/llama_step")
"""


def wrong(name: str, edits: tuple[Edit, ...], fails: dict[str, str], **more: Any) -> Mutant:
    """A mutant without vLLM."""
    return Mutant(name, (*edits, *_LEFT_OUT), {**fails, **_NO_VLLM}, **more)


MUTANTS = (
    # -- two steps by hand -------------------------------------------------------------------------
    wrong(
        "step: filled up on the right",
        (
            Edit(
                "a6.by_hand",
                "mask = np.pad(",
                "prompt_ids = np.array([row + [0] * (width - len(row)) for row in rows])\n"
                "prompt_mask = (prompt_ids > 0).astype(np.int64)\n"
                "prompt_positions = np.maximum(prompt_mask.cumsum(axis=1) - 1, 0)\n"
                "mask = np.pad(",
            ),
        ),
        {"a6.step": "In `first` the row of the shorter prompt is not right"},
    ),
    wrong(
        "step: the empty cache is seen",
        (
            Edit(
                "a6.by_hand",
                "mask = np.pad(prompt_mask, ((0, 0), (1, 0)))",
                "mask = np.pad(prompt_mask, ((0, 0), (1, 0)), constant_values=1)",
            ),
        ),
        {"a6.step": "Neither row of `first` holds the scores"},
    ),
    wrong(
        "step: the same positions again",
        (Edit("a6.by_hand", "positions[:, -1:] + 1", "positions[:, -1:]"),),
        {"a6.step": "Neither row of `second` holds the scores"},
    ),
    wrong(
        "step: rows exchanged",
        (Edit("a6.by_hand", "print([", "first = first[::-1]\nprint(["),),
        {"a6.step": "The two rows of `first` are exchanged"},
    ),
    wrong(
        "step: first and second exchanged",
        (Edit("a6.by_hand", "print([", "first, second = second, first\nprint(["),),
        {"a6.step": "`first` holds the scores of the second step"},
    ),
    wrong(
        "step: a network of somebody else's",
        (
            Edit("a6.engine", "chat_vllm", "chat_vllm"),
            Edit("a6.by_hand", "first, present", "facts.fetch_network('x')\nfirst, present"),
            Edit("a6.by_hand", "(second,)", 'deploy("models/llama_step")\n(second,)'),
        ),
        {
            "a6.step": "They are compared with those of your network",
            "a6.greedy": "of your network",
            **CHAT_WAITS,
        },
    ),
    wrong(
        "step: scores that do not depend on the prompt",
        (Edit("a6.by_hand", "first, present", f"{_SAME_SCORES}first, present"),),
        {
            "a6.step": "of your network",
            "a6.greedy": "of your network",
            **CHAT_WAITS,
        },
    ),
    # -- the likeliest tokens ----------------------------------------------------------------------
    wrong(
        "greedy: positions count the filling",
        (
            Edit(
                CHAT,
                "positions = np.maximum(mask.cumsum(axis=1) - 1, 0)",
                "positions = np.tile(np.arange(width), (len(answers), 1))",
            ),
        ),
        {"a6.greedy": "refuses a request with this prompt and a short one", **CHAT_WAITS},
    ),
    wrong(
        "greedy: the filling is seen",
        (Edit(CHAT, "mask[row, width - len(answer.prompt) :] = 1", "mask[row] = 1"),),
        {"a6.greedy": "is not the likeliest one", **CHAT_WAITS},
    ),
    wrong(
        "greedy: the first end ends all",
        (
            Edit(
                CHAT,
                "            if len(on) < len(answers):\n",
                "            if len(on) < len(answers):\n                return\n",
            ),
        ),
        {"a6.greedy": "The end of another row must not end this one", **CHAT_WAITS},
    ),
    wrong(
        "greedy: ended rows go on",
        (
            Edit(
                CHAT,
                "        while answers:",
                "        while not all(answer.reason for answer in answers):",
            ),
            Edit(
                CHAT,
                "answer.add(*answer.choose(row))",
                "answer.reason or answer.add(*answer.choose(row))",
            ),
            Edit(CHAT, "if not answer.reason]\n", "]\n"),
            Edit(CHAT, "[answer.tokens[-1]] for", "[(answer.tokens or [0])[-1]] for"),
        ),
        {"a6.greedy": "A row whose answer has ended still goes on"},
    ),
    wrong(
        "greedy: without a cache",
        (
            Edit(CHAT, "scores, cache = ask(", "scores, _ = ask("),
            Edit(
                CHAT,
                "ids = np.array([[answer.tokens[-1]] for answer in answers], np.int64)\n"
                "            positions = positions[:, -1:] + 1\n",
                "ids = ids[on] if len(on) < len(ids) else ids\n"
                "            if not answers:\n"
                "                return\n"
                "            new = np.array([[one.tokens[-1]] for one in answers], np.int64)\n"
                "            ids = np.concatenate([ids, new], axis=1)\n"
                "            positions = np.concatenate(\n"
                "                [positions, positions[:, -1:] + 1], axis=1\n            )\n",
            ),
        ),
        {"a6.greedy": "With a cache it is about a tenth"},
    ),
    wrong(
        "greedy: one request after the other",
        (
            Edit(
                CHAT,
                "        self.write([answer for group in groups if isinstance(group, list) "
                "for answer in group])\n",
                "        for group in groups:\n"
                "            self.write(group if isinstance(group, list) else [])\n",
            ),
        ),
        {"a6.greedy": "hardly two shared one"},
    ),
    wrong(
        "greedy: one row after the other",
        (
            Edit(
                CHAT,
                "        self.write([answer for group in groups if isinstance(group, list) "
                "for answer in group])\n",
                "        for group in groups:\n"
                "            for answer in group if isinstance(group, list) else []:\n"
                "                self.write([answer])\n",
            ),
        ),
        {"a6.greedy": "prompts in one request took"},
    ),
    wrong(
        "greedy: the end of text is a token",
        (
            Edit(
                WRITING,
                '"stop"\n        else:\n            self.tokens.append(token)\n'
                "            self.logprobs.append(logprob)\n",
                '"stop"\n        self.tokens.append(token)\n'
                "        self.logprobs.append(logprob)\n        if token != self.end:\n",
            ),
        ),
        {"a6.greedy": "hold the end of text", **CHAT_WAITS},
    ),
    wrong(
        "greedy: logarithms to the base 2",
        (
            Edit(
                WRITING,
                "return token, float(logs[token])",
                "return token, float(logs[token] / np.log(2))",
            ),
        ),
        {"a6.greedy": "logprobs differ from the network's", **CHAT_WAITS},
    ),
    wrong(
        "greedy: a token too many",
        (Edit(WRITING, "if len(self.tokens) == self.most:", "if len(self.tokens) > self.most:"),),
        {"a6.greedy": "equal to self.most, and self.reason says so", **CHAT_WAITS},
    ),
    wrong(
        "greedy: the context is not limited",
        (
            Edit(
                WRITING,
                'self.most = min(self.wanted["max_tokens"], context - len(self.prompt))',
                'self.most = self.wanted["max_tokens"]',
            ),
        ),
        {"a6.greedy": "Prompt and answer together have 256 tokens at most", **CHAT_WAITS},
    ),
    wrong(
        "greedy: the loop goes on",
        (
            Edit(CHAT, "if not answer.reason]\n", "]\n"),
            Edit(CHAT, "[answer.tokens[-1]] for", "[(answer.tokens or [0])[-1]] for"),
        ),
        {
            "a6.greedy": "does the loop take such an answer out?",
            **CHAT_WAITS,
            "a6.knobs": NOTHING,
        },
        stops="onnx runtime error",
    ),
    wrong(
        "greedy: a token too few",
        (
            Edit(
                WRITING,
                "if len(self.tokens) == self.most:",
                "if len(self.tokens) >= self.most - 1:",
            ),
        ),
        {"a6.greedy": "max_tokens allows 12: it ended one token too early", **CHAT_WAITS},
    ),
    wrong(
        "greedy: mask and cache of the first rows",
        (Edit(CHAT, "mask[on], cache[on]", "mask[: len(on)], cache[: len(on)]"),),
        {"a6.greedy": "all indexed with the numbers of the same rows", **CHAT_WAITS},
    ),
    wrong(
        "greedy: the mask of the first rows",
        (Edit(CHAT, "mask[on], cache[on]", "mask[: len(on)], cache[on]"),),
        {"a6.greedy": "all indexed with the numbers of the same rows", **CHAT_WAITS},
    ),
    wrong(
        "greedy: the cache of rows that have left",
        (Edit(CHAT, "mask[on], cache[on]", "mask[on], cache"),),
        {"a6.greedy": "all four keep the same rows", **CHAT_WAITS, "a6.knobs": NOTHING},
        stops="position_ids",
    ),
    wrong(
        "greedy: the mask does not grow",
        (
            Edit(
                CHAT,
                "            mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=1)\n",
                "",
            ),
        ),
        {"a6.greedy": "one column longer in each step", **CHAT_WAITS, "a6.knobs": NOTHING},
        stops="onnx runtime error",
    ),
    wrong(
        "greedy: an exception",
        (Edit(WRITING, "token = int(scores.argmax())", "token = int(max(scores[:0]))"),),
        {"a6.greedy": "in `choose`", **CHAT_WAITS},
        stops="max() arg",
    ),
    wrong(
        "greedy: choose is not written",
        (
            Edit(
                WRITING,
                "token = int(scores.argmax())",
                "raise NotImplementedError('choose in writing.py is not written')",
            ),
        ),
        {"a6.greedy": "Write this part: writing.py, line", **CHAT_WAITS},
        stops="NotImplementedError",
    ),
    wrong(
        "greedy: nothing is written",
        (Edit(CHAT, "        while answers:", "        while False:"),),
        {
            "a6.greedy": "has no token, and finish_reason is empty",
            **CHAT_WAITS,
            "a6.knobs": NOTHING,
        },
        stops="division by zero",
    ),
    # -- drawing -----------------------------------------------------------------------------------
    wrong(
        "sampling: without the token that reaches top_p",
        (
            Edit(
                WRITING,
                'count = min(int(np.searchsorted(reached, self.wanted["top_p"])) + 1, len(order))',
                'count = max(1, int(np.searchsorted(reached, self.wanted["top_p"])))',
            ),
        ),
        {"a6.sampling": "of the nucleus never came.", **DRAWING_WAITS},
    ),
    wrong(
        "sampling: top_p before the temperature",
        (
            Edit(
                WRITING,
                "reached = np.cumsum(chances[order])",
                "reached = np.cumsum(np.exp(logs[order]))",
            ),
        ),
        {"a6.sampling": "cannot be drawn at all", **DRAWING_WAITS},
    ),
    wrong(
        "sampling: all of the nucleus alike",
        (
            Edit(
                WRITING,
                "self.random.choice(nucleus, p=chances[nucleus] / chances[nucleus].sum())",
                "self.random.choice(nucleus)",
            ),
        ),
        {"a6.sampling": "They do not come as often as they should", **DRAWING_WAITS},
    ),
    wrong(
        "sampling: the probabilities in reverse",
        (
            Edit(
                WRITING,
                "p=chances[nucleus] / chances[nucleus].sum()",
                "p=chances[nucleus][::-1] / chances[nucleus].sum()",
            ),
        ),
        {"a6.sampling": "They do not come as often as they should", **DRAWING_WAITS},
    ),
    wrong(
        "sampling: the first or the last, half of the time each",
        (
            Edit(
                WRITING,
                "self.random.choice(nucleus, p=chances[nucleus] / chances[nucleus].sum())",
                "self.random.choice(nucleus[[0, -1]])",
            ),
        ),
        {"a6.sampling": "of the nucleus never came.", **DRAWING_WAITS},
    ),
    wrong(
        "sampling: the right nucleus with the probabilities of temperature 1",
        (
            Edit(
                WRITING,
                "p=chances[nucleus] / chances[nucleus].sum()",
                "p=np.exp(logs[nucleus]) / np.exp(logs[nucleus]).sum()",
            ),
        ),
        {"a6.sampling": "They do not come as often as they should", **DRAWING_WAITS},
    ),
    wrong(
        "sampling: logprobs after the temperature",
        (
            Edit(
                WRITING,
                "chances[nucleus].sum()))\n",
                "chances[nucleus].sum()))\n            logs = np.log(chances + 1e-300)\n",
            ),
        ),
        {
            "a6.sampling": "before temperature and top_p change anything",
            **DRAWING_WAITS,
        },
    ),
    wrong(
        "sampling: a new generator in every step",
        (
            Edit(
                WRITING,
                "            token = int(self.random.choice(",
                '            self.random = np.random.default_rng(self.wanted["seed"])\n'
                "            token = int(self.random.choice(",
            ),
        ),
        {
            "a6.sampling": "If each step begins a new generator with the seed",
            **DRAWING_WAITS,
        },
    ),
    wrong(
        "sampling: top_p is not read",
        (Edit(WRITING, "nucleus = order[:count]", "nucleus = order"),),
        {
            "a6.sampling": "cannot be drawn",
            "a6.stream": "cannot be drawn with temperature 1 and top_p 0.95",
            "a6.clients": WAITS,
            **DRAWING_WAITS,
        },
    ),
    wrong(
        "sampling: the temperature is not read",
        (
            Edit(
                WRITING,
                'np.exp((scores - scores.max()) / self.wanted["temperature"])',
                "np.exp(scores - scores.max())",
            ),
        ),
        {"a6.sampling": "cannot be drawn at all", **DRAWING_WAITS},
    ),
    wrong(
        "sampling: the same seed where there is none",
        (
            Edit(
                WRITING, 'default_rng(self.wanted["seed"])', 'default_rng(self.wanted["seed"] or 0)'
            ),
        ),
        {"a6.sampling": "without a seed, at temperature 1, are all the same", **DRAWING_WAITS},
    ),
    wrong(
        "sampling: one generator for all rows",
        (
            Edit(
                WRITING,
                'self.random = np.random.default_rng(self.wanted["seed"])',
                'np.random.seed((self.wanted["seed"] or 0) % 2**32)',
            ),
            Edit(WRITING, "self.random.choice", "np.random.choice"),
        ),
        {
            "a6.sampling": "gets other tokens among other prompts",
            "a6.clients": "One gets another answer than alone",
            **DRAWING_WAITS,
        },
    ),
    wrong(
        "sampling: the seed 0 is taken for none",
        (
            Edit(
                WRITING,
                'default_rng(self.wanted["seed"])',
                'default_rng(self.wanted["seed"] or None)',
            ),
        ),
        {
            "a6.sampling": "with the seed 0",
            "a6.clients": "One gets another answer than alone",
            **DRAWING_WAITS,
        },
    ),
    wrong(
        "sampling: an empty nucleus",
        (Edit(WRITING, "nucleus = order[:count]", "nucleus = order[: count - 1]"),),
        {
            "a6.sampling": "the nucleus holds one token at least",
            "a6.refusals": "refuses the parameters",
            "a6.stream": "the nucleus holds one token at least",
            "a6.clients": WAITS,
            "a6.knobs": NOTHING,
        },
        stops="unless no samples are taken",
    ),
    wrong(
        "sampling: probabilities that do not add up to 1",
        (Edit(WRITING, "p=chances[nucleus] / chances[nucleus].sum()", "p=chances[nucleus]"),),
        {
            "a6.sampling": "are divided by their sum",
            "a6.refusals": "refuses the parameters",
            "a6.stream": "are divided by their sum",
            "a6.clients": WAITS,
            **DRAWING_WAITS,
        },
        stops="do not sum to 1",
    ),
    wrong(
        "sampling: exp of large scores",
        (
            Edit(
                WRITING,
                'np.exp((scores - scores.max()) / self.wanted["temperature"])',
                'np.exp(scores / self.wanted["temperature"])',
            ),
        ),
        {"a6.sampling": "Take the largest score away before exp", "a6.knobs": WAITS},
    ),
    # -- stop texts --------------------------------------------------------------------------------
    wrong(
        "stops: only in the newest token",
        (
            Edit(
                WRITING, "if stop in whole]", "if stop in self.tokenizer.decode(self.tokens[-1:])]"
            ),
        ),
        {"a6.stops": "text_output", "a6.stream": "text_output", "a6.clients": WAITS},
    ),
    wrong(
        "stops: the stop text is shown",
        (
            Edit(
                WRITING,
                "places = [whole.find(stop) for",
                "places = [whole.find(stop) + len(stop) for",
            ),
        ),
        {
            "a6.stops": "text_output goes on too far",
            "a6.stream": "text_output goes on too far",
            "a6.clients": WAITS,
        },
    ),
    wrong(
        "stops: the reason is length",
        (
            Edit(
                WRITING,
                'whole, self.reason = whole[: min(places)], "stop"',
                'whole, self.reason = whole[: min(places)], "length"',
            ),
        ),
        {
            "a6.stops": "finish_reason is 'length'",
            "a6.stream": "finish_reason is 'length'",
            "a6.clients": WAITS,
        },
    ),
    wrong(
        "stops: length where the last token completes it",
        (
            Edit(
                WRITING,
                'whole, self.reason = whole[: min(places)], "stop"',
                'whole, self.reason = whole[: min(places)], self.reason or "stop"',
            ),
        ),
        {"a6.stops": "also where its last token is the last one of max_tokens"},
    ),
    wrong(
        "stops: the first of the list",
        (Edit(WRITING, "whole[: min(places)]", "whole[: places[0]]"),),
        {"a6.stops": "the one that begins first decides"},
    ),
    wrong(
        "stops: the last place",
        (Edit(WRITING, "whole[: min(places)]", "whole[: max(places)]"),),
        {"a6.stops": "the one that begins first decides"},
    ),
    wrong(
        "stops: what was kept back is never shown",
        (Edit(WRITING, "        elif not self.reason:\n", "        else:\n"),),
        {
            "a6.stops": "`add` must return what was kept back before",
            "a6.stream": "`add` must return what was kept back before",
            "a6.clients": WAITS,
        },
    ),
    # -- bad requests ------------------------------------------------------------------------------
    wrong(
        "refusals: one for all",
        (
            Edit(
                CHAT, "groups.append(str(error))", "raise pb_utils.TritonModelException(str(error))"
            ),
        ),
        {"a6.refusals": "refuses a right request too"},
    ),
    wrong(
        "refusals: the exception in place of its text",
        (Edit(CHAT, "groups.append(str(error))", "groups.append(error)"),),
        {"a6.refusals": "not the exception itself"},
    ),
    wrong(
        "refusals: wrong names are overlooked",
        (
            Edit(
                WRITING, 'if unknown := given.keys() - {*NUMBERS, "stop"}:', "if unknown := set():"
            ),
        ),
        {"a6.refusals": "chat answers a parameter that does not exist"},
    ),
    wrong(
        "refusals: NaN passes",
        (Edit(WRITING, "if not least <= value <= most or", "if value < least or value > most or"),),
        {"a6.refusals": "chat answers a top_p that is NaN"},
    ),
    wrong(
        "refusals: true is a number",
        (Edit(WRITING, "isinstance(value, bool) or ", ""),),
        {"a6.refusals": "that is true"},
    ),
    wrong(
        "refusals: a prompt that fills the context",
        (Edit(WRITING, "if len(self.prompt) >= context:", "if len(self.prompt) > context:"),),
        {"a6.refusals": "a prompt of 256 tokens, which fills the context"},
    ),
    wrong(
        "refusals: no room for a last token",
        (Edit(WRITING, "if len(self.prompt) >= context:", "if len(self.prompt) >= context - 1:"),),
        {"a6.refusals": "so there is room for one more"},
    ),
    wrong(
        "refusals: halves of a token",
        (
            Edit(WRITING, " or (name in WHOLE and value != int(value))", ""),
            Edit(WRITING, "value = int(value) if name in WHOLE else value", "pass"),
        ),
        {"a6.refusals": "max_tokens of 2.5"},
    ),
    wrong(
        "refusals: it does not say what",
        (
            Edit(
                CHAT,
                "failure(group, pb_utils.TritonError.INVALID_ARG)",
                'failure("bad request", pb_utils.TritonError.INVALID_ARG)',
            ),
        ),
        {"a6.refusals": "the message does not say why"},
    ),
    wrong(
        "refusals: null is no value",
        (Edit(WRITING, "if value is not None or name in given:", "if value is not None:"),),
        {"a6.refusals": "that is null"},
    ),
    wrong(
        "refusals: the ends of the ranges",
        (Edit(WRITING, '"max_tokens": (16, 1, 256)', '"max_tokens": (16, 1, 255)'),),
        {"a6.refusals": "both ends belong to them"},
    ),
    # -- the stream --------------------------------------------------------------------------------
    wrong(
        "stream: all at the end",
        (
            Edit(
                STREAM,
                "        while not answer.reason and",
                "        kept = []\n        while not answer.reason and",
            ),
            Edit(
                STREAM,
                "sender.send(piece(text, answer, before))",
                "kept.append(piece(text, answer, before))",
            ),
            Edit(
                STREAM,
                "\n\ndef cache_shape",
                "\n        for one in kept:\n            sender.send(one)\n\n\ndef cache_shape",
            ),
        ),
        {"a6.stream": "they are not sent one by one", "a6.clients": WAITS},
    ),
    wrong(
        "stream: all tokens so far in each piece",
        (
            Edit(STREAM, "answer.tokens[before:]", "answer.tokens"),
            Edit(STREAM, "answer.logprobs[before:]", "answer.logprobs"),
        ),
        {"a6.stream": "holds the tokens of response 1 again", "a6.clients": WAITS},
    ),
    wrong(
        "stream: the whole text in each piece",
        (Edit(STREAM, "sender.send(piece(text,", "sender.send(piece(answer.text,"),),
        {"a6.stream": "holds the whole text so far", "a6.clients": WAITS},
    ),
    wrong(
        "stream: tokens are counted after add",
        (
            Edit(STREAM, "            before = len(answer.tokens)\n", ""),
            Edit(
                STREAM,
                "            text = answer.add(token, logprob)\n",
                "            text = answer.add(token, logprob)\n"
                "            before = len(answer.tokens)\n",
            ),
        ),
        {"a6.stream": "count them before `add`", "a6.clients": WAITS},
    ),
    wrong(
        "stream: an exception",
        (Edit(STREAM, "choose(scores[0])", "choose(scores[1])"),),
        {"a6.stream": "Look at model.py, line", "a6.clients": WAITS},
        stops="IndexError",
    ),
    wrong(
        "stream: the loop goes on",
        (Edit(STREAM, "while not answer.reason and not", "while not"),),
        {"a6.stream": "must stop when the answer has a finish_reason", "a6.clients": WAITS},
        stops="TritonModelException: onnx runtime error",
    ),
    wrong(
        "stream: without the responses that have no text",
        (
            Edit(
                STREAM,
                "            sender.send(piece(text, answer, before))",
                "            if text:\n                sender.send(piece(text, answer, before))",
            ),
        ),
        {
            "a6.stream": "Each step sends a response, also where there is no text",
            "a6.clients": WAITS,
        },
    ),
    wrong(
        "stream: the first beginning that fits is kept back",
        (
            Edit(
                WRITING,
                "        begun = max(\n            (\n",
                "        begun = next(\n            (\n",
            ),
            Edit(
                WRITING,
                "            ),\n            default=0,\n        )",
                "            ),\n            0,\n        )",
            ),
            Edit(WRITING, "range(1, len(stop))", "reversed(range(1, len(stop)))"),
        ),
        {"a6.stream": "look at the longest such beginning", "a6.clients": WAITS},
    ),
    wrong(
        "stream: the writing of before",
        (
            Edit(
                "a6.pieces",
                "",
                """facts.copy_writing()
path = __import__('pathlib').Path("models/chat_stream/1/writing.py")
path.write_text(path.read_text().replace("len(whole) - begun", "len(whole)"))
chat_stream = deploy("models/chat_stream").name""",
            ),
        ),
        {"a6.stream": "so one of them is not deployed anew yet", "a6.clients": WAITS},
    ),
    wrong(
        "stream: the beginning of a stop text is sent",
        (Edit(WRITING, "        return whole[: len(whole) - begun]", "        return whole"),),
        {"a6.stream": "before it was clear that it is one", "a6.clients": WAITS},
    ),
    wrong(
        "stream: an error is an empty answer",
        (
            Edit(
                STREAM, "sender.send(failure(str(error), pb_utils.TritonError.INVALID_ARG))", "pass"
            ),
        ),
        {"a6.stream": "it should be refused with an error", "a6.clients": WAITS},
    ),
    wrong(
        "stream: the end comes long after an error",  # without an end it could not be unloaded
        (
            Edit(
                STREAM,
                "pb_utils.TritonError.INVALID_ARG))",
                "pb_utils.TritonError.INVALID_ARG))\n            await asyncio.sleep(9)",
            ),
        ),
        {"a6.stream": "The stream of a top_p of 7 does not end", "a6.clients": WAITS},
    ),
    wrong(
        "stream: without a cache",
        (
            Edit(STREAM, "scores, cache = await ask(", "scores, _ = await ask("),
            Edit(
                STREAM,
                "ids, positions = np.array([[token]], np.int64), positions[:, -1:] + 1",
                "ids = np.append(ids, [[token]], axis=1)\n"
                "            positions = np.append(positions, positions[:, -1:] + 1, axis=1)",
            ),
        ),
        {"a6.stream": "With a cache it is about a tenth"},
    ),
    wrong(
        "stream: the mask does not grow",
        (
            Edit(
                STREAM,
                "            mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=1)\n",
                "",
            ),
        ),
        {"a6.stream": "one column longer in each step", "a6.clients": WAITS},
        stops="TritonModelException: onnx runtime error",
    ),
    wrong(
        "clients: the mask is kept in self",
        (
            Edit(
                STREAM,
                "await ask(ids, positions, mask, cache)",
                "await ask(ids, positions, self.mask, cache)",
            ),
            Edit(STREAM, "        mask = np.array([[0]", "        self.mask = np.array([[0]"),
            Edit(STREAM, "mask = np.pad(mask,", "self.mask = np.pad(self.mask,"),
        ),
        {"a6.clients": "what do you keep in self?"},
    ),
    wrong(
        "clients: one after the other",
        (Edit(STREAM, "answer = await request.async_exec()", "answer = request.exec()"),),
        {"a6.clients": "4 clients ask chat_stream at once"},
    ),
    wrong(
        "stream: await is missing",
        (Edit(STREAM, "answer = await request.async_exec()", "answer = request.async_exec()"),),
        {"a6.stream": "`await` is missing", "a6.clients": WAITS},
        stops="has no attribute 'has_error'",
    ),
    wrong(
        "clients: one generator for all",
        (
            Edit(
                STREAM,
                "        self.settings = ",
                "        self.random = np.random.default_rng(1)\n        self.settings = ",
            ),
            Edit(
                STREAM,
                "        ids = np.array([answer.prompt]",
                "        answer.random = self.random\n        ids = np.array([answer.prompt]",
            ),
        ),
        {"a6.clients": "One gets another answer than alone"},
    ),
    wrong(
        "clients: who has left is not noticed",
        (Edit(STREAM, " and not sender.is_cancelled()", ""),),
        {"a6.clients": "The client left after 3 responses"},
    ),
    # -- vLLM --------------------------------------------------------------------------------------
    Mutant(
        "vllm: fewer digits",
        (Edit(ENGINE, '"float32"', '"float16"'),),
        {"a6.vllm": "dtype in 1/model.json is 'float16'"},
    ),
    Mutant(
        "vllm: prompts in the answers",
        (Edit("a6.engine", 'of_vllm.append("".join(', 'of_vllm.append(prompt + "".join('),),
        {"a6.vllm": "begins with its prompt", "a6.speed": WAITS},
    ),
    Mutant(
        "vllm: one answer for all; invented rates",
        (
            Edit("a6.engine", "for prompt in prompts[:8]:", "for prompt in prompts[:1] * 8:"),
            Edit("a6.rounds", "append(tokens_per_second(model, prompts, clients))", "append(100)"),
        ),
        {"a6.vllm": "are not those of the likeliest tokens", "a6.speed": WAITS},
    ),
    Mutant(
        "speed: eight clients and one exchanged",
        (
            Edit("a6.measure", '"chat_vllm": (chat_vllm, 8)', '"chat_vllm": (chat_vllm, 1)'),
            Edit(
                "a6.measure",
                '"chat_vllm, one client": (chat_vllm, 1)',
                '"chat_vllm, one client": (chat_vllm, 8)',
            ),
        ),
        {"a6.speed": "eight clients of chat_vllm get"},
    ),
    Mutant(
        "speed: the same in each round",
        (
            Edit(
                "a6.measure",
                "for name, found in",
                "rates = {one: 3 * rates[one][:1] for one in rates}\nfor name, found in",
            ),
        ),
        {"a6.speed": "the same number in each round"},
    ),
    # -- temperatures ------------------------------------------------------------------------------
    wrong(
        "knobs: three temperatures",
        (Edit("a6.vary", "[0.1, 0.4, 0.7, 1.0, 1.3, 1.6, 2.0]", "[0.1, 0.7, 1.5]"),),
        {"a6.knobs": "`temperatures` has 3 different values"},
    ),
    wrong(
        "knobs: the filling counts",
        (Edit("a6.measured", "(-logprobs[tokens >= 0]).tolist()", "(-logprobs).ravel().tolist()"),),
        {"a6.knobs": "`surprise` is off"},
    ),
    wrong(
        "knobs: the variety of one answer",
        (
            Edit(
                "a6.measured",
                "for answer in answers for token",
                "for answer in answers[:1] for token",
            ),
        ),
        {"a6.knobs": "`variety` is off"},
    ),
    wrong(
        "knobs: drawn with top_p",
        (Edit("a6.vary", "[measure(temperature)", "[measure(temperature, top_p=0.7)"),),
        {"a6.knobs": "do not look as if they were drawn"},
    ),
    wrong(
        "knobs: too few answers",
        (Edit("a6.measured", "return answers,", "return answers[:4],"),),
        {"a6.knobs": "8 to 64 are wanted for each"},
    ),
    wrong(
        "knobs: one answer, eight times",
        (
            Edit(
                "a6.measured",
                "    everything = ",
                "    answers = answers[:1] * 8\n    everything = ",
            ),
            Edit(
                "a6.measured",
                "costs += (-logprobs[tokens >= 0]).tolist()",
                "costs += (-logprobs[:1][tokens[:1] >= 0]).tolist()",
            ),
            Edit("a6.measured", "for start in (0, 8):", "for start in (0,):"),
        ),
        {"a6.knobs": "are the same"},
    ),
    wrong(
        "knobs: drawn with top_p 0.95",
        (Edit("a6.vary", "[measure(temperature)", "[measure(temperature, top_p=0.95)"),),
        {"a6.knobs": "is outside of the nucleus of top_p"},
    ),
    wrong(
        "knobs: the padding is in the answers",
        (
            Edit("a6.measured", "[row[row >= 0].tolist() for row in tokens]", "tokens.tolist()"),
            Edit(
                "a6.measured",
                "token for answer in answers for token in answer]",
                "token for answer in answers for token in answer if token >= 0]",
            ),
        ),
        {"a6.knobs": "row[row >= 0]"},
    ),
    # -- right, and written in another way ---------------------------------------------------------
    Mutant(
        "right: tasks, another nucleus, arrays",
        (
            Edit(
                STREAM,
                "await asyncio.gather(\n            *(",
                "tasks = [\n            asyncio.create_task(",
            ),
            Edit(
                STREAM,
                "get_response_sender()) for request in requests)\n        )",
                "get_response_sender()))\n            for request in requests\n        ]\n"
                "        await asyncio.wait(tasks)",
            ),
            Edit(STREAM, "positions[:, -1:] + 1", "positions[:, -1:] + [[1]]"),
            Edit(
                WRITING,
                "nucleus = order[:count]",
                'nucleus = order[reached - chances[order] < self.wanted["top_p"]]',
            ),
            Edit(
                "a6.by_hand",
                "print([",
                "first, second = first.tolist(), second.astype(np.float64)\nprint([",
            ),
            Edit(
                "a6.measured",
                "[row[row >= 0].tolist() for row in tokens]",
                "[list(row[row >= 0]) for row in tokens]",
            ),
            Edit(
                "a6.vary",
                "some = [",
                "temperatures, surprise = np.array(temperatures), np.array(surprise)\nsome = [",
            ),
        ),
        right=True,
    ),
    Mutant(
        "right: the draw by a cumulated sum, other engine arguments",
        (
            Edit(
                WRITING,
                "            token = int(self.random.choice(nucleus, p=chances[nucleus] / "
                "chances[nucleus].sum()))",
                "            steps = np.cumsum(chances[nucleus])\n"
                "            found = np.searchsorted(steps, self.random.random() * steps[-1])\n"
                "            token = int(nucleus[found])",
            ),
            Edit(
                ENGINE,
                '"enforce_eager": true,',
                '"enforce_eager": true,\n  "enable_prefix_caching": false,',
            ),
            Edit("a6.measured", "for start in (0, 8):", "for start in (40, 900):"),
        ),
        right=True,
    ),
)
