"""The part of a producer that runs on the loop: batches out to leaders, answers back to batches.

``drain`` is the heart: once per loop turn, whatever the number of sends and answers before it, it looks at
the partitions that were marked, takes what may leave, and puts batches for the same leader into shared
requests. What an answer means for a batch is the partition's business (``PartitionQueue``); who leads is the
cluster view's.

A leader that does not answer is not waited for longer than needed. After a second of silence the cluster is
asked who leads; if that is somebody else by now, numbered batches go there at once, since sending them twice
is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from quorate.client.cluster import ClusterView
from quorate.client.producer.accumulator import Accumulator
from quorate.client.producer.batch import ProducerBatch
from quorate.client.producer.options import ProducerOptions
from quorate.client.producer.partition_queue import Ended, PartitionQueue, Route
from quorate.client.producer.produce_stream import ProduceStream, Request
from quorate.client.producer.statistics import Counts
from quorate.core.clock import Clock, Timer
from quorate.core.ids import Offset
from quorate.core.logging import get_logger
from quorate.core.records import encode_values
from quorate.core.transport import method_of
from quorate.errors import (
    BatchTooLarge,
    InvalidRequest,
    NotLeaderOrFollower,
    QuorateError,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2

__all__ = ["Sender"]

log = get_logger(__name__)

_INIT_PRODUCER_ID: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "InitProducerId",
    broker_pb2.InitProducerIdRequest,
    broker_pb2.InitProducerIdResponse,
)

#: Silence after which the cluster is asked whether the leader is still one; and how often to look.
_SILENCE_S: Final = 1.0
#: What an answer may take beyond the time that the broker is allowed to wait.
_MARGIN_S: Final = 5.0
#: A timer for less may fire before the clock shows any difference, again and again.
_TIMER_S_MIN: Final = 0.000_1
_NEVER: Final = float("inf")


class Sender:
    def __init__(
        self, options: ProducerOptions, accumulator: Accumulator, cluster: ClusterView, clock: Clock
    ) -> None:
        self._options = options
        self._accumulator = accumulator
        self._cluster = cluster
        self._clock = clock
        self._compression = options.compression_type
        self._linger_s = options.linger_ms / 1000
        self._answer_s_max = options.request_timeout_ms / 1000 + _MARGIN_S
        self._streams: dict[str, ProduceStream] = {}
        #: have something to send and no leader; a dict for its order
        self._leaderless: dict[PartitionQueue, None] = {}
        self._identity: broker_pb2.InitProducerIdResponse | None = None
        self._identifying: asyncio.Task[None] | None = None
        self._awaiting_id: dict[PartitionQueue, None] = {}
        self._watchdog: Timer | None = None
        self._flushing = 0
        self._is_closed = False
        self.counts = Counts()
        cluster.on_update(self._cluster_updated)

    # -- sending

    def drain(self) -> None:
        """Send everything that may leave."""
        if self._is_closed:
            return
        marked = self._accumulator.take_marked()
        # Not before: a batch that a thread opens in between would seem to be of the future, and be left for
        # later, when nobody is told to come back for it.
        now = self._clock.monotonic()
        outbox: dict[str, list[ProducerBatch]] = {}
        for queue in marked:
            if queue.next_deadline() <= now:
                self._expire(queue, now)
            self._collect(queue, now, outbox)
            # A timer that is set wakes for the first deadline: whatever comes later has a later one.
            if queue.wake_timer is None or queue.wake_at <= now or queue.retry_at > now or self._linger_s:
                self._set_timer(queue, now)
        for address, batches in outbox.items():
            self._send_all(address, batches, now)

    def _collect(self, queue: PartitionQueue, now: float, outbox: dict[str, list[ProducerBatch]]) -> None:
        if queue.is_empty:
            return
        route = queue.route or self._find_route(queue)
        if route is None:
            return
        linger_s = 0.0 if self._flushing else self._linger_s
        while True:
            with queue.lock:
                batch = queue.next_to_send(now, linger_s=linger_s)
            if batch is None:
                if queue.waits_for_producer_id and self._give_producer_id(queue):
                    continue
                return
            if batch.encoded or self._encode(batch):
                # Marks it as under way; the request itself is made when all are collected.
                batch.attempt = route
                outbox.setdefault(route.address, []).append(batch)
                if not (batch.attempts or queue.waiting):
                    return  # what is open fills while this is on its way

    def _find_route(self, queue: PartitionQueue) -> Route | None:
        topic = self._cluster.known_topic(queue.topic_partition.topic)
        leader = self._cluster.leader_of(queue.topic_partition)
        if topic is not None and queue.topic_partition.partition >= len(topic.partitions):
            self._partition_is_gone(queue, len(topic.partitions))
            return None
        if leader is None:
            queue.trouble = NotLeaderOrFollower(f"{queue.topic_partition} has no leader, as far as is known")
            self._leaderless[queue] = None
            self._cluster.needs_refresh()
            return None
        queue.route = Route(leader.address, "" if topic is None else topic.topic_id)
        return queue.route

    def _partition_is_gone(self, queue: PartitionQueue, partition_count: int) -> None:
        """Nobody has to wait until the time is up: a topic only has fewer if it is another one."""
        topic, partition = queue.topic_partition
        error = UnknownTopicOrPartition(
            f"topic {topic} was made anew and has no partition {partition}: it has {partition_count}",
            topic=topic,
            partition=partition,
        )
        with queue.lock:
            ended = queue.partition_is_gone(error)
        for batch, reason in ended:
            self._finish(batch, reason)

    def _encode(self, batch: ProducerBatch) -> bool:
        columns = batch.columns
        try:
            batch.encoded = encode_values(
                columns.values,
                timestamps=columns.timestamps,
                keys=columns.keys,
                headers=columns.headers,
                compression=self._compression,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
            )
        except InvalidRequest as error:
            batch.queue.cannot_be_encoded(batch)
            self._finish(batch, error)
            return False
        # The encoded bytes stand for the records from here on: not both in memory.
        columns.drop_fields()
        return True

    def _send_all(self, address: str, batches: list[ProducerBatch], now: float) -> None:
        groups = _grouped(batches, self._options.max_request_bytes)
        for together in groups:
            # Each time: a request that cannot be sent ends its stream.
            stream = self._streams.get(address)
            if stream is None:
                stream = self._streams[address] = ProduceStream(
                    self._cluster.channel(address), on_answer=self._answered, on_end=self._stream_ended
                )
            request = Request(stream, together, self._message(together), now)
            for batch in together:
                batch.attempt = request
                self.counts.retries += batch.attempts > 0
                batch.attempts += 1
            self.counts.attempts += len(together)
            stream.send(request, is_last=together is groups[-1])
        if self._watchdog is None:
            self._watchdog = self._clock.call_later(_SILENCE_S, self._look_for_silence)

    def _message(self, batches: Sequence[ProducerBatch]) -> broker_pb2.ProduceStreamRequest:
        """Filled in place: a message that is put into another is serialized and parsed for it.

        And field by field: by its name in a call, each takes protobuf longer.
        """
        message = broker_pb2.ProduceStreamRequest()
        request = message.request
        request.acks = batches[0].acks
        request.timeout_ms = self._options.request_timeout_ms
        entries = request.partitions
        for batch in batches:
            queue, entry = batch.queue, entries.add()
            assert queue.route is not None
            entry.topic, entry.partition = queue.topic_partition
            entry.topic_id = queue.route.topic_id
            entry.batch = batch.encoded
            if batch.expected_offset is not None:
                entry.expected_offset = batch.expected_offset
        return message

    # -- answers

    def _answered(self, request: Request, response: broker_pb2.ProduceStreamResponse) -> None:
        now = self._clock.monotonic()
        # As a list: an iteration over protobuf's own ends by an exception, and that costs more.
        results = response.response.partitions[:]
        if response.HasField("error") or len(results) != len(request.batches):
            error: QuorateError = UnknownServerError(
                f"{len(results)} results for {len(request.batches)} partitions"
            )
            if response.HasField("error"):
                error = error_from_detail(response.error)
            for batch in request.batches:
                self._refused(request, batch, error, now)
            return
        for batch, result in zip(request.batches, results, strict=True):
            if result.HasField("error"):
                self._refused(request, batch, error_from_detail(result.error), now)
            elif batch.attempt is request:
                self._acknowledged(batch, result, now)

    def _acknowledged(
        self, batch: ProducerBatch, result: broker_pb2.ProducePartitionResult, now: float
    ) -> None:
        counts = self.counts
        counts.records_acknowledged += len(batch.columns.timestamps)
        counts.batches_acknowledged += 1
        counts.bytes_acknowledged += len(batch.encoded)
        counts.latencies_s.append(now - batch.created_at)
        batch.queue.acknowledged(batch)
        # Never a made-up offset (rule 20): without one there is none.
        base_offset = result.base_offset
        is_told = base_offset > 0 or result.HasField("base_offset")
        self._accumulator.complete(batch, Offset(base_offset) if is_told else None, None)

    def _refused(self, request: Request, batch: ProducerBatch, error: QuorateError, now: float) -> None:
        if batch.attempt is not request:
            return  # it is sent elsewhere by now, or over
        queue = batch.queue
        self._cluster.apply_hint(queue.topic_partition, error)
        if error.refresh_metadata:
            self._cluster.needs_refresh()
        log.debug("batch_refused", partition=queue.topic_partition, code=error.code, error=error.message)
        if isinstance(error, BatchTooLarge):
            error = _too_large(batch, error)
        end = queue.refused(batch, error, now)
        if end is not None:
            self._finish(batch, end)
        self._accumulator.mark(queue)

    def _stream_ended(self, stream: ProduceStream, unanswered: list[Request], error: QuorateError) -> None:
        if self._streams.get(stream.address) is stream:
            del self._streams[stream.address]
        if self._is_closed:
            return
        log.debug("produce_stream_ended", address=stream.address, code=error.code, error=error.message)
        now = self._clock.monotonic()
        self._cluster.needs_refresh()
        for request in unanswered:
            for batch in request.batches:
                self._give_back(request, batch, error, now)

    def _give_back(self, request: Request, batch: ProducerBatch, error: QuorateError, now: float) -> None:
        if batch.attempt is not request:
            return
        end = batch.queue.unanswered(batch, error, now, was_sent=request.is_sent)
        if end is not None:
            self._finish(batch, end)
        self._accumulator.mark(batch.queue)

    def _finish(self, batch: ProducerBatch, error: QuorateError) -> None:
        if error.outcome_unknown:
            self.counts.records_unknown += batch.record_count
        else:
            self.counts.records_refused += batch.record_count
        self._accumulator.complete(batch, None, error)

    # -- the cluster

    def _cluster_updated(self) -> None:
        if self._is_closed:
            return
        for queue in self._accumulator.all_queues():
            queue.route = None
        for name in list(self._accumulator.topics):
            self.learn_topic(name)
        for queue in self._leaderless:
            self._accumulator.mark(queue)
        self._leaderless.clear()
        self._leave_old_leaders()

    def learn_topic(self, name: str) -> None:
        view = self._cluster.known_topic(name)
        if view is not None:
            available = [each.partition for each in view.partitions if each.leader is not None]
            self._accumulator.update_topic(view.name, len(view.partitions), [int(each) for each in available])

    def _leave_old_leaders(self) -> None:
        """Numbered batches that wait for somebody who is no longer the leader go to the one who is."""
        now = self._clock.monotonic()
        for stream in list(self._streams.values()):
            for request in stream.unanswered():
                for batch in request.batches:
                    leader = self._cluster.leader_of(batch.queue.topic_partition)
                    if batch.is_numbered and leader is not None and leader.address != stream.address:
                        error = RequestTimedOut(
                            f"{stream.address} does not lead any more, and did not answer"
                        )
                        self._give_back(request, batch, error, now)

    def _give_producer_id(self, queue: PartitionQueue) -> bool:
        """The producer has one id; a partition that has used up its epochs gets another. False: not yet."""
        if self._identity is not None and self._identity.producer_id != queue.producer_id:
            queue.use_producer_id(self._identity.producer_id, self._identity.producer_epoch)
            return True
        self._awaiting_id[queue] = None
        if self._identifying is None:
            self._identifying = asyncio.get_running_loop().create_task(self._identify())
        return False

    async def _identify(self) -> None:
        try:
            self._identity = await self._cluster.call(
                _INIT_PRODUCER_ID,
                broker_pb2.InitProducerIdRequest(),
                timeout_s=self._options.request_timeout_ms / 1000,
            )
        except QuorateError as error:
            log.warning("producer_id_not_available", code=error.code, error=error.message)
            for queue in self._awaiting_id:
                queue.trouble = error
            await self._clock.sleep(_SILENCE_S)
        finally:
            self._identifying = None
        waiting, self._awaiting_id = list(self._awaiting_id), {}
        for queue in waiting:
            self._accumulator.mark(queue)

    # -- time

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        with queue.lock:
            ended = queue.expire(now)
        for batch, error in ended:
            self._finish(batch, error)

    def _set_timer(self, queue: PartitionQueue, now: float) -> None:
        """Look here again when a pause, a linger time or a batch's time is over, whichever comes first."""
        with queue.lock:
            wake_at = queue.next_deadline()
            if wake_at < _NEVER and queue.retry_at > now:
                wake_at = min(wake_at, queue.retry_at)
            if queue.open is not None and not queue.undecided and self._linger_s and not self._flushing:
                wake_at = min(wake_at, queue.open.created_at + self._linger_s)
        if wake_at == _NEVER or (now < queue.wake_at <= wake_at and queue.wake_timer is not None):
            return  # nothing to wait for, or it is looked at in time; then the timer is set anew
        if queue.wake_timer is not None:
            queue.wake_timer.cancel()
        queue.wake_at = wake_at
        pause_s = max(wake_at - now, _TIMER_S_MIN)
        queue.wake_timer = self._clock.call_later(pause_s, lambda: self._look_again(queue))

    def _look_again(self, queue: PartitionQueue) -> None:
        queue.wake_timer = None
        self._accumulator.mark(queue)

    def _look_for_silence(self) -> None:
        self._watchdog = None
        now = self._clock.monotonic()
        is_any_waiting = False
        for stream in list(self._streams.values()):
            unanswered = stream.unanswered()
            if not unanswered:
                continue
            is_any_waiting = True
            awaited_since = min((each.sent_at for each in unanswered if each.is_awaited), default=now)
            if now - unanswered[0].sent_at > self._answer_s_max:
                stream.break_off()
            elif now - awaited_since >= _SILENCE_S:
                self._cluster.needs_refresh()
        if is_any_waiting and not self._is_closed:
            self._watchdog = self._clock.call_later(_SILENCE_S, self._look_for_silence)

    # -- the end

    def begin_flush(self) -> None:
        """Nothing lingers until ``end_flush``."""
        self._flushing += 1
        for queue in self._accumulator.all_queues():
            self._accumulator.mark(queue)

    def end_flush(self) -> None:
        self._flushing -= 1

    def batches_in_flight(self) -> int:
        return sum(
            len(request.batches) for stream in self._streams.values() for request in stream.unanswered()
        )

    async def close(self) -> None:
        """What is left ends here, with the truth about each batch."""
        self._is_closed = True
        if self._watchdog is not None:
            self._watchdog.cancel()
        ended: list[Ended] = []
        for queue in self._accumulator.all_queues():
            if queue.wake_timer is not None:
                queue.wake_timer.cancel()
            with queue.lock:
                ended += queue.abandon_all()
        for batch, error in ended:
            self._finish(batch, error)
        if self._identifying is not None:
            self._identifying.cancel()
            await asyncio.wait([self._identifying])
        for stream in list(self._streams.values()):
            await stream.close()


def _too_large(batch: ProducerBatch, refusal: BatchTooLarge) -> BatchTooLarge:
    """In the application's terms: it knows of records, and of batches only by ``batch_bytes``."""
    what = (
        "the record is too large"
        if batch.record_count == 1
        else f"{batch.record_count} records are too large together (see batch_bytes)"
    )
    limit = refusal.facts.get("max_message_bytes")
    why = refusal.message if limit is None else f"max.message.bytes is {limit}"
    topic, partition = batch.queue.topic_partition
    told = BatchTooLarge(
        f"{batch.queue.topic_partition}: {what}: {len(batch.encoded)} bytes as a batch; {why}",
        **refusal.facts | {"topic": topic, "partition": partition},
    )
    told.__cause__ = refusal
    return told


def _grouped(batches: list[ProducerBatch], bytes_max: int) -> list[list[ProducerBatch]]:
    """In order; a request names a partition once, has one value of acks, and a bounded size."""
    if len(batches) == 1:
        return [batches]
    groups: list[list[ProducerBatch]] = []
    group: list[ProducerBatch] = []
    size = 0
    for batch in batches:
        is_full = size + len(batch.encoded) > bytes_max
        if group and (
            is_full or batch.acks != group[0].acks or any(each.queue is batch.queue for each in group)
        ):
            groups.append(group)
            group, size = [], 0
        group.append(batch)
        size += len(batch.encoded)
    groups.append(group)
    return groups
