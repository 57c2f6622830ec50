"""Changes of the metadata in numbers: of the ISR, counted by who leads; of leaders, by every controller.

Nobody tells of them one by one, so a few times a second the image is compared with the one
before, which costs next to nothing while it is the same. What changes and changes back within that time is
not seen; epochs only grow, so no election is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quorate.core.ids import BrokerId
from quorate.core.metrics import Metric, MetricKind, Reading, Sample
from quorate.metadata.changes import changes_between
from quorate.metadata.image import MetadataImage, PartitionImage

__all__ = ["METRICS", "ChangeMeter", "Counts"]

ISR_SHRINKS: Final = Metric(
    "quorate_change_isr_shrinks_total",
    MetricKind.COUNTER,
    "How often a replica left the ISR of a partition that this broker leads.",
)
ISR_EXPANDS: Final = Metric(
    "quorate_change_isr_expands_total",
    MetricKind.COUNTER,
    "How often a replica joined the ISR of a partition that this broker leads.",
)
LEADER_EPOCHS: Final = Metric(
    "quorate_change_leader_epochs_total",
    MetricKind.COUNTER,
    "How often the leader epoch of a partition went on, by an election or because there is nobody to elect. "
    "Each controller hears of all of them: take the maximum.",
)
UNCLEAN_ELECTIONS: Final = Metric(
    "quorate_change_unclean_elections_total",
    MetricKind.COUNTER,
    "Elections that may have lost acknowledged records. Each controller hears of all: take the maximum.",
)

METRICS: Final = (ISR_SHRINKS, ISR_EXPANDS, LEADER_EPOCHS, UNCLEAN_ELECTIONS)


@dataclass(slots=True)
class Counts:
    isr_shrinks: int = 0
    isr_expands: int = 0
    leader_epochs: int = 0
    unclean_elections: int = 0

    def add(self, before: MetadataImage, after: MetadataImage, *, led_by: BrokerId) -> None:
        for now in changes_between(before, after).partitions:
            was = before.partition(now.topic_id, now.partition)
            if was is not None:
                self._add_partition(was, now, led_by)

    def _add_partition(self, was: PartitionImage, now: PartitionImage, led_by: BrokerId) -> None:
        if now.leader == led_by:
            self.isr_shrinks += len(set(was.isr) - set(now.isr))
            self.isr_expands += len(set(now.isr) - set(was.isr))
        self.leader_epochs += now.leader_epoch - was.leader_epoch
        self.unclean_elections += len(set(now.unclean_leader_epochs) - set(was.unclean_leader_epochs))


class ChangeMeter:
    """``broker_image``, ``controller_image``: the newest; None: it is not known, or there is no such role."""

    def __init__(
        self,
        node_id: BrokerId,
        *,
        broker_image: Callable[[], MetadataImage | None],
        controller_image: Callable[[], MetadataImage | None],
    ) -> None:
        self._node_id = node_id
        self._images = {"broker": broker_image, "controller": controller_image}
        self._before: dict[str, MetadataImage] = {}
        self._counts = {role: Counts() for role in self._images}

    def tick(self) -> None:
        """A few times a second."""
        for role, newest in self._images.items():
            image, before = newest(), self._before.get(role)
            if image is None:
                continue
            self._before[role] = image
            # What is there at the beginning has not changed.
            if before is not None and before.topics is not image.topics:
                self._counts[role].add(before, image, led_by=self._node_id)

    async def look(self) -> None:
        # Up to now, and not up to the last tick.
        self.tick()

    def read(self) -> Iterator[Reading]:
        if "broker" in self._before:
            counts = self._counts["broker"]
            yield Reading(ISR_SHRINKS, [Sample((), counts.isr_shrinks)])
            yield Reading(ISR_EXPANDS, [Sample((), counts.isr_expands)])
        if "controller" in self._before:
            counts = self._counts["controller"]
            yield Reading(LEADER_EPOCHS, [Sample((), counts.leader_epochs)])
            yield Reading(UNCLEAN_ELECTIONS, [Sample((), counts.unclean_elections)])
