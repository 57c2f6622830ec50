"""A history, sorted by partition and beside what the partition holds: what the checks look at.

A topic that was deleted, and perhaps created again under its name, is another topic (rule 43). Only what
surely belongs to the last one is checked against its log. What surely belongs to an earlier one must not be
in it. What happened around the deletion may belong to either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from quorate.chaos.checks.final_state import FinalPartition, FinalState
from quorate.chaos.history.entries import Assignment, Commit, PartitionChange, Poll, Sent, WatermarkSeen
from quorate.chaos.history.history import History
from quorate.core.ids import Offset, TopicName, TopicPartition

__all__ = ["Case", "PartitionCase"]

#: of a topic that was never deleted: it has begun before everything
_ALWAYS = -math.inf


class PartitionCase:
    """Everything here is in the order in which it happened."""

    def __init__(self, partition: TopicPartition, final: FinalPartition) -> None:
        self.partition = partition
        self.final = final
        #: of this topic
        self.sent: list[Sent] = []
        #: of this one or an earlier one of its name
        self.uncertain: list[Sent] = []
        #: of an earlier one
        self.former: list[Sent] = []
        self.polls: list[Poll] = []
        #: of members of groups
        self.commits: list[Commit] = []
        self.watermarks: list[WatermarkSeen] = []

    @cached_property
    def offset_of(self) -> Mapping[bytes, Offset]:
        """Where a value is in the log; the first place if there are several."""
        return {value: offset for offset, value in reversed(list(self.final.records.items()))}

    @cached_property
    def sent_by_value(self) -> Mapping[bytes, Sent]:
        """What may be in the log."""
        return {sent.value: sent for sents in (self.uncertain, self.sent) for sent in sents}

    def is_deleted(self, offset: Offset) -> bool:
        """Retention was allowed to delete it, and did."""
        return self.final.may_delete and offset < self.final.log_start_offset

    def is_given_up(self, offset: Offset, begun_s: float) -> bool:
        """What stood there may have gone with an operator's consent, if it was asked for by ``begun_s``."""
        return any(offset >= loss.from_offset and begun_s <= loss.until_s for loss in self.final.losses)

    def _left_of(self, end: Offset, begun_s: float) -> Offset:
        """How far the log still reaches, of which it was known that it reaches ``end`` (both exclusive)."""
        return min([end, *(loss.from_offset for loss in self.final.losses if begun_s <= loss.until_s)])

    # -- compaction

    @cached_property
    def last_words(self) -> Mapping[bytes, tuple[Offset, bytes]]:
        """Of a compacted topic: by key, the last record of it that is known to have been there."""
        keys = self.final.keys or {}
        found: dict[bytes, tuple[Offset, bytes]] = {}
        for offset, value in self._known_records():
            if value in keys:
                key = keys[value].key
                found[key] = max(found.get(key, (offset, value)), (offset, value))
        return found

    def _known_records(self) -> Iterator[tuple[Offset, bytes]]:
        yield from self.final.records.items()
        for sent in self.sent:
            if sent.is_promised and sent.offset is not None:
                yield sent.offset, sent.value
        for poll in self.polls:
            yield from poll.records

    @cached_property
    def _deleted_unseen(self) -> frozenset[bytes]:
        """Keys that may have been deleted without anybody having seen it: the tombstone may be gone, too."""
        keys = self.final.keys or {}
        known = {value for _, value in self._known_records()}
        return frozenset(
            keys[sent.value].key
            for sent in (*self.sent, *self.uncertain)
            if sent.value in keys
            and keys[sent.value].is_tombstone
            and not sent.is_refused
            and sent.value not in known
        )

    def is_replaced(self, value: bytes, offset: Offset) -> bool:
        """Compaction was allowed to remove it: newer than it is another record of its key, or it deletes."""
        sent = (self.final.keys or {}).get(value)
        if sent is None:
            return False
        last, _ = self.last_words.get(sent.key, (offset, value))
        return last > offset or sent.is_tombstone or sent.key in self._deleted_unseen

    # -- places

    @cached_property
    def placed(self) -> list[tuple[Sent, Offset]]:
        """What was sent and is in the log, or was until retention deleted it; in the order of the sends."""
        there = self.offset_of
        found: list[tuple[Sent, Offset]] = []
        for sent in self.sent:
            place = there.get(sent.value)
            if place is None and sent.is_promised:
                assert sent.offset is not None
                is_gone = self.is_deleted(sent.offset) or self.is_replaced(sent.value, sent.offset)
                place = sent.offset if is_gone else None
            if place is not None:
                found.append((sent, place))
        return found

    def left_of_watermark(self, seen: WatermarkSeen) -> Offset:
        return self._left_of(seen.high_watermark, seen.begun_s)

    @cached_property
    def ends_known(self) -> list[tuple[float, Offset]]:
        """When it was known that the committed log reaches this offset (exclusive), sorted by time."""
        known: list[tuple[float, Offset]] = [
            (sent.ended_s, self._left_of(Offset(sent.offset + 1), sent.begun_s))
            for sent in self.sent
            if sent.offset is not None and sent.ended_s is not None and sent.is_promised
        ]
        known += [
            (poll.at_s, self._left_of(Offset(poll.records[-1].offset + 1), poll.assignment.begun_s))
            for poll in self.polls
        ]
        known += [(seen.ended_s, self.left_of_watermark(seen)) for seen in self.watermarks]
        known.sort()
        return known


class Case:
    """What was sent to a partition that the final state does not have is left out: it is not asked about."""

    def __init__(self, history: History, final: FinalState) -> None:
        self.history = history
        self.final = final
        self._by_partition = {
            partition: PartitionCase(partition, found) for partition, found in final.partitions.items()
        }
        self._deletions = _last_deletions(history)
        self._sort_sent()
        for poll in history.polls:
            if self._is_asked_about(poll.partition, poll.assignment.begun_s):
                self._by_partition[poll.partition].polls.append(poll)
        for commit in history.commits:
            if self._is_asked_about(commit.partition, commit.assignment.begun_s):
                self._by_partition[commit.partition].commits.append(commit)
        for seen in history.watermarks:
            if self._is_asked_about(seen.partition, seen.begun_s):
                self._by_partition[seen.partition].watermarks.append(seen)

    @property
    def partitions(self) -> Iterable[PartitionCase]:
        return self._by_partition.values()

    def _sort_sent(self) -> None:
        for sent in self.history.sent:
            found = self._by_partition.get(sent.partition)
            if found is None:
                continue
            begun_s, ended_s = self._deletions.get(sent.partition.topic, (_ALWAYS, _ALWAYS))
            if sent.begun_s >= ended_s:
                found.sent.append(sent)
            elif sent.ended_s is not None and sent.ended_s < begun_s:
                found.former.append(sent)
            else:
                found.uncertain.append(sent)

    def _is_asked_about(self, partition: TopicPartition, begun_s: float) -> bool:
        """What began then surely was about a partition that the final state has."""
        _, ended_s = self._deletions.get(partition.topic, (_ALWAYS, _ALWAYS))
        return partition in self._by_partition and begun_s >= ended_s

    def assignments_of(self, partition: TopicPartition) -> list[Assignment]:
        return [
            each
            for each in self.history.assignments
            if partition in each.starts and self._is_asked_about(partition, each.begun_s)
        ]

    def changes(self) -> dict[tuple[str, TopicPartition, str], list[PartitionChange]]:
        """What each source saw of each partition of each topic, in its order."""
        found: dict[tuple[str, TopicPartition, str], list[PartitionChange]] = {}
        for change in self.history.changes:
            found.setdefault((change.source, change.partition, change.topic_id), []).append(change)
        return found


def _last_deletions(history: History) -> dict[TopicName, tuple[float, float]]:
    """When the last deletion of each topic began and ended; one that may still happen has no end.

    An unknown one before others counts as if it had reached up to them: nobody knows when it happened.
    """
    found: dict[TopicName, tuple[float, float]] = {}
    for deletion in history.deletions:
        ended_s = math.inf if deletion.ended_s is None else deletion.ended_s
        _, before_s = found.get(deletion.topic, (_ALWAYS, _ALWAYS))
        found[deletion.topic] = (deletion.begun_s, max(ended_s, before_s))
    return found
