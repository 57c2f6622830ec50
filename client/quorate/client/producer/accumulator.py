"""Where records wait to be sent: appended by any thread, taken out by the client's loop.

One lock, held for the appending of a record or a run of them, and for the taking out of a batch. Under it
are the open and the waiting batches of every partition, the buffer's count, and the list of partitions that
the loop has to look at. The loop is woken only when it is not yet: for the first record of a batch, and when
a batch is full; a thread that sends a thousand records in a row wakes it once or twice.
"""

from __future__ import annotations

import random
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from quorate.client.partitioner import StickyChoice, partition_for_key
from quorate.client.producer.batch import OnDelivery, ProducerBatch
from quorate.client.producer.buffer import Buffer, Ticket
from quorate.client.producer.options import ProducerOptions, acks_of
from quorate.client.producer.partition_queue import PartitionQueue
from quorate.client.producer.record_future import RecordFuture
from quorate.core.clock import Clock
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.core.records import HEADER_BYTES, EncodableHeaders, Intake, record_bytes
from quorate.errors import BatchTooLarge, ClientClosed, InvalidRequest, QuorateError
from quorate.v1 import broker_pb2

__all__ = [
    "Accumulator",
    "NoRoom",
    "Placed",
    "Run",
    "TopicQueues",
]


class TopicQueues:
    """One topic's partitions; changed under the lock.

    Grows when the topic does. One that was deleted and made anew may have fewer: the queues behind stay, and
    are empty soon. Should it have as many again, they go on from the numbers that they have given.
    """

    __slots__ = (
        "_next_in_turn",
        "available",
        "intake",
        "name",
        "partition_count",
        "queues",
        "sticky",
    )

    def __init__(self, name: TopicName, sticky: StickyChoice, intake: Intake) -> None:
        self.name = name
        #: where records without a key go now; it is time to move on where it has no ``bytes_left``
        self.intake = intake
        #: of every partition that there ever was, by number
        self.queues: list[PartitionQueue] = []
        #: what there is now, and records are for
        self.partition_count = 0
        #: partitions that have a leader; all, if none has
        self.available: list[int] = []
        self.sticky = sticky
        self._next_in_turn = 0

    def has(self, partition: object) -> bool:
        """As an application names it."""
        return type(partition) is int and 0 <= partition < self.partition_count

    def in_turn(self) -> int:
        self._next_in_turn = (self._next_in_turn + 1) % self.partition_count
        return self._next_in_turn

    def stick(self, size: int) -> int:
        """The partition for a record without a key."""
        intake = self.intake
        intake.bytes_left -= size
        return self.sticky.partition if intake.bytes_left >= 0 else self.move_on(size)

    def move_on(self, size: int) -> int:
        """Another partition, for this record and those that follow."""
        queued = [len(queue.waiting) + len(queue.undecided) for queue in self.queues]
        self.intake.columns = None
        self.intake.bytes_left = self.sticky.batch_bytes - size
        return self.sticky.move_on(queued, self.available)


class Run(NamedTuple):
    """Consecutive records for one partition, as columns."""

    values: list[bytes | None]
    keys: list[bytes | None] | None
    headers: list[EncodableHeaders] | None
    timestamp_ms: int
    #: ``ends[i]``: bytes of records 0 to i together
    ends: Sequence[int]

    def bytes_between(self, start: int, end: int) -> int:
        return self.ends[end - 1] - (self.ends[start - 1] if start else 0)


class Placed(NamedTuple):
    """So many records of a run are in a batch, from this place on."""

    batch: ProducerBatch
    first: int
    records: int


class NoRoom(NamedTuple):
    """A record has to wait until so many bytes are free."""

    bytes: int
    #: chosen once, for it is chosen by the application's own function, or in turn; None: left to the end
    partition: int | None


class Accumulator:
    def __init__(
        self,
        options: ProducerOptions,
        *,
        clock: Clock,
        rng: random.Random,
        wake: Callable[[], object],
        is_on_loop: Callable[[], bool],
    ) -> None:
        self.lock = threading.Lock()
        self.buffer = Buffer(options.buffer_bytes)
        self.topics: dict[str, TopicQueues] = {}
        #: every batch that is not done; a dict for its order
        self.incomplete: dict[ProducerBatch, None] = {}
        self._options = options
        self._clock = clock
        self._wall_ms = clock.wall_ms
        self._rng = rng
        self._wake = wake
        self._is_on_loop = is_on_loop
        self._is_wake_due = False
        self._marked: list[PartitionQueue] = []
        self._is_closed = False
        self._batch_bytes = options.batch_bytes
        self._acks = acks_of(options.acks)
        self._delivery_timeout_s = options.delivery_timeout_ms / 1000
        self._partitioner = options.partitioner
        self.has_own_partitioner = options.partitioner is not None

    # -- topics

    def update_topic(self, name: TopicName, partition_count: int, available: list[int]) -> TopicQueues:
        """What metadata says of it now."""
        with self.lock:
            topic = self.topics.get(name)
            if topic is None:
                topic = self.topics[name] = TopicQueues(
                    name, StickyChoice(self._rng, self._batch_bytes), Intake(self.buffer, self.lock)
                )
            for partition in range(len(topic.queues), partition_count):
                queue = PartitionQueue(
                    TopicPartition(name, PartitionId(partition)),
                    lock=self.lock,
                    is_on_loop=self._is_on_loop,
                    in_flight_max=self._options.max_in_flight,
                    rng=self._rng,
                )
                topic.queues.append(queue)
            topic.partition_count = partition_count
            topic.available = available or list(range(partition_count))
            if topic.sticky.partition not in topic.available:
                topic.intake.bytes_left = -1  # records without a key need not wait for an election
            return topic

    # -- appending

    def append(
        self,
        topic: TopicQueues,
        value: bytes | None,
        key: bytes | None,
        headers: EncodableHeaders | None,
        partition: int | None,
        timestamp_ms: int | None,
        acks: broker_pb2.Acks,
        expected_offset: int | None,
        on_delivery: OnDelivery | None,
        ticket: Ticket | None,
    ) -> RecordFuture | NoRoom:
        """Where there is no room: ``queue_up`` for it, and come back with the ticket and the partition.

        Many arguments, and by position where records come from the application: that happens once for each
        record, and names would have to be matched every time.
        """
        size = record_bytes(value, key, headers)
        if partition is None:
            if self._partitioner is not None:
                partition = self.partition_for(topic, key)
            elif key is not None:
                partition = partition_for_key(key, topic.partition_count)
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        with self.lock:
            if self._is_closed:
                raise _closed()
            if ticket is None and not self.buffer.take(size):
                self._check_size(size)
                return NoRoom(size, partition)
            is_anywhere = partition is None
            if partition is None:  # as `TopicQueues.stick`, without its call
                intake = topic.intake
                intake.bytes_left -= size
                partition = topic.sticky.partition if intake.bytes_left >= 0 else topic.move_on(size)
            queue = topic.queues[partition]
            batch = queue.open
            if (
                batch is None
                or batch.columns.bytes + size > self._batch_bytes
                or batch.acks != acks
                or expected_offset is not None
                or batch.expected_offset is not None
            ):
                batch = self._open_batch(queue, acks, expected_offset)
            index = batch.columns.append(value, key, headers, timestamp_ms)
            batch.columns.bytes += size
            if ticket is not None:
                ticket.is_granted = False
            if on_delivery is not None:
                batch.on_delivery(index, on_delivery)
            if is_anywhere:
                topic.intake.batch, topic.intake.columns = batch, batch.columns
        return RecordFuture(batch, index)

    def append_value(self, topic: TopicQueues, value: bytes) -> RecordFuture | None:
        """As ``append``, of a value and nothing else, into the batch that is open for it: most are so.

        None: there is none that takes it, or no room. Nothing was done then; ``append`` knows what to do.
        """
        return topic.intake.place(value, self._wall_ms(), RecordFuture)

    def append_run(
        self,
        topic: TopicQueues,
        partition: int | None,
        run: Run,
        start: int,
        acks: broker_pb2.Acks,
        expected_offset: int | None,
        ticket: Ticket | None,
    ) -> Placed | None:
        """As many records from ``start`` on as the open batch, or else a new one, takes. None: no room."""
        with self.lock:
            queue = topic.queues[topic.stick(0) if partition is None else partition]
            batch = queue.open
            if batch is not None and not self._takes_next(batch, run, start, acks, expected_offset):
                batch = None
            end = self._end_of_chunk(batch, run, start, expected_offset, ticket)
            size = run.bytes_between(start, end)
            if self._is_closed:
                raise _closed()
            if ticket is None and not self.buffer.take(size):
                self._check_size(size)
                return None
            if batch is None:
                batch = self._open_batch(queue, acks, expected_offset)
            index = batch.columns.extend(run.values, run.keys, run.headers, run.timestamp_ms, start, end)
            batch.columns.bytes += size
            if ticket is not None:
                ticket.is_granted = False
                # Somebody whose turn comes by this is woken when the next batch is done.
                self.buffer.used -= ticket.bytes - size
            if end < len(run.ends):
                # The next one does not fit any more.
                self._close_open(queue)
                if partition is None:
                    topic.intake.bytes_left = -1
            return Placed(batch, index, end - start)

    def _takes_next(
        self, batch: ProducerBatch, run: Run, start: int, acks: broker_pb2.Acks, expected_offset: int | None
    ) -> bool:
        has_room = batch.columns.bytes + run.bytes_between(start, start + 1) <= self._batch_bytes
        return has_room and batch.acks == acks and batch.expected_offset is None and expected_offset is None

    def _end_of_chunk(
        self,
        batch: ProducerBatch | None,
        run: Run,
        start: int,
        expected_offset: int | None,
        ticket: Ticket | None,
    ) -> int:
        """At least one record, which may be larger than a batch; all of them, where they have a condition."""
        if expected_offset is not None:
            return len(run.ends)
        room = self._batch_bytes - (HEADER_BYTES if batch is None else batch.columns.bytes)
        if ticket is not None:
            room = min(room, ticket.bytes)
        before = run.ends[start - 1] if start else 0
        return max(bisect_right(run.ends, before + room, lo=start), start + 1)

    def run_bytes(self, run: Run, start: int, expected_offset: int | None) -> int:
        """Room that is worth waiting for: a batch's worth, or the next record."""
        everything = run.bytes_between(start, len(run.ends))
        if expected_offset is not None:
            return everything
        return max(run.bytes_between(start, start + 1), min(everything, self._batch_bytes - HEADER_BYTES))

    def refused(self, queue: PartitionQueue, run: Run, start: int, error: QuorateError) -> Placed:
        """The rest of a run that found no room, as a batch that has ended."""
        batch = ProducerBatch(
            queue,
            acks=broker_pb2.ACKS_UNSPECIFIED,
            is_numbered=False,
            expected_offset=None,
            created_at=0.0,
            deadline=0.0,
        )
        count = len(run.ends) - start
        batch.columns.timestamps = [run.timestamp_ms] * count
        with self.lock:
            batch.finish(None, error)
        return Placed(batch, 0, count)

    def queue_up(self, size: int, wake: Callable[[], None]) -> Ticket:
        """Wait for room: ``wake`` is called when the ticket is granted, or the producer closed."""
        with self.lock:
            if self._is_closed:
                raise _closed()
            ticket = self.buffer.queue_up(size, wake)
            granted = self.buffer.grant()  # there may be room by now
        for each in granted:
            each.wake()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Give up waiting, or give back the room that was granted and not used."""
        with self.lock:
            granted = self.buffer.leave(ticket)
        for each in granted:
            each.wake()

    def _check_size(self, size: int) -> None:
        if size > self.buffer.bytes_max:
            raise BatchTooLarge(
                f"too large: {size} bytes at once do not fit into buffer_bytes={self.buffer.bytes_max}",
                bytes_max=self.buffer.bytes_max,
            )

    def partition_for(self, topic: TopicQueues, key: bytes | None) -> int:
        count = topic.partition_count
        if self._partitioner is None:
            assert key is not None
            return partition_for_key(key, count)
        if self._partitioner == "round_robin":
            with self.lock:
                return topic.in_turn()
        chosen = self._partitioner(topic.name, key, count)
        if not 0 <= chosen < count:
            raise InvalidRequest(
                f"the partitioner chose {chosen} for {topic.name}, which has {count} partitions"
            )
        return chosen

    def _open_batch(
        self, queue: PartitionQueue, acks: broker_pb2.Acks, expected_offset: int | None
    ) -> ProducerBatch:
        if queue.open is not None:
            self._close_open(queue)
        now = self._clock.monotonic()
        batch = ProducerBatch(
            queue,
            acks=acks,
            is_numbered=self._options.enable_idempotence and acks == broker_pb2.ACKS_ALL,
            expected_offset=expected_offset,
            created_at=now,
            deadline=now + self._delivery_timeout_s,
        )
        batch.columns.bytes = HEADER_BYTES
        if expected_offset is None and acks == self._acks:
            batch.columns.bytes_max = self._batch_bytes
        self.buffer.used += HEADER_BYTES
        queue.open = batch
        self.incomplete[batch] = None
        self._mark(queue)
        return batch

    def _close_open(self, queue: PartitionQueue) -> None:
        if queue.open is not None:
            queue.waiting.append(queue.take_open())
            self._mark(queue)

    # -- the loop's side

    def _mark(self, queue: PartitionQueue) -> None:
        if not queue.is_marked:
            queue.is_marked = True
            self._marked.append(queue)
        if not self._is_wake_due:
            self._is_wake_due = True
            self._wake()

    def mark(self, queue: PartitionQueue) -> None:
        """The loop is to look at this partition, soon."""
        with self.lock:
            self._mark(queue)

    def take_marked(self) -> list[PartitionQueue]:
        with self.lock:
            marked, self._marked = self._marked, []
            self._is_wake_due = False
            for queue in marked:
                queue.is_marked = False
            return marked

    def complete(self, batch: ProducerBatch, base_offset: Offset | None, error: QuorateError | None) -> None:
        """Its outcome is known: its room is free again, and whoever waits is told."""
        queue = batch.queue
        with self.lock:
            del self.incomplete[batch]
            granted = self.buffer.give_back(batch.columns.bytes)
            batch.finish(base_offset, error)
            # Whoever opens a batch in an empty one marks it by that.
            if not queue.is_empty:
                self._mark(queue)
        for ticket in granted:
            ticket.wake()
        batch.tell()

    def all_queues(self) -> list[PartitionQueue]:
        with self.lock:
            return [queue for topic in self.topics.values() for queue in topic.queues]

    def close(self) -> None:
        """Nothing is taken any more; whoever waits for room hears so."""
        with self.lock:
            self._is_closed = True
            waiting = list(self.buffer.waiting)
            self.buffer.waiting.clear()
            for topic in self.topics.values():
                topic.intake.columns = None
        for ticket in waiting:
            ticket.wake()


def _closed() -> ClientClosed:
    return ClientClosed("the producer was closed")
