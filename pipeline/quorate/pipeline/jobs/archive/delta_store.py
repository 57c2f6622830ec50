"""An archive as a table of Delta Lake, whose log makes a batch visible in one step.

The files are renamed to where they belong first: nothing shows them before the table's log names them. The
entry of the log that does carries transaction ids, an application and a version each, which Delta keeps with
the data in the same step:

- for each partition of a topic ``quorate/TOPIC/PARTITION`` with the offset up to which it is archived,
- ``quorate/QUERY`` with the number of the batch, for people who look.

A kill before the entry leaves files that no reader sees and that ``vacuum`` removes; the batch is done again.
A kill after it, before Spark has noted the batch: it is asked for again, and its records are known by their
offsets. Two jobs on one table are found out by Delta: both change the same ids.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from quorate.pipeline.jobs.archive.staged import PARTITION_COLUMNS, Ends, Staged, StagedFile
from quorate.pipeline.jobs.archive.store import Compaction
from quorate.pipeline.jobs.archive.topic_ids import keep_topic_ids
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.delta_log import sync_commit
from quorate.pipeline.jobs.files import sync_directory, sync_tree
from quorate.pipeline.jobs.session import need_package

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

__all__ = ["DeltaStore", "topic_ids_file_of"]

_MS_PER_S: Final = 1000


class DeltaStore:
    def __init__(self, path: str, *, files_min: int, bytes_max: int) -> None:
        need_package("deltalake", "delta")
        self._path = path
        self._own = f"{path}/_archive"
        self._staging = f"{self._own}/staging"
        self._files_min = files_min
        self._bytes_max = bytes_max
        self._table: DeltaTable | None = None
        #: directories whose small files could not be made into one; tried again at the next start
        self._given_up: set[str] = set()

    def open(self, topic_ids: dict[str, str]) -> None:
        from deltalake import DeltaTable

        os.makedirs(self._own, exist_ok=True)
        is_table = DeltaTable.is_deltatable(self._path)
        keep_topic_ids(topic_ids_file_of(self._path), self._path, topic_ids, has_data=is_table)
        shutil.rmtree(self._staging, ignore_errors=True)
        if is_table:
            self._table = DeltaTable(self._path)

    @property
    def is_empty(self) -> bool:
        return self._table is None

    def new_staging(self) -> str:
        return f"{self._staging}/{uuid.uuid4().hex}"

    def ends_of(self, staged: Staged) -> Ends:
        found = {each: self._version(_partition_app(*each)) for each in staged.spans}
        return {each: end for each, end in found.items() if end is not None}

    def commit(self, staged: Staged, batch: Batch) -> None:
        from deltalake import CommitProperties, Transaction

        assert not staged.repeats(self.ends_of(staged)), "a record is archived once"
        for file in staged.files:
            os.makedirs(os.path.dirname(f"{self._path}/{file.name}"), exist_ok=True)
            os.rename(file.path, f"{self._path}/{file.name}")
        for directory in staged.directories:
            sync_tree(f"{self._path}/{directory}")
            sync_directory(os.path.dirname(f"{self._path}/{directory}"))
        sync_directory(self._path)
        ids = [Transaction(_partition_app(*each), span.end) for each, span in staged.spans.items()]
        ids.append(Transaction(_query_app(batch), batch.number))
        table = self._made_for(staged.files[0])
        table.create_write_transaction(
            [_action(file) for file in staged.files],
            mode="append",
            schema=table.schema(),
            partition_by=list(PARTITION_COLUMNS),
            # Nobody else changes these ids: if somebody does, this must not succeed at the second try.
            commit_properties=CommitProperties(app_transactions=ids, max_commit_retries=0),
        )
        table.update_incremental()
        sync_commit(self._path, table.version())
        shutil.rmtree(self._staging, ignore_errors=True)

    def compact(self, directories: set[str]) -> Compaction:
        from deltalake.exceptions import DeltaError

        done = Compaction()
        if self._files_min == 0 or self._table is None:
            return done
        before = self._table.version()
        files = self._table.file_uris()
        for directory in sorted(directories - self._given_up):
            sizes = [os.path.getsize(each) for each in files if f"/{directory}/" in each]
            if sum(size < self._bytes_max // 2 for size in sizes) < max(self._files_min, 2):
                continue
            values = [each.split("=", 1) for each in directory.split("/")]
            chosen = [(column, "=", value) for column, value in values]
            try:
                result = self._table.optimize.compact(partition_filters=chosen, target_size=self._bytes_max)
            except (DeltaError, OSError) as error:
                self._given_up.add(directory)
                done.failures[directory] = repr(error)
                # Its entry may be in the log nevertheless.
                self._table.update_incremental()
                continue
            done.files_gone += result["numFilesRemoved"]
        for version in range(before + 1, self._table.version() + 1):
            sync_commit(self._path, version)
        if done.files_gone:
            # What is older than a week: whoever reads an earlier version still finds its files.
            self._table.vacuum(dry_run=False)
        return done

    def _version(self, app_id: str) -> int | None:
        return None if self._table is None else self._table.transaction_version(app_id)

    def _made_for(self, file: StagedFile) -> DeltaTable:
        """The table; made when the first file shows what it consists of."""
        if self._table is None:
            from deltalake import DeltaTable

            self._table = DeltaTable.create(
                self._path,
                schema=_schema_of(f"{self._path}/{file.name}"),
                partition_by=list(PARTITION_COLUMNS),
            )
        return self._table


def topic_ids_file_of(path: str) -> str:
    """``path``: of the archive."""
    return f"{path}/_archive/topics.json"


def _partition_app(topic: str, partition: int) -> str:
    return f"quorate/{topic}/{partition}"


def _query_app(batch: Batch) -> str:
    return f"quorate/{batch.query_id}"


def _schema_of(path: str) -> Any:
    """That of the file, and the columns that its directories stand for."""
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

    schema = pq.read_schema(path).remove_metadata()
    return schema.append(pa.field("date", pa.date32())).append(pa.field("topic", pa.string()))


def _action(file: StagedFile) -> AddAction:
    from deltalake.transaction import AddAction

    offsets = file.spans.values()
    stats = {
        "numRecords": file.rows,
        "minValues": {"offset": min(span.first for span in offsets)},
        "maxValues": {"offset": max(span.end for span in offsets) - 1},
        "nullCount": {"offset": 0},
    }
    return AddAction(
        path=file.name,
        size=file.bytes,
        partition_values=file.values,
        modification_time=int(time.time() * _MS_PER_S),
        data_change=True,
        stats=json.dumps(stats),
    )
