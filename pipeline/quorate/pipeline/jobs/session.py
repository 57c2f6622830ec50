"""The Spark session that a job runs in."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from quorate.errors import InvalidConfig, MissingExtra
from quorate.pipeline.jobs.config.base import JobConfig
from quorate.pipeline.jobs.jvm import start_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FORMAT", "need_package", "open_session"]

#: what topics are read and written with
FORMAT: Final = "quorate"

#: What files and results mean depends on these: nobody may say otherwise.
_FIXED: Final[Mapping[str, str]] = {
    # Dates of directories and in results mean the same wherever a job runs: a replay looks for them.
    "spark.sql.session.timeZone": "UTC",
    # Not INT96, which nothing but Spark's own past asks for, and which Delta does not know.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A file that is missing, or cannot be read, is an error: its rows would be missing without a word.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.parquet.compression.codec": "zstd",
    # A batch is small; the default of 200 tasks would cost more than the work.
    "spark.sql.shuffle.partitions": "8",
    # On a machine with much else to do a worker takes its time, and that is no reason to fail.
    "spark.python.authenticate.socketTimeout": "2m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_ATTEMPTS: Final = "spark.task.maxFailures"
#: of what jobs need, where Spark's own default is enough
_SPARK_DEFAULTS: Final[Mapping[str, str]] = {"spark.speculation": "false"}


def open_session(
    name: str,
    config: JobConfig,
    *,
    tell: Callable[[str], None] | None = None,
    needed: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """One that is there already (`spark-submit`, a notebook) is used, with its master.

    ``tell``: hears of it before, as it takes seconds, and minutes where the machine has much to do.
    ``needed``: settings without which this job would not do what it promises.
    """
    if tell is not None:
        tell(f"starting Spark ({config.spark_master})")
    need_package("pyspark", "spark")
    fixed = {**_FIXED, **needed}
    for key, value in config.spark_conf:
        if fixed.get(key, value) != value:
            raise InvalidConfig(f"spark.conf: {key}={value}: {name} needs {fixed[key]}", key="spark.conf")
    from pyspark.sql import SparkSession

    from quorate.pipeline.source.data_source import QuorateDataSource

    logging = os.path.join(os.path.dirname(__file__), "log4j2.properties")
    # Spark looks for sources, and runs workers, with whatever python3 it finds, unless it is told.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.app.name": f"quorate {name}",
        "spark.master": config.spark_master,
        **_SETTINGS,
        # Of Spark's own lines a job shows errors; it says the rest itself.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging}",
        **dict(config.spark_conf),
        **fixed,
    }
    start_jvm(settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _keeping_interrupts():
        spark: SparkSession = builder.getOrCreate()
    _check_needed(name, spark, needed)
    spark.sparkContext.setLogLevel("ERROR")
    # Spark looks for it by a process that has ten seconds; on a busy machine there is none after that.
    spark.dataSource.register(QuorateDataSource)
    return spark


def _check_needed(name: str, spark: SparkSession, needed: Mapping[str, str]) -> None:
    """A session that was there already has settings of its own, which nothing changes any more."""
    context = spark.sparkContext
    found = {**_SPARK_DEFAULTS, **dict(context.getConf().getAll())}
    # `local[4,3]` says it in its own way, and counts for more.
    if attempts := re.fullmatch(r"local\[[^,]+,\s*(\d+)\s*\]", context.master or ""):
        found[_ATTEMPTS] = attempts[1]
    for key, value in needed.items():
        if found.get(key) != value:
            raise InvalidConfig(
                f"the Spark session (master {context.master}) has {key}={found.get(key, 'unset')}, and "
                f"{name} needs {value}: give it to whoever starts the session, as "
                f"`spark-submit --conf {key}={value}`",
                key=key,
            )


@contextmanager
def _keeping_interrupts() -> Iterator[None]:
    """Spark takes Ctrl-C for itself, and cancels whatever runs: what it means is the caller's to say."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def need_package(package: str, extra: str) -> None:
    """Rather told before Spark is started than by an executor."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(
            f"{package} is not installed: pip install 'quorate[{extra}]'", package=package, extra=extra
        )
