"""What a job that fails says: a line, and whose fault it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from quorate.pipeline.jobs import jvm
from quorate.pipeline.jobs.errors import JobFailed
from quorate.pipeline.jobs.failures import failing_as_job


def test_a_failure_in_spark_is_told_in_a_line() -> None:
    pyspark_errors = pytest.importorskip("pyspark.errors")
    text = "[X] aborted\n  File x.py\nquorate.errors.OffsetOutOfRange: t-0 at offset 7: gone\n\tat org.apache"
    with pytest.raises(JobFailed, match="OffsetOutOfRange: t-0 at offset 7: gone"), failing_as_job():
        raise pyspark_errors.PySparkException(text)


_GONE_OR_BUSY = "Py4JNetworkError: Error while sending or receiving"


@pytest.mark.parametrize(
    ("has_ended", "told"),
    [
        (True, "Spark's JVM has ended before the job .* send SIGTERM to the job alone"),
        (False, "the job failed"),
    ],
)
def test_a_connection_that_broke_is_the_end_of_the_jvm_only_if_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, has_ended: bool, told: str
) -> None:
    pyspark = pytest.importorskip("pyspark", reason="the extra spark is not installed")
    from pyspark.errors import PySparkException

    monkeypatch.setattr(jvm, "_JVM_ENDS_WITHIN_S", 0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(pyspark.SparkContext, "_gateway", MagicMock(proc=process))
        if has_ended:
            process.kill()
            process.wait()
        with pytest.raises(JobFailed, match=told), failing_as_job():
            raise PySparkException(_GONE_OR_BUSY)
        process.kill()


def test_what_the_system_says_of_a_file_is_no_bug_of_ours(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    with pytest.raises(JobFailed, match="gone: No such file or directory"), failing_as_job():
        (tmp_path / "gone").read_bytes()
    # That is about no file: a connection, or whoever reads what is told.
    with pytest.raises(BrokenPipeError), failing_as_job():
        raise BrokenPipeError
