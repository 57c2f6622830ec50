"""Topics as streams.

Spark keeps one of these in a process of its own beside the driver, for as long as the query runs, and asks it
where the log ends and what a batch consists of; tasks get a copy that only reads.

Rules that are not obvious:

- What a batch consists of follows from its two positions alone: Spark plans a batch again after a restart,
  and it has to be the same batch.
- A partition that the older position does not know is new, and is read from its beginning.
- `initialOffset` is asked for again and again before the first batch is done: it is looked up once.
- `commit` comes a batch late and never for the last, and `stop` may not come at all: nothing depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from quorate.core.ids import TopicPartition
from quorate.core.logging import get_logger
from quorate.pipeline.source.connection import connection_to
from quorate.pipeline.source.errors import DataLost
from quorate.pipeline.source.lookup import Lookup
from quorate.pipeline.source.positions import Positions
from quorate.pipeline.source.ranges import OffsetRange, cut, limited
from quorate.pipeline.source.read_options import ReadOptions
from quorate.pipeline.source.tasks import RangePartition, check_schema, read_range

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

__all__ = ["QuorateStreamReader"]

log = get_logger(__name__)

Document = dict[str, Any]


class QuorateStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema
        self._initial: Document | None = None
        #: where the log ended when it was looked at last
        self._latest: Positions | None = None
        #: with the trigger AvailableNow: where the query ends
        self._target: Positions | None = None
        #: when a batch was last asked for that had something in it
        self._batch_at = time.monotonic()
        self._lookup_made: Lookup | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks only read: what the driver knows stays with the driver."""
        return {"_options": self._options, "_schema": self._schema}

    # -- the driver: positions. Parameter names are Spark's, which passes them by name.

    def initialOffset(self) -> Document:  # noqa: N802 - Spark's name
        if self._initial is None:
            found = self._lookup().partitions()
            offsets = self._lookup().resolve(
                found, self._options.starting, late_timestamp=self._options.late_timestamp
            )
            self._initial = _positions(offsets, found).to_json()
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._end_of_log()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        options = self._options
        if options.trigger_offsets_max is not None:
            return ReadMaxRows(options.trigger_offsets_max)
        if options.trigger_offsets_min is not None:
            return ReadMinRows(options.trigger_offsets_min)
        return ReadAllAvailable()

    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:  # noqa: N802 - Spark's name
        begin = Positions.from_json(start)
        latest = self._target or self._end_of_log()
        begin.check_ids(latest.ids)
        self._latest = latest
        starts = self._known_starts(begin, latest)
        ends = {each: max(end, starts[each]) for each, end in latest.offsets.items()}
        waiting = sum(ends.values()) - sum(starts.values())
        if waiting == 0 and starts.keys() == begin.offsets.keys():
            return start
        if self._is_too_little(waiting, limit):
            return start
        self._batch_at = time.monotonic()
        if isinstance(limit, ReadMaxRows):
            ends = limited(starts, ends, limit.max_rows)
        return Positions(ends, latest.ids).to_json()

    def reportLatestOffset(self) -> Document | None:  # noqa: N802 - Spark's name
        """For the query's progress, which shows the lag by it."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: Document, end: Document) -> list[InputPartition]:
        begin, stop = Positions.from_json(start), Positions.from_json(end)
        begin.check_ids(stop.ids)
        new = {each: stop.ids[each.topic] for each in stop.offsets if each not in begin.offsets}
        starts = {**begin.offsets, **self._earliest(new)}
        ranges = [
            OffsetRange(each.topic, stop.ids[each.topic], each.partition, starts[each], offset)
            for each, offset in stop.offsets.items()
        ]
        options = self._options
        pieces = cut(ranges, pieces_min=options.partitions_min, records_max=options.partition_records_max)
        return [RangePartition(each) for each in pieces]

    def commit(self, end: Document) -> None:
        """Positions are in Spark's checkpoint; there is nothing of the query's in the cluster."""

    # -- executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return read_range(partition, self._options, self._schema)

    # -- how

    def _lookup(self) -> Lookup:
        if self._lookup_made is None:
            options = self._options
            connection = connection_to(options.bootstrap)
            self._lookup_made = Lookup(connection, options.selection, timeout_s=options.patience_s)
        return self._lookup_made

    def _end_of_log(self) -> Positions:
        found = self._lookup().partitions()
        return _positions(cast("dict[TopicPartition, int]", self._lookup().offsets(found, "latest")), found)

    def _earliest(self, partitions: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        return cast("dict[TopicPartition, int]", self._lookup().offsets(partitions, "earliest"))

    def _known_starts(self, begin: Positions, latest: Positions) -> dict[TopicPartition, int]:
        """Where to read on in each partition that there is; the new ones from their beginning."""
        gone = sorted(begin.offsets.keys() - latest.offsets.keys())
        if gone:
            self._lost(gone[0], f"{', '.join(map(str, gone))}: it is not there any more")
        kept = {each: offset for each, offset in begin.offsets.items() if each in latest.offsets}
        for each, offset in kept.items():
            if latest.offsets[each] < offset and self._target is None:
                self._lost(each, f"{each} ends at {latest.offsets[each]}, and was read up to {offset}")
        new = {each: latest.ids[each.topic] for each in latest.offsets if each not in kept}
        return {**kept, **self._earliest(new)}

    def _lost(self, partition: TopicPartition, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{what}. With failOnDataLoss=false the query goes on with what there is",
                topic=partition.topic,
                partition=partition.partition,
            )
        log.warning("data_lost", partition=str(partition), what=what)

    def _is_too_little(self, waiting: int, limit: ReadLimit) -> bool:
        """Whether to wait for more; never for ever, and not where nothing more will be looked at."""
        minimum = self._options.trigger_offsets_min
        if minimum is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        has_time = time.monotonic() - self._batch_at < self._options.trigger_delay_s_max
        return waiting < minimum and has_time


def _positions(offsets: Mapping[TopicPartition, int], partitions: Mapping[TopicPartition, str]) -> Positions:
    return Positions(offsets, {each.topic: topic_id for each, topic_id in partitions.items()})
