"""The JVM that Spark runs in: finding Java, starting it, and whether it has ended.

PySpark starts one by itself with the first session, in the process group of the job, without the locks that
the job has, and tells of a missing Java at length. So it is started here first, by what PySpark uses itself.
Where PySpark keeps it is no public name: nothing else looks there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from quorate.pipeline.jobs.errors import JobFailed
from quorate.pipeline.jobs.job_lock import held_locks

__all__ = ["has_jvm_ended", "start_jvm"]

_JAVA_MIN: Final = 17
#: of the file `release` of an installation; Java 8 calls itself 1.8
_JAVA_VERSION: Final = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)
#: there is a JVM already, or none is wanted
_ELSEWHERE: Final = frozenset({"PYSPARK_GATEWAY_PORT", "SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"})
_JVM_ENDS_WITHIN_S: Final = 5


def start_jvm(settings: Mapping[str, str]) -> None:
    """Spark's own, in a process group of its own, unless there is one.

    `timeout`, a shell's `kill %1` and the like tell a whole group to stop. A job stops Spark itself, when
    the batch that is being written is done. A JVM whose job is gone ends, as its input does; until then its
    tasks may write, and it keeps what nobody else may write.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    # A session of Spark Connect, or one that a launcher has made, needs none of ours.
    if SparkContext._gateway is not None or _ELSEWHERE & os.environ.keys():  # noqa: SLF001 - nobody else tells
        return
    if not _has_spark_env():
        _check_java()
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    kept = {"process_group": 0, "pass_fds": held_locks()}
    gateway = launch_gateway(conf, kept)  # type: ignore[no-untyped-call]  # it has none
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001 - a builder takes none


def has_jvm_ended() -> bool:
    """Or does so in a moment, and is waited for. One that somebody else has started is none of ours."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark keeps its process there
    process = getattr(gateway, "proc", None)
    if not isinstance(process, subprocess.Popen):
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(_JVM_ENDS_WITHIN_S)
    return process.returncode is not None


def _has_spark_env() -> bool:
    """Spark's scripts run it before they look for Java, and it may say where that is."""
    from pyspark.find_spark_home import _find_spark_home

    directory = os.environ.get("SPARK_CONF_DIR") or f"{_find_spark_home()}/conf"
    return os.path.isfile(f"{directory}/spark-env.sh")


def _check_java() -> None:
    """As Spark's scripts look for it; what these and Python say where there is none is twenty lines."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        where = f"there is no {java}, as JAVA_HOME says" if home else "there is no java on the path"
        raise JobFailed(f"Java {_JAVA_MIN} was not found, {where}: install it, or set JAVA_HOME")
    version = _java_version(os.path.dirname(os.path.dirname(os.path.realpath(java))))
    if version is not None and version < _JAVA_MIN:
        raise JobFailed(
            f"Spark needs Java {_JAVA_MIN}, and {java} is {version}: install it, or set JAVA_HOME"
        )


def _java_version(home: str) -> int | None:
    """As its file says; None: it does not. To ask Java itself would take as long as some jobs."""
    try:
        with open(f"{home}/release", encoding="utf-8") as file:
            found = _JAVA_VERSION.search(file.read())
    except (OSError, ValueError):
        return None
    return int(found[1]) if found else None
