"""Compare every way of the course to serve one language model, in one run."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from workbook import zoo
from workbook.common import paths
from workbook.common.errors import WorkbookError
from workbook.measure import generation
from workbook.server import Triton

from .settings import Settings
from .tables import Goal, Section

#: The zoo's Llama of 40 million random weights, in float32.
WEIGHTS = "llama_large"
CLIENTS = 8
#: Tokens of each answer where all answers have the same length. The Llama page, a source document
#: (`lectures/00__start` lists them), measured such batches.
EQUAL = 32
PROMPTS = ('The "with" statement is used', "A class definition", "def f(x):", "An empty list")
#: The lengths of 48 answers: enough that the end, when fewer than eight are left, weighs little.
MIXED = generation.mixed_lengths(48)
#: Where the timeline goes; BENCHMARKS.md shows it.
PICTURE = Path("lectures/images/llm_timeline.svg")
#: The source document whose measurements the table repeats.
LLAMA_PAGE = "[the Llama page](lectures/00__start/00__start.ipynb#The-documents-behind-the-course)"


class Way(NamedTuple):
    """A way of serving.

    Attributes:
        title: its name in the table.
        model: the folder of the repository that it is made from.
        config: replaces the instances and the batching of the model's config; "" keeps them.
        clients: how many clients ask at the same time; only several clients get mixed lengths.
        streams: whether tokens come one by one.
        published: what the Llama page measured, with Llama 2 7B on an A10G.
        static: whether the clients wait for each other, so that even vLLM has static batches.
    """

    title: str
    model: str
    config: str
    clients: int
    streams: bool
    published: str
    static: bool = False


_ONE = "max_batch_size: 1\ninstance_group { count: 1 }\n"
_TWO = "max_batch_size: 1\ninstance_group { count: 2 }\n"
_THREAD = 'parameters { key: "threads" value: { string_value: "1" } }\n'
WAYS = {
    "one": Way("Hugging Face, one on one core", "llama_hf", _ONE + _THREAD, CLIENTS, False, "10.6"),
    "two": Way(
        "Hugging Face, two on a core each", "llama_hf", _TWO + _THREAD, CLIENTS, False, "15.5"
    ),
    "both": Way("Hugging Face, one on two cores", "llama_hf", _ONE, CLIENTS, False, ""),
    "static": Way("Hugging Face, dynamic batching", "llama_hf", "", CLIENTS, False, "66.5"),
    "loop": Way("token loop in BLS", "chat_bls", "", CLIENTS, False, ""),
    "vllm1": Way("vLLM, one client", "llama_vllm", "", 1, True, "50"),
    "vllm_static": Way("vLLM, static batches", "llama_vllm", "", CLIENTS, False, "", static=True),
    "vllm8": Way("vLLM", "llama_vllm", "", CLIENTS, True, "363"),
}


class Measurements(NamedTuple):
    """The measurements of one way: answers of one length, of mixed lengths, and streamed."""

    equal: pd.DataFrame
    mixed: pd.DataFrame | None
    gaps: pd.DataFrame | None

    @property
    def tables(self) -> list[pd.DataFrame]:
        """The tables of answers of one length and, where they were measured, of mixed lengths."""
        return [self.equal] if self.mixed is None else [self.equal, self.mixed]


def measure(settings: Settings) -> Section:
    """Measure tokens per second, time to the first token and time between tokens, of every way.

    Raises:
        WorkbookError: two ways do not give the same tokens, or vLLM is missing.
    """
    if importlib.util.find_spec("vllm") is None:
        raise WorkbookError("vLLM is not installed.", todo="Run `make vllm`, then this again.")
    found: dict[str, Measurements] = {}
    for _, group in itertools.groupby(WAYS.items(), lambda item: (item[1].model, item[1].config)):
        ways = dict(group)
        with _served(next(iter(ways.values()))) as server:
            for key, way in ways.items():
                settings.say(f"llm: {way.title}")
                found[key] = _measure_way(server, way)
    for key, some in found.items():
        # A way that was measured with fewer tables is compared in these.
        for table, alone in zip(some.tables, found["one"].tables, strict=False):
            if _texts(table) != _texts(alone):
                raise WorkbookError(f"{WAYS[key].title}: not the answers of Hugging Face alone.")
    mixed = {key: some.mixed for key, some in found.items() if some.mixed is not None}
    generation.plot_answers(
        {
            "Hugging Face, static": mixed["static"],
            "vLLM, static": mixed["vllm_static"],
            "vLLM, continuous": mixed["vllm8"],
        },
        title=f"{CLIENTS} clients, answers of {min(MIXED)} to {max(MIXED)} tokens",
    ).savefig(paths.root() / PICTURE)
    rates = {key: generation.tokens_per_second(table) for key, table in mixed.items()}
    return Section(
        "llm",
        "Language models",
        f"One Llama of 40 million random weights in float32, {CLIENTS} clients, the likeliest "
        f"tokens, which all ways agree on; one round, a server for each way. Useful tokens a "
        f"second: {CLIENTS} answers of {EQUAL} tokens, and {len(MIXED)} of {min(MIXED)} to "
        f"{max(MIXED)}. Beside them {LLAMA_PAGE}: Llama 2 7B on one A10G (instances with 8 "
        f"bit weights). {_reason(found)} Of the factor between dynamic batching and vLLM, "
        f"×{rates['vllm_static'] / rates['static']:.2f} is the engine (vLLM in static batches: all "
        f"{CLIENTS} clients wait for the last answer before they ask again), and "
        f"×{rates['vllm8'] / rates['vllm_static']:.2f} is continuous batching. In the timeline a "
        "bar is an answer; where it is pale, its row was computed and thrown away; in a gap the "
        "client waits for the others.",
        (
            "way",
            "equal, tokens/s",
            "mixed, tokens/s",
            "first token, ms",
            "between tokens, ms",
            "the Llama page, tokens/s",
        ),
        [_row(WAYS[key], f) for key, f in found.items()],
        [
            Goal("mixed: vLLM against dynamic batching", rates["vllm8"] / rates["static"], 1.5),
            Goal(
                "mixed: vLLM against vLLM in static batches",
                rates["vllm8"] / rates["vllm_static"],
                1.2,
            ),
            Goal("mixed: vLLM against one at a time", rates["vllm8"] / rates["both"], 4.0),
            Goal("mixed: two instances against one, a core each", rates["two"] / rates["one"], 1.3),
        ],
        str(PICTURE),
    )


def _reason(measured: dict[str, Measurements]) -> str:
    """Explain the figures: what a step costs, and how many of its rows make a useful token."""

    def step(key: str, rows: int) -> str:
        return f"{1000 * rows / generation.tokens_per_second(measured[key].equal):.1f} ms"

    static, continuous = generation.rows_at_work(MIXED, CLIENTS)
    return (
        f"A step of Hugging Face takes {step('both', 1)} for one row and "
        f"{step('static', CLIENTS)} for {CLIENTS}, one of vLLM {step('vllm1', 1)} and "
        f"{step('vllm8', CLIENTS)}, all that serves it included; of the {CLIENTS} rows, the mixed "
        f"lengths keep {static:.1f} at useful work in static batches and {continuous:.1f} in "
        "continuous ones: that bounds what batching can win."
    )


def _measure_way(server: Triton, way: Way) -> Measurements:
    clients = way.clients

    def load(lengths: list[int], stream: bool = False) -> pd.DataFrame:
        return generation.load(
            server,
            way.model,
            PROMPTS,
            lengths,
            clients=clients,
            stream=stream,
            static=way.static,
        )

    load([4] * CLIENTS)  # warm
    equal = load([EQUAL] * CLIENTS)
    mixed = load(MIXED) if clients > 1 else None
    return Measurements(equal, mixed, load([EQUAL] * CLIENTS, True) if way.streams else None)


def _texts(table: pd.DataFrame) -> list[str]:
    """The answers, without the first bytes of a character that was cut off."""
    return [text.rstrip("\ufffd") for text in table["text"]]


def _row(way: Way, measured: Measurements) -> tuple[str, ...]:
    rates = [f"{generation.tokens_per_second(table):.0f}" for table in measured.tables]
    rates += ["–"] * (2 - len(rates))
    table = measured.equal if measured.gaps is None else measured.gaps
    first = statistics.median(table["first"] - table["sent"]) * 1000
    gap = "–"
    if measured.gaps is not None:
        spans = (table["end"] - table["first"]) / (table["tokens"] - 1)
        gap = f"{statistics.median(spans) * 1000:.1f}"
    return (way.title, *rates, f"{first:.0f}", gap, way.published)


@contextlib.contextmanager
def _served(way: Way) -> Iterator[Triton]:
    """Start a server with the models of one way, with the large weights."""
    source = paths.root() / "model_repository"
    needed = [way.model, *(["llama_onnx"] if way.model == "chat_bls" else [])]
    with tempfile.TemporaryDirectory() as home:
        for name in needed:
            folder = Path(home) / name
            shutil.copytree(source / name, folder, ignore=shutil.ignore_patterns("checkpoint"))
            for file, artefact in zoo.repository.LLAMAS[name].items():
                recipe, _, inner = artefact.replace("llama", WEIGHTS, 1).partition("/")
                _link(zoo.checkpoint(recipe) / inner, folder / file)
            if way.config:
                config = (folder / "config.pbtxt").read_text(encoding="utf-8")
                kept = [
                    line
                    for line in config.splitlines()
                    if not line.startswith(("max_batch_size", "instance_group", "dynamic_batching"))
                ]
                text = "\n".join([*kept, way.config])
                (folder / "config.pbtxt").write_text(text, encoding="utf-8")
        with Triton(home) as server:
            for name in reversed(needed):
                server.load(name)
            yield server


def _link(source: Path, target: Path) -> None:
    """Copy a file or folder to its place. Its parent is made first: git keeps no empty folders."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)
