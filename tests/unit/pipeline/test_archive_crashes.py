"""An archive of Parquet holds every record once, wherever the job that writes it is killed."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.archive import job as archive_job
from quorate.pipeline.jobs.archive.job import Archiving
from quorate.pipeline.jobs.archive.parquet_store import ParquetStore
from quorate.pipeline.jobs.archive.staged import Staged
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.errors import RowsMissing
from tests.documented import ROOT
from tests.unit.pipeline.archive_stand_in import Listener, Record, batch_of, stand_in_for_spark, visible

_IDS = {"orders": "A" * 22}
_BATCHES = [batch_of(0, 4), batch_of(4, 15), batch_of(15, 16), batch_of(16, 20)]
_ALL = Counter(record for batch in _BATCHES for record in batch)
#: everything that changes what a restarted job finds
_CHANGES = ("rename", "replace", "remove", "makedirs")


class _Killed(BaseException):
    """As `kill -9`: nobody tidies up after it."""


class _Killer:
    """Lets so many changes of files happen, and no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        self.seen = 0
        for name in _CHANGES:
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))

    def _watched(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            self.seen += 1
            if self.left is not None:
                if self.left == 0:
                    raise _Killed
                self.left -= 1
            return change(*args, **kwargs)

        return changed


def _archiving(path: Path, *, files_min: int = 2) -> Archiving:
    return _archiving_told(path, files_min=files_min)[0]


def _archiving_told(path: Path, *, files_min: int) -> tuple[Archiving, Listener]:
    store = ParquetStore(str(path), files_min=files_min, bytes_max=1 << 20)
    store.open(_IDS)
    job = Listener()
    return Archiving(store, job), job


def _run(path: Path, *, done: int = 0, query_id: str = "q") -> int:
    """A job from where Spark has noted that it is; returns how many batches there were."""
    archiving = _archiving(path)
    for number in range(done, len(_BATCHES)):
        archiving.on_batch(cast("Any", _BATCHES[number]), Batch(query_id, number))
    return len(_BATCHES)


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_for_spark(monkeypatch)


def test_a_job_that_is_not_killed_archives_everything_once_by_date_and_topic(tmp_path: Path) -> None:
    _run(tmp_path)

    assert visible(tmp_path) == _ALL
    directories = {str(each.relative_to(tmp_path)) for each in tmp_path.glob("date=*/topic=*")}
    assert directories == {"date=2026-01-31/topic=orders", "date=2026-02-01/topic=orders"}
    # Compacted: of each day at most one file was left, and the next one was merged into it.
    assert all(len(list(tmp_path.glob(f"{each}/*.parquet"))) == 1 for each in directories)


def test_a_kill_before_any_change_of_a_file_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = _Killer(monkeypatch)
    _run(tmp_path / "whole")
    changes = killer.seen
    assert changes > 20, "the whole of it takes many changes, or this shows little"

    for allowed in range(changes):
        path = tmp_path / str(allowed)
        killer.left = allowed
        with pytest.raises(_Killed):
            _run(path)
        killer.left = None
        seen = visible(path)
        assert not [record for record, times in seen.items() if times > 1], f"killed after {allowed} changes"
        # Spark has noted none of them, which is the worst case: it asks for all of them again.
        _run(path)
        assert visible(path) == _ALL, f"killed after {allowed} changes"


def test_the_pattern_that_the_documentation_names_takes_what_is_committed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    found = re.search(r"by a pattern says `([^`]+)`; `([^`]+)` would", page)
    assert found is not None, "the page says how to name the files of an archive"
    _run(tmp_path)

    def killed(*_: object) -> None:
        raise _Killed

    monkeypatch.setattr(ParquetStore, "commit", killed)
    with pytest.raises(_Killed):
        _archiving(tmp_path).on_batch(cast("Any", batch_of(20, 25)), Batch("q", len(_BATCHES)))
    named, all_files = (set(tmp_path.glob(pattern)) for pattern in found.groups())
    assert named == set(tmp_path.glob("date=*/topic=*/*.parquet"))
    assert all_files - named, "files that are not committed are there, or this shows little"


def test_a_kill_while_the_next_start_repairs_is_repaired_by_the_one_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = _Killer(monkeypatch)
    _run(tmp_path / "whole")
    for allowed in range(0, killer.seen, 3):
        path = tmp_path / str(allowed)
        for budget in (allowed, 1, 2, 3):
            killer.left = budget
            try:
                _run(path)
            except _Killed:
                assert max(visible(path).values(), default=0) <= 1
        killer.left = None
        _run(path)
        assert visible(path) == _ALL


def test_a_lost_checkpoint_archives_nothing_twice(tmp_path: Path) -> None:
    _run(tmp_path)
    archiving = _archiving(tmp_path)
    # Other batches than before, by another query: what it had, what it had in part, what is new.
    archiving.on_batch(cast("Any", batch_of(0, 10)), Batch("another", 0))
    archiving.on_batch(cast("Any", batch_of(10, 25)), Batch("another", 1))

    assert visible(tmp_path) == Counter(batch_of(0, 25))


@pytest.mark.parametrize("seen", [0, 1])
def test_a_driver_that_does_not_see_all_that_tasks_have_written_commits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    stage = archive_job.stage  # type: ignore[attr-defined]  # the stand-in's

    def stage_elsewhere(*args: Any, **kwargs: Any) -> Staged:
        staged = stage(*args, **kwargs)
        return replace(staged, files=staged.files[:seen])

    with monkeypatch.context() as patched:
        patched.setattr(archive_job, "stage", stage_elsewhere)
        # Two dates are two files.
        with pytest.raises(RowsMissing, match="every worker has to see the same directory"):
            _archiving(tmp_path).on_batch(cast("Any", batch_of(0, 15)), Batch("q", 0))
    assert not visible(tmp_path)
    _run(tmp_path)
    assert visible(tmp_path) == _ALL


def test_a_batch_that_has_more_in_it_than_before_is_not_known_by_its_number(tmp_path: Path) -> None:
    """Spark does not sync its notes: after a power loss it plans a batch anew, up to where the log ends."""
    _run(tmp_path)
    last = len(_BATCHES) - 1
    archiving = _archiving(tmp_path)
    archiving.on_batch(cast("Any", batch_of(16, 25)), Batch("q", last))

    assert visible(tmp_path) == Counter(batch_of(0, 25))


def test_a_batch_of_nothing_changes_nothing(tmp_path: Path) -> None:
    _run(tmp_path)
    _archiving(tmp_path).on_batch(cast("Any", []), Batch("q", len(_BATCHES)))

    assert visible(tmp_path) == _ALL


def test_a_partition_that_is_new_begins_at_its_beginning(tmp_path: Path) -> None:
    archiving = _archiving(tmp_path)
    archiving.on_batch(cast("Any", batch_of(0, 5, partitions=1)), Batch("q", 0))
    late = [*batch_of(5, 6, partitions=1), Record("orders", 7, 0)]
    archiving.on_batch(cast("Any", late), Batch("q", 1))

    assert visible(tmp_path) == Counter([*batch_of(0, 6, partitions=1), Record("orders", 7, 0)])


def test_what_its_owner_deletes_stays_deleted(tmp_path: Path) -> None:
    _run(tmp_path)
    for file in tmp_path.glob("date=2026-01-31/topic=orders/*.parquet"):
        file.unlink()
    _run(tmp_path)

    assert all(record.offset >= 10 for record in visible(tmp_path))


def test_a_file_that_was_committed_and_is_nowhere_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records would be in no file, and never asked for again."""

    def killed(*_: object) -> None:
        raise _Killed

    archiving = _archiving(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(ParquetStore, "_finish", killed)
        with pytest.raises(_Killed):
            archiving.on_batch(cast("Any", batch_of(0, 4)), Batch("q", 0))
    staging, kept = tmp_path / "_archive" / "staging", tmp_path / "kept"
    staging.rename(kept)
    with pytest.raises(InvalidRequest, match="it was committed, and is lost"):
        _archiving(tmp_path)
    kept.rename(staging)
    _archiving(tmp_path)
    assert visible(tmp_path) == Counter(batch_of(0, 4))


def test_a_topic_that_was_made_again_is_refused(tmp_path: Path) -> None:
    _run(tmp_path)
    store = ParquetStore(str(tmp_path), files_min=0, bytes_max=1)
    with pytest.raises(InvalidRequest, match="deleted and created again"):
        store.open({"orders": "B" * 22})


def test_data_without_a_state_is_refused_not_taken_for_nothing(tmp_path: Path) -> None:
    _run(tmp_path)
    (tmp_path / "_archive" / "state.json").unlink()
    with pytest.raises(InvalidRequest, match="nothing says how far it goes"):
        _archiving(tmp_path)


def test_compaction_keeps_the_schema_and_leaves_large_files_alone(tmp_path: Path) -> None:
    archiving = _archiving(tmp_path, files_min=3)
    for number in range(3):
        archiving.on_batch(cast("Any", batch_of(number, number + 1)), Batch("q", number))
    (file,) = tmp_path.glob("date=*/topic=*/*.parquet")
    assert file.name.startswith("compacted-")

    store = ParquetStore(str(tmp_path), files_min=1, bytes_max=file.stat().st_size)
    store.open(_IDS)
    assert store.compact({"date=2026-01-31/topic=orders"}).files_gone == 0


def test_small_files_that_cannot_be_made_into_one_end_no_batch_that_is_committed(tmp_path: Path) -> None:
    archiving, job = _archiving_told(tmp_path, files_min=3)
    archiving.on_batch(cast("Any", batch_of(0, 1)), Batch("q", 0))
    (directory,) = tmp_path.glob("date=*/topic=*")
    stray = directory / "000-by-hand.parquet"
    stray.write_bytes(b"PAR1 no more of it")
    for number in range(1, 5):
        archiving.on_batch(cast("Any", batch_of(number, number + 1)), Batch("q", number))
    told = [line for line in job.lines if "stay as they are" in line]
    assert len(told) == 1, "it is tried once, not with every batch"
    assert "date=2026-01-31/topic=orders" in told[0]

    stray.unlink()
    assert visible(tmp_path) == Counter(batch_of(0, 5))
    archiving, job = _archiving_told(tmp_path, files_min=3)
    archiving.on_batch(cast("Any", batch_of(5, 6)), Batch("q", 5))
    assert job.lines == ["compacted 6 small files"]
    assert visible(tmp_path) == Counter(batch_of(0, 6))
