"""Requirements on sequences: requests that belong together, with a state that the model keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .compare import same
from .failure import Failure
from .probe import Inputs, Probe
from .require_config import setting
from .tolerance import Tolerance


def sequence(
    server: Probe,
    model: str,
    sequences: Sequence[Sequence[Inputs]],
    output: str,
    expected: Sequence[Sequence[Any]],
    *,
    tolerance: Tolerance | None = None,
    help: str = "",
    timeout: float = 10.0,
) -> None:
    """Fail unless each sequence gets its own answers: alone, begun again, and beside others.

    The first sequence is sent alone, twice with the same id: its second start must forget the first
    one. Then all of them are sent at once, one step of each in turn.

    Example::

        numbers = [np.float32([[1]]), np.float32([[2]]), np.float32([[3]])]
        require.sequence(
            server, "total", [[{"x": n} for n in numbers], [{"x": 10 * n} for n in numbers]],
            "sum", [[1, 3, 6], [10, 30, 60]],
        )

    Args:
        server: the check's probe; its `rng` draws the ids.
        model: the model's name.
        sequences: at least two, each with the inputs of its requests, in order. No more than the
            model can have active at a time.
        output: the output that is compared.
        expected: for each request what that output holds.
        tolerance: how far numbers may be from the expected ones; by default not at all.
        help: what to look at, where a sequence is wrong already alone.
        timeout: seconds to wait for each answer.

    Raises:
        Failure: the config has no sequence_batching, or an answer is wrong. The message tells in
            which of the three cases, and at which step.
    """
    setting(
        server.config(model),
        "sequence_batching",
        help="Without it requests do not belong together.",
    )
    first, *others = (int(id) for id in server.rng.permutation(2**20)[: len(sequences) + 1] + 1)

    def wrong(ids: Sequence[int], which: Sequence[int]) -> tuple[int, int] | None:
        """The first sequence and step with a wrong answer, where the sequences run at once."""
        for step in range(max(len(sequences[number]) for number in which)):
            for id, number in zip(ids, which, strict=True):
                steps = sequences[number]
                if step >= len(steps):
                    continue
                place = (id, step == 0, step == len(steps) - 1)
                answer = server.infer(
                    model, steps[step], outputs=[output], sequence=place, timeout=timeout
                )
                if not same(answer[output], expected[number][step], tolerance):
                    return number, step
        return None

    def named(found: tuple[int, int]) -> str:
        number, step = found
        return f"request {step + 1} of {len(sequences[number])}"

    if found := wrong([first], [0]):
        raise Failure(f"A sequence alone: the answer to {named(found)} is wrong.", help=help)
    if found := wrong([first], [0]):
        raise Failure(
            f"The same sequence once more, with the same id: the answer to {named(found)} is "
            "wrong, and was right the first time.",
            help="A request that starts a sequence must find a new state.",
        )
    if found := wrong(others, range(len(sequences))):
        raise Failure(
            f"{len(sequences)} sequences at once: the answer to {named(found)} of sequence "
            f"{found[0] + 1} is wrong. A sequence that is sent alone gets right answers.",
            help="Each sequence needs a state of its own. Which input says whose request it is?",
        )
