"""Records of one partition that are sent, and answered, together.

A batch is filled by the threads that send, under the accumulator's lock; once it has been taken out to be
sent it belongs to the client's loop. Its outcome is set there, once. Whoever waits for a record waits for
its batch: records have no lock, event or future of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from quorate.core.ids import Offset, TimestampMs
from quorate.core.logging import get_logger
from quorate.core.records import ColumnBuilder
from quorate.errors import InvalidRequest, QuorateError, copy_of
from quorate.v1 import broker_pb2

if TYPE_CHECKING:
    from quorate.client.producer.partition_queue import PartitionQueue

__all__ = ["OnDelivery", "ProducerBatch", "RecordMetadata"]

log = get_logger(__name__)


class RecordMetadata(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    #: None: not known, because it was sent with acks=0
    offset: Offset | None
    #: milliseconds since 1970, UTC
    timestamp: TimestampMs


#: on the client's loop: what became of one record
OnDelivery = Callable[[RecordMetadata | None, QuorateError | None], None]


class ProducerBatch:
    __slots__ = (
        "_on_delivery",
        "_waiters",
        "acks",
        "attempt",
        "attempts",
        "base_offset",
        "base_sequence",
        "columns",
        "created_at",
        "deadline",
        "encoded",
        "error",
        "expected_offset",
        "is_done",
        "is_numbered",
        "may_be_written",
        "producer_epoch",
        "producer_id",
        "queue",
        "rank",
    )

    def __init__(
        self,
        queue: PartitionQueue,
        *,
        acks: broker_pb2.Acks,
        is_numbered: bool,
        expected_offset: int | None,
        created_at: float,
        deadline: float,
    ) -> None:
        self.queue = queue
        self.acks = acks
        #: whether brokers recognize it when it is sent again
        self.is_numbered = is_numbered
        self.expected_offset = expected_offset
        self.created_at = created_at
        self.deadline = deadline
        #: the records; once they are encoded, only their timestamps. Its bytes count against the buffer.
        self.columns = ColumnBuilder()
        # -- on its way
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        #: how many batches of its partition were numbered before it
        self.rank = 0
        self.encoded = b""
        #: the request that it is on its way in, or is about to be; None: not under way
        self.attempt: object | None = None
        self.attempts = 0
        #: an attempt ended without a clear no: it may be in the log, or get there yet
        self.may_be_written = False
        # -- its outcome
        self.is_done = False
        self.base_offset: Offset | None = None
        self.error: QuorateError | None = None
        # None: nobody yet
        self._waiters: list[Callable[[], None]] | None = None
        self._on_delivery: list[tuple[int, OnDelivery]] | None = None

    @property
    def record_count(self) -> int:
        return len(self.columns.timestamps)

    # -- waiting

    def when_done(self, wake: Callable[[], None]) -> bool:
        """``wake`` is called on the client's loop; False: it is done, and ``wake`` is not called."""
        with self.queue.lock:
            if self.is_done:
                return False
            if self._waiters is None:
                self._waiters = [wake]
            else:
                self._waiters.append(wake)
            return True

    def wait(self, timeout_s: float | None) -> None:
        """Block this thread until the outcome is known; ``TimeoutError`` after ``timeout_s``."""
        if self.queue.is_on_loop():
            raise InvalidRequest(
                "not delivered yet, and waiting here would block the client itself: await it"
            )
        gate = threading.Lock()
        gate.acquire()
        if self.when_done(gate.release) and not gate.acquire(timeout=-1 if timeout_s is None else timeout_s):
            raise TimeoutError(f"not delivered within {timeout_s} s; it still may be")

    # -- the outcome

    def on_delivery(self, index: int, callback: OnDelivery) -> None:
        """Under the lock, while the batch is being filled."""
        if self._on_delivery is None:
            self._on_delivery = []
        self._on_delivery.append((index, callback))

    def finish(self, base_offset: Offset | None, error: QuorateError | None) -> None:
        """On the loop, once, under the lock. Whoever waits is told by ``tell``, without it."""
        assert not self.is_done
        self.base_offset = base_offset
        self.error = error
        self.is_done = True
        if self.encoded:
            self.encoded = b""
        else:
            self.columns.drop_fields()

    def tell(self) -> None:
        """Nobody joins those who wait any more: it is done."""
        waiters, self._waiters = self._waiters, None
        if waiters is not None:
            for wake in waiters:
                run_callback(wake)
        callbacks, self._on_delivery = self._on_delivery, None
        if callbacks is not None:
            for index, callback in callbacks:
                metadata = self.metadata(index) if self.error is None else None
                run_callback(callback, metadata, self.error)

    def metadata(self, index: int) -> RecordMetadata:
        topic, partition = self.queue.topic_partition
        offset = None if self.base_offset is None else Offset(self.base_offset + index)
        return RecordMetadata(topic, partition, offset, TimestampMs(self.columns.timestamps[index]))

    def raise_error(self) -> None:
        """A copy each time: the same one raised again and again would pile up its traceback."""
        if self.error is not None:
            raise copy_of(self.error) from self.error.__cause__


def run_callback(callback: Callable[..., object], *arguments: object) -> None:
    """A user's mistake in a callback must not stop the client."""
    try:
        callback(*arguments)
    except Exception:
        log.exception("delivery_callback_failed")
