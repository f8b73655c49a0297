"""A model's config, as the server parsed and completed it, as settings of the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...common.errors import WorkbookError
from .settings import Direct, DynamicBatching, Model, Oldest, QueuePolicy


def from_config(config: Mapping[str, Any]) -> Model:
    """Read what the scheduler needs from a model's config.

    Args:
        config: the answer of `server.config(name)`: JSON, with the names of config.pbtxt.

    Raises:
        WorkbookError: the config belongs to an ensemble, which has no scheduler of this kind.

    Example:
        model = simulator.from_config(server.config("digits_onnx"))
    """
    if config.get("ensemble_scheduling"):
        raise WorkbookError(
            "An ensemble has no instances and forms no batches.",
            where=str(config.get("name", "")),
            todo="Simulate the models of its steps.",
        )
    return Model(
        name=str(config.get("name") or "model"),
        max_batch_size=int(config.get("max_batch_size", 0)),
        instances=sum(map(_instances, config.get("instance_group") or [{}])),
        batching=_batching(config),
    )


def _instances(group: Mapping[str, Any]) -> int:
    """The instances of a group: `count`, on each of its GPUs."""
    return int(group.get("count") or 1) * max(1, len(group.get("gpus") or ()))


def _batching(config: Mapping[str, Any]) -> DynamicBatching | Direct | Oldest | None:
    # The server's answer holds an empty object for `dynamic_batching { }`.
    if config.get("sequence_batching") is not None:
        return _sequences(config["sequence_batching"])
    if config.get("dynamic_batching") is None:
        return None
    own = config["dynamic_batching"]
    return DynamicBatching(
        preferred_batch_size=_sizes(own),
        max_queue_delay_us=int(own.get("max_queue_delay_microseconds", 0)),
        preserve_ordering=bool(own.get("preserve_ordering", False)),
        priority_levels=int(own.get("priority_levels", 0)),
        default_priority_level=int(own.get("default_priority_level", 0)),
        default_queue_policy=_policy(own.get("default_queue_policy") or {}),
        priority_queue_policy={
            int(level): _policy(policy)
            for level, policy in (own.get("priority_queue_policy") or {}).items()
        },
    )


def _sequences(own: Mapping[str, Any]) -> Direct | Oldest:
    idle = int(own.get("max_sequence_idle_microseconds") or 1_000_000)
    oldest = own.get("oldest")
    if oldest is not None:
        return Oldest(
            max_candidate_sequences=int(oldest.get("max_candidate_sequences") or 1),
            preferred_batch_size=_sizes(oldest),
            max_queue_delay_us=int(oldest.get("max_queue_delay_microseconds", 0)),
            max_sequence_idle_us=idle,
        )
    direct = own.get("direct") or {}
    return Direct(
        max_queue_delay_us=int(direct.get("max_queue_delay_microseconds", 0)),
        minimum_slot_utilization=float(direct.get("minimum_slot_utilization", 0.0)),
        max_sequence_idle_us=idle,
    )


def _sizes(own: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(size) for size in own.get("preferred_batch_size") or ())


def _policy(own: Mapping[str, Any]) -> QueuePolicy:
    return QueuePolicy(
        timeout_action="DELAY" if own.get("timeout_action") == "DELAY" else "REJECT",
        default_timeout_us=int(own.get("default_timeout_microseconds", 0)),
        allow_timeout_override=bool(own.get("allow_timeout_override", False)),
        max_queue_size=int(own.get("max_queue_size", 0)),
    )
