"""Topics as frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quorate.pipeline.jobs.session import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quorate.pipeline.jobs.config.base import JobConfig, StreamingConfig

__all__ = ["read_stream", "read_whole", "what_is_read"]


def what_is_read(config: StreamingConfig, topics: Sequence[str]) -> str:
    """What a job tells once Spark is there."""
    names = ", ".join(topics)
    return f"reading what {names} holds" if config.is_once else f"following {names}"


def read_stream(spark: SparkSession, config: StreamingConfig, topics: Sequence[str]) -> DataFrame:
    """Every record with all that it has, from where the checkpoint says."""
    return (
        spark.readStream.format(FORMAT)
        .option("kafka.bootstrap.servers", config.bootstrap_servers)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", config.starting_offsets.value)
        .option("failOnDataLoss", str(config.fails_on_data_loss).lower())
        # Results know records by offsets, which must not mean others all of a sudden.
        .option("dataLossAllowed", "retention")
        .option("maxOffsetsPerTrigger", str(config.rows_per_batch_max))
        .option("includeHeaders", "true")
        .load()
    )


def read_whole(spark: SparkSession, config: JobConfig, topics: Sequence[str], **options: str) -> DataFrame:
    """What the topics hold now."""
    return (
        spark.read.format(FORMAT)
        .option("kafka.bootstrap.servers", config.bootstrap_servers)
        .option("subscribe", ",".join(topics))
        .options(**options)
        .load()
    )
