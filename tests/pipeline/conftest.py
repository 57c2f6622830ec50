"""A real cluster and a real Spark, one of each for a worker process: a JVM for each test would be slow."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quorate.testing import LocalCluster

_numbers = count()

# A cluster of Sparks takes minutes: `make pipeline-test` asks for it.
collect_ignore_glob = [] if os.environ.get("PIPELINE_STANDALONE") else ["standalone/*"]


def _needs_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and os.access(f"{home}/bin/java", os.X_OK))):
        pytest.skip("Spark needs Java 17, and there is no java on the path or in JAVA_HOME")


@pytest.fixture(scope="session")
def python_of_executors(tmp_path_factory: pytest.TempPathFactory) -> str:
    """This very Python, without the archive of pyspark's sources that Spark puts first on its path.

    What is imported from there is compiled in every process anew, which is most of what starting one takes;
    Spark gives it ten seconds, and a busy machine needs them. For the same reason it keeps what it compiles,
    whatever the surroundings say: the set-up compiles nothing ahead.
    """
    script = tmp_path_factory.mktemp("python") / "python"
    path = shlex.quote(os.environ.get("PYTHONPATH", ""))
    script.write_text(
        f"#!/bin/sh\nunset PYTHONDONTWRITEBYTECODE\nexport PYTHONPATH={path}\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


@pytest.fixture(scope="session", autouse=True)
def surroundings_of_processes(python_of_executors: str) -> Iterator[None]:
    """Jobs and nodes that tests start keep what they compile, and jobs have Spark use the same Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", python_of_executors)
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    _needs_java()
    from pyspark.sql import SparkSession

    # Before the JVM starts. Nobody talks beyond this machine.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        # Short work: compiling it thoroughly would take longer than doing it.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = SparkSession.builder.master("local[2]").appName("tests of the pipeline")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def quorate_cluster() -> Iterator[LocalCluster]:
    """In place of the one of `quorate.testing`: retention is looked after while a test can wait for it."""
    from quorate.testing import LocalCluster

    with LocalCluster(3, settings={"log.retention.check.interval.ms": "1000"}) as cluster:
        yield cluster


@pytest.fixture
def new_topic(quorate_cluster: LocalCluster) -> Callable[..., str]:
    """Makes a topic that no other test knows; it keeps records of any age unless it is told otherwise."""

    def make(partitions: int = 3, **configs: str) -> str:
        configs = {"retention.ms": "-1", **configs}
        name = f"topic-{os.getpid()}-{next(_numbers)}"
        with quorate_cluster.admin() as admin:
            admin.create_topic(name, partitions=partitions, replication_factor=3, configs=configs)
        return name

    return make
