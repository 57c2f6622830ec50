"""The JVM of a job: which Java it needs, and what it is started with."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from quorate.pipeline.jobs import jvm
from quorate.pipeline.jobs import session as job_session
from quorate.pipeline.jobs.config import ArchiveConfig
from quorate.pipeline.jobs.errors import JobFailed
from quorate.pipeline.jobs.job_lock import held_locks, only_one_job
from quorate.pipeline.jobs.jvm import start_jvm
from quorate.pipeline.jobs.session import open_session


@pytest.mark.parametrize(
    ("home", "release", "told"),
    [
        ("nope", None, "Java 17 was not found, there is no .*/nope/bin/java, as JAVA_HOME says"),
        ("jdk", 'JAVA_VERSION="11.0.2"\n', "Spark needs Java 17, and .*/jdk/bin/java is 11"),
        ("jdk", 'JAVA_VERSION="1.8.0_402"\n', "is 1:"),
        ("jdk", 'IMPLEMENTOR="x"\nJAVA_VERSION="21.0.1"\n', None),
        ("jdk", None, None),
    ],
)
def test_a_java_that_is_missing_or_too_old_is_told_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, release: str | None, told: str | None
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    if release is not None:
        (tmp_path / "jdk" / "release").write_text(release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
    if told is None:
        jvm._check_java()
        return
    with pytest.raises(JobFailed, match=told):
        jvm._check_java()


def test_without_any_java_on_the_path_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JobFailed, match="there is no java on the path: install it, or set JAVA_HOME"):
        jvm._check_java()


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "SPARK_HOME"])
def test_where_spark_has_an_environment_of_its_own_that_says_where_java_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    directory = tmp_path if variable == "SPARK_CONF_DIR" else tmp_path / "conf"
    directory.mkdir(exist_ok=True)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nope"))
    launched = _launches(monkeypatch)
    with pytest.raises(JobFailed, match="Java 17 was not found"):
        start_jvm({})
    (directory / "spark-env.sh").write_text("JAVA_HOME=/somewhere\n")
    start_jvm({})
    assert len(launched) == 1


def test_a_jvm_is_started_for_the_master_that_the_session_will_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """On YARN and others, `spark-submit` does more than start it."""
    sql = pytest.importorskip("pyspark.sql", reason="the extra spark is not installed")
    launched = _launches(monkeypatch)
    monkeypatch.setattr(jvm, "_check_java", lambda: None)
    monkeypatch.setattr(job_session, "_check_needed", lambda *_: None)
    builder = MagicMock()
    builder.config.return_value = builder
    monkeypatch.setattr(sql.SparkSession, "builder", builder)
    own = (("spark.executor.memory", "4g"),)
    config = ArchiveConfig(topics=("a",), path="/p", spark_master="yarn", spark_conf=own)
    told: list[tuple[str, int]] = []
    open_session("archive", config, tell=lambda line: told.append((line, len(launched))))

    # Before, as it takes its time.
    assert told == [("starting Spark (yarn)", 0)]
    expected = {"spark.master": "yarn", "spark.app.name": "quorate archive", **dict(own)}
    (settings,) = launched
    assert expected.items() <= settings.items()
    assert {call.args[0]: call.args[1] for call in builder.config.call_args_list} == settings


def test_what_a_job_may_write_its_jvm_keeps_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A job that is killed leaves it for a moment, with tasks that write."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    from pyspark import java_gateway

    _launches(monkeypatch)
    monkeypatch.setattr(jvm, "_check_java", lambda: None)
    kept: list[object] = []
    monkeypatch.setattr(java_gateway, "launch_gateway", lambda _, popen: kept.append(popen["pass_fds"]))
    with only_one_job(str(tmp_path / "path")), only_one_job(str(tmp_path / "checkpoint")):
        held = held_locks()
        start_jvm({})
    assert len(held) == 2
    assert kept == [held]


def _launches(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What each JVM was to be started with; there is none."""
    from pyspark import SparkContext, java_gateway

    launched: list[dict[str, str]] = []
    monkeypatch.setattr(java_gateway, "launch_gateway", lambda conf, _: launched.append(dict(conf.getAll())))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda **_: None)
    for variable in jvm._ELSEWHERE:
        monkeypatch.delenv(variable, raising=False)
    return launched
