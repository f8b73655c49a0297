"""Find the argument or output of a TorchScript model that a name in the config stands for.

The rules are those of triton-inference-server/pytorch_backend, `GetNamingConvention`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbook.backends.base import BadModel


def index_in(name: str) -> int | None:
    """The index of a name of the form `<name>__<index>`; None for any other name.

    As in the real backend, the first double underscore counts, and a missing number means 0.
    """
    _, separator, digits = name.partition("__")
    if not separator or not (digits == "" or digits.isdecimal()):
        return None
    return int(digits or 0)


def input_positions(
    names: Sequence[str], computed: Sequence[str], arguments: Sequence[str]
) -> dict[str, int]:
    """The position in forward() that each input of the config stands for.

    Args:
        names: the config's inputs, in order.
        computed: the target names of its `batch_input`, in order; they follow the same rules.
        arguments: the names of forward()'s arguments without `self`.

    Returns:
        The positions: by argument name if every input has the name of an argument, else by
        `__<index>` if every input has an index, else in the config's order.
    """
    if all(name in arguments for name in names):
        known = [name for name in computed if name in arguments]
        return {name: arguments.index(name) for name in (*names, *known)}
    return _by_index_or_order(names, computed)


def output_positions(names: Sequence[str]) -> dict[str, int]:
    """The position in forward()'s result that each output of the config stands for."""
    return _by_index_or_order(names)


def control_position(name: str) -> int:
    """The argument that a sequence control input stands for.

    Raises:
        BadModel: the name does not end in `__<index>`.
    """
    index = index_in(name)
    if index is None:
        raise BadModel(f"input '{name}' does not follow <name>__<index> naming convention.")
    return index


def state_position(model: str, name: str, tensors: Sequence[str]) -> int:
    """The position of the argument or output that a name of an implicit state stands for.

    Args:
        model: the model's name.
        name: the state's `input_name` or `output_name`.
        tensors: the names of the config's inputs or outputs.

    Raises:
        BadModel: one of the names does not end in `__<index>`.
    """
    if any(index_in(tensor) is None for tensor in tensors):
        raise BadModel(
            f"PyTorch model '{model}' is using sequence batching with state but not all inputs "
            "and outputs follow the <name>__<index> naming convention. "
        )
    index = index_in(name)
    if index is None:
        raise BadModel(
            f"PyTorch model '{model}' is using sequence batching with state but state '{name}' "
            "does not follow the <name>__<index> naming convention. "
        )
    return index


def check_positions(positions: Mapping[str, int], count: int) -> None:
    """Refuse inputs that leave an argument of forward() unset.

    Raises:
        BadModel: an index is out of range, or two inputs have the same one. The real backend
            does not check this, and crashes or misreads memory.
    """
    if sorted(positions.values()) != list(range(count)):
        given = ", ".join(f"'{name}' is argument {i}" for name, i in positions.items())
        raise BadModel(f"forward() takes arguments 0 to {count - 1}, but {given}")


def _by_index_or_order(names: Sequence[str], computed: Sequence[str] = ()) -> dict[str, int]:
    indices = {name: index_in(name) for name in (*names, *computed)}
    if None in indices.values():
        return {name: i for i, name in enumerate((*names, *computed))}
    return {name: i for name, i in indices.items() if i is not None}
