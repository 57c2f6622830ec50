"""A table of Delta Lake: a batch is one merge, and one entry of its log.

With the entry, and in the same step, Delta keeps how far each partition is in the table, and the number of
the batch, as transaction ids: see ``quorate.pipeline.jobs.archive.delta_store``. So records that come again
are known. The rows of a batch, the latest of each key, pass through the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from quorate.pipeline.jobs.archive.topic_ids import keep_topic_ids
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.delta_log import sync_commit
from quorate.pipeline.jobs.session import need_package

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

__all__ = ["DeltaLatest"]

#: so many batches
_VACUUM_EVERY: Final = 100


class DeltaLatest:
    def __init__(self, path: str) -> None:
        need_package("deltalake", "delta")
        self._path = path
        self._table: DeltaTable | None = None

    def open(self, topic_ids: dict[str, str]) -> None:
        from deltalake import DeltaTable

        is_table = DeltaTable.is_deltatable(self._path)
        file = f"{self._path}/_topic.json"
        keep_topic_ids(file, self._path, topic_ids, has_data=is_table, may_grow=False)
        if is_table:
            self._table = DeltaTable(self._path)

    @property
    def is_empty(self) -> bool:
        return self._table is None

    def end_of(self, partition: int) -> int:
        return self._version(_partition_app(partition)) or 0

    def apply(self, latest: DataFrame, ends: Mapping[int, int], batch: Batch) -> None:
        from deltalake import CommitProperties, Transaction

        rows = latest.select("key", "value", "partition", "offset", "timestamp").toArrow()
        ids = [Transaction(_partition_app(partition), end) for partition, end in ends.items()]
        ids.append(Transaction(_query_app(batch), batch.number))
        table = self._made_for(rows.schema)
        merging = table.merge(
            rows,
            predicate="target.partition = source.partition AND target.key = source.key",
            source_alias="source",
            target_alias="target",
            # Nobody else changes these ids: if somebody does, this must not succeed at the second try.
            commit_properties=CommitProperties(app_transactions=ids, max_commit_retries=0),
        )
        (
            merging.when_matched_delete("source.value IS NULL")
            .when_matched_update_all()
            .when_not_matched_insert_all("source.value IS NOT NULL")
            .execute()
        )
        table.update_incremental()
        sync_commit(self._path, table.version())
        if table.version() % _VACUUM_EVERY == 0:
            # Each merge replaces files. Only what is older than a week: an earlier version may be read.
            table.vacuum(dry_run=False)

    def _version(self, app_id: str) -> int | None:
        return None if self._table is None else self._table.transaction_version(app_id)

    def _made_for(self, schema: Any) -> DeltaTable:
        if self._table is None:
            from deltalake import DeltaTable

            self._table = DeltaTable.create(self._path, schema=schema)
        return self._table


def _partition_app(partition: int) -> str:
    return f"quorate/{partition}"


def _query_app(batch: Batch) -> str:
    return f"quorate/{batch.query_id}"
