"""Topics as tables: everything between two bounds, as it is when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from quorate.pipeline.source.ranges import OffsetRange, cut
from quorate.pipeline.source.read_options import ReadOptions
from quorate.pipeline.source.tasks import RangePartition, check_schema, read_range

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

__all__ = ["QuorateReader"]


class QuorateReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        from quorate.pipeline.source.connection import connection_to
        from quorate.pipeline.source.lookup import Lookup

        options = self._options
        lookup = Lookup(
            connection_to(options.bootstrap), options.selection, timeout_s=options.request_timeout_s
        )
        found = lookup.partitions(is_new_query=True)
        is_strict = options.losses.is_strict
        starts = lookup.resolve(
            found, options.starting, late_timestamp=options.late_timestamp, fail_on_data_loss=is_strict
        )
        ends = lookup.resolve(found, options.ending, late_timestamp="latest", fail_on_data_loss=is_strict)
        ranges = [
            OffsetRange(each.topic, topic_id, each.partition, starts[each], ends[each])
            for each, topic_id in found.items()
        ]
        pieces = cut(ranges, pieces_min=options.partitions_min, records_max=options.partition_records_max)
        # Spark would ask for one partition of its own making if there were none.
        return [RangePartition(each) for each in pieces] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return read_range(partition, self._options, self._schema)
