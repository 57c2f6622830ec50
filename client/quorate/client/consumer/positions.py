"""Where a consumer stands in one partition, and whether it may go on from there.

Problem: a reader remembers an offset. After an unclean election, or an operator's recovery, the log may hold
other records at that offset, or none. A reader that simply went on would skip records, or read a history that
contradicts what it has read before, without anybody noticing (rule 66).

So a position is an offset together with the leader epoch of the record read before it, and each leader epoch
is met once: before the first fetch in it, the leader is asked where the epoch of that record ends in its log.
If that is before the position, or that epoch is not there any more, records that were read have vanished.

Invariants:

- Nothing is fetched in a leader epoch in which the position has not been found good. Fetches carry the epoch
  (rule 3), so a broker that has moved on refuses them.
- A failure stays until the application chooses a new position: no reset that nobody asked for.
- A reader belongs to one topic id for ever (rule 43). A topic that was made anew has other records.
- ``generation`` grows with each new position. What was asked for in an older one is dropped when it arrives.

All of it is plain state without I/O. It belongs to the event loop's thread, but for ``position``,
``is_begun`` and the failure of a batch that cannot be decoded: whoever takes records writes these, under the
buffer's lock.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from quorate.client.arguments import check_integer
from quorate.core.ids import TopicPartition
from quorate.errors import (
    LogTruncated,
    NoOffsetForPartition,
    OffsetOutOfRange,
    QuorateError,
    UnknownTopicOrPartition,
)
from quorate.v1 import broker_pb2

__all__ = ["BEGINNING", "END", "EpochEnd", "Need", "PartitionReader", "Position", "Start", "at_time"]


class Position(NamedTuple):
    #: of the next record to read
    offset: int
    #: of the last record read before it, or of the leader that named the offset; None: nothing to check by
    leader_epoch: int | None


class Start(NamedTuple):
    """A place in the log that only its leader can tell the offset of."""

    spec: broker_pb2.OffsetSpec
    timestamp_ms: int = 0


BEGINNING = Start(broker_pb2.OFFSET_SPEC_EARLIEST)
END = Start(broker_pb2.OFFSET_SPEC_LATEST)


def at_time(timestamp_ms: int) -> Start:
    """As the application gives it: milliseconds since 1970."""
    return Start(broker_pb2.OFFSET_SPEC_AT_TIMESTAMP, check_integer("timestamp_ms", timestamp_ms))


class Need(enum.Enum):
    """What has to happen next for a partition."""

    #: the leader has to say where `Start` is
    OFFSET = "offset"
    #: the leader has to say whether the position is still good
    VALIDATION = "validation"
    FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """A leader's answer: the largest epoch in its log not beyond the one asked for, and where it ends."""

    #: None: its log has none
    leader_epoch: int | None
    end_offset: int


class PartitionReader:
    """One assigned partition."""

    def __init__(
        self, topic_partition: TopicPartition, start: Start | None, *, group_topic_id: str | None = None
    ) -> None:
        """``group_topic_id``: by the word of a group's coordinator, who gives the partition and takes it."""
        self.topic_partition = topic_partition
        #: known from the first metadata on
        self.topic_id = group_topic_id
        #: metadata that does not know its topic is old, or the coordinator will say so soon
        self.is_of_group = group_topic_id is not None
        #: its position is looked up, and nothing is fetched
        self.is_held_back = False
        #: where the application stands; None: not known yet
        self.position: Position | None = None
        #: the next offset to fetch: ahead of the position by what waits in the buffer
        self.fetch_offset: int | None = None
        #: to be looked up before anything is fetched
        self.start = start
        #: the last such place
        self._origin = start
        #: the application chose the position, or has read from it: then it is never moved silently
        self.is_begun = False
        #: the newest leader epoch in which the position was found good; -1: in none
        self.validated_epoch = -1
        #: the newest leader epoch that metadata has named
        self.leader_epoch = -1
        self.is_paused = False
        self.failure: QuorateError | None = None
        self.generation = 0
        #: as of the last answer; None: none yet
        self.high_watermark: int | None = None

    def __str__(self) -> str:
        return str(self.topic_partition)

    # -- positions that the application chooses

    def seek(self, position: Position) -> None:
        self._begin_anew()
        self.start = None
        self.position = position
        self.fetch_offset = position.offset
        self.is_begun = True

    def seek_to(self, start: Start) -> None:
        self._begin_anew()
        self.start = self._origin = start
        self.position = None
        self.fetch_offset = None
        self.is_begun = False

    def _begin_anew(self) -> None:
        self.generation += 1
        self.failure = None
        self.validated_epoch = -1

    # -- what happens next

    def meet_leader(self, leader_epoch: int) -> None:
        """Metadata names the leader of that epoch; epochs never go back."""
        self.leader_epoch = max(self.leader_epoch, leader_epoch)

    def need(self, read_epoch: Callable[[], int | None]) -> Need:
        """``read_epoch()``: of the last record that was fetched, handed out or not; None: not known."""
        if self.start is not None:
            return Need.OFFSET
        if self.validated_epoch < self.leader_epoch:
            if read_epoch() is not None:
                return Need.VALIDATION
            # Nothing to check by: a bare offset, from the application's own memory.
            self.validated_epoch = self.leader_epoch
        return Need.FETCH

    def found(self, offset: int, leader_epoch: int | None) -> None:
        """The leader of ``leader_epoch`` has said where `start` is."""
        self.start = None
        self.position = Position(offset, leader_epoch)
        self.fetch_offset = offset
        if leader_epoch is not None:
            self.validated_epoch = leader_epoch

    def validated(self, end: EpochEnd, *, read_epoch: int, leader_epoch: int) -> None:
        """The leader of ``leader_epoch`` says where ``read_epoch`` ends; fails if records have vanished."""
        assert self.fetch_offset is not None
        has_vanished = end.end_offset < self.fetch_offset
        # The log may be longer than before and yet another one: it goes past the position in an older epoch.
        is_another = end.leader_epoch != read_epoch and self._has_read()
        if has_vanished or is_another:
            self.failure = self._truncated(end, read_epoch, leader_epoch, is_known=has_vanished)
            return
        self.validated_epoch = leader_epoch

    def _has_read(self) -> bool:
        """Else the position was only looked up: its epoch is a leader's that may have written nothing."""
        return self.is_begun or (self.position is not None and self.fetch_offset != self.position.offset)

    # -- trouble

    def out_of_range(
        self, error: OffsetOutOfRange, log_start_offset: int | None, reset: Start | None
    ) -> bool:
        """The leader does not hold the fetch offset. True: another place is looked up, ``reset``.

        A position that nobody has read from was only looked up; retention has overtaken it, and the same
        place is looked up again. One beyond the log's end is never reset: retention does not explain it.
        """
        assert self.fetch_offset is not None
        is_deleted = log_start_offset is not None and self.fetch_offset < log_start_offset
        if not self.is_begun:
            reset = self._origin
        if not is_deleted or reset is None:
            self.failure = self._placed(error, log_start_offset)
            return False
        self.seek_to(reset)
        return True

    def lacks_position(self) -> None:
        self.failure = NoOffsetForPartition(
            f"{self}: no position is chosen, and auto_offset_reset is fail; seek first",
            topic=self.topic_partition.topic,
            partition=self.topic_partition.partition,
        )

    def replaced_by(self, topic_id: str | None) -> None:
        """Metadata has no such topic any more, or another one of the same name (rule 43)."""
        fate = "was deleted" if topic_id is None else f"was deleted, and another one made (id {topic_id})"
        self.failure = UnknownTopicOrPartition(
            f"{self}: the topic with the id {self.topic_id} {fate}; assign it anew to read the new one",
            topic=self.topic_partition.topic,
            partition=self.topic_partition.partition,
            topic_id=self.topic_id,
            current_topic_id=topic_id,
        )

    def _truncated(
        self, end: EpochEnd, read_epoch: int, leader_epoch: int, *, is_known: bool
    ) -> LogTruncated:
        where = f"ends at {end.end_offset} now" if is_known else "is not in the log any more"
        return LogTruncated(
            f"{self}: read up to offset {self.fetch_offset} in leader epoch {read_epoch}, which {where}: "
            "records that were read have vanished; seek to choose where to go on",
            topic=self.topic_partition.topic,
            partition=self.topic_partition.partition,
            offset=self.fetch_offset,
            end_offset=end.end_offset if is_known else None,
            read_leader_epoch=read_epoch,
            end_leader_epoch=end.leader_epoch,
            current_leader_epoch=leader_epoch,
        )

    def _placed(self, error: OffsetOutOfRange, log_start_offset: int | None) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"{self}: offset {self.fetch_offset} is not in the log; seek to choose where to go on",
            **error.facts
            | {
                "topic": self.topic_partition.topic,
                "partition": self.topic_partition.partition,
                "offset": self.fetch_offset,
                "log_start_offset": log_start_offset,
                "high_watermark": self.high_watermark,
            },
        )
