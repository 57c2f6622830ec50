"""Reads one range of a partition on an executor: one answer is taken apart while the next is on its way.

A range is planned below the high watermark, so all of it is committed and none of it will change. Whatever
fails meanwhile (a broker dies, a leader moves) is tried again, at the leader that is known by then, until
nothing has come for the time that the options allow. Every request names the topic by its id: a topic that
was made anew under the same name is never read by mistake.

What was planned may be gone by now: Spark plans a batch of its checkpoint again when the query starts, with
the range that is noted there. That some of it is gone for good is believed of the leader alone, once
it knows how far the log is committed, and of brokers that go on denying the topic. Anything less is tried
again: with failOnDataLoss=false whoever believes too early leaves out records that are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from quorate.client.cluster import ClusterView
from quorate.client.listed_offsets import list_offsets
from quorate.client.retrying import retrying
from quorate.client.topology import Leader, TopicView
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.transport import method_of
from quorate.errors import (
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    QuorateError,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from quorate.pipeline.source.connection import Connection
from quorate.pipeline.source.errors import DataLost, TopicRecreated, located, noting
from quorate.pipeline.source.losses import LossRules, tell_of_lost
from quorate.pipeline.source.ranges import OffsetRange
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2

__all__ = ["RangeFetch"]

_FETCH: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "Fetch",
    broker_pb2.FetchRequest,
    broker_pb2.FetchResponse,
)
#: One answer: large enough that a call costs little beside it, and two of them fit any executor.
_CHUNK_BYTES: Final = 4 << 20
#: What is asked for is there; only a leader of a moment ago may not know yet that it is committed.
_WAIT_MS: Final = 500
#: Brokers deny a topic for a while before they are believed: also who has no patience left gives them that.
_DENIAL_S_MIN: Final = 5.0
#: for the leader to say where the log ends; after that the range is asked for again
_END_TIMEOUT_S: Final = 5.0


class Chunk(NamedTuple):
    #: whole record batches; they may begin before the offset that was asked for, and end behind the range
    batches: bytes
    #: where the next one begins
    next_offset: int


class RangeFetch:
    def __init__(
        self,
        connection: Connection,
        wanted: OffsetRange,
        *,
        rack: str | None,
        patience_s: float,
        request_timeout_s: float,
        losses: LossRules,
    ) -> None:
        self._connection = connection
        self._cluster: ClusterView = connection.cluster
        self._range = wanted
        self._tp = TopicPartition(TopicName(wanted.topic), PartitionId(wanted.partition))
        self._rack = rack
        self._patience_s = patience_s
        self._request_timeout_s = request_timeout_s
        self._losses = losses
        #: the replica in the rack did not do: the leader is asked from then on
        self._avoids_follower = False

    def chunks(self) -> Iterator[bytes]:
        """All of the range. Raises with topic, partition and offset."""
        offset = self._range.start
        coming = self._connection.start(self._fetch(offset))
        try:
            while offset < self._range.end:
                with noting(partial("{} at offset {}".format, self._tp, offset)):
                    chunk = coming.result()
                offset = chunk.next_offset
                if offset < self._range.end:
                    coming = self._connection.start(self._fetch(offset))
                if chunk.batches:
                    yield chunk.batches
        except QuorateError as error:
            raise located(
                error, topic=self._range.topic, partition=self._range.partition, offset=offset
            ) from error
        finally:
            coming.cancel()

    async def _fetch(self, offset: int) -> Chunk:
        async def attempt(remaining_s: float) -> Chunk:
            try:
                return await self._ask(offset, remaining_s)
            except DataLost:
                raise
            except (OffsetOutOfRange, OffsetNotAvailable) as error:
                end = await self._end_of_log(min(remaining_s, _END_TIMEOUT_S))
                if offset < end:
                    raise OffsetNotAvailable(f"the log ends at {end}: {error.message}") from error
                return self._without_the_rest(offset, f"the log ends at {end}")

        return await retrying(
            attempt,
            clock=self._connection.clock,
            rng=self._connection.rng,
            timeout_s=self._patience_s,
            on_error=self._take_note,
        )

    async def _ask(self, offset: int, remaining_s: float) -> Chunk:
        try:
            topic = await self._cluster.topic(self._range.topic, timeout_s=max(remaining_s, _DENIAL_S_MIN))
        except UnknownTopicOrPartition:
            return self._without_the_rest(offset, "the topic was deleted")
        self._check_id(topic)
        leader = self._cluster.leader_of(self._tp)
        if leader is None:
            raise NotLeaderOrFollower(f"{self._tp} has no leader right now", topic=self._range.topic)
        near = self._near_replica(topic, leader)
        address = near or leader.address
        request = broker_pb2.FetchRequest(
            max_wait_ms=_WAIT_MS, max_bytes=_CHUNK_BYTES, allow_follower=near is not None
        )
        request.partitions.add(
            topic=self._range.topic,
            topic_id=self._range.topic_id,
            partition=self._range.partition,
            fetch_offset=offset,
            partition_max_bytes=_CHUNK_BYTES,
        )
        timeout_s = min(remaining_s, self._request_timeout_s)
        try:
            answer = await self._cluster.channel(address).call(_FETCH, request, timeout_s=timeout_s)
            return self._chunk_of(answer, offset, address)
        except QuorateError as error:
            if near is None:
                raise
            # Whatever it is, the leader knows better.
            self._avoids_follower = True
            raise NotLeaderOrFollower(f"{address}, in rack {self._rack}: {error.message}") from error

    async def _end_of_log(self, timeout_s: float) -> int:
        """As the leader knows it, or an error that is retriable: a new one does not know it at first."""
        listed = await list_offsets(
            self._cluster,
            [self._tp],
            "latest",
            clock=self._connection.clock,
            rng=self._connection.rng,
            timeout_s=timeout_s,
        )
        topic = self._cluster.known_topic(self._range.topic)
        if topic is None:
            raise NotLeaderOrFollower(f"{self._tp} has gone out of sight", topic=self._range.topic)
        self._check_id(topic)
        end = listed[self._tp].offset
        if end is None:
            raise UnknownServerError(f"{self._tp}: its leader does not say where it ends")
        return end

    def _check_id(self, topic: TopicView) -> None:
        if topic.topic_id != self._range.topic_id:
            raise TopicRecreated.of(topic.name, expected_id=self._range.topic_id, found_id=topic.topic_id)

    def _near_replica(self, topic: TopicView, leader: Leader) -> str | None:
        """The address of a follower in the executor's rack; None: the leader is as near, or none is."""
        if self._rack is None or self._avoids_follower or self._range.partition >= len(topic.partitions):
            return None
        isr = topic.partitions[self._range.partition].isr
        brokers = [self._cluster.brokers[each] for each in isr if each in self._cluster.brokers]
        near = [each for each in brokers if each.rack == self._rack]
        if not near or any(each.broker_id == leader.broker_id for each in near):
            return None
        return near[self._range.partition % len(near)].address

    def _chunk_of(self, answer: broker_pb2.FetchResponse, offset: int, address: str) -> Chunk:
        if len(answer.partitions) != 1:
            raise UnknownServerError(f"{address} answers what was not asked", address=address)
        result = answer.partitions[0]
        if result.HasField("error"):
            error = error_from_detail(result.error)
            self._cluster.apply_hint(self._tp, error)
            if isinstance(error, OffsetOutOfRange):
                return self._beyond(result, offset, error)
            raise error
        if result.next_fetch_offset <= offset:
            # Below the high watermark when this was planned: whoever leads now is about to find out.
            raise OffsetNotAvailable(f"{address} does not know yet that offset {offset} is committed")
        return Chunk(result.batches, result.next_fetch_offset)

    def _beyond(self, result: broker_pb2.FetchPartitionResult, offset: int, error: OffsetOutOfRange) -> Chunk:
        """The offset is not there any more, or not there again."""
        if not result.HasField("log_start_offset") or result.log_start_offset <= offset:
            raise error
        resume = min(result.log_start_offset, self._range.end)
        why = f"were deleted before they were read: the log begins at {result.log_start_offset}"
        if not self._losses.allows_gaps:
            raise DataLost(f"records from {offset} to {resume} {why}. {self._losses.advice_on_gaps}")
        return self._without(offset, resume, why)

    def _without_the_rest(self, offset: int, why: str) -> Chunk:
        """What is behind the offset was there when this was planned, and will be something else."""
        end, why = self._range.end, f"are not there any more: {why}"
        if not self._losses.allows_going_back:
            raise DataLost(f"records from {offset} to {end} {why}. {self._losses.advice_on_going_back}")
        return self._without(offset, end, why)

    def _without(self, offset: int, resume: int, why: str) -> Chunk:
        tell_of_lost(self._tp, offset, resume, why)
        return Chunk(b"", resume)

    def _take_note(self, error: QuorateError) -> None:
        if error.refresh_metadata or not error.retriable:
            self._cluster.needs_refresh()
