"""A partition of three brokers that exists on paper only: what an observer is told of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from quorate.chaos.checks.violation import Violation
from quorate.chaos.invariants.copies import Batch, Copy
from quorate.chaos.invariants.demands import Demands, PartitionDemands
from quorate.chaos.invariants.partition_watch import Leading, PartitionWatch, Sighting
from quorate.core.ids import BrokerId, LeaderEpoch, Offset, PartitionId, TopicId
from quorate.metadata.image import PartitionImage

MIN_ISR = 2
BATCH_BYTES = 100
ALL = (1, 2, 3)
NOBODY = -1


@contextmanager
def broken(check: str) -> Iterator[None]:
    with pytest.raises(Violation) as caught:
        yield
    assert caught.value.check == check, str(caught.value)


def partition_image(
    *,
    isr: Collection[int] = ALL,
    elr: Collection[int] = (),
    leader: int = 1,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    unclean: Collection[int] = (),
    is_synced: bool = False,
) -> PartitionImage:
    return PartitionImage(
        topic_id=TopicId("id"),
        partition=PartitionId(0),
        replicas=tuple(map(BrokerId, ALL)),
        isr=tuple(map(BrokerId, isr)),
        elr=tuple(map(BrokerId, elr)),
        last_known_elr=(),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=partition_epoch,
        unclean_leader_epochs=tuple(map(LeaderEpoch, unclean)),
        is_synced=is_synced,
    )


class GhostWorld:
    """Broker 1 leads in epoch 0, and all are in sync. Every batch holds one record."""

    def __init__(self, *, is_synced: bool = False, commits: int = 0, demands: Demands | None = None) -> None:
        self.examined: Counter[str] = Counter()
        demanded = PartitionDemands(demands or Demands(), "t")
        self.watch = PartitionWatch("t-0", self.examined, demands=demanded)
        self.image = partition_image(is_synced=is_synced)
        for broker_id in ALL:
            self.watch.copies[BrokerId(broker_id)] = Copy()
        self.commit_metadata()
        self.lead(1, epoch=0)
        self.follow(2)
        self.follow(3)
        if commits:
            self.commit(commits)

    def copy(self, broker_id: int) -> Copy:
        return self.watch.copies[BrokerId(broker_id)]

    def commit_metadata(self, **changes: object) -> None:
        """``changes``: as ``partition_image`` takes them."""
        arguments = {
            "isr": self.image.isr,
            "elr": self.image.elr,
            "leader": self.image.leader,
            "leader_epoch": self.image.leader_epoch,
            "unclean": self.image.unclean_leader_epochs,
            "is_synced": self.image.is_synced,
            **changes,
        }
        image = partition_image(**arguments)  # type: ignore[arg-type]  # by the caller's names
        self.image = replace(image, partition_epoch=self.image.partition_epoch + 1)
        self.watch.image_changed(self.image)

    # -- logs

    def append(self, broker_id: int, count: int = 1, *, epoch: int = 0, is_synced: bool = True) -> None:
        copy = self.copy(broker_id)
        for _ in range(count):
            base = copy.log_end_offset
            crc = 1000 * epoch + base
            batch = Batch(base, Offset(base + 1), LeaderEpoch(epoch), crc, size_in_bytes=BATCH_BYTES)
            copy.add([batch])
        if is_synced:
            copy.durable_end = copy.log_end_offset

    def cut(self, broker_id: int, end: int) -> None:
        copy = self.copy(broker_id)
        kept = [batch for batch in copy.batches.values() if batch.next_offset <= end]
        copy.empty(copy.log_start_offset)
        copy.add(kept)
        copy.durable_end = min(copy.durable_end, copy.log_end_offset)

    def commit(self, count: int = 1) -> None:
        """By broker 1, on all of them."""
        for broker_id in ALL:
            self.append(broker_id, count)
        end = self.copy(1).log_end_offset
        self.lead(1, epoch=0, high_watermark=end)
        self.follow(2, high_watermark=end)
        self.follow(3, high_watermark=end)

    def commit_without_3(self, count: int = 1) -> None:
        """By broker 1, with broker 2, which are the ISR from now on."""
        self.commit_metadata(isr=(1, 2))
        self.append(1, count)
        self.append(2, count)
        self.lead(1, epoch=0, high_watermark=self.copy(1).log_end_offset, isr=(1, 2))

    # -- what is seen

    def lead(
        self,
        broker_id: int,
        *,
        epoch: int,
        high_watermark: int = 0,
        isr: Collection[int] = ALL,
        can_commit: bool = True,
        start: int = 1,
        is_known: bool = True,
        min_isr: int = MIN_ISR,
    ) -> None:
        leading = Leading(
            LeaderEpoch(epoch),
            is_known,
            frozenset(map(BrokerId, isr)),
            can_commit,
            min_insync_replicas=min_isr,
        )
        self._see(broker_id, high_watermark, leading, start=start)

    def follow(
        self, broker_id: int, *, high_watermark: int = 0, is_cut: bool = False, is_first: bool = False
    ) -> None:
        self._see(broker_id, high_watermark, None, is_cut=is_cut, is_first=is_first)

    def _see(
        self,
        broker_id: int,
        high_watermark: int,
        leading: Leading | None,
        *,
        start: int = 1,
        is_cut: bool = False,
        is_first: bool = False,
    ) -> None:
        seen = Sighting(f"b{broker_id}#{start}", Offset(high_watermark), is_cut, leading)
        self.watch.saw(BrokerId(broker_id), seen, is_first=is_first)

    def die(self, broker_id: int) -> None:
        self.watch.process_ended(BrokerId(broker_id))

    def lose_power(self, broker_id: int, *, kept: int) -> None:
        """``kept``: where its log ends then."""
        self.copy(broker_id).lose(is_synced=False)
        self.cut(broker_id, kept)
        self.die(broker_id)
