"""Topics that can spare none of their brokers, as ``min.insync.replicas`` asks for every replica.

Nothing is wrong with them as long as every broker is there, so no count tells of them. The first restart
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.v1 import admin_pb2

__all__ = ["headroom_warning", "own_min_isr_warning"]

_MIN_ISR: Final = "min.insync.replicas"
_TOPICS_NAMED_MAX: Final = 3


def headroom_warning(topics: Iterable[admin_pb2.TopicDescription]) -> str | None:
    names = [each.name for each in topics if _can_spare_nobody(each)]
    if not names:
        return None
    what = "1 topic takes" if len(names) == 1 else f"{len(names)} topics take"
    their = "its" if len(names) == 1 else "their"
    return (
        f"{what} no records as soon as one of {their} brokers is away, as for a restart: {_MIN_ISR} is as "
        f"high as the number of {their} replicas: {_named(names)}; lower it (`quorate cluster alter-config`, "
        f"`quorate topic alter`), or give {'it' if len(names) == 1 else 'them'} more replicas"
    )


def own_min_isr_warning(topic: admin_pb2.TopicDescription) -> str | None:
    """About a value that the topic itself was given."""
    asked = _min_isr(topic)
    fewest = min(_replica_counts(topic), default=0)
    if asked is None or asked.source != admin_pb2.CONFIG_SOURCE_TOPIC:
        return None
    if int(asked.value) > fewest:
        return (
            f"{_MIN_ISR} is {asked.value}, and partitions have {fewest} replica(s): {fewest} is in force, "
            "and with any of their brokers away nothing can be written"
        )
    if _can_spare_nobody(topic):
        return (
            f"{_MIN_ISR} is {asked.value}, as high as the number of replicas: with any of their brokers away "
            "nothing can be written"
        )
    return None


def _can_spare_nobody(topic: admin_pb2.TopicDescription) -> bool:
    """A partition of one replica is away with its broker whatever the setting: that is no news."""
    asked = _min_isr(topic)
    return asked is not None and any(1 < count <= int(asked.value) for count in _replica_counts(topic))


def _min_isr(topic: admin_pb2.TopicDescription) -> admin_pb2.ConfigEntry | None:
    return next((entry for entry in topic.configs if entry.name == _MIN_ISR), None)


def _replica_counts(topic: admin_pb2.TopicDescription) -> list[int]:
    """Of each partition. What a move adds does not count until it is there."""
    return [len(each.replicas) - len(each.adding_replicas) for each in topic.partitions]


def _named(names: Sequence[str]) -> str:
    beyond = len(names) - _TOPICS_NAMED_MAX
    return ", ".join(names[:_TOPICS_NAMED_MAX]) + (f" and {beyond} more" if beyond > 0 else "")
