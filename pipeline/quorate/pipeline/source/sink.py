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
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from quorate.core.error_base import QuorateError
from quorate.pipeline.source.errors import noting
from quorate.pipeline.source.outgoing import Columns, OutgoingRows, Place
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

    def errors(self) -> dict[int, QuorateError]:
        """Of those that were not delivered, by their index; waits for all."""


class _SentOneByOne:
    """As a `Delivery`, of records that each had something of their own."""

    def __init__(self, records: Sequence[RecordFuture]) -> None:
        self._records = records

    def done(self) -> bool:
        return all(each.done() for each in self._records)

    def errors(self) -> dict[int, QuorateError]:
        found = ((index, each.exception()) for index, each in enumerate(self._records))
        return {index: error for index, error in found if error is not None}


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
    under_way: deque[tuple[Place, Sent]] = deque()
    with Producer(
        list(options.bootstrap), transport=client_transport(RpcTransport.LEAN), **settings
    ) as producer:
        for batch in batches:
            first, end = records, records + batch.num_rows
            with noting(partial("rows {} to {} (exclusive) of the task".format, first, end)):
                for place, columns in outgoing.of(batch, first_row=first):
                    under_way.append((place, _send(producer, place, columns)))
                    while under_way and (under_way[0][1].done() or len(under_way) > _SENDS_MAX):
                        _settle(*under_way.popleft())
            records = end
        for place, sent in under_way:
            _settle(place, sent)
    return Written(records)


def _send(producer: Producer, place: Place, columns: Columns) -> Sent:
    if "timestamps" in columns or "partitions" in columns:
        return _SentOneByOne(_send_one_by_one(producer, place, columns))
    try:
        return producer.send_many(place.topic, partition=place.partition, **columns)
    except QuorateError as error:
        raise place.told_of_any(error, len(columns["values"])) from error


def _send_one_by_one(producer: Producer, place: Place, columns: Columns) -> list[RecordFuture]:
    """Each record has its own timestamp or partition, for which the producer's bulk call has no column."""
    values = columns["values"]
    nothing: list[None] = [None] * len(values)
    rows = zip(
        values,
        columns.get("keys", nothing),
        columns.get("headers", nothing),
        columns.get("timestamps", nothing),
        columns.get("partitions", [place.partition] * len(values)),
        strict=True,
    )
    sent: list[RecordFuture] = []
    try:
        for value, key, headers, timestamp_ms, partition in rows:
            record = producer.send(
                place.topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
            sent.append(record)
    except QuorateError as error:
        raise place.told(error, len(sent)) from error
    return sent


def _settle(place: Place, sent: Sent) -> None:
    errors = sent.errors()
    if errors:
        first = min(errors)
        raise place.told(errors[first], first) from errors[first]


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
