"""What a task does, batch or stream: it reads one range of offsets and hands it to Spark as Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from quorate.errors import InvalidConfig
from quorate.pipeline.source.columns import COLUMNS
from quorate.pipeline.source.ranges import OffsetRange
from quorate.pipeline.source.read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

__all__ = ["RangePartition", "check_schema", "read_range"]


#: Where an executor is, no option can say: it is the same for all executors of a query.
_RACK_VARIABLE: Final = "QUORATE_CLIENT_RACK"


class RangePartition(InputPartition):
    """Goes to the executor; None: there is nothing to read."""

    def __init__(self, value: OffsetRange | None) -> None:
        super().__init__(value)


def check_schema(schema: StructType) -> None:
    """A schema of the user's own may leave columns out and change their order, and nothing else."""
    types = dict(COLUMNS)
    for field in schema.fields:
        if field.name not in types:
            raise InvalidConfig(
                f"schema: there is no column {field.name}; format quorate has {', '.join(types)}",
                key=field.name,
            )
        if field.dataType.simpleString() != types[field.name]:
            raise InvalidConfig(
                f"schema: column {field.name} is {types[field.name]}, not {field.dataType.simpleString()}: "
                f"cast it after reading",
                key=field.name,
            )


def read_range(
    partition: RangePartition, options: ReadOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    wanted: OffsetRange | None = partition.value
    if wanted is None:
        return
    from pyspark.sql.pandas.types import to_arrow_schema

    from quorate.pipeline.source.arrow_rows import ArrowRows
    from quorate.pipeline.source.connection import connection_to
    from quorate.pipeline.source.fetching import RangeFetch

    rows = ArrowRows(wanted, to_arrow_schema(schema, timezone="UTC"))
    fetch = RangeFetch(
        connection_to(options.bootstrap),
        wanted,
        rack=options.rack or os.environ.get(_RACK_VARIABLE) or None,
        patience_s=options.patience_s,
        request_timeout_s=options.request_timeout_s,
        losses=options.losses,
    )
    for chunk in fetch.chunks():
        yield from rows.of_chunk(chunk)
