"""What the checks of a6__llm require of vLLM: its two files, the checkpoint, and the rates.

The judge starts no engine: it takes 17 seconds of processor time to load, nearly as much as all
the rest of a submission. It reads the deployed files, compares the checkpoint with the student's
network, and looks at what the notebook reported. The notebook itself runs again in the grader's
sandbox, with an engine.

Students get this file: it holds no expected answer.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
from google.protobuf import text_format  # type: ignore[import-untyped]
from tritonclient.grpc import model_config_pb2

from grader.vocabulary import admission, own, untrusted, values
from grader.vocabulary.failure import Failure, NotAttempted
from grader.vocabulary.probe import Array, Probe
from workbook.common import bounded_json
from workbook.zoo import small_llama

from . import facts, network

#: What model.json may hold, beside `model`. The engine itself says what is wrong with a value.
ARGUMENTS = (
    *("dtype", "enforce_eager", "max_num_seqs", "max_num_batched_tokens", "max_model_len"),
    *("gpu_memory_utilization", "kv_cache_memory_bytes", "enable_prefix_caching", "block_size"),
    *("enable_chunked_prefill", "disable_log_stats", "seed", "tensor_parallel_size"),
)
#: How many answers are handed over, and their max_tokens.
PROMPTS, TOKENS = 8, 24
#: The models of `rates`: eight clients of each, and a single one of vLLM.
RATES = ("chat", "chat_stream", "chat_vllm", "chat_vllm, one client")
ROUNDS = 3
#: In the best round, eight clients must get more than this many times the tokens per second of one
#: client. Usual are 3 to 5 times. On a busy machine, such as one that grades a class, 1.2 was seen.
GAIN = 1.1
#: No machine makes this many tokens per second with these models. The longest answer has 96 of the
#: 376 tokens, and a step takes at least 0.2 ms: that would be 20,000 tokens per second.
_TOO_MANY = 50_000.0


def require_installed(vllm: Any) -> None:
    """Raise `NotAttempted` where there is no vLLM, and say how to get it.

    Raises:
        NotAttempted: vLLM is not installed on this machine.
        Failure: what was handed over is another model.
    """
    if sentence := facts.lacking_vllm():
        raise NotAttempted(sentence)
    if isinstance(vllm, str) and vllm == facts.NOT_ATTEMPTED:
        raise NotAttempted("vLLM is installed here; the task's cells are as they were.")
    if not isinstance(vllm, str) or vllm != facts.VLLM:
        raise Failure(
            f"`vllm` is not the name of a model in models/: {facts.VLLM} is the one meant.",
            help=f'vllm = deploy("models/{facts.VLLM}").name',
        )


def require_config(server: Probe) -> None:
    """Fail unless config.pbtxt of the deployed folder leaves the batches to vLLM."""
    refused = admission.refusal(server.server.repository, facts.VLLM, ("vllm",))
    if refused is not None:
        raise refused
    config = model_config_pb2.ModelConfig()
    file = server.server.repository / facts.VLLM / "config.pbtxt"
    text_format.Parse(file.read_text("utf-8"), config)
    kinds = {group.kind for group in config.instance_group}
    if kinds != {model_config_pb2.ModelInstanceGroup.KIND_MODEL}:
        raise Failure(
            "The instance_group of chat_vllm is not KIND_MODEL.",
            help="The engine chooses its devices itself: the same folder is served on a laptop and "
            "on a GPU.",
            credit=0.5,
        )
    if config.max_batch_size or config.HasField("dynamic_batching"):
        raise Failure(
            "The config of chat_vllm has max_batch_size or dynamic_batching.",
            help="vLLM makes the batches itself, anew for each token. Leave both out.",
            credit=0.5,
        )


def require_arguments(server: Probe) -> None:
    """Fail unless 1/model.json names the checkpoint, and what the task asks for."""
    try:
        found = bounded_json.loads(_read(server, "1/model.json", 1 << 16))
    except ValueError as error:
        raise Failure(
            f"1/model.json of chat_vllm is not JSON: {error}",
            help="Names and texts have double quotes; true and false have small letters; there is "
            "no comma after the last line, and no comment.",
        ) from None
    if not isinstance(found, dict):
        raise Failure(
            "1/model.json of chat_vllm holds no JSON object.",
            help='It begins with { and ends with }, with "name": value between them.',
        )
    if found.pop("model", None) != f"{facts.VLLM}/1/checkpoint":
        raise Failure(
            "`model` in 1/model.json is not the checkpoint beside it.",
            help=f"A path from the model repository: {facts.VLLM}/1/checkpoint.",
        )
    if unknown := found.keys() - {*ARGUMENTS}:
        raise Failure(
            f"1/model.json has the argument {min(unknown)[:60]!r}, which this task does not use.",
            help=f"It may have {', '.join(ARGUMENTS)}.",
        )
    for name, right, why in (
        ("dtype", ("float32", "float"), "The other two models compute in float32: take it here."),
        ("max_num_seqs", (facts.ROWS,), f"{facts.ROWS} answers at once, as in chat's batches."),
    ):
        if found.get(name) not in right:
            given = f"is {str(found[name])[:20]!r}" if name in found else "is missing"
            raise Failure(f"{name} in 1/model.json {given}.", help=why, credit=0.5)


def require_checkpoint(server: Probe, me: str) -> None:
    """Fail unless the deployed checkpoint is the student's network, as the notebook wrote it."""
    from safetensors.numpy import load  # here, before the fork

    fresh = "fetch_network(me) writes it. Run that cell again, and deploy models/chat_vllm."
    files = [
        _read(server, f"1/checkpoint/{name}", most)
        for name, most in (
            ("config.json", 1 << 16),
            ("model.safetensors", 16 << 20),
            ("tokenizer.json", 4 << 20),
        )
    ]
    given, words, right = small_llama.settings(), small_llama.read().tokenizer, network.weights(me)

    def compared() -> dict[str, bool]:
        weights = load(files[1])
        same = weights.keys() == right.keys() and all(
            np.array_equal(weights[name], right[name]) for name in right
        )
        return {"same": same and bounded_json.loads(files[0]) == given}

    is_same = untrusted.read("The checkpoint of chat_vllm", compared, help=fresh)["same"]
    if not is_same or files[2] != words.encode():
        raise Failure("The checkpoint of chat_vllm is not your network.", help=fresh)


def _read(server: Probe, name: str, most: int) -> bytes:
    """A file of the deployed folder; fails where it is missing, or larger than it can be."""
    path = server.server.repository / facts.VLLM / name
    if not path.is_file() or path.is_symlink():
        raise Failure(
            f"chat_vllm has no file {name}.", help="Write it, and deploy models/chat_vllm again."
        )
    if path.stat().st_size > most:
        raise Failure(f"{name} of chat_vllm is larger than it can be.")
    return path.read_bytes()


def require_texts(me: str, answers: Any) -> None:
    """Fail unless texts at temperature 0 are those of the network's likeliest tokens."""
    if isinstance(answers, str) and answers == facts.NOT_ATTEMPTED:
        raise NotAttempted("`of_vllm` has no value yet: it is as the task gave it.")
    found = values.texts("of_vllm", answers, help="One text per prompt.")
    if len(found) != PROMPTS:
        raise Failure(f"`of_vllm` holds {len(found)} texts; {PROMPTS} are wanted.")
    prompts = facts.own_prompts(me)[:PROMPTS]
    with_prompt = sum(text.startswith(prompt) for text, prompt in zip(found, prompts, strict=True))
    if with_prompt == PROMPTS:
        raise Failure(
            "Each text in `of_vllm` begins with its prompt.",
            help="Without a stream vLLM's answer repeats the prompt, unless "
            "exclude_input_in_output is true.",
        )
    right = greedy_texts(own.name(me))
    wrong = sum(text != other for text, other in zip(found, right, strict=True))
    if wrong:
        raise Failure(
            f"{wrong} of {PROMPTS} texts in `of_vllm` are not those of the likeliest tokens.",
            help=f"Temperature 0, max_tokens {TOKENS}, the first {PROMPTS} prompts in their order.",
        )


@functools.lru_cache(maxsize=8)
def greedy_texts(me: str) -> list[str]:
    """What the network answers to a student's first prompts at temperature 0."""
    found = []
    for prompt in facts.own_prompts(me)[:PROMPTS]:
        tokens = facts.tokenizer().encode(prompt).ids
        made: list[int] = []
        while len(made) < TOKENS:
            token = int(network.logits(me, [*tokens, *made])[-1].argmax())
            if token == small_llama.EOS:
                break
            made.append(token)
        found.append(facts.tokenizer().decode(made))
    return found


def require_rates(rates: Any) -> None:
    """Fail unless the rates that a student measured can be those of the models, in one run."""
    names = ", ".join(map(json.dumps, RATES))  # in quotes: one of them holds a comma
    form = f"A dict with a list of {ROUNDS} numbers or more for each of {names}, and no other."
    if not isinstance(rates, dict):
        raise Failure(f"`rates` is a {type(rates).__name__}; a dict is wanted.", help=form)
    if missing := [json.dumps(name) for name in RATES if name not in rates]:
        raise Failure(f"`rates` has no {', '.join(missing)}.", help=form)
    if more := [name for name in rates if name not in RATES]:
        raise Failure(f"`rates` has an entry that is not asked for: {more[0]!r}.", help=form)
    tables: dict[str, Array] = {
        name: values.array(f'rates["{name}"]', rates[name], help=form).ravel() for name in RATES
    }
    rounds = {len(table) for table in tables.values()}
    if len(rounds) != 1 or min(rounds) < ROUNDS:
        sizes = ", ".join(f"{len(table)} for {name}" for name, table in tables.items())
        raise Failure(
            f"`rates` has {sizes}. Each needs the same number of rounds, {ROUNDS} or more.",
            help=form,
        )
    table = np.array([*tables.values()])
    if table.min() <= 0 or table.max() > _TOO_MANY:
        raise Failure("`rates` holds numbers that are no tokens per second.", help=form)
    if (table == table[:, :1]).all(axis=1).any():
        raise Failure(
            "`rates` has the same number in each round.",
            help="Two measurements are never equal in all digits. Measure anew in each round.",
        )
    gain = float(np.max(tables["chat_vllm"] / tables["chat_vllm, one client"]))
    if gain < GAIN:
        raise Failure(
            f"By `rates` eight clients of chat_vllm get ×{gain:.2f} the tokens per second of one, "
            f"in the best round; with continuous batching it is more than ×{GAIN:g}.",
            help="tokens_per_second(chat_vllm, prompts) has eight clients. The first answers after "
            "a load are slower: measure once before you begin.",
        )
    if (tables["chat_stream"] > tables["chat"]).all():
        raise Failure(
            "By `rates` chat_stream makes more tokens per second than chat in each round.",
            help="Eight clients of chat share each step, those of chat_stream do not. Are the two "
            "exchanged? And were both asked once before the first round?",
        )
