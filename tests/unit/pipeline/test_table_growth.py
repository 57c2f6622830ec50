"""A table is of a topic that does not grow: keys would move, and their rows stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.config.table import GrownTopic, NullKeys
from quorate.pipeline.jobs.table.growth import KnownPartitions
from quorate.pipeline.jobs.table.job import _Keeping
from tests.unit.pipeline.archive_stand_in import Listener

pytest.importorskip("pyspark", reason="the extra spark is not installed")


def _opened(
    path: Path, count: int, *, grown: GrownTopic = GrownTopic.FAIL, is_empty: bool = False
) -> KnownPartitions:
    known = KnownPartitions(str(path), "customers", grown)
    known.open(count, is_empty=is_empty)
    return known


def test_a_topic_that_has_grown_is_refused_and_what_can_be_done_is_told(tmp_path: Path) -> None:
    _opened(tmp_path, 3, is_empty=True)
    _opened(tmp_path, 3)
    with pytest.raises(
        InvalidRequest, match=r"customers had 3 partitions .* has 5: .*begin another table.*grown\.topic=take"
    ):
        _opened(tmp_path, 5)
    with pytest.raises(InvalidRequest, match="had 3 partitions"):
        _opened(tmp_path, 5)


def test_whoever_knows_that_keys_do_not_move_goes_on(tmp_path: Path) -> None:
    _opened(tmp_path, 3, is_empty=True)
    _opened(tmp_path, 5, grown=GrownTopic.TAKE)
    _opened(tmp_path, 5)
    with pytest.raises(InvalidRequest, match="had 5 partitions"):
        _opened(tmp_path, 6)


def test_before_anything_is_in_the_table_nothing_can_move(tmp_path: Path) -> None:
    _opened(tmp_path, 3, is_empty=True)
    _opened(tmp_path, 5, is_empty=True)
    _opened(tmp_path, 5)


def test_a_table_of_before_this_was_noted_is_taken_for_one_of_now(tmp_path: Path) -> None:
    _opened(tmp_path, 3)
    with pytest.raises(InvalidRequest, match="had 3 partitions"):
        _opened(tmp_path, 4)


def test_a_topic_that_grows_while_the_job_runs_ends_it_before_a_record_of_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("col", "count_if", "max", "min", "when"):
        monkeypatch.setattr(f"pyspark.sql.functions.{name}", MagicMock())
    store, frame = MagicMock(), MagicMock()
    rows = [{"partition": 1, "last": 9, "null_keys": 0}, {"partition": 3, "last": 0, "null_keys": 0}]
    frame.groupBy.return_value.agg.return_value.collect.return_value = rows
    keeping = _Keeping(store, _opened(tmp_path, 3), NullKeys.FAIL, Listener())
    with pytest.raises(InvalidRequest, match=r"had 3 partitions .* has 4"):
        keeping.on_batch(cast("Any", frame), Batch("q", 0))
    store.apply.assert_not_called()
