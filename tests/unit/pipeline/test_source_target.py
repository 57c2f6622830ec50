"""A topic that is not there is told before a task begins."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from pyspark.sql.types import StringType, StructField, StructType

from quorate.errors import (
    InvalidTopic,
    QuorateError,
    RequestTimedOut,
    Unavailable,
    UnknownTopicOrPartition,
)
from quorate.pipeline.source import target
from quorate.pipeline.source.data_source import QuorateDataSource

_SCHEMA = StructType([StructField("topic", StringType()), StructField("value", StringType())])


class _Cluster:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = None
        self.asked: list[tuple[str, float]] = []
        self.cluster = self
        monkeypatch.setattr(target, "connection_to", lambda _: self)

    def run(self, work: Coroutine[Any, Any, object]) -> object:
        return asyncio.run(work)

    async def topic(self, name: str, *, timeout_s: float) -> None:
        self.asked.append((name, timeout_s))
        if self.error is not None:
            raise self.error


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> _Cluster:
    return _Cluster(monkeypatch)


def _open(*, is_streaming: bool, **options: str) -> object:
    source = QuorateDataSource({"kafka.bootstrap.servers": "a:1", **options})
    return (source.streamWriter if is_streaming else source.writer)(_SCHEMA, False)


@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_topic_that_is_not_there_is_refused_before_tasks_begin(
    cluster: _Cluster, is_streaming: bool
) -> None:
    cluster.error = UnknownTopicOrPartition("not here")
    with pytest.raises(UnknownTopicOrPartition, match=r"there is no topic nope, .*: create it first"):
        _open(is_streaming=is_streaming, topic="nope")


def test_brokers_have_the_time_that_a_producer_would_give_them(cluster: _Cluster) -> None:
    assert _open(is_streaming=False, topic="t", **{"kafka.max.block.ms": "5000"})
    assert cluster.asked == [("t", 5.0)]


@pytest.mark.parametrize("error", [RequestTimedOut("nobody answers"), Unavailable("connection refused")])
def test_brokers_that_do_not_answer_are_left_to_tasks_which_a_cluster_runs_again(
    cluster: _Cluster, error: QuorateError
) -> None:
    cluster.error = error
    assert _open(is_streaming=False, topic="t")


def test_what_will_not_change_is_told_at_once(cluster: _Cluster) -> None:
    cluster.error = InvalidTopic("no such name")
    with pytest.raises(InvalidTopic):
        _open(is_streaming=False, topic="t")


def test_topics_that_a_column_names_are_known_to_tasks_alone(cluster: _Cluster) -> None:
    assert _open(is_streaming=False)
    assert not cluster.asked
