"""What a job leaves behind in a session that may be somebody else's as well."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.config import ArchiveConfig
from quorate.pipeline.jobs.running import run_stream
from tests.unit.pipeline.archive_stand_in import Listener

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _log_level(spark: SparkSession) -> str:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return str(jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString())


def test_a_job_that_was_stopped_leaves_the_logs_of_its_session_as_they_were(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = _log_level(spark)
    assert before != "OFF"
    job = Listener()

    def on_batch(_frame: DataFrame, batch: Batch) -> None:
        if batch.number == 1:
            job.stop.ask()

    config = ArchiveConfig(topics=("t",), path=str(tmp_path), trigger_ms=0)
    frame = spark.readStream.format("rate").option("rowsPerSecond", "100").load()
    outcome = run_stream(job, frame, config, checkpoint=str(tmp_path / "checkpoint"), on_batch=on_batch)
    assert outcome.was_stopped
    assert _log_level(spark) == before
    assert "the next run does this batch" not in capfd.readouterr().err
