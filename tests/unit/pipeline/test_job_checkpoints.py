"""A checkpoint goes with what a job has written: with something else, rows would be missing unseen."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.errors import InvalidConfig, InvalidRequest
from quorate.pipeline.jobs import aggregate
from quorate.pipeline.jobs.archive import job as archive
from quorate.pipeline.jobs.archive.parquet_store import ParquetStore
from quorate.pipeline.jobs.config import AggregateConfig, ArchiveConfig, JobConfig, TableConfig
from quorate.pipeline.jobs.job_lock import only_one_job
from quorate.pipeline.jobs.running import Outcome
from quorate.pipeline.jobs.table import job as table
from quorate.pipeline.jobs.table.parquet_table import ParquetLatest
from tests.unit.pipeline.archive_stand_in import Listener

_DONE = Outcome(rows=0, was_stopped=False)
_ID, _OTHER_ID = "A" * 22, "B" * 22
Ids = dict[str, str]


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> Ids:
    """Of the topics; jobs run to their end without Spark."""
    found = dict.fromkeys(("orders", "counts"), _ID)
    for job in (archive, table, aggregate):
        monkeypatch.setattr(job, "ids_of_topics", lambda _, topics: {each: found[each] for each in topics})
        monkeypatch.setattr(job, "open_session", lambda *_, **__: None)
        monkeypatch.setattr(job, "read_stream", lambda *_: None)
        monkeypatch.setattr(job, "run_stream", lambda *_, **__: _DONE)
    monkeypatch.setattr(aggregate, "aggregated", lambda *_: None)
    monkeypatch.setattr(table, "_partition_count", lambda *_: 3)
    return found


def _archived(tmp_path: Path, path: str = "archive", **settings: Any) -> Outcome:
    checkpoint = str(tmp_path / "checkpoint")
    config = ArchiveConfig(
        topics=("orders",), path=str(tmp_path / path), **{"checkpoint_dir": checkpoint, **settings}
    )
    return archive.run(config, Listener())


def _tabled(tmp_path: Path, path: str = "table", **settings: Any) -> Outcome:
    checkpoint = str(tmp_path / "checkpoint")
    config = TableConfig(
        topic=("orders",), path=str(tmp_path / path), **{"checkpoint_dir": checkpoint, **settings}
    )
    return table.run(config, Listener())


def _counted(tmp_path: Path, **settings: Any) -> Outcome:
    config = AggregateConfig(
        topics=("orders",), to_topic=("counts",), checkpoint_dir=str(tmp_path / "checkpoint"), **settings
    )
    return aggregate.run(config, Listener())


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize("run", [_archived, _tabled])
def test_a_checkpoint_of_another_place_is_refused(tmp_path: Path, run: Callable[..., Outcome]) -> None:
    assert run(tmp_path, "here") == _DONE
    assert run(tmp_path, "here") == _DONE
    with pytest.raises(InvalidRequest, match=r"path was one with the id .* name another checkpoint\.dir"):
        run(tmp_path, "there")
    # Nor the same path, if what was there is gone.
    shutil.rmtree(tmp_path / "here")
    with pytest.raises(InvalidRequest, match="a checkpoint of something else"):
        run(tmp_path, "here")
    assert run(tmp_path, "here", checkpoint_dir=str(tmp_path / "another")) == _DONE


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize("run", [_archived, _tabled])
def test_a_place_may_be_moved_and_a_lost_checkpoint_be_made_anew(
    tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    run(tmp_path, "here")
    (tmp_path / "here").rename(tmp_path / "there")
    assert run(tmp_path, "there") == _DONE
    shutil.rmtree(tmp_path / "checkpoint")
    assert run(tmp_path, "there") == _DONE


@pytest.mark.usefixtures("ids")
def test_a_checkpoint_is_of_one_job_and_format(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="the extra delta is not installed")
    _archived(tmp_path, "here")
    with pytest.raises(InvalidRequest, match="format was parquet, and is delta"):
        _archived(tmp_path, "here", store_format="delta")
    with pytest.raises(InvalidRequest, match="job was archive, and is table"):
        _tabled(tmp_path, "here")


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize("run", [_archived, _tabled])
def test_two_jobs_on_one_checkpoint_refuse_each_other(tmp_path: Path, run: Callable[..., Outcome]) -> None:
    with only_one_job(str(tmp_path / "checkpoint")), pytest.raises(InvalidRequest, match="another job"):
        run(tmp_path)


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(("run", "store"), [(_archived, ParquetStore), (_tabled, ParquetLatest)])
def test_without_its_checkpoint_a_job_does_not_begin_at_the_latest_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Outcome], store: type
) -> None:
    """What has come since it was lost would be in no batch."""
    assert run(tmp_path, starting_offsets="latest") == _DONE, "it is new, and that is what was asked for"
    monkeypatch.setattr(store, "is_empty", False)
    with pytest.raises(InvalidConfig, match=r"starting\.offsets=latest: .* With earliest all is read"):
        run(tmp_path, starting_offsets="latest")
    assert run(tmp_path, starting_offsets="earliest") == _DONE
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "q"}')
    assert run(tmp_path, starting_offsets="latest") == _DONE


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"window": "2 minutes"}, "window was 1 minute, and is 2 minutes"),
        ({"slide": "30 seconds"}, "slide was 1 minute, and is 30 seconds"),
        ({"group_by": "$.customer"}, r"group\.by was key, and is \$\.customer"),
        ({"event_time": "$.at"}, r"event\.time was timestamp"),
        ({"sums": ("$.price",)}, r"sum was \$\.amount, and is \$\.price"),
        ({"emit": "final"}, "emit was updates, and is final"),
    ],
)
@pytest.mark.usefixtures("ids")
def test_what_was_counted_otherwise_is_not_counted_on_with(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    _counted(tmp_path, sums=("$.amount",))
    assert _counted(tmp_path, sums=("$.amount",), watermark="2 minutes") == _DONE
    with pytest.raises(InvalidRequest, match=said):
        _counted(tmp_path, **{"sums": ("$.amount",), **changed})


def test_results_are_not_gone_on_with_in_a_topic_that_was_made_anew(tmp_path: Path, ids: Ids) -> None:
    """Windows that do not change any more would be in no topic."""
    _counted(tmp_path)
    ids["counts"] = _OTHER_ID
    with pytest.raises(
        InvalidRequest, match=rf"to\.topic was counts with the id {_ID}, and is .*{_OTHER_ID}"
    ):
        _counted(tmp_path)


def test_every_job_that_follows_a_topic_is_looked_at_here() -> None:
    from quorate.pipeline.jobs.config import JOBS
    from quorate.pipeline.jobs.config.base import StreamingConfig

    following: set[type[JobConfig]] = {each for each in JOBS.values() if issubclass(each, StreamingConfig)}
    assert following == {ArchiveConfig, TableConfig, AggregateConfig}
