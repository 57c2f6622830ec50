"""The leader's end of the stream to one follower, for every partition that it follows here.

The follower names positions, the leader owes one answer to each. An answer that has something to say leaves
at once; the others wait, and the partition's leadership calls when there is news. All that is ready at the
end of a turn of the event loop leaves in one response, so one message carries what several partitions got in
the same turn; and while a response is on its way to a slow follower nothing is read for the next one.

*Fairness.* Partitions are served in the order in which they became ready, each with a bounded share, and one
that was served comes back at the end of the queue when it has named its next position. So a busy partition
cannot starve the others, whatever fits into one response.

*A high watermark alone is no reason to hurry.* It reaches the follower with the next records, or after a
moment. At once, it would cost two more messages for every lone record; and nobody waits for it: producers are
answered by the leader, and a follower that serves reads may lag behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from quorate.broker.replica.leadership import Divergence, Leadership, News
from quorate.broker.replica.partition import Partition
from quorate.broker.replication.compaction_messages import compacted_from, compacted_to
from quorate.core.clock import Clock, Timer
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionId, ReplicaKey, TopicId
from quorate.core.logging import get_logger
from quorate.core.served_exchange import ServedExchange
from quorate.errors import NotLeaderOrFollower, QuorateError, StaleBrokerEpoch, UnknownServerError
from quorate.rpc.error_detail import detail_from_error
from quorate.storage import NOT_COMPACTED, Compacted
from quorate.v1.replica_pb2 import (
    DivergingEpoch,
    FollowerHello,
    FollowerPosition,
    ReplicateRequest,
    ReplicateResponse,
    ReplicaUpdate,
)

__all__ = ["FindPartition", "FollowerStream"]

#: by topic id and number; raises where this broker has no such replica
FindPartition = Callable[[str, int], Partition]

log = get_logger(__name__)

_UPDATES_PER_RESPONSE_MAX: Final = 2_000
_HIGH_WATERMARK_WAIT_S: Final = 0.05
_NOT_TOLD: Final = Offset(-1)


class _Served:
    """One partition in one leader epoch."""

    __slots__ = (
        "compacted",
        "high_watermark_told",
        "is_empty",
        "is_waiting",
        "key",
        "leader_epoch",
        "leadership",
        "log",
        "log_start_told",
        "offset",
        "partition",
    )

    def __init__(self, key: ReplicaKey, partition: Partition, leadership: Leadership) -> None:
        self.key = key
        self.partition = partition
        self.log = partition.log
        self.leadership = leadership
        self.leader_epoch: LeaderEpoch = leadership.epoch
        #: where the follower's log ends (exclusive)
        self.offset = Offset(0)
        self.is_empty = True
        #: what the follower has heard of
        self.compacted = NOT_COMPACTED
        #: an answer is owed
        self.is_waiting = False
        self.high_watermark_told = _NOT_TOLD
        #: where its log is to begin, as it was told, or begins already
        self.log_start_told = Offset(0)

    def has_news(self) -> bool:
        """Beside records. It is led as it was, which whoever asks has seen."""
        leadership = self.leadership
        return (
            leadership.high_watermark > self.high_watermark_told
            or leadership.wanted_log_start > self.log_start_told
        )


class FollowerStream:
    def __init__(
        self,
        hello: FollowerHello,
        find: FindPartition,
        exchange: ServedExchange,
        *,
        clock: Clock,
        response_bytes_max: int,
        partition_bytes_max: int,
    ) -> None:
        self.broker_id = BrokerId(hello.broker_id)
        self.broker_epoch = BrokerEpoch(hello.broker_epoch)
        self._find = find
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._response_bytes_max = response_bytes_max
        self._partition_bytes_max = partition_bytes_max
        #: looked up by plain tuples, which are equal to their keys
        self._served: dict[tuple[str, int], _Served] = {}
        #: waiting, with something to be told; in the order in which they are served
        self._ready: dict[ReplicaKey, _Served] = {}
        #: waiting, with nothing but a new high watermark
        self._quiet: dict[ReplicaKey, _Served] = {}
        self._quiet_timer: Timer | None = None
        #: answers that need no look at the log
        self._refusals: dict[ReplicaKey, ReplicaUpdate] = {}
        self._is_send_due = False
        self._is_ended = False

    # -- what the follower says

    def take(self, request: ReplicateRequest) -> None:
        """Raises what ends the stream."""
        if self._is_ended:
            # Its connection had more to say, but another stream of the same broker has taken its place.
            return
        # As lists: an iteration over protobuf's own ends by an exception, and that costs more.
        for replica in request.stopped[:]:
            self._drop(ReplicaKey(TopicId(replica.topic_id), PartitionId(replica.partition)))
        for position in request.positions[:]:
            self._take_position(position)

    def _take_position(self, position: FollowerPosition) -> None:
        served = self._served.get((position.topic_id, position.partition))
        try:
            # Nearly always the partition is known here, and led as it was.
            if (
                served is None
                or position.leader_epoch != served.leader_epoch
                or served.partition.leadership is not served.leadership
            ):
                served = self._serving(position)
            fetch_offset, log_start_offset = Offset(position.fetch_offset), Offset(position.log_start_offset)
            last_epoch = LeaderEpoch(position.last_fetched_epoch)
            # An acknowledgement, unless it turns out that the logs have parted (rules 8 and 16).
            divergence = served.leadership.follower_at(
                self.broker_id, self.broker_epoch, fetch_offset, last_epoch, log_start_offset
            )
        except StaleBrokerEpoch:
            # Whoever speaks here has been replaced by a later run of the same broker (rule 25).
            raise
        except QuorateError as error:
            self._refuse(position, error)
            return
        if divergence is not None:
            self._answer(served.key, _diverging(position, divergence, served.partition))
            return
        if self._refusals:
            self._refusals.pop(served.key, None)
        served.offset = fetch_offset
        served.is_empty = last_epoch < 0
        served.compacted = (
            compacted_from(position.compacted) if position.HasField("compacted") else NOT_COMPACTED
        )
        served.is_waiting = True
        if log_start_offset > served.log_start_told:
            served.log_start_told = log_start_offset
        leadership = served.leadership
        if fetch_offset < served.log.log_end_offset or leadership.wanted_log_start > served.log_start_told:
            self._serve(served)
        elif leadership.high_watermark > served.high_watermark_told:
            self._serve_in_a_moment(served)

    def _serving(self, position: FollowerPosition) -> _Served:
        """As of now: the partition, or the leader epoch, is another one."""
        key = ReplicaKey(TopicId(position.topic_id), PartitionId(position.partition))
        partition = self._find(position.topic_id, position.partition)
        leadership = partition.require_leadership(position.leader_epoch)
        known = self._served.get(key)
        if known is not None and known.leadership is leadership:
            return known
        self._drop(key)
        served = self._served[key] = _Served(key, partition, leadership)
        leadership.wake_on_news(self.broker_id, partial(self._hear, served))
        return served

    def _refuse(self, position: FollowerPosition, error: QuorateError) -> None:
        partition = self._found(position)
        update = ReplicaUpdate(
            topic_id=position.topic_id,
            partition=position.partition,
            leader_epoch=position.leader_epoch,
            error=detail_from_error(error),
            # A follower whose end lies before this has to begin anew here (rule 12).
            log_start_offset=0 if partition is None else partition.log.log_start_offset,
        )
        self._answer(ReplicaKey(TopicId(position.topic_id), PartitionId(position.partition)), update)

    def _found(self, position: FollowerPosition) -> Partition | None:
        try:
            return self._find(position.topic_id, position.partition)
        except QuorateError:
            return None

    def _answer(self, key: ReplicaKey, update: ReplicaUpdate) -> None:
        self._drop(key)
        self._refusals[key] = update
        self._wake()

    def _drop(self, key: ReplicaKey) -> None:
        self._refusals.pop(key, None)
        self._ready.pop(key, None)
        self._quiet.pop(key, None)
        served = self._served.pop(key, None)
        if served is not None:
            served.leadership.forget(self.broker_id)

    # -- what leaderships say

    def _hear(self, served: _Served, news: News) -> None:
        if not served.is_waiting:
            return
        if news is News.HIGH_WATERMARK:
            self._serve_in_a_moment(served)
        else:
            self._serve(served)

    def _serve(self, served: _Served) -> None:
        if self._quiet:
            self._quiet.pop(served.key, None)
        self._ready[served.key] = served
        self._wake()

    def _serve_in_a_moment(self, served: _Served) -> None:
        if served.key in self._ready:
            return
        self._quiet[served.key] = served
        if self._quiet_timer is None:
            self._quiet_timer = self._clock.call_later(_HIGH_WATERMARK_WAIT_S, self._moment_is_over)

    def _moment_is_over(self) -> None:
        self._quiet_timer = None
        self._hurry_quiet()
        if self._ready:
            self._wake()

    def _hurry_quiet(self) -> None:
        self._ready.update(self._quiet)
        self._quiet.clear()

    # -- what is sent

    def _send(self) -> None:
        """What all partitions of this turn have to say, and more as long as the follower takes it."""
        self._is_send_due = False
        try:
            while (self._refusals or self._ready) and not self._is_ended and self._exchange.is_ready:
                response = self._make_response()
                if response is not None:
                    self._exchange.send(response, is_last=True)
        except Exception as error:
            # Nobody else hears of it, and the follower would wait for ever.
            log.error("follower_stream_failed", follower=self.broker_id, exc_info=error)
            self.replace(UnknownServerError("the leader failed; its log says why"))

    def on_ready(self) -> None:
        """The follower takes more again."""
        if self._ready or self._refusals:
            self._send()

    def _make_response(self) -> ReplicateResponse | None:
        """None: there was nothing to say after all."""
        response = ReplicateResponse()
        updates, places = response.updates, _UPDATES_PER_RESPONSE_MAX
        if self._refusals:
            updates.extend(self._refusals.values())
            places -= len(self._refusals)
            self._refusals.clear()
        if self._quiet:
            # A message leaves anyway.
            self._hurry_quiet()
        room, partition_bytes_max = self._response_bytes_max, self._partition_bytes_max
        for key, served in list(self._ready.items()):
            if room <= 0 or places <= 0:
                break
            compacted = None
            if served.offset < served.log.compacted.superseded_below:
                compacted = self._untold_compaction(served)
            if compacted is not None:
                del self._ready[key]
                places -= 1
                _add_compaction(response, served, compacted)
                continue
            error = None
            try:
                batches = self._read(served, partition_bytes_max if partition_bytes_max < room else room)
            except QuorateError as raised:
                batches, error = b"", raised
            size = len(batches) if batches else 0
            if size > room < self._response_bytes_max:
                # A batch larger than all that is left goes alone, so that a message has a largest size.
                break
            del self._ready[key]
            if batches is not None:
                room -= size
                places -= 1
                # In place: a message that is put into another one is copied, with all its records.
                _fill_update(updates.add(), served, batches, error)
        return response if places < _UPDATES_PER_RESPONSE_MAX else None

    def _read(self, served: _Served, bytes_max: int) -> bytes | None:
        """Empty: there are no records. None: nothing is new, it goes on waiting."""
        partition, leadership = served.partition, served.leadership
        if partition.leadership is not leadership:
            # Asked again, it says what is the case now.
            partition.require_leadership(served.leader_epoch)
            raise NotLeaderOrFollower(f"{partition.topic_partition}: leader epoch {leadership.epoch} is over")
        if served.offset < served.log.log_end_offset:
            return leadership.read_for_follower(served.offset, bytes_max=bytes_max).batches
        return b"" if served.has_news() else None

    def _untold_compaction(self, served: _Served) -> Compacted | None:
        """Looked at when it is read, for it may have been compacted since the position was named."""
        leadership = served.leadership
        if served.offset >= served.log.log_end_offset or served.partition.leadership is not leadership:
            return None
        return leadership.untold_compaction(
            self.broker_id, end_offset=served.offset, known=served.compacted, is_empty=served.is_empty
        )

    def _wake(self) -> None:
        if not self._is_send_due:
            self._is_send_due = True
            self._loop.call_soon(self._send)

    # -- the end

    def replace(self, error: QuorateError) -> None:
        """The follower is to open another one, or has."""
        self.end()
        self._exchange.end(error)

    def end(self) -> None:
        """Nothing is sent from here on, and no leadership calls any more."""
        if self._is_ended:
            return
        self._is_ended = True
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
        for served in list(self._served.values()):
            self._drop(served.key)


def _diverging(position: FollowerPosition, divergence: Divergence, partition: Partition) -> ReplicaUpdate:
    return ReplicaUpdate(
        topic_id=position.topic_id,
        partition=position.partition,
        leader_epoch=position.leader_epoch,
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log.log_start_offset,
        diverging=DivergingEpoch(epoch=divergence.epoch, end_offset=divergence.end_offset),
    )


def _add_compaction(response: ReplicateResponse, served: _Served, compacted: Compacted) -> None:
    response.updates.add(
        topic_id=served.key.topic_id,
        partition=served.key.partition,
        leader_epoch=served.leader_epoch,
        log_start_offset=served.log.log_start_offset,
        compacted=compacted_to(compacted),
    )
    served.is_waiting = False


def _fill_update(update: ReplicaUpdate, served: _Served, batches: bytes, error: QuorateError | None) -> None:
    """Field by field: by its name in a call, each takes protobuf longer."""
    leadership = served.leadership
    high_watermark, log_start = leadership.high_watermark, leadership.wanted_log_start
    update.topic_id, update.partition = served.key
    update.leader_epoch = served.leader_epoch
    if error is not None:
        update.error.CopyFrom(detail_from_error(error))
    if batches:
        update.batches = batches
    update.high_watermark = high_watermark
    update.log_start_offset = log_start
    served.is_waiting = False
    served.high_watermark_told = high_watermark
    served.log_start_told = log_start
