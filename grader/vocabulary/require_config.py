"""Requirements on a model's config, as the server parsed it (`/v2/models/M/config`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .collect import fault
from .failure import Failure
from .probe import Probe

Config = Mapping[str, Any]
#: A tensor's data type ("FP32") and its dims; None for what may be anything.
Tensor = tuple[str | None, Sequence[int] | None]


def backend(server: Probe, model: str, *names: str) -> dict[str, Any]:
    """A model's config as the server parsed it; fails unless one of these backends serves it.

    Example::

        config = require.backend(server, model, "fil")

    Args:
        server: the check's probe.
        model: the model's name, as the student handed it over.
        names: the backends that it may be.

    Returns:
        The config: Triton's `ModelConfig` as JSON.

    Raises:
        Failure: the model is not ready, or another backend serves it.
    """
    config = server.config(model)
    if config.get("backend") not in names:
        named = " or ".join(f'"{name}"' for name in names)
        found = config.get("backend") or config.get("platform")  # an ensemble has no backend
        raise Failure(
            f"{model} is served by {f'the backend {found!r}' if found else 'no known backend'}.",
            help=f"This task is about a model with backend: {named}. Hand over that model's name, "
            "or correct its config.pbtxt and deploy the folder again.",
        )
    return config


def setting(config: Config, name: str, *, help: str = "") -> None:
    """Fail unless the config has a field, whatever it holds.

    Example::

        require.setting(config, "dynamic_batching", help="Add it to models/forest/config.pbtxt.")

    Args:
        config: the parsed config.
        name: the field's name.
        help: what to do.

    Raises:
        Failure: it is not there.
    """
    if name not in config:
        fault(f"The config of {_name(config)}, as the server parsed it, has no {name}.", help=help)


def tensors(
    config: Config,
    *,
    inputs: Mapping[str, Tensor] | None = None,
    outputs: Mapping[str, Tensor] | None = None,
    help: str = "",
) -> None:
    """Fail unless the config has these inputs and outputs; it may have others.

    Example::

        require.tensors(
            config,
            inputs={"input__0": ("FP32", [30])},
            outputs={"output__0": ("FP32", [2])},
            help="Correct models/forest/config.pbtxt, and deploy the folder again.",
        )

    Args:
        config: the parsed config.
        inputs: for each input its data type and its dims; None: any. The type is written as in
            the config, without `TYPE_` ("FP32", "INT64", "STRING"), the dims without the batch.
        outputs: the same for the outputs.
        help: what to look at.

    Raises:
        Failure: one is missing, or has another type or other dims. The message says which, and
            not what is right.
    """
    for side, wanted in (("input", inputs or {}), ("output", outputs or {})):
        there = {str(tensor.get("name")): tensor for tensor in config.get(side, ())}
        for name, (kind, dims) in wanted.items():
            if name not in there:
                others = f"only {', '.join(there)}" if there else f"and no other {side}"
                _about(config, f"It has no {side} {name!r}, {others}.", help)
                continue
            parsed = [int(dim) for dim in there[name].get("dims", ())]
            if dims is not None and parsed != list(dims):
                _about(config, f"{name} has dims {parsed}, and the task asks for others.", help)
            found = str(there[name].get("data_type", "")).removeprefix("TYPE_")
            if kind is not None and found != kind:
                _about(config, f"{name} is TYPE_{found}, and the task asks for another.", help)


def batch_size(config: Config, at_least: int, *, because: str, help: str = "") -> None:
    """Fail unless the server accepts batches of this size.

    Example::

        require.batch_size(config, 114, because="the 114 test rows are one request")

    Args:
        config: the parsed config.
        at_least: the smallest max_batch_size that is enough.
        because: why it is needed, as the end of a sentence.
        help: what to look at.

    Raises:
        Failure: max_batch_size is smaller.
    """
    most = int(config.get("max_batch_size", 0))
    if most < at_least:
        _about(config, f"max_batch_size is {most}, and {because}.", help)


def number_parameter(
    config: Config, key: str, *, above: float, below: float, help: str = ""
) -> float:
    """The number that a parameter's `string_value` holds; fails unless it is between two others.

    Example::

        limit = require.number_parameter(config, "threshold", above=0, below=1)

    Args:
        config: the parsed config.
        key: the parameter's key.
        above: the number must be greater than this one.
        below: the number must be less than this one.
        help: what to look at.

    Returns:
        The number.

    Raises:
        Failure: it is missing, no number, or another one.
    """
    found = text_parameter(config, key)
    if found is None:
        raise Failure(
            f"The config of {_name(config)}, as the server parsed it, has no parameter {key} with "
            "a string_value.",
            help=help,
        )
    try:
        number = float(found)
    except ValueError:
        number = above
    if not above < number < below:
        raise Failure(
            f"The {key} of {_name(config)}, as the server parsed it, is {found!r}.", help=help
        )
    return number


def versions(server: Probe, model: str, expected: Iterable[int], *, help: str = "") -> None:
    """Fail unless exactly these versions of a model answer.

    Example::

        require.versions(server, model, (1, 3), help="Look at version_policy.")

    Args:
        server: the check's probe.
        model: the model's name.
        expected: the versions.
        help: what to look at.

    Raises:
        Failure: others answer. The message lists those that do.
    """
    ready = server.versions(model)
    if ready != tuple(sorted(expected)):
        raise Failure(
            f"Of {model}, these versions answer: {', '.join(map(str, ready))}.", help=help
        )


def text_parameter(config: Config, key: str) -> str | None:
    """The `string_value` of a parameter in a parsed config; None if there is none."""
    entry = config.get("parameters", {}).get(key, {})
    return entry.get("string_value") if isinstance(entry, Mapping) else None


def _about(config: Config, what: str, help: str) -> None:
    fault(what, heading=f"As the server parsed the config of {_name(config)}:", help=help)


def _name(config: Config) -> str:
    return str(config.get("name", "the model"))
