"""DataFrames into topics.

The guarantee, in one sentence: every row of a batch that Spark counts as written is in its topic, committed
to all in-sync replicas, at least once, and a task that Spark runs again writes its rows again.

Within one attempt of a task nothing is written twice and nothing changes its order: the producer is
idempotent.

Exactly once is a matter of staging. `write` returns a `Written`, whose `transaction` is where the name of the
attempt's transaction will stand; `commit` is where those transactions will be committed in one call for
(query id, batch id), and `abort` where they are dropped. State travels only in these messages: Spark commits
in another process, with a writer that it makes anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from quorate.core.error_base import QuorateError
from quorate.pipeline.source.errors import located
from quorate.pipeline.source.outgoing import Columns, OutgoingRows
from quorate.pipeline.source.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

    from quorate.client import Producer, RecordFuture

__all__ = ["QuorateStreamWriter", "QuorateWriter", "Written"]

#: Sends whose outcome is looked at later; what they hold is bounded by the producer's buffer.
_SENDS_MAX: Final = 64


class Sent(Protocol):
    """Records of one Arrow batch that went to one topic; as `Delivery` of the client."""

    def done(self) -> bool: ...

    def exception(self) -> QuorateError | None: ...


class _SentOneByOne:
    """As a `Delivery`, of records that each had something of their own."""

    def __init__(self, records: Sequence[RecordFuture]) -> None:
        self._records = records

    def done(self) -> bool:
        return all(each.done() for each in self._records)

    def exception(self) -> QuorateError | None:
        errors = (each.exception() for each in self._records)
        return next((error for error in errors if error is not None), None)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one attempt of a task has written."""

    records: int
    #: None: there was no transaction, the records are in the log already
    transaction: str | None = None


def _write(options: WriteOptions, schema: StructType, batches: Iterator[pa.RecordBatch]) -> Written:
    from quorate.client import Producer
    from quorate.client.transport import client_transport
    from quorate.core.config import RpcTransport
    from quorate.pipeline.source.connection import connection_to

    # Only for its thread: with it open, a producer of a few rows does not start and stop one of its own.
    connection_to(options.bootstrap)
    outgoing = OutgoingRows(options, schema)
    settings: dict[str, Any] = asdict(options.producer)
    records = 0
    under_way: deque[tuple[str, Sent]] = deque()
    with Producer(
        list(options.bootstrap), transport=client_transport(RpcTransport.LEAN), **settings
    ) as producer:
        for batch in batches:
            for topic, partition, columns in outgoing.of(batch):
                records += len(columns["values"])
                under_way.append((topic, _send(producer, topic, partition, columns)))
                while under_way and (under_way[0][1].done() or len(under_way) > _SENDS_MAX):
                    _settle(*under_way.popleft())
        for topic, sent in under_way:
            _settle(topic, sent)
    return Written(records)


def _send(producer: Producer, topic: str, partition: int | None, columns: Columns) -> Sent:
    try:
        if "timestamps" in columns or "partitions" in columns:
            return _SentOneByOne(_send_one_by_one(producer, topic, partition, columns))
        return producer.send_many(topic, partition=partition, **columns)
    except QuorateError as error:
        raise _told(error, topic) from error


def _send_one_by_one(
    producer: Producer, topic: str, partition: int | None, columns: Columns
) -> list[RecordFuture]:
    """Each record has its own timestamp or partition, for which the producer's bulk call has no column."""
    values = columns["values"]
    nothing: list[None] = [None] * len(values)
    rows = zip(
        values,
        columns.get("keys", nothing),
        columns.get("headers", nothing),
        columns.get("timestamps", nothing),
        columns.get("partitions", [partition] * len(values)),
        strict=True,
    )
    return [
        producer.send(topic, value, key=key, headers=headers, partition=place, timestamp_ms=timestamp_ms)
        for value, key, headers, timestamp_ms, place in rows
    ]


def _settle(topic: str, sent: Sent) -> None:
    error = sent.exception()
    if error is not None:
        raise _told(error, topic) from error


def _told(error: QuorateError, topic: str) -> QuorateError:
    partition = error.facts.get("partition")
    if not isinstance(partition, int):
        return type(error)(f"{topic}: {error.message}", **error.facts | {"topic": topic})
    return located(error, topic=topic, partition=partition, offset=None)


class QuorateWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        OutgoingRows(options, schema)  # refuses what it cannot write, before anything is
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, self._schema, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is left to do: what was written is committed. The place to commit transactions."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was written stays. The place to drop transactions; after a commit it must do nothing."""


class QuorateStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        OutgoingRows(options, schema)
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, self._schema, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """As of `QuorateWriter`, once for (query id, batch id)."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """As of `QuorateWriter`."""
