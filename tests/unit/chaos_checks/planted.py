"""A small clean history, and ways to plant one thing into it that must not be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.final_state import CopyOfLog, FinalPartition, FinalState
from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.history.entries import Acks, Assignment, ReadRecord, Sent
from quorate.chaos.history.group_ledger import GroupLedger
from quorate.chaos.history.history import History
from quorate.core.ids import BrokerId, LeaderEpoch, Offset, PartitionId, TopicId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord
from quorate.errors import DeliveryTimedOut, NotEnoughReplicas

__all__ = ["PARTITION", "TOPIC_ID", "Case", "Ticking", "consumer_record"]

PARTITION: Final = TopicPartition(TopicName("t"), PartitionId(0))
TOPIC_ID: Final = TopicId("A" * 22)
_BROKERS: Final = ("broker-1", "broker-2", "broker-3")


class Ticking:
    """A clock on which everything takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def consumer_record(partition: TopicPartition, offset: int, value: bytes) -> ConsumerRecord:
    return ConsumerRecord(partition.topic, partition.partition, offset, 0, None, value, (), 0)


class Case:
    """Six records acknowledged, one refused, two unknown, of which one was written; all of it read."""

    def __init__(self) -> None:
        self.clock = Ticking()
        self.history = History(self.clock)
        self.log: list[bytes] = []
        self.copies: dict[str, dict[Offset, bytes]] = {name: {} for name in _BROKERS}
        self.final = FinalPartition(Offset(0), {})
        self.state = FinalState({})
        self.saw_metadata(leader=1, leader_epoch=0, partition_epoch=0, isr=[1, 2, 3])
        for number in range(6):
            self.acknowledged(f"producer-{number % 2}")
            if number == 2:
                self.saw_watermark(3)
        self.fault = self.history.inflict("kill", "broker-1")
        self.saw_metadata(leader=2, leader_epoch=1, partition_epoch=1, isr=[2, 3])
        self.refused = self.begin("producer-0")
        self.history.fail(self.refused, NotEnoughReplicas("too few"))
        self.missing = self.begin("producer-0")
        self.history.fail(self.missing, DeliveryTimedOut("too late"))
        self.written = self.begin("producer-1")
        self.append(self.written)
        self.history.heal(self.fault)
        self.saw_metadata(leader=2, leader_epoch=1, partition_epoch=2, isr=[1, 2, 3])
        self.saw_watermark(7)
        self.reader = self.read(range(3), range(3, 7))
        self.history.caught_up(self.reader)
        self.ledger = GroupLedger(self.history, "g")
        self.member_reads("member-1", range(3), epoch=1)
        self.ledger.taken("member-1", [PARTITION])
        self.member_reads("member-2", range(3, 6), epoch=2)

    # -- producers

    def begin(self, producer: str, *, acks: Acks = "all") -> Sent:
        return self.history.begin(producer, PARTITION, acks=acks)

    def append(self, sent: Sent) -> Offset:
        return self.append_value(sent.value)

    def append_value(self, value: bytes) -> Offset:
        """To the log and to all copies of it."""
        offset = Offset(len(self.log))
        self.log.append(value)
        for copy in self.copies.values():
            copy[offset] = b"batch of " + value
        return offset

    def acknowledged(self, producer: str) -> Sent:
        sent = self.begin(producer)
        self.history.acknowledge(sent, self.append(sent))
        return sent

    # -- readers

    def read(self, *polls: Iterable[int], start: int | None = 0) -> Assignment:
        """Offsets, with the values that are there."""
        return self.read_values(
            *([(offset, self.log[offset]) for offset in offsets] for offsets in polls), start=start
        )

    def read_values(self, *polls: Iterable[tuple[int, bytes]], start: int | None = 0) -> Assignment:
        starts = {PARTITION: None if start is None else Offset(start)}
        assignment = self.history.assign("reader", starts)
        for poll in polls:
            self.history.polled(assignment, [consumer_record(PARTITION, *record) for record in poll])
        return assignment

    # -- members of a group

    def member_reads(
        self, member: str, offsets: Iterable[int], *, epoch: int, start: int | None = None
    ) -> None:
        """It is given the partition, is handed these, and commits them."""
        found = [ReadRecord(Offset(offset), self.log[offset]) for offset in offsets]
        begin = found[0].offset if start is None else Offset(start)
        self.ledger.given(member, PARTITION, start=begin, member_epoch=epoch)
        self.ledger.handed_out(member, PARTITION, found)
        self.member_commits(member)

    def member_commits(self, member: str, error: str | None = None) -> None:
        commits = self.ledger.committing(member, self.ledger.due(member))
        self.ledger.committed(commits, error)

    # -- what was looked at

    def saw_watermark(self, high_watermark: int, *, log_start_offset: int | None = 0) -> None:
        self.history.saw_watermark(
            PARTITION,
            Offset(high_watermark),
            begun_s=self.clock(),
            log_start_offset=None if log_start_offset is None else Offset(log_start_offset),
        )

    def saw_metadata(
        self,
        *,
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        isr: Iterable[int],
        elr: Iterable[int] = (),
        source: str = "follower",
    ) -> None:
        self.history.saw_partition(
            source,
            PARTITION,
            topic_id=TOPIC_ID,
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(leader_epoch),
            partition_epoch=partition_epoch,
            isr=tuple(map(BrokerId, isr)),
            elr=tuple(map(BrokerId, elr)),
        )

    # -- verdicts

    def verdicts(self) -> dict[str, Verdict]:
        """By name."""
        final = dataclasses.replace(
            self.final,
            high_watermark=Offset(len(self.log)),
            records={Offset(offset): value for offset, value in enumerate(self.log)},
            copies={name: CopyOfLog(batches) for name, batches in self.copies.items()},
        )
        state = dataclasses.replace(self.state, partitions={PARTITION: final})
        return {verdict.check: verdict for verdict in check_all(self.history, state)}

    def flagged(self) -> set[str]:
        return {name for name, verdict in self.verdicts().items() if not verdict.passed}
