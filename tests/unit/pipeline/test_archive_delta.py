"""An archive of Delta holds every record once, wherever the job that writes it is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs import delta_log
from quorate.pipeline.jobs.archive.job import Archiving
from quorate.pipeline.jobs.batch import Batch
from tests.unit.pipeline.archive_stand_in import Listener, Record, batch_of, stand_in_for_spark

pytest.importorskip("deltalake", reason="the extra delta is not installed")

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.table import TableOptimizer

from quorate.pipeline.jobs.archive.delta_store import DeltaStore
from quorate.pipeline.jobs.table.delta_table import DeltaLatest

_IDS = {"orders": "A" * 22}
_BATCHES = [batch_of(0, 4), batch_of(4, 15), batch_of(15, 16), batch_of(16, 20)]
_ALL = Counter(record for batch in _BATCHES for record in batch)


class _Killed(BaseException):
    """As `kill -9`: nobody tidies up after it."""


def _run(
    path: Path, batches: list[list[Record]] = _BATCHES, *, query_id: str = "q", files_min: int = 0
) -> None:
    store = DeltaStore(str(path), files_min=files_min, bytes_max=1 << 20)
    store.open(_IDS)
    archiving = Archiving(store, Listener())
    for number, batch in enumerate(batches):
        archiving.on_batch(cast("Any", batch), Batch(query_id, number))


def _records(path: Path) -> Counter[Record]:
    rows = DeltaTable(path).to_pyarrow_table(columns=["topic", "partition", "offset"]).to_pylist()
    return Counter(Record(row["topic"], row["partition"], row["offset"]) for row in rows)


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_for_spark(monkeypatch)


def test_every_batch_is_one_entry_with_its_transaction_ids(tmp_path: Path) -> None:
    _run(tmp_path)

    table = DeltaTable(tmp_path)
    assert _records(tmp_path) == _ALL
    assert [table.transaction_version(f"quorate/orders/{partition}") for partition in (0, 1)] == [20, 20]
    assert table.transaction_version("quorate/q") == 3
    # Made, and four batches.
    assert table.version() == 4
    assert table.metadata().partition_columns == ["date", "topic"]


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("number", range(4))
def test_a_kill_around_the_commit_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, is_committed: bool
) -> None:
    commit = DeltaTable.create_write_transaction
    left = number

    def killing(*args: Any, **kwargs: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            if is_committed:
                commit(*args, **kwargs)
            raise _Killed
        commit(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", killing)
        with pytest.raises(_Killed):
            _run(tmp_path)
    # Spark has noted none of the batches, and asks for all of them again.
    _run(tmp_path)
    assert _records(tmp_path) == _ALL


def test_a_lost_checkpoint_archives_nothing_twice(tmp_path: Path) -> None:
    _run(tmp_path)
    _run(tmp_path, [batch_of(0, 10), batch_of(10, 25)], query_id="another")

    assert _records(tmp_path) == Counter(batch_of(0, 25))


def test_a_batch_that_has_more_in_it_than_before_is_not_known_by_its_number(tmp_path: Path) -> None:
    _run(tmp_path)
    _run(tmp_path, [batch_of(0, 10), batch_of(10, 25)])

    assert _records(tmp_path) == Counter(batch_of(0, 25))


def test_small_files_are_compacted_and_what_a_job_keeps_beside_the_table_is_not_vacuumed(
    tmp_path: Path,
) -> None:
    (tmp_path / "_checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "_checkpoint" / "offsets" / "0").write_text("{}")
    _run(tmp_path, files_min=2)

    table = DeltaTable(tmp_path)
    assert _records(tmp_path) == _ALL
    assert len(table.file_uris()) == 2, "one for each date"
    assert [table.transaction_version(f"quorate/orders/{partition}") for partition in (0, 1)] == [20, 20]
    removed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert removed, "the small files are there no longer"
    assert (tmp_path / "_checkpoint" / "offsets" / "0").exists()
    assert (tmp_path / "_archive" / "topics.json").exists()
    assert _records(tmp_path) == _ALL


def test_small_files_that_cannot_be_made_into_one_end_no_batch_that_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise DeltaError("out of memory")

    store, job = DeltaStore(str(tmp_path), files_min=2, bytes_max=1 << 20), Listener()
    store.open(_IDS)
    archiving = Archiving(store, job)
    with monkeypatch.context() as patched:
        patched.setattr(TableOptimizer, "compact", failing)
        for number, batch in enumerate(_BATCHES):
            archiving.on_batch(cast("Any", batch), Batch("q", number))
    # Once for each date.
    assert sum("out of memory" in line for line in job.lines) == 2
    assert _records(tmp_path) == _ALL


def test_a_commit_is_durable_before_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(delta_log, "sync_file", synced.append)
    _run(tmp_path, files_min=2)

    entries = {str(each) for each in (tmp_path / "_delta_log").glob("*.json")}
    # The first makes the table; a loss of it would lose nothing.
    assert entries - set(synced) == {str(tmp_path / "_delta_log" / f"{0:020d}.json")}
    assert {each.replace("//", "/") for each in DeltaTable(tmp_path).file_uris()} <= set(synced)


def test_two_jobs_on_one_table_are_found_out(tmp_path: Path) -> None:
    _run(tmp_path, [batch_of(0, 4)])
    slow, fast = (DeltaStore(str(tmp_path), files_min=0, bytes_max=1) for _ in range(2))
    slow.open(_IDS)
    fast.open(_IDS)
    Archiving(fast, Listener()).on_batch(cast("Any", batch_of(4, 6)), Batch("fast", 0))
    with pytest.raises(Exception, match=r"(?i)transaction|conflict|commit"):
        Archiving(slow, Listener()).on_batch(cast("Any", batch_of(4, 6)), Batch("slow", 0))

    assert _records(tmp_path) == Counter(batch_of(0, 6))


def test_a_topic_that_was_made_again_is_refused(tmp_path: Path) -> None:
    _run(tmp_path)
    store = DeltaStore(str(tmp_path), files_min=0, bytes_max=1)
    with pytest.raises(InvalidRequest, match="deleted and created again"):
        store.open({"orders": "B" * 22})


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_table_of_which_nobody_knows_the_topics_is_refused(tmp_path: Path, content: str | None) -> None:
    """They may be others of the same names: their offsets would be taken for those of before."""
    _run(tmp_path)
    file = tmp_path / "_archive" / "topics.json"
    file.unlink()
    if content is not None:
        file.write_text(content)
    store = DeltaStore(str(tmp_path), files_min=0, bytes_max=1)
    with pytest.raises(InvalidRequest, match=r"topics\.json is (missing|damaged).*restore it"):
        store.open(_IDS)


def test_a_table_of_latest_values_is_of_one_topic(tmp_path: Path) -> None:
    """It knows partitions by their numbers: those of another topic would be taken for done."""
    DeltaLatest(str(tmp_path)).open(_IDS)
    DeltaLatest(str(tmp_path)).open(_IDS)
    with pytest.raises(InvalidRequest, match="is of topic orders, not of payments"):
        DeltaLatest(str(tmp_path)).open({"payments": "B" * 22})


def test_a_table_of_latest_values_of_which_nobody_knows_the_topic_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, schema=pa.schema([("key", pa.binary())]))
    with pytest.raises(InvalidRequest, match=r"_topic\.json is missing"):
        DeltaLatest(str(tmp_path)).open(_IDS)
