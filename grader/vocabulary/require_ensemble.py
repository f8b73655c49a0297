"""Requirements on ensembles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .compare import same
from .failure import Failure
from .probe import Array, Inputs, Probe
from .require_answers import close
from .tolerance import Tolerance


def ensemble_equals_parts(
    server: Probe,
    ensemble: str,
    requests: Sequence[Inputs],
    *,
    uses: Sequence[str] = (),
    tolerance: Tolerance,
    help: str = "",
) -> list[dict[str, Array]]:
    """Fail unless an ensemble answers what its parts answer, asked one after the other.

    The requests are sent to the ensemble all at once, so that they may share batches on their way.
    Then this function does the ensemble's work: for each request it asks the models of the steps,
    without naming a version, and passes the tensors on.

    Example::

        require.ensemble_equals_parts(
            server, "classify", [{"TEXT": text} for text in texts], uses=("tokens", "classifier"),
            tolerance=tolerance.rounding(),
        )

    Args:
        server: the check's probe.
        ensemble: the ensemble's name.
        requests: the inputs of each request.
        uses: models that must be among the steps.
        tolerance: how far the ensemble's numbers may be from those of the parts.
        help: what to look at where they differ.

    Returns:
        The ensemble's outputs, per request.

    Raises:
        Failure: it is no ensemble, a model is not among its steps, a part refuses a request, or the
            answers differ.
    """
    steps = server.config(ensemble).get("ensemble_scheduling", {}).get("step", [])
    if not steps:
        raise Failure(
            f"The config of {ensemble}, as the server parsed it, has no ensemble_scheduling.",
            help='An ensemble has platform: "ensemble", and its steps in ensemble_scheduling.',
        )
    names = [str(step["model_name"]) for step in steps]
    if absent := [model for model in uses if model not in names]:
        raise Failure(
            f"The steps of {ensemble} are {', '.join(names)}; {absent[0]} is not among them.",
            help="Each step of ensemble_scheduling names a model, and what goes in and comes out.",
        )
    answers = server.together(ensemble, requests)
    where = f"They are compared with what {' and '.join(names)} answer one after the other."
    for number, (inputs, answer) in enumerate(zip(requests, answers, strict=True), 1):
        tensors = _by_hand(server, ensemble, steps, inputs)
        for name, value in answer.items():
            what = f"the values of {name} in answer {number} of {len(answers)} of {ensemble}"
            if value.dtype.kind in "fiub":
                close(value, tensors[name], what=what, tolerance=tolerance, help=f"{where} {help}")
            elif not same(value, tensors[name], None):
                raise Failure(f"T{what[1:]} differ.", help=f"{where} {help}".strip())
    return answers


def _by_hand(
    server: Probe, ensemble: str, steps: Sequence[Mapping[str, Any]], inputs: Inputs
) -> dict[str, Any]:
    """All tensors of an ensemble by name, where its steps are asked one after the other."""
    tensors: dict[str, Any] = dict(inputs)
    waiting = list(steps)
    while waiting:
        step = next((s for s in waiting if {*s["input_map"].values()} <= tensors.keys()), None)
        if step is None:
            raise Failure(
                f"The steps of {ensemble} wait for tensors that no step gives.",
                help="Each value in an input_map is an input of the ensemble, or a value in the "
                "output_map of another step.",
            )
        waiting.remove(step)
        answer = server.infer(
            step["model_name"],
            {key: tensors[name] for key, name in step["input_map"].items()},
            outputs=list(step["output_map"]),
        )
        tensors |= {name: answer[key] for key, name in step["output_map"].items()}
    return tensors
