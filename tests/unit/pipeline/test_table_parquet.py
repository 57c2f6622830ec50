"""A table of Parquet takes nothing for done, and nothing for new, that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types
import pytest

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.config.table import NullKeys
from quorate.pipeline.jobs.errors import RowsMissing
from quorate.pipeline.jobs.table.job import _Keeping
from quorate.pipeline.jobs.table.parquet_table import ParquetLatest
from tests.unit.pipeline.archive_stand_in import Listener

_FRAME = cast("Any", None)


class _Table(ParquetLatest):
    """Without Spark: one bucket of five rows, of which the driver sees some."""

    rows_seen = 5

    def _write_changed(self, latest: Any, work: str) -> tuple[set[int], int]:
        if self.rows_seen:
            (Path(work) / "bucket=0").mkdir(parents=True)
            values = [b"%d" % n for n in range(self.rows_seen)]
            pq.write_table(pa.table({"key": values, "value": values}), f"{work}/bucket=0/part-0.parquet")
        return {0}, 5


def _opened(path: Path) -> _Table:
    table = _Table(str(path), buckets=1)
    table.open({"t": "A" * 22})
    return table


def _keys(path: Path) -> int:
    return len(pq.read_table(path / "current", columns=["key"]))


@pytest.mark.parametrize("rows_seen", [0, 4])
def test_a_driver_that_does_not_see_all_that_tasks_have_written_commits_nothing(
    tmp_path: Path, rows_seen: int
) -> None:
    table = _opened(tmp_path)
    table.rows_seen = rows_seen
    with pytest.raises(RowsMissing, match=r"5 rows.*every worker has to see the same directory"):
        table.apply(_FRAME, {0: 5}, Batch("q", 0))
    assert table.end_of(0) == 0
    assert not (tmp_path / "current").exists()

    table = _opened(tmp_path)
    table.apply(_FRAME, {0: 5}, Batch("q", 0))
    assert _keys(tmp_path) == 5


def test_a_table_whose_link_is_gone_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    table = _opened(tmp_path)
    for number in range(2):
        table.apply(_FRAME, {0: 5 * number}, Batch("q", number))
    target = (tmp_path / "current").readlink()
    (tmp_path / "current").unlink()
    with pytest.raises(InvalidRequest, match="make that link again"):
        _opened(tmp_path)

    (tmp_path / "current").symlink_to(target)
    assert _opened(tmp_path).end_of(0) == 5
    assert _keys(tmp_path) == 5


def test_a_kill_before_the_first_link_leaves_a_table_that_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(ParquetLatest, "_point_to", killed)
        with pytest.raises(Killed):
            _opened(tmp_path).apply(_FRAME, {0: 5}, Batch("q", 0))
    assert _opened(tmp_path).end_of(0) == 0


def test_what_is_in_it_is_known_by_offsets_and_not_by_the_number_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark does not sync its notes: after a power loss a batch of the same number may hold more."""
    table = _opened(tmp_path)
    table.apply(_FRAME, {0: 5}, Batch("q", 0))
    looked_at: list[Batch] = []
    monkeypatch.setattr(_Keeping, "_merge", lambda _, __, batch: looked_at.append(batch))
    _Keeping(table, MagicMock(), NullKeys.FAIL, Listener()).on_batch(MagicMock(), Batch("q", 0))
    assert looked_at == [Batch("q", 0)]


def test_a_table_is_of_one_topic(tmp_path: Path) -> None:
    """It knows partitions by their numbers: those of another topic would be taken for done."""
    _opened(tmp_path).apply(_FRAME, {0: 5}, Batch("q", 0))
    with pytest.raises(InvalidRequest, match="is of topic t, not of u: name another path"):
        _Table(str(tmp_path), buckets=1).open({"u": "B" * 22})
