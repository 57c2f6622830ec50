"""``quorate pipeline run replay``: from the archive back into a topic, in steps.

Each step, a chunk, is a range of offsets of every partition with so many rows, written in order by one task
for each partition. Before it is begun, the checkpoint says what it is and where the target ends; after it,
that it is done. So after a kill the chunk in question is known, and what of it is written stands in the
target from there on. What is found there is left out, as often as it is found, and the rest is written: each
record once. Where what is missing is not the end of what was to be written, the target has lost records: that
is refused.

What remains: a request that a killed process sent, and that a broker takes up only when the next process has
looked, seconds later, would be written twice. Transactions will end that.

Tasks are not run again by Spark here: the second attempt would not know what the first has written. The job
fails instead, and goes on when it is started again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.archive.extents import FileExtents
from quorate.pipeline.jobs.archive.reading import (
    archived_topic_id,
    check_is_archive,
    file_extents,
    newest_version,
    read_archive,
    read_files,
)
from quorate.pipeline.jobs.archive.topic_ids import ids_of_topics
from quorate.pipeline.jobs.config.replay import Placement, ReplayConfig
from quorate.pipeline.jobs.job_lock import only_one_job
from quorate.pipeline.jobs.progress import Progress
from quorate.pipeline.jobs.reading import read_whole
from quorate.pipeline.jobs.replay.notes import Chunk, Notes, asked_by
from quorate.pipeline.jobs.replay.pace import even, small_batches, tasks_for
from quorate.pipeline.jobs.replay.remainder import compared, first_gap, missing
from quorate.pipeline.jobs.replay.spans import ChunkSpans, Spans
from quorate.pipeline.jobs.replay.target import Target
from quorate.pipeline.jobs.running import Job, Outcome
from quorate.pipeline.jobs.session import FORMAT, open_session
from quorate.pipeline.source.read_options import EARLIEST

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["run"]

#: With a limit, so many seconds of it are a chunk: each costs a little. Within it rows are paced.
_SECONDS_PER_CHUNK: Final = 2
_NO_SECOND_ATTEMPT: Final = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
}


def run(config: ReplayConfig, job: Job) -> Outcome:
    check_is_archive(config.path, config.store_format)
    with only_one_job(config.checkpoint_dir):
        notes = Notes.read(config.checkpoint_dir, config)
        if notes is not None:
            notes.check_source(_source_id(config))
            notes.check_target(_target_id(config))
        Target(config.bootstrap_servers, config.to_topic[0]).check_keeps_all()
        _warn_of_itself(config, job)
        spark = open_session("replay", config, tell=job.tell, needed=_NO_SECOND_ATTEMPT)
        job.tell(f"replaying {config.topic[0]} of {config.path} into {config.to_topic[0]}")
        return _Replay(spark, config, job).run(notes)


class _Replay:
    def __init__(self, spark: SparkSession, config: ReplayConfig, job: Job) -> None:
        self._spark = spark
        self._config = config
        self._job = job
        self._target = Target(config.bootstrap_servers, config.to_topic[0])
        self._extents: FileExtents | None = None
        rate = config.rows_per_second_max
        at_once = config.rows_per_chunk_max if rate is None else rate * _SECONDS_PER_CHUNK
        self._rows_per_chunk = min(config.rows_per_chunk_max, at_once)

    def run(self, notes: Notes | None) -> Outcome:
        with small_batches(self._spark, self._config.rows_per_second_max):
            return self._run(self._begun() if notes is None else notes)

    def _begun(self) -> Notes:
        """What there is to do, noted before anything is done."""
        from pyspark.sql import functions as f

        version = newest_version(self._config.path, self._config.store_format)
        by_partition = self._source(version).groupBy("partition")
        extents = by_partition.agg(f.min("offset"), f.max("offset"), f.count("*")).collect()
        if not extents:
            raise InvalidRequest(f"{self._config.path} has nothing of {self._config.topic[0]} in that time")
        if self._config.placement is Placement.KEEP:
            self._check_partitions(len(self._target.ends()), 1 + max(row[0] for row in extents))
        notes = Notes(
            asked=asked_by(self._config),
            source_id=_source_id(self._config),
            target_id=_target_id(self._config),
            rows=sum(row[3] for row in extents),
            table_version=version,
            left={str(row[0]): (row[1], row[2] + 1) for row in extents},
        )
        notes.write(self._config.checkpoint_dir)
        return notes

    def _check_partitions(self, there: int, needed: int) -> None:
        if there < needed:
            raise InvalidRequest(
                f"{self._config.to_topic[0]} has {there} partitions, and the archive has records of "
                f"{needed}: make "
                "more, or replay with partitions=by-key",
                topic=self._config.to_topic[0],
            )

    def _run(self, notes: Notes) -> Outcome:
        rows_before = notes.rows_done
        spans = ChunkSpans(self._rows_per_chunk, partial(self._marks, notes.table_version))
        while (notes.left or notes.chunk) and not self._job.stop.is_asked:
            began_s = time.monotonic()
            was_begun = notes.chunk is not None
            if notes.chunk is None:
                next_spans = spans.next(notes.left, notes.rows - notes.rows_done)
                notes = notes.begin(Chunk(next_spans, self._target.ends()))
                notes.write(self._config.checkpoint_dir)
            rows, written = self._write(notes, was_begun=was_begun)
            # Before it counts as done: it is if it is in the topic that this began with.
            notes.check_target(_target_id(self._config))
            notes = notes.end(rows)
            notes.write(self._config.checkpoint_dir)
            took_s = time.monotonic() - began_s
            rate = written / max(took_s, 1e-3)
            lag = max(0, notes.rows - notes.rows_done)
            self._job.show(Progress(notes.chunks_done, rows, rate, lag, notes.rows_done))
            self._wait(written, took_s)
        if not notes.left:
            notes.check_complete()
        return Outcome(rows=notes.rows_done - rows_before, was_stopped=bool(notes.left))

    def _wait(self, rows: int, took_s: float) -> None:
        limit = self._config.rows_per_second_max
        if limit is not None:
            self._job.stop.wait(max(0.0, rows / limit - took_s))

    def _write(self, notes: Notes, *, was_begun: bool) -> tuple[int, int]:
        """How many rows the chunk has, and how many of them were written now."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        assert notes.chunk is not None
        chosen = self._rows_of(notes.chunk.spans, notes.table_version)
        frame = chosen
        if was_begun:
            self._job.tell("looking for what the last run has written of its last chunk")
            frame = self._remainder(chosen, notes.chunk)
        now = Observation()
        limit = self._config.rows_per_second_max
        partitions = max(1, len(notes.chunk.spans))
        tasks = partitions if limit is None else tasks_for(limit, partitions)
        columns = ["key", "value", "headers", "timestamp", *(["partition"] if self._is_placed else [])]
        sorted_frame = (
            frame.repartition(tasks, "partition")
            # Of each partition in order, and none of them first.
            .sortWithinPartitions("offset", "partition")
            .observe(now, f.count("*").alias("rows"))
            .select(*columns)
        )
        (
            (sorted_frame if limit is None else even(sorted_frame, rows_per_s=limit / tasks))
            .write.format(FORMAT)
            .option("kafka.bootstrap.servers", self._config.bootstrap_servers)
            .option("topic", self._config.to_topic[0])
            .option("includeTimestamp", "true")
            .mode("append")
            .save()
        )
        # A plan that Spark finds to be empty may have nothing to observe.
        written = now.get.get("rows", 0)
        # Of a chunk that was begun before, all may be written: then Spark has nothing to observe.
        return (chosen.count() if was_begun else written), written

    @property
    def _is_placed(self) -> bool:
        return self._config.placement is Placement.KEEP

    def _marks(self, version: int | None, spans: Spans, every: int, count: int) -> dict[str, list[int]]:
        """Of each partition the offset of each ``every``-th row; tasks sort, on their disks if need be."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        self._job.tell("the archive has offsets without rows: looking where the next chunks end")
        nth = f.row_number().over(Window.partitionBy("partition").orderBy("offset"))
        found = (
            self._rows_of(spans, version)
            .select("partition", "offset", nth.alias("nth"))
            .where((f.col("nth") % every == 0) & (f.col("nth") <= every * count))
            .select("partition", "offset")
            .collect()
        )
        marks: dict[str, list[int]] = {}
        for partition, offset in sorted(found):
            marks.setdefault(str(partition), []).append(offset)
        return marks

    def _rows_of(self, spans: Spans, version: int | None) -> DataFrame:
        """Of the files that may have some; which these are is looked up once."""
        path, topic = self._config.path, self._config.topic[0]
        if self._extents is None:
            self._extents = file_extents(path, self._config.store_format, topic, version=version)
        files = self._extents.files_with({int(partition): span for partition, span in spans.items()})
        return self._asked_of(read_files(self._spark, path, files)).where(_within(spans))

    def _source(self, version: int | None) -> DataFrame:
        return self._asked_of(
            read_archive(self._spark, self._config.path, self._config.store_format, version=version)
        )

    def _asked_of(self, frame: DataFrame) -> DataFrame:
        """Of the topic, and of the time."""
        from pyspark.sql import functions as f

        frame = frame.where(f.col("topic") == self._config.topic[0])
        since, until = self._config.from_time, self._config.until_time
        # By date as well: it is what the directories are named after.
        if since is not None:
            frame = frame.where((f.col("date") >= f.lit(since.date())) & (f.col("timestamp") >= f.lit(since)))
        if until is not None:
            frame = frame.where((f.col("date") <= f.lit(until.date())) & (f.col("timestamp") < f.lit(until)))
        return frame

    def _remainder(self, chosen: DataFrame, chunk: Chunk) -> DataFrame:
        """What of the chunk is not in the target yet."""
        self._target.check_holds(chunk, is_placed=self._is_placed)
        comparison = compared(chosen, self._written_since(chunk), is_placed=self._is_placed)
        self._target.check_gap(first_gap(comparison, is_placed=self._is_placed))
        return missing(comparison)

    def _written_since(self, chunk: Chunk) -> DataFrame:
        """What is in the target from where it ended before the chunk; also what others have written."""
        topic = self._config.to_topic[0]
        # Partitions that were added since are read whole.
        starts = dict.fromkeys(self._target.ends(), EARLIEST) | chunk.target_ends
        return read_whole(
            self._spark,
            self._config,
            [topic],
            startingOffsets=json.dumps({topic: starts}, sort_keys=True),
            includeHeaders="true",
        )


def _source_id(config: ReplayConfig) -> str | None:
    return archived_topic_id(config.path, config.store_format, config.topic[0])


def _target_id(config: ReplayConfig) -> str:
    (topic,) = config.to_topic
    return ids_of_topics(config.bootstrap_servers, [topic])[topic]


def _warn_of_itself(config: ReplayConfig, job: Job) -> None:
    """It may be meant: what was lost, say, comes back into the topic that has lost it."""
    source_id, target_id = _source_id(config), _target_id(config)
    if source_id == target_id or (source_id is None and config.topic == config.to_topic):
        job.tell(
            f"warning: {config.to_topic[0]} is the topic that the archive is of. It will have these records "
            f"a second time, and so will an archive or a table that follows it"
        )


def _within(spans: Mapping[str, tuple[int, int]]) -> Column:
    from pyspark.sql import functions as f

    is_within = f.expr("false")
    for partition, (first, end) in spans.items():
        is_within |= (f.col("partition") == int(partition)) & f.col("offset").between(first, end - 1)
    return is_within
