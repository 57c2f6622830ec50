"""Mutations of what is in force for a topic: controller and leaders ask in one place, and are wrong together.

From inside all is well then. Whoever looks on has to know what was demanded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.mutations.cluster_hunt import ClusterHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.core.config import Durability
from quorate.core.config.topic import DURABILITY, MIN_INSYNC_REPLICAS
from quorate.core.ids import Offset
from quorate.metadata import topic_settings
from quorate.metadata.image import MetadataImage, TopicImage
from quorate.storage import log_trimmer, retention
from quorate.storage.log_config import NO_LIMIT, LogConfig
from quorate.storage.segment import Segment

__all__ = ["MUTATIONS"]


@mutation(14, 15, 29, hunt=ClusterHunt((Fault.KILL_ONE_BY_ONE,)))
def min_isr_is_read_as_one(patch: Patch) -> None:
    """By controller and leaders alike."""
    _read_as(patch, MIN_INSYNC_REPLICAS, "1")


@mutation(45, hunt=ClusterHunt((Fault.KILL_BROKER,), durability=Durability.FSYNC))
def durability_is_read_as_replicated(patch: Patch) -> None:
    """By controller and leaders alike: nobody syncs, and nobody says so."""
    _read_as(patch, DURABILITY, Durability.REPLICATED.value)


@mutation(48, hunt=ClusterHunt((Fault.DELETE_OLD_RECORDS, Fault.KILL_LEADER)))
def retention_by_size_leaves_nothing(patch: Patch) -> None:
    """Whatever is committed goes as soon as there is a bound."""
    original = retention.count_deletable

    def count_deletable(segments: Sequence[Segment], config: LogConfig, *, below: Offset, **more: Any) -> int:
        if config.retention_bytes == NO_LIMIT or not config.deletes:
            return original(segments, config, below=below, **more)
        return sum(1 for _ in takewhile(lambda each: each.size and each.next_offset <= below, segments))

    patch.setattr(log_trimmer, "count_deletable", count_deletable)


def _read_as(patch: Patch, key: str, value: str) -> None:
    original = topic_settings._value

    def read(image: MetadataImage, topic: TopicImage, asked: str) -> str:
        return value if asked == key else original(image, topic, asked)

    patch.setattr(topic_settings, "_value", read)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
