"""What Spark's processes pay for once, or must not pay for at all."""

from __future__ import annotations

import gc
from typing import cast

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from quorate.pipeline.source import connection
from quorate.pipeline.source.batch_reader import QuorateReader
from quorate.pipeline.source.connection import Connection, connection_to
from quorate.pipeline.source.stream_reader import QuorateStreamReader


def test_what_is_there_is_left_out_of_garbage_collection_once_for_each_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Again for every task, it would keep what tasks leave behind for ever."""
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr(connection, "_open", {})
    monkeypatch.setattr(connection, "Connection", lambda bootstrap: cast("Connection", [bootstrap]))
    first = connection_to(("a:1",))
    assert connection_to(("a:1",)) is first
    assert frozen == [True]


@pytest.mark.parametrize("reader", [QuorateReader, QuorateStreamReader])
def test_no_reader_takes_filters_which_is_an_error_as_spark_is_set_up(reader: type) -> None:
    ours = [each for each in reader.__mro__ if each.__module__.startswith("quorate.")]
    assert ours
    assert not [each for each in ours if "pushFilters" in vars(each)]
