"""What Spark asks for under the name `quorate`. It makes one for each query, and pickles it to and fro.

A query starts several Python processes beside the driver: one asks for the schema, one plans, one follows a
stream. Imports are most of what each costs, and stand where they are needed: the client, the transport and
the decoder are loaded by those who talk to the cluster, and by nobody else.
"""

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

from quorate.pipeline.source.columns import COLUMNS

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
        from quorate.pipeline.source.batch_reader import QuorateReader
        from quorate.pipeline.source.read_options import read_options

        return QuorateReader(read_options(self.options, is_streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from quorate.pipeline.source.read_options import read_options
        from quorate.pipeline.source.stream_reader import QuorateStreamReader

        return QuorateStreamReader(read_options(self.options, is_streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's
        from quorate.pipeline.source.sink import QuorateWriter
        from quorate.pipeline.source.target import check_target
        from quorate.pipeline.source.write_options import write_options

        options = write_options(self.options, is_streaming=False, is_overwriting=overwrite)
        writer = QuorateWriter(options, schema)
        check_target(options)
        return writer

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - Spark's
    ) -> DataSourceStreamArrowWriter:
        from quorate.pipeline.source.sink import QuorateStreamWriter
        from quorate.pipeline.source.target import check_target
        from quorate.pipeline.source.write_options import write_options

        del overwrite  # it is True for the output mode "complete", in which all rows are appended again
        options = write_options(self.options, is_streaming=True)
        writer = QuorateStreamWriter(options, schema)
        check_target(options)
        return writer
