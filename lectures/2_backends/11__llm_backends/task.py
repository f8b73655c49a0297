"""The task of 11__llm_backends: a folder for vLLM that the server refuses."""

from __future__ import annotations

from pathlib import Path

import measured
import setup
from workbook.lessons.tasks import NotYet, define
from workbook.lessons.workspace import laboratory
from workbook.server import Server

_PROMPT, _ANSWER = 100, 16


def assistant(models: Path) -> None:
    """Write the folder of `assistant`, with its mistakes, if there is none.

    An existing folder stays as it is, because it may hold the reader's work.
    """
    if not (models / "assistant").exists():
        setup.write_model(models, "assistant")


def start(folder: Path) -> Server:
    """Write the folder and the weights, and start a server that serves nothing yet."""
    setup.write_model(folder)
    assistant(folder)
    return laboratory(folder, only=[])


@define(
    "llm.assistant",
    hints=(
        'Load it, and read what the server says: `lab.load("assistant")`. Both files have '
        "mistakes, and it tells one at a time.",
        "The engine makes the batches, so the config has none. model.json has an argument that "
        "vLLM does not know, and a context that is too short for the prompt and its answer.",
        "Counts need two things: the parameter REPORT_CUSTOM_METRICS in config.pbtxt, as "
        "`vllm_model` has it, and an engine that counts: look at disable_log_stats.",
    ),
)
def answers(server: Server) -> None:
    """Correct the two files of `assistant`, and load it. It answers a prompt of 100 tokens with 16
    tokens, and the metrics port counts these tokens."""
    if not server.ready("assistant"):
        raise NotYet("assistant is not loaded.")
    before = measured.count(server, "assistant", "generation_tokens_total")
    prompt = setup.long_prompt(_PROMPT)
    given = {"max_tokens": _ANSWER, "temperature": 0, "ignore_eos": True}
    answer = setup.generate(server, "assistant", prompt, **given)
    if "error" in answer:
        raise NotYet(f"The server answers: {answer['error']}")
    if answer["out"] != _ANSWER:
        raise NotYet(f"It answers with {answer['out']} tokens.")
    wanted = before + _ANSWER
    if measured.count(server, "assistant", "generation_tokens_total", least=wanted) < wanted:
        raise NotYet("It answers, and the metrics port does not count its tokens.")
