"""What jobs are told: from a file and from flags, checked before Spark is started."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, call

import pytest

from quorate.console.main import main
from quorate.core.config.kinds import Flag
from quorate.core.config.schema import settings_of
from quorate.errors import InvalidConfig
from quorate.pipeline.jobs import session as job_session
from quorate.pipeline.jobs.archive import job as archive_job
from quorate.pipeline.jobs.config import JOBS, AggregateConfig, ArchiveConfig, AuditConfig, ReplayConfig
from quorate.pipeline.jobs.config.base import StoreFormat, StreamingConfig, load
from quorate.pipeline.jobs.reading import read_stream
from quorate.pipeline.jobs.running import Outcome
from quorate.pipeline.jobs.session import open_session

_REPLAY = {"path": "/a", "topic": "t", "to.topic": "u", "checkpoint.dir": "/c"}


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "archive.toml"
    file.write_text('topics = ["a", "b"]\npath = "/srv"\nformat = "delta"\n[trigger]\ninterval = "30s"\n')
    config = load(ArchiveConfig, str(file), {"path": "/elsewhere", "once": True})

    assert config.topics == ("a", "b")
    assert config.path == "/elsewhere"
    assert config.store_format is StoreFormat.DELTA
    assert config.trigger_ms == 30_000
    assert config.is_once
    assert config.rows_per_batch_max == 500_000
    assert config.checkpoint == "/elsewhere/_checkpoint"


def test_everything_that_is_missing_is_told_at_once_with_its_flag() -> None:
    with pytest.raises(InvalidConfig, match=r"(?s)--path.*--to-topic.*--checkpoint-dir"):
        load(ReplayConfig, None, {"topic": "t"})


@pytest.mark.parametrize(
    ("job", "flags", "told"),
    [
        (ArchiveConfig, {"topics": "a", "path": "/p", "formt": "delta"}, "did you mean format"),
        (ArchiveConfig, {"topics": "a,a", "path": "/p"}, "one twice"),
        (ArchiveConfig, {"topics": "a b", "path": "/p"}, "no name of a topic"),
        (AggregateConfig, {"topics": "a", "to.topic": "a", "checkpoint.dir": "/c"}, "its own results"),
        (
            AggregateConfig,
            {"topics": "a", "to.topic": "b", "checkpoint.dir": "/c", "window": "1"},
            "length of time",
        ),
        (
            AggregateConfig,
            {"topics": "a", "to.topic": "b", "checkpoint.dir": "/c", "sum": "amount"},
            "no such path",
        ),
        (
            ReplayConfig,
            {**_REPLAY, "from.time": "2026-02-01", "until.time": "2026-01-01"},
            "nothing lies between",
        ),
        (ReplayConfig, {**_REPLAY, "from.time": "yesterday"}, "no time"),
        (AuditConfig, {"ledger": "x", "log": "archive"}, "needs it"),
    ],
)
def test_a_mistake_is_refused_by_name(job: type[Any], flags: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidConfig, match=told):
        load(job, None, flags)


@pytest.mark.parametrize(
    ("content", "flags", "fails"),
    [
        ("", {}, True),
        ("fail.on.data.loss = false", {}, False),
        ("fail.on.data.loss = false", {"fail.on.data.loss": "true"}, True),
        ("", {"fail.on.data.loss": "false"}, False),
    ],
)
@pytest.mark.parametrize("job", ["archive", "aggregate", "table"])
def test_a_job_that_follows_a_topic_ends_where_data_is_lost_unless_it_is_told_otherwise(
    tmp_path: Path, job: str, content: str, flags: dict[str, object], *, fails: bool
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(content)
    places = {
        "archive": {"topics": "a", "path": "/p"},
        "aggregate": _COUNTED,
        "table": {"topic": "a", "path": "/p"},
    }
    config = load(JOBS[job], str(file), {**places[job], **flags})
    assert isinstance(config, StreamingConfig)
    spark = MagicMock()
    reader = spark.readStream.format.return_value
    reader.option.return_value = reader
    read_stream(spark, config, ["a"])
    assert call("failOnDataLoss", str(fails).lower()) in reader.option.call_args_list
    assert call("dataLossAllowed", "retention") in reader.option.call_args_list


def test_a_time_without_a_zone_is_utc() -> None:
    config = load(
        ReplayConfig, None, {**_REPLAY, "from.time": "2026-01-31", "until.time": "2026-01-31T09:00+01:00"}
    )

    assert config.from_time == datetime(2026, 1, 31, tzinfo=UTC)
    assert config.until_time == datetime(2026, 1, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T08:15:00", datetime(2026, 1, 31, 8, 15, tzinfo=UTC)),
        ("2026-01-31T08:15:00+01:00", datetime(2026, 1, 31, 7, 15, tzinfo=UTC)),
    ],
)
def test_a_file_may_say_times_as_toml_has_them(tmp_path: Path, written: str, meant: datetime) -> None:
    """Without quotation marks these are dates and times of TOML's own, and no text."""
    file = tmp_path / "replay.toml"
    for text in (written, f'"{written}"'):
        file.write_text(f"from.time = {text}\n")
        assert load(ReplayConfig, str(file), _REPLAY).from_time == meant
    file.write_text("from.time = 08:15:00\n")
    with pytest.raises(InvalidConfig, match=r"from\.time: .*no time"):
        load(ReplayConfig, str(file), _REPLAY)


def test_code_may_say_what_a_file_would() -> None:
    config = ArchiveConfig(topics=("a",), path="/p", store_format="delta")  # type: ignore[arg-type]  # as code may

    assert config.store_format is StoreFormat.DELTA


@pytest.mark.parametrize("name", JOBS)
def test_the_command_of_a_job_has_an_option_for_each_setting(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "run", name, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for setting in settings_of(JOBS[name]):
        if setting.key != "bootstrap.servers":
            assert f"--{setting.key.replace('.', '-')}" in shown
            # And says what it takes, as errors do.
            if not isinstance(setting.kind, Flag) or setting.default:
                assert f"[{setting.kind.accepts.removesuffix(', or nothing')}" in shown


def test_wrong_settings_end_the_command_before_spark_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", "table", "--topic", "t", "--path", "/p", "--buckets", "0"]) == 2
    error = capsys.readouterr().err
    # The setting once, and where to read of all of them.
    assert "error: INVALID_CONFIG: --buckets: 0 is too small; expected" in error
    assert "`quorate pipeline run table --help` lists every one" in error
    assert "docs/" not in error


def test_a_flag_is_named_once_and_a_line_of_the_file_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "archive.toml"
    file.write_text('trigger.interval = "soon"\n')
    with pytest.raises(InvalidConfig) as refused:
        load(ArchiveConfig, str(file), {"path": "s3a://--path: path: x"})
    assert f"{file}:1: trigger.interval: " in refused.value.message
    # What was given is told as it was given.
    assert "\n  - --path: 's3a://--path: path: x' is the address" in refused.value.message


def test_a_setting_that_is_missing_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", "archive", "--path", "/p"]) == 2
    assert "topics is required" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["s3a://bucket/x", "hdfs://host:8020/x", "file:///tmp/x", "dbfs:/x"])
@pytest.mark.parametrize(
    ("job", "key"),
    [
        (name, setting.key)
        for name, job in JOBS.items()
        for setting in settings_of(job)
        if setting.key in ("path", "checkpoint.dir")
    ],
)
def test_an_address_of_a_file_system_is_no_path(job: str, key: str, path: str) -> None:
    """Taken as one, it would be a directory of that name, wherever the job was started."""
    with pytest.raises(InvalidConfig, match=f"--{key.replace('.', '-')}: '{path}' is the address"):
        load(JOBS[job], None, {key: path})


def test_a_path_may_hold_a_colon() -> None:
    assert ArchiveConfig(topics=("a",), path="/srv/a:/b").path == "/srv/a:/b"


_COUNTED = {"topics": "a", "to.topic": "b", "checkpoint.dir": "/c"}


@pytest.mark.parametrize(("window", "slide"), [("1 minute", "2 minutes"), ("59 seconds", "1 minute")])
def test_windows_further_apart_than_long_are_refused(window: str, slide: str) -> None:
    with pytest.raises(InvalidConfig, match=f"slide: {slide} is longer than the window"):
        load(AggregateConfig, None, {**_COUNTED, "window": window, "slide": slide})


def test_windows_may_overlap_and_may_begin_where_the_one_before_ends() -> None:
    assert load(AggregateConfig, None, {**_COUNTED, "window": "1 hour", "slide": "60 minutes"}).slide
    assert load(AggregateConfig, None, {**_COUNTED, "window": "1 day", "slide": "1 hour"}).slide


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[4]",
        "local[2, 3]",
        "local-cluster[2,1,1024]",
        "yarn",
        "spark://a:7077",
        "spark://a:7077,b:7077",
        "spark://[::1]:7077",
        "spark://a:7077,[2001:db8::1]:7077",
        "k8s://https://host:6443",
        "ours://somewhere",
    ],
)
def test_a_master_is_what_spark_knows_or_somebodys_own(master: str) -> None:
    assert ArchiveConfig(topics=("a",), path="/p", spark_master=master).spark_master == master


@pytest.mark.parametrize(
    "master",
    ["spark:/foo", "spark://foo", "spark://a:7077,b", "spark://::1:7077", "local[x]", "locl", "a b"],
)
def test_what_is_no_master_is_refused_before_spark_is_started(master: str) -> None:
    with pytest.raises(InvalidConfig, match="no address of a Spark master; expected local"):
        load(ArchiveConfig, None, {"topics": "a", "path": "/p", "spark.master": master})


@pytest.mark.parametrize(
    ("options", "variable", "asked"),
    [
        (["--bootstrap", "127.0.0.1:9092"], None, "127.0.0.1:9092"),
        ([], "127.0.0.1:9092", "127.0.0.1:9092"),
        (["--bootstrap", "b:1"], "c:1", "b:1"),
        ([], None, "a:1"),
    ],
)
def test_servers_that_are_given_win_over_the_file_also_if_they_are_the_usual_ones(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    variable: str | None,
    asked: str,
) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    file = tmp_path / "archive.toml"
    file.write_text('topics = ["a"]\npath = "/srv"\nbootstrap.servers = "a:1"\n')
    seen: list[str] = []

    def run(config: ArchiveConfig, _job: object) -> Outcome:
        seen.append(config.bootstrap_servers)
        return Outcome(rows=0, was_stopped=False)

    monkeypatch.setattr(archive_job, "run", run)
    monkeypatch.delenv("QUORATE_BOOTSTRAP", raising=False)
    if variable is not None:
        monkeypatch.setenv("QUORATE_BOOTSTRAP", variable)
    assert main(["pipeline", "run", "archive", "--config", str(file), *options]) == 0
    assert seen == [asked]


def test_a_zone_of_ones_own_is_refused_since_dates_of_directories_are_in_utc() -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    config = ArchiveConfig(
        topics=("a",), path="/p", spark_conf=(("spark.sql.session.timeZone", "Europe/Berlin"),)
    )
    with pytest.raises(InvalidConfig, match=r"spark\.conf: spark\.sql\.session\.timeZone=Europe/Berlin"):
        open_session("archive", config)


@pytest.mark.parametrize("setting", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_rows_that_would_be_missing_without_a_word_cannot_be_asked_for(setting: str) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    config = ArchiveConfig(topics=("a",), path="/p", spark_conf=((f"spark.sql.files.{setting}", "true"),))
    with pytest.raises(InvalidConfig, match=rf"spark\.sql\.files\.{setting}=true: archive needs false"):
        open_session("archive", config)


def test_what_one_job_needs_is_refused_for_that_job() -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    config = ArchiveConfig(topics=("a",), path="/p", spark_conf=(("spark.task.maxFailures", "4"),))
    with pytest.raises(InvalidConfig, match=r"spark\.task\.maxFailures=4: replay needs 1"):
        open_session("replay", config, needed={"spark.task.maxFailures": "1"})


_ONE_ATTEMPT = {"spark.task.maxFailures": "1", "spark.speculation": "false"}


@pytest.mark.parametrize(
    ("master", "settings", "told"),
    [
        ("yarn", {}, r"spark\.task\.maxFailures=unset, and replay needs 1"),
        (
            "yarn",
            {"spark.task.maxFailures": "4"},
            r"maxFailures=4, .*spark-submit --conf spark\.task\.maxFailures=1",
        ),
        ("yarn", {"spark.task.maxFailures": "1", "spark.speculation": "true"}, r"spark\.speculation=true"),
        ("local[2, 3]", {"spark.task.maxFailures": "1"}, "maxFailures=3"),
        ("yarn", {"spark.task.maxFailures": "1"}, None),
        ("local[*]", {"spark.task.maxFailures": "1"}, None),
        ("local[2,1]", {}, None),
    ],
)
def test_a_session_that_was_there_already_has_what_the_job_needs(
    monkeypatch: pytest.MonkeyPatch, master: str, settings: dict[str, str], told: str | None
) -> None:
    """What is given to the builder then changes nothing: a second attempt would write rows twice."""
    sql = pytest.importorskip("pyspark.sql", reason="the extra spark is not installed")
    session = MagicMock()
    session.sparkContext.master = master
    session.sparkContext.getConf.return_value.getAll.return_value = list(settings.items())
    builder = MagicMock()
    for step in (builder.appName, builder.master, builder.config):
        step.return_value = builder
    builder.getOrCreate.return_value = session
    monkeypatch.setattr(sql.SparkSession, "builder", builder)
    monkeypatch.setattr(job_session, "start_jvm", lambda _: None)
    config = ReplayConfig(path="/p", topic=("t",), to_topic=("u",), checkpoint_dir="/c")
    if told is None:
        assert open_session("replay", config, needed=_ONE_ATTEMPT) is session
        return
    with pytest.raises(InvalidConfig, match=told):
        open_session("replay", config, needed=_ONE_ATTEMPT)


def test_an_audit_that_could_not_look_has_not_found_that_a_promise_was_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    options = ["--ledger", str(tmp_path), "--log", "archive", "--path", str(tmp_path)]
    assert main(["pipeline", "run", "audit", *options]) == 3
    assert "error: INVALID_REQUEST: " in capsys.readouterr().err
    # As everywhere.
    assert main(["pipeline", "run", "audit", "--log", "archive"]) == 2
    (tmp_path / "file").touch()
    assert main(["pipeline", "run", "archive", "--topics", "t", "--path", str(tmp_path / "file")]) == 1
    assert main(["pipeline", "run", "audit", "--help"]) == 0
    assert "3 no verdict" in " ".join(capsys.readouterr().out.split())
