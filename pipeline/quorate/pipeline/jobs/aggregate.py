"""``quorate pipeline run aggregate``: counts and sums per key and window of event time, into a topic.

A result says all of its window so far, not what has changed, and its key is the group and the window. So a
result that is written twice, after a kill, says the same twice, and the last one of each key is the truth:
in a compacted topic nothing else stays. A batch is done again with the same records on the same state, and
the next one begins when it is done, so no older result can follow a newer one.

Spark's Python sinks cannot be told of updates, only of rows that are appended; so each batch of updates is
written as a batch of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.pipeline.jobs.archive.topic_ids import ids_of_topics
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.checkpoints import claim_checkpoint
from quorate.pipeline.jobs.config.aggregate import AggregateConfig, Emit
from quorate.pipeline.jobs.config.kinds import EVENT_TIME, RECORD_KEY
from quorate.pipeline.jobs.job_lock import only_one_job
from quorate.pipeline.jobs.reading import read_stream, what_is_read
from quorate.pipeline.jobs.running import Job, Outcome, run_stream
from quorate.pipeline.jobs.session import FORMAT, open_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["aggregated", "run"]

#: Sums are exact, so that they do not depend on the order in which tasks came.
_NUMBER: Final = "decimal(38,9)"


def run(config: AggregateConfig, job: Job) -> Outcome:
    with only_one_job(config.checkpoint):
        claim_checkpoint(config.checkpoint, _owner(config))
        spark = open_session("aggregate", config, tell=job.tell)
        results = aggregated(read_stream(spark, config, config.topics), config)
        job.tell(what_is_read(config, config.topics))

        def on_batch(changed: DataFrame, _batch: Batch) -> None:
            (
                changed.write.format(FORMAT)
                .option("kafka.bootstrap.servers", config.bootstrap_servers)
                .option("topic", config.to_topic[0])
                .mode("append")
                .save()
            )

        return run_stream(
            job,
            results,
            config,
            checkpoint=config.checkpoint,
            on_batch=on_batch,
            output_mode="append" if config.emit is Emit.FINAL else "update",
        )


def aggregated(frame: DataFrame, config: AggregateConfig) -> DataFrame:
    """Rows with the columns key and value, both JSON.

    What is no number or no time where there should be one counts as missing: one bad record must not end the
    job for ever.
    """
    from pyspark.sql import functions as f

    value = f.col("value").cast("string")
    happened = (
        f.col("timestamp")
        if config.event_time == EVENT_TIME
        else f.get_json_object(value, config.event_time).try_cast("timestamp")
    )
    group = (
        f.col("key").cast("string")
        if config.group_by == RECORD_KEY
        else f.get_json_object(value, config.group_by)
    )
    columns = [happened.alias("happened"), group.alias("group")]
    columns += [
        f.get_json_object(value, path).try_cast(_NUMBER).alias(f"number_{index}")
        for index, path in enumerate(config.sums)
    ]
    counted = (
        frame.select(*columns)
        .withWatermark("happened", config.watermark)
        .groupBy(f.window("happened", config.window, config.slide), "group")
        .agg(f.count("*").alias("count"), *_sums(config))
    )
    start, end = (_as_text(f.col(f"window.{side}")).alias(side) for side in ("start", "end"))
    named = [f.col(f"sum_{index}").alias(path) for index, path in enumerate(config.sums)]

    def told(group: Column) -> tuple[Column, Column]:
        result = f.struct(group, start, end, f.col("count"), f.struct(*named).alias("sums"))
        return f.to_json(f.struct(group, start)), f.to_json(result, {"ignoreNullFields": "false"})

    # JSON has no other bytes: all that are no text would become the same group.
    as_text, as_hex = told(f.col("group")), told(f.hex(f.col("group").cast("binary")).alias("group_hex"))
    is_text = f.coalesce(f.is_valid_utf8("group"), f.lit(True))  # noqa: FBT003 - a literal of SQL
    key, value = (f.when(is_text, text).otherwise(other) for text, other in zip(as_text, as_hex, strict=True))
    return counted.select(key.alias("key"), value.alias("value"))


def _owner(config: AggregateConfig) -> dict[str, str]:
    """What has been counted so far goes with these; and what has been written is in this topic."""
    (topic,) = config.to_topic
    topic_id = ids_of_topics(config.bootstrap_servers, [topic])[topic]
    return {
        "job": "aggregate",
        "to.topic": f"{topic} with the id {topic_id}",
        "window": config.window,
        "slide": config.slide or config.window,
        "event.time": config.event_time,
        "group.by": config.group_by,
        "sum": ",".join(config.sums),
        "emit": config.emit.value,
    }


def _sums(config: AggregateConfig) -> list[Column]:
    from pyspark.sql import functions as f

    # What does not fit is null: an error would end the job, and come again with every start.
    return [f.try_sum(f"number_{index}").alias(f"sum_{index}") for index in range(len(config.sums))]


def _as_text(moment: Column) -> Column:
    """ISO 8601; the session's zone is UTC."""
    from pyspark.sql import functions as f

    return f.date_format(moment, "yyyy-MM-dd'T'HH:mm:ss'Z'")
