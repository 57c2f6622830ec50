"""Where the log ends, as a streaming query asks: what was acknowledged before the question is in the answer.

`processAllAvailable` rests on it, and returns too early otherwise. On a real cluster, whose leaders change,
die and come back under a reader that goes on asking.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from quorate.pipeline.source.errors import TopicRecreated
from quorate.pipeline.source.stream_reader import QuorateStreamReader
from quorate.testing import LocalCluster
from tests.pipeline.reader_helpers import latest, send, stream

NewTopic = Callable[..., str]

#: far more than anything takes to be noticed: ten thousand questions are over in a second or two
SOON_S = 30.0


def ends(position: dict[str, Any], topic: str) -> list[int]:
    return list(position[topic]["offsets"].values())


def test_what_was_acknowledged_before_the_question_is_in_the_answer(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(6)
    reader = stream(quorate_cluster, topic)
    position = latest(reader, reader.initialOffset())
    expected = [0] * 6
    with quorate_cluster.producer() as producer:
        for n in range(60):
            assert latest(reader, position) == position
            producer.send(topic, b"x", partition=n % 6).result()
            expected[n % 6] += 1
            position = latest(reader, position)
            assert ends(position, topic) == expected
            assert reader.reportLatestOffset() == position


def test_what_a_new_leader_has_acknowledged_is_in_the_answer_when_the_old_one_died(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    reader = stream(quorate_cluster, topic)
    position = latest(reader, reader.initialOffset())
    quorate_cluster.kill(quorate_cluster.leader_of(topic, 1))
    try:
        assert latest(reader, position) == position, "nobody has written, and whoever leads now answers"
        send(quorate_cluster, topic, 2, partition=1)
        assert ends(latest(reader, position), topic) == [0, 2, 0]
    finally:
        quorate_cluster.heal()


def test_what_a_new_leader_has_acknowledged_is_in_the_answer_when_the_old_one_does_not_know(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    reader = stream(quorate_cluster, topic)
    send(quorate_cluster, topic, 1)
    position = latest(reader, reader.initialOffset())
    old = quorate_cluster.leader_of(topic)
    quorate_cluster.pause(old)
    try:
        send(quorate_cluster, topic, 2)
        quorate_cluster.resume(old)
        # It may answer before it has heard that it was replaced.
        assert ends(latest(reader, position), topic) == [3]
    finally:
        quorate_cluster.heal()


def test_a_reader_whose_connections_all_broke_while_it_was_idle_is_answered(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    reader = stream(quorate_cluster, topic)
    position = latest(reader, reader.initialOffset())
    quorate_cluster.restart(*quorate_cluster.nodes)
    quorate_cluster.heal()
    send(quorate_cluster, topic, 4, partition=1)
    position = latest(reader, position)
    assert ends(position, topic) == [0, 4, 0]
    assert latest(reader, position) == position


def test_a_new_partition_is_found_by_a_query_that_runs(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    reader = stream(quorate_cluster, topic)
    position = latest(reader, reader.initialOffset())
    with quorate_cluster.admin() as admin:
        admin.create_partitions(topic, 2)
    send(quorate_cluster, topic, 3, partition=1)
    deadline = time.monotonic() + SOON_S
    while "1" not in position[topic]["offsets"] and time.monotonic() < deadline:
        position = latest(reader, position)
    assert ends(position, topic) == [0, 0], "where it begins is noted first"
    assert ends(latest(reader, position), topic) == [0, 3]


def test_a_topic_made_anew_is_refused_by_a_query_that_runs(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    send(quorate_cluster, topic, 5)
    reader = stream(quorate_cluster, topic)
    position = latest(reader, reader.initialOffset())
    with quorate_cluster.admin() as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=3, replication_factor=3)
    send(quorate_cluster, topic, 9)
    with pytest.raises(TopicRecreated, match=f"topic {topic} was deleted and made anew"):
        ask_on(reader, position)


def ask_on(reader: QuorateStreamReader, position: dict[str, Any]) -> None:
    """A broker that has not heard of the new topic answers for the one that it knows."""
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        assert latest(reader, position) == position
