"""``quorate pipeline run archive``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from quorate.pipeline.jobs.archive.delta_store import DeltaStore
from quorate.pipeline.jobs.archive.parquet_store import ParquetStore
from quorate.pipeline.jobs.archive.staged import Staged, only_new, stage
from quorate.pipeline.jobs.archive.store import ArchiveStore
from quorate.pipeline.jobs.archive.topic_ids import ids_of_topics
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.checkpoints import claim_for_place
from quorate.pipeline.jobs.config.archive import ArchiveConfig
from quorate.pipeline.jobs.config.base import StoreFormat
from quorate.pipeline.jobs.job_lock import only_one_job
from quorate.pipeline.jobs.reading import read_stream, what_is_read
from quorate.pipeline.jobs.running import Job, Outcome, run_stream
from quorate.pipeline.jobs.seen_rows import check_seen
from quorate.pipeline.jobs.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Archiving", "run"]


def _as_they_are(records: DataFrame) -> DataFrame:
    return records


def run(
    config: ArchiveConfig, job: Job, *, prepared: Callable[[DataFrame], DataFrame] = _as_they_are
) -> Outcome:
    """Until everything is done (``once``) or the job is asked to stop.

    ``prepared``: what is archived of the records of a batch. It keeps each of them, with its topic,
    partition, offset and timestamp; other columns may be changed, left out, added.
    """
    topic_ids = ids_of_topics(config.bootstrap_servers, config.topics)
    with only_one_job(config.path), only_one_job(config.checkpoint):
        store = _store_for(config)
        store.open(topic_ids)
        claim_for_place("archive", config, is_empty=store.is_empty)
        spark = open_session("archive", config, tell=job.tell)
        frame = read_stream(spark, config, config.topics)
        job.tell(what_is_read(config, config.topics))
        archiving = Archiving(store, job)

        def on_batch(records: DataFrame, batch: Batch) -> None:
            archiving.on_batch(prepared(records), batch)

        return run_stream(job, frame, config, checkpoint=config.checkpoint, on_batch=on_batch)


def _store_for(config: ArchiveConfig) -> ArchiveStore:
    kind = DeltaStore if config.store_format is StoreFormat.DELTA else ParquetStore
    return kind(config.path, files_min=config.compact_files_min, bytes_max=config.compact_bytes_max)


class Archiving:
    """Puts batches into a store, also those that it has seen before.

    What it has is known by offsets, never by the number of a batch: Spark does not sync its notes, so after a
    power loss, or from a checkpoint that was restored, a batch of the same number may hold more than before.
    """

    def __init__(self, store: ArchiveStore, job: Job) -> None:
        self._store = store
        self._job = job

    def on_batch(self, frame: DataFrame, batch: Batch) -> None:
        # Whoever begins again without a checkpoint counts from 0 again: the number alone would not be unique.
        prefix = f"{batch.number:012d}-{uuid.uuid4().hex[:12]}"
        staged = self._staged(frame, prefix)
        ends = self._store.ends_of(staged)
        if staged.is_known(ends):
            return
        if staged.repeats(ends):
            # The checkpoint knows less than the archive: it was lost or restored, or is another one.
            staged = self._staged(only_new(frame, ends), prefix)
        self._store.commit(staged, batch)
        done = self._store.compact(staged.directories)
        if done.files_gone:
            self._job.tell(f"compacted {done.files_gone} small files")
        for directory, reason in done.failures.items():
            self._job.tell(f"the small files of {directory} stay as they are: {reason}")

    def _staged(self, frame: DataFrame, prefix: str) -> Staged:
        staged = stage(frame, self._store.new_staging(), prefix=prefix)
        check_seen(written=staged.rows_written, found=staged.rows)
        return staged
