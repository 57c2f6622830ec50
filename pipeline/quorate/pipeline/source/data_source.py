"""What Spark asks for under the name `quorate`. It makes one for each query, and pickles it to and fro."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from quorate.pipeline.source.arrow_rows import COLUMNS
from quorate.pipeline.source.batch_reader import QuorateReader
from quorate.pipeline.source.read_options import read_options
from quorate.pipeline.source.sink import QuorateStreamWriter, QuorateWriter
from quorate.pipeline.source.stream_reader import QuorateStreamReader
from quorate.pipeline.source.write_options import write_options

__all__ = ["QuorateDataSource"]


class QuorateDataSource(DataSource):
    """Topics as tables and streams; the options are those of Spark's Kafka source (docs/data-source.md)."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "quorate"

    def schema(self) -> str:
        headers = str(self.options.get("includeHeaders", "false")).lower() == "true"
        return ", ".join(f"{name} {kind}" for name, kind in (COLUMNS if headers else COLUMNS[:-1]))

    def reader(self, schema: StructType) -> DataSourceReader:
        return QuorateReader(read_options(self.options, is_streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return QuorateStreamReader(read_options(self.options, is_streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's
        return QuorateWriter(
            write_options(self.options, is_streaming=False, is_overwriting=overwrite), schema
        )

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - Spark's
    ) -> DataSourceStreamArrowWriter:
        del overwrite  # it is True for the output mode "complete", in which all rows are appended again
        return QuorateStreamWriter(write_options(self.options, is_streaming=True), schema)
