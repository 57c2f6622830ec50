"""What a replay makes sure of: whose topic it writes to, and that nothing is missing at the end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from quorate.client.admin.types import ConfigEntry, ListedOffset, TopicDescription
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.config import ReplayConfig
from quorate.pipeline.jobs.config.base import StoreFormat
from quorate.pipeline.jobs.errors import RowsMissing
from quorate.pipeline.jobs.replay import job as replay_job
from quorate.pipeline.jobs.replay import target
from quorate.pipeline.jobs.replay.notes import Chunk, Notes, asked_by
from quorate.pipeline.jobs.replay.target import Target
from quorate.pipeline.jobs.running import Outcome
from quorate.pipeline.source.errors import TopicRecreated
from tests.unit.pipeline.archive_stand_in import Listener

_ID, _OTHER_ID = "A" * 22, "B" * 22


class _Cluster:
    """Where the target is, and an archive of one row for each offset."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topic_id = _ID
        self.chunks: list[dict[str, tuple[int, int]]] = []
        #: rows that are in the archive no more
        self.missing = 0
        #: the chunk during which somebody makes the target anew
        self.recreated_at: int | None = None
        monkeypatch.setattr(replay_job, "open_session", lambda *_, **__: None)
        monkeypatch.setattr(replay_job, "ids_of_topics", lambda _, topics: {topics[0]: self.topic_id})
        monkeypatch.setattr(target, "Admin", lambda _: self)
        self.policy = "delete"
        self.begins = 0
        monkeypatch.setattr(replay_job._Replay, "_write", lambda _, notes, **__: self._write(notes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe_topic(self, topic: str) -> TopicDescription:
        configs = {"cleanup.policy": ConfigEntry("cleanup.policy", self.policy, "topic")}
        return TopicDescription(topic, self.topic_id, 1, configs, ())

    def list_offsets(self, topic: str, at: str) -> dict[TopicPartition, ListedOffset]:
        offset = self.begins if at == "earliest" else 100
        place = TopicPartition(TopicName(topic), PartitionId(0))
        return {place: ListedOffset(offset=Offset(offset), timestamp_ms=None, leader_epoch=None)}

    def _write(self, notes: Notes) -> tuple[int, int]:
        assert notes.chunk is not None
        self.chunks.append(notes.chunk.spans)
        if len(self.chunks) == self.recreated_at:
            self.topic_id = _OTHER_ID
        rows = sum(end - first for first, end in notes.chunk.spans.values()) - self.missing
        self.missing = 0
        return rows, rows


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _Cluster:
    (tmp_path / "rows.parquet").touch()
    return _Cluster(monkeypatch)


def _config(tmp_path: Path, store_format: StoreFormat = StoreFormat.PARQUET) -> ReplayConfig:
    return ReplayConfig(
        path=str(tmp_path),
        store_format=store_format,
        topic=("t",),
        to_topic=("u",),
        checkpoint_dir=str(tmp_path / "checkpoint"),
        rows_per_chunk_max=10,
    )


def _begun(
    tmp_path: Path, store_format: StoreFormat = StoreFormat.PARQUET, *, source_id: str | None = None
) -> None:
    """A replay of 40 rows, of which nothing is done yet."""
    notes = Notes(
        asked_by(_config(tmp_path, store_format)),
        source_id=source_id,
        target_id=_ID,
        rows=40,
        table_version=None,
        left={"0": (0, 20), "1": (0, 20)},
    )
    (tmp_path / "checkpoint").mkdir()
    notes.write(str(tmp_path / "checkpoint"))


def _run(tmp_path: Path, store_format: StoreFormat = StoreFormat.PARQUET) -> Outcome:
    return replay_job.run(_config(tmp_path, store_format), Listener())


def test_all_of_it_is_replayed_in_chunks(tmp_path: Path, cluster: _Cluster) -> None:
    _begun(tmp_path)
    assert _run(tmp_path).rows == 40
    assert len(cluster.chunks) == 4
    # It is done: nothing is left to write, and nothing is missing.
    assert _run(tmp_path).rows == 0
    assert len(cluster.chunks) == 4


def test_a_target_that_was_made_anew_since_is_refused_before_anything_is_written(
    tmp_path: Path, cluster: _Cluster
) -> None:
    _begun(tmp_path)
    cluster.topic_id = _OTHER_ID
    with pytest.raises(TopicRecreated, match=r"topic u was deleted and made anew.*another checkpoint\.dir"):
        _run(tmp_path)
    assert not cluster.chunks


@pytest.mark.parametrize("store_format", StoreFormat)
def test_an_archive_of_another_topic_of_that_name_is_refused(
    tmp_path: Path, cluster: _Cluster, store_format: StoreFormat
) -> None:
    _begun(tmp_path, store_format, source_id=_ID)
    (tmp_path / "_archive").mkdir()

    def holds(topic_id: str) -> None:
        (tmp_path / "_archive" / "state.json").write_text(json.dumps({"topic_ids": {"t": topic_id}}))
        (tmp_path / "_archive" / "topics.json").write_text(json.dumps({"t": topic_id}))

    holds(_OTHER_ID)
    with pytest.raises(InvalidRequest, match=r"another topic t than when .* another checkpoint\.dir"):
        _run(tmp_path, store_format)
    assert not cluster.chunks
    holds(_ID)
    assert _run(tmp_path, store_format).rows == 40


def test_a_chunk_during_which_the_target_was_made_anew_does_not_count_as_done(
    tmp_path: Path, cluster: _Cluster
) -> None:
    _begun(tmp_path)
    cluster.recreated_at = 2
    with pytest.raises(TopicRecreated):
        _run(tmp_path)
    noted = Notes.read(str(tmp_path / "checkpoint"), _config(tmp_path))
    assert noted is not None
    assert (noted.rows_done, noted.chunks_done) == (10, 1)
    assert noted.chunk is not None


def test_rows_that_were_there_at_the_start_and_are_not_found_are_told(
    tmp_path: Path, cluster: _Cluster
) -> None:
    _begun(tmp_path)
    cluster.missing = 3
    with pytest.raises(
        RowsMissing, match=r"40 rows.*37 were found.*restore the archive.*another checkpoint\.dir"
    ):
        _run(tmp_path)
    # Nobody who starts it again hears that all is well.
    with pytest.raises(RowsMissing):
        _run(tmp_path)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_target_that_is_compacted_is_refused_before_anything_is_written(
    tmp_path: Path, cluster: _Cluster, policy: str
) -> None:
    """What compaction took of a chunk would be written again, behind what is newer."""
    _begun(tmp_path)
    cluster.policy = policy
    with pytest.raises(InvalidRequest, match=r"u has cleanup\.policy=compact.*Set cleanup\.policy=delete"):
        _run(tmp_path)
    assert not cluster.chunks


def test_of_a_target_that_has_forgotten_a_chunk_nobody_says_what_is_still_to_be_written(
    cluster: _Cluster,
) -> None:
    chunk = Chunk({"0": (0, 10)}, target_ends={"0": 50, "1": 0})
    cluster.begins = 50
    Target("h:1", "u").check_holds(chunk, is_placed=True)
    cluster.begins = 51
    with pytest.raises(RowsMissing, match=r"u-0 begins at offset 51.*begun at 50.*another checkpoint\.dir"):
        Target("h:1", "u").check_holds(chunk, is_placed=True)


def test_a_replay_that_was_stopped_is_not_complete_and_says_so(tmp_path: Path, cluster: _Cluster) -> None:
    _begun(tmp_path)
    job = Listener()
    job.stop.ask()
    assert replay_job.run(_config(tmp_path), job) == Outcome(rows=0, was_stopped=True)
    assert not cluster.chunks


@pytest.mark.parametrize(
    ("source_id", "to_topic", "is_warned"),
    [(_ID, "u", True), (_OTHER_ID, "u", False), (None, "u", False), (None, "t", True)],
)
@pytest.mark.usefixtures("cluster")
def test_a_replay_into_the_topic_that_the_archive_is_of_says_so_in_a_line(
    tmp_path: Path, source_id: str | None, to_topic: str, is_warned: bool
) -> None:
    (tmp_path / "_archive").mkdir()
    state = {"topic_ids": {} if source_id is None else {"t": source_id}}
    (tmp_path / "_archive" / "state.json").write_text(json.dumps(state))
    config = replace(_config(tmp_path), to_topic=(to_topic,))
    (tmp_path / "checkpoint").mkdir()
    notes = Notes(asked_by(config), source_id=source_id, target_id=_ID, rows=0, table_version=None, left={})
    notes.write(config.checkpoint_dir)
    job = Listener()
    replay_job.run(config, job)
    warning = f"warning: {to_topic} is the topic that the archive is of"
    assert any(line.startswith(warning) for line in job.lines) is is_warned
    assert sum("warning" in line for line in job.lines) == is_warned


@pytest.mark.parametrize(
    ("path", "why"), [("nothing", "does not exist"), ("file", "no directory"), ("", "no file of Parquet")]
)
@pytest.mark.parametrize("store_format", StoreFormat)
def test_where_there_is_no_archive_nothing_is_begun(
    tmp_path: Path, path: str, why: str, store_format: StoreFormat
) -> None:
    (tmp_path / "file").touch()
    config = replace(_config(tmp_path, store_format), path=str(tmp_path / path))
    with pytest.raises(InvalidRequest, match=f"there is no archive in .*: it .*{why}"):
        replay_job.run(config, Listener())
    assert not (tmp_path / "checkpoint").exists()
