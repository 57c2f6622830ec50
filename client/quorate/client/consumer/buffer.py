"""What was fetched and not handed out yet: the one thing that a consumer's two threads share.

Brokers answer on the event loop's thread; a synchronous application polls on its own. Batches wait here as
the bytes they came in and are decoded by whoever takes them, so that polling costs no switch between threads
while something is there, and so that the bound on memory is one of bytes and not of objects.

Invariants:

- Every method holds the lock for as long as it looks at or changes anything; none waits inside it.
- Within a partition records leave in the order of their offsets, without a gap. A partition's failure leaves
  after all its records, and again and again until the application seeks: an error that is ignored once must
  not become a silence.
- Partitions take turns, answer by answer, so that a busy one does not starve the others.
- ``Account.buffered_bytes`` is the size of all chunks that are charged to it.

Rejected: a queue of decoded records. It needs a switch of threads, or a lock, for each.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from quorate.client.consumer.positions import PartitionReader, Position, Start
from quorate.core.records import (
    DECOMPRESSED_BYTES_MAX_DEFAULT,
    BatchHeader,
    ConsumerRecord,
    decode_consumer_records,
    parse_header,
)
from quorate.errors import OffsetOutOfRange, QuorateError, copy_of

__all__ = ["Account", "Chunk", "FetchBuffer"]

#: More leader epochs than can be in what an iteration takes out at once.
_EPOCH_STARTS_MAX: Final = 1000
#: A batch of the largest size that a broker accepts may have been compressed to a fraction of it.
_DECOMPRESSED_BYTES_MAX: Final = 4 * DECOMPRESSED_BYTES_MAX_DEFAULT


class Account:
    """How much of the buffer one broker's answers take up."""

    __slots__ = ("buffered_bytes", "on_room")

    def __init__(self, on_room: Callable[[], None]) -> None:
        self.buffered_bytes = 0
        #: called, on any thread, whenever there is more room than before
        self.on_room = on_room


class Chunk:
    """Whole batches of one partition, as they came in one answer."""

    __slots__ = ("account", "batches", "cursor", "from_offset", "next_offset")

    def __init__(self, batches: bytes, *, from_offset: int, next_offset: int, account: Account) -> None:
        self.batches = batches
        #: records before it were not asked for; a batch may begin with some
        self.from_offset = from_offset
        #: where the answer ends (exclusive), also if its last records were left out
        self.next_offset = next_offset
        self.account = account
        #: bytes that are decoded already
        self.cursor = 0

    @property
    def is_decoded(self) -> bool:
        return self.cursor >= len(self.batches)


class _Lane:
    """What is there of one partition."""

    __slots__ = (
        "chunks",
        "decoded",
        "decoded_epoch",
        "epoch_starts",
        "is_ready",
        "is_retired",
        "is_told",
        "reader",
        "stop_offset",
        "taken",
    )

    def __init__(self, reader: PartitionReader) -> None:
        self.reader = reader
        self.chunks: deque[Chunk] = deque()
        #: records of the batch that is being handed out, of which so many are gone
        self.decoded: list[ConsumerRecord] = []
        self.taken = 0
        #: of the batch that was decoded last
        self.decoded_epoch: int | None = None
        #: records from here on have vanished from the log, and are not handed out any more
        self.stop_offset: int | None = None
        #: it has something to hand out, and is in the row of those that have
        self.is_ready = False
        #: nothing is left but a failure, and the application has heard of it
        self.is_told = False
        #: nothing is handed out any more, and what is put back is dropped
        self.is_retired = False
        #: by the offset of the first record of a leader epoch: the epoch of the record before it
        self.epoch_starts: dict[int, int | None] = {}

    @property
    def is_empty(self) -> bool:
        return not self.chunks and self.taken >= len(self.decoded)

    def append(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        chunk.account.buffered_bytes += len(chunk.batches)

    def clear(self) -> None:
        self.decoded, self.taken = [], 0
        while self.chunks:
            _release(self.chunks.popleft())

    def take(self, records_max: int) -> list[ConsumerRecord]:
        """The next records of one batch; the position moves behind them. A batch may have none."""
        if self.taken >= len(self.decoded):
            self._decode_batch()
        end = self.taken + records_max
        records = self.decoded[self.taken : end] if self.taken or end < len(self.decoded) else self.decoded
        self.taken += len(records)
        if records:
            last = records[-1]
            self.reader.position = Position(last.offset + 1, last.leader_epoch)
            self.reader.is_begun = True
        if self.taken >= len(self.decoded):
            self.decoded, self.taken = [], 0
            self._end_chunk()
        return records

    def put_back(self, records: list[ConsumerRecord]) -> None:
        first = records[0]
        # The epoch of the record before it, which was read: another one only where an epoch begins.
        self.reader.position = Position(first.offset, self.epoch_starts.get(first.offset, first.leader_epoch))
        if self.is_retired:
            return
        self.decoded = self._still_there(records + self.decoded[self.taken :])
        self.taken = 0

    def stop_at(self, offset: int) -> None:
        self.stop_offset = offset
        self.decoded = self._still_there(self.decoded[self.taken :])
        self.taken = 0

    def _still_there(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        if self.stop_offset is None:
            return records
        return [record for record in records if record.offset < self.stop_offset]

    def last_epoch(self) -> int | None:
        """Leader epoch of the last record that was fetched, wherever it is now."""
        if self.chunks and not self.chunks[-1].is_decoded:
            return _last_header(self.chunks[-1]).leader_epoch
        if self.taken < len(self.decoded):
            return self.decoded_epoch
        return self.reader.position.leader_epoch if self.reader.position else None

    def _decode_batch(self) -> None:
        chunk = self.chunks[0]
        header = parse_header(chunk.batches, chunk.cursor)
        self.decoded_epoch = header.leader_epoch
        if not header.is_control:
            topic, partition = self.reader.topic_partition
            self.decoded = decode_consumer_records(
                chunk.batches,
                chunk.cursor,
                topic=topic,
                partition=partition,
                from_offset=chunk.from_offset,
                decompressed_bytes_max=_DECOMPRESSED_BYTES_MAX,
            )
        self._note_epoch(header.leader_epoch)
        self.decoded = self._still_there(self.decoded)
        chunk.cursor += header.size_in_bytes

    def _note_epoch(self, epoch: int) -> None:
        position = self.reader.position
        # The epoch of a position that was only looked up is not that of a record.
        if self.decoded and self.reader.is_begun and position is not None and position.leader_epoch != epoch:
            self.epoch_starts[self.decoded[0].offset] = position.leader_epoch
            if len(self.epoch_starts) > _EPOCH_STARTS_MAX:
                del self.epoch_starts[next(iter(self.epoch_starts))]

    def _end_chunk(self) -> None:
        chunk = self.chunks[0] if self.chunks else None
        if chunk is None or not chunk.is_decoded:
            return
        # Compaction may have emptied the end of the answer: the position goes past it all the same.
        self.reader.position = Position(chunk.next_offset, self.decoded_epoch)
        _release(self.chunks.popleft())


class FetchBuffer:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: dict[PartitionReader, _Lane] = {}
        #: lanes that have something to hand out, in the order of their turns
        self._ready: deque[_Lane] = deque()
        #: troubles to be told once, each under the name of what it is about
        self._reports: dict[str, QuorateError] = {}
        self._waiters: list[asyncio.Future[None]] = []
        #: where readers stood before what the application was handed last, and whether they had begun
        self._at_work: dict[PartitionReader, tuple[Position | None, bool]] = {}
        self.records_taken = 0

    # -- for the application, on its own thread

    def take(self, records_max: int, *, is_patient: bool = False) -> list[ConsumerRecord]:
        """Records that are there, at most so many. Raises what has to be told, unless records come first.

        Patient: not if it is nothing new, and other partitions may have something in a moment.
        """
        records: list[ConsumerRecord] = []
        while len(records) < records_max:
            with self._lock:
                if self._reports and not records:
                    raise self._reports.pop(next(iter(self._reports)))
                if not self._ready or (is_patient and not self._has_news()):
                    break
                lane = self._ready[0]
                if lane.is_empty:
                    if records:
                        break
                    assert lane.reader.failure is not None, "a lane without records is ready only to fail"
                    lane.is_told = True
                    self._ready.rotate(-1)
                    raise copy_of(lane.reader.failure)
                self._take_from(lane, records, records_max)
        self.records_taken += len(records)
        return records

    def _take_from(self, lane: _Lane, records: list[ConsumerRecord], records_max: int) -> None:
        chunk_count = len(lane.chunks)
        self._at_work.setdefault(lane.reader, (lane.reader.position, lane.reader.is_begun))
        try:
            records += lane.take(records_max - len(records))
        except QuorateError as error:
            lane.clear()
            lane.reader.failure = _located(error, lane.reader)
            return
        if lane.is_empty and lane.reader.failure is None:
            self._ready.popleft()
            lane.is_ready = False
        elif len(lane.chunks) < chunk_count:
            self._ready.rotate(-1)

    def put_back(self, records: list[ConsumerRecord]) -> None:
        """Records that were taken, the last ones first of all to be taken again."""
        by_lane: dict[_Lane, list[ConsumerRecord]] = {}
        with self._lock:
            names = {
                lane.reader.topic_partition: lane
                for lane in self._lanes.values()
                if not lane.reader.is_held_back
            }
            for record in records:
                # One that was unassigned since is nobody's business any more.
                if (lane := names.get((record.topic, record.partition))) is not None:  # type: ignore[call-overload]
                    by_lane.setdefault(lane, []).append(record)
            for lane, own in by_lane.items():
                lane.put_back(own)
                self._make_ready(lane, first=True)
            self.records_taken -= len(records)

    def came_back(self) -> None:
        """The application is done with what it was handed."""
        with self._lock:
            self._at_work.clear()

    def unread(self) -> None:
        """It did not come back: positions are as before. The records are gone, and nothing is taken after."""
        with self._lock:
            for reader, (position, is_begun) in self._at_work.items():
                reader.position, reader.is_begun = position, is_begun
            self._at_work.clear()

    # -- for the event loop

    def put(self, reader: PartitionReader, chunk: Chunk) -> None:
        with self._lock:
            lane = self._lane(reader)
            lane.append(chunk)
            self._make_ready(lane)
            self._wake()

    def tell_failure(self, reader: PartitionReader, *, stop_offset: int | None = None) -> None:
        """The reader has failed; what was fetched before comes first, but nothing from ``stop_offset`` on."""
        with self._lock:
            lane = self._lane(reader)
            if stop_offset is not None:
                lane.stop_at(stop_offset)
            self._make_ready(lane)
            self._wake()

    def report(self, about: str, error: QuorateError) -> None:
        """Something to be told once, and then again when it has happened again."""
        with self._lock:
            self._reports[about] = error
            self._wake()

    def withdraw(self, about: str) -> None:
        """It is of no interest any more."""
        with self._lock:
            self._reports.pop(about, None)

    def out_of_range(
        self,
        reader: PartitionReader,
        error: OffsetOutOfRange,
        log_start_offset: int | None,
        reset: Start | None,
    ) -> bool:
        """`PartitionReader.out_of_range`, while nobody takes records and so begins to read."""
        with self._lock:
            is_reset = reader.out_of_range(error, log_start_offset, reset)
            if is_reset:
                self._drop(reader)
            else:
                self._make_ready(self._lane(reader))
                self._wake()
            return is_reset

    def is_drained(self, reader: PartitionReader) -> bool:
        """Everything that was fetched of it has been handed out."""
        with self._lock:
            return self._lane(reader).is_empty

    def retire(self, reader: PartitionReader) -> None:
        """Hand out no more of it; what an iteration puts back still tells how far it was read."""
        with self._lock:
            lane = self._lane(reader)
            lane.clear()
            self._make_unready(lane)
            lane.is_retired = True
            reader.generation += 1

    def restore(self, reader: PartitionReader) -> None:
        """It is read again, from where the application stands."""
        with self._lock:
            lane = self._lane(reader)
            if lane.is_retired and reader.position is not None:
                reader.fetch_offset = reader.position.offset
            lane.is_retired = False
            if reader.failure is not None:
                self._make_ready(lane)

    def drop(self, reader: PartitionReader) -> None:
        """Forget what was fetched: the application has sought, or given the partition up."""
        with self._lock:
            self._drop(reader)

    def pause(self, reader: PartitionReader) -> None:
        with self._lock:
            lane = self._lanes.get(reader)
            if lane is not None:
                self._make_unready(lane)

    def resume(self, reader: PartitionReader) -> None:
        with self._lock:
            lane = self._lanes.get(reader)
            if lane is not None and not (lane.is_empty and reader.failure is None):
                self._make_ready(lane)
                self._wake()

    def last_epoch(self, reader: PartitionReader) -> int | None:
        """Leader epoch of the last record that was fetched; None: of none that is known."""
        with self._lock:
            return self._lane(reader).last_epoch()

    def wake(self) -> None:
        """Whoever waits has something to do, and it is not a record."""
        with self._lock:
            self._wake()

    async def wait(self, timeout_s: float) -> None:
        """Until there may be something new to take, or the time is over."""
        with self._lock:
            if self._has_news():
                return
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            pass
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def buffered_bytes(self) -> int:
        with self._lock:
            return sum(len(chunk.batches) for lane in self._lanes.values() for chunk in lane.chunks)

    def _lane(self, reader: PartitionReader) -> _Lane:
        lane = self._lanes.get(reader)
        if lane is None:
            lane = self._lanes[reader] = _Lane(reader)
        return lane

    def _has_news(self) -> bool:
        return bool(self._reports) or any(not lane.is_told for lane in self._ready)

    def _make_ready(self, lane: _Lane, *, first: bool = False) -> None:
        if lane.reader.is_paused or lane.is_retired:
            return
        if first:
            self._make_unready(lane)
        if not lane.is_ready:
            (self._ready.appendleft if first else self._ready.append)(lane)
            lane.is_ready = True

    def _make_unready(self, lane: _Lane) -> None:
        if lane.is_ready:
            self._ready.remove(lane)
            lane.is_ready = False

    def _drop(self, reader: PartitionReader) -> None:
        self._at_work.pop(reader, None)
        lane = self._lanes.pop(reader, None)
        if lane is None:
            return
        lane.clear()
        self._make_unready(lane)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


def _release(chunk: Chunk) -> None:
    chunk.account.buffered_bytes -= len(chunk.batches)
    chunk.account.on_room()


def _last_header(chunk: Chunk) -> BatchHeader:
    position = chunk.cursor
    while True:
        header = parse_header(chunk.batches, position)
        position += header.size_in_bytes
        if position >= len(chunk.batches):
            return header


def _located(error: QuorateError, reader: PartitionReader) -> QuorateError:
    topic, partition = reader.topic_partition
    offset = reader.position.offset if reader.position else None
    message = f"{reader}: what was fetched at offset {offset} cannot be read: {error.message}"
    return type(error)(message, **error.facts | {"topic": topic, "partition": partition, "offset": offset})
