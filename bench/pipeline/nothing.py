"""A stream written in Python that is always empty: what Spark itself takes to ask one.

In a module of its own, which holds nothing else: the process that Spark starts for it loads it by its name.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

__all__ = ["NothingDataSource"]


class NothingDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "nothing"

    def schema(self) -> str:
        return "value binary"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's names
        return _NothingReader()


class _NothingReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"at": 0}

    def latestOffset(self, start: Any, limit: Any) -> dict[str, Any]:  # noqa: N802, ARG002 - Spark's names
        return {"at": 0}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:  # noqa: ARG002 - Spark's names
        return []

    def read(self, partition: InputPartition) -> Any:  # noqa: ARG002 - Spark's name
        return iter(())
