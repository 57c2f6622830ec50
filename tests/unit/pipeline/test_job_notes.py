"""What jobs note and tell: chunks of a replay, and progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.config import ReplayConfig
from quorate.pipeline.jobs.progress import lag_between, progress_of
from quorate.pipeline.jobs.replay.notes import Chunk, Notes, asked_by


def _config(path: str = "/a", checkpoint: str = "/c") -> ReplayConfig:
    return ReplayConfig(path=path, topic=("t",), to_topic=("u",), checkpoint_dir=checkpoint)


def _notes() -> Notes:
    left = {"0": (5, 20), "3": (0, 10)}
    asked = asked_by(_config())
    return Notes(asked, source_id=None, target_id="A" * 22, rows=25, table_version=None, left=left)


def test_notes_come_back_as_they_were_written(tmp_path: Path) -> None:
    notes = _notes().begin(Chunk({"0": (5, 9), "3": (0, 4)}, {"0": 77, "1": 0}))
    assert Notes.read(str(tmp_path), _config()) is None
    notes.write(str(tmp_path))

    assert Notes.read(str(tmp_path), _config()) == notes


def test_a_checkpoint_of_another_replay_is_refused(tmp_path: Path) -> None:
    _notes().write(str(tmp_path))
    with pytest.raises(InvalidRequest, match="another replay"):
        Notes.read(str(tmp_path), _config(path="/b"))
    (tmp_path / "replay.json").write_text("{")
    with pytest.raises(InvalidRequest, match="damaged"):
        Notes.read(str(tmp_path), _config())


def test_lag_counts_what_is_there_and_not_done_in_every_partition() -> None:
    done = '{"a": {"id": "x", "offsets": {"0": 5, "1": 7}}}'
    there = '{"a": {"id": "x", "offsets": {"0": 9, "1": 7, "2": 3}}}'

    assert lag_between(done, there) == 7
    assert lag_between(done, None) is None
    told = {"batchId": 4, "numInputRows": 10, "processedRowsPerSecond": 123.4}
    progress = progress_of({**told, "sources": [{"endOffset": done, "latestOffset": there}]})
    assert str(progress.adding_up_to(50)) == "batch 4: 50 rows, 123/s, lag 7"
