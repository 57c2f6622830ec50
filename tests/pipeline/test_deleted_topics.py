"""Topics that are deleted, and logs that are cut off, under a query that runs or is started again.

On a real cluster; all but the last test play Spark's part themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from quorate.errors import UnknownTopicOrPartition
from quorate.pipeline.source.errors import DataLost, TopicRecreated
from quorate.pipeline.source.ranges import OffsetRange
from quorate.pipeline.source.stream_reader import QuorateStreamReader
from quorate.pipeline.source.tasks import RangePartition
from quorate.testing import LocalCluster
from tests.pipeline.reader_helpers import latest, send, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopic = Callable[..., str]

PATIENCE_S = 60.0
#: far less than a reader's patience, and far more than a deletion takes to be believed
SOON_S = 20.0


def pattern_of(*topics: str) -> str:
    return "|".join(topics)


def delete(cluster: LocalCluster, topic: str) -> None:
    with cluster.admin() as admin:
        admin.delete_topic(topic)


def patient(
    cluster: LocalCluster, topics: str, how: str = "subscribe", **options: str
) -> QuorateStreamReader:
    given = {"kafkaConsumer.pollTimeoutMs": str(int(PATIENCE_S * 1000)), **options}
    return stream(cluster, topics, how=how, **given)


def looks_until(reader: QuorateStreamReader, position: dict[str, Any], topics: set[str]) -> dict[str, Any]:
    deadline = time.monotonic() + SOON_S
    while position.keys() != topics:
        assert time.monotonic() < deadline, f"still at {position}"
        position = latest(reader, position)
    return position


def refused_within(reader: QuorateStreamReader, position: dict[str, Any]) -> None:
    """Looks until there is something else than the position, or an error, which is what is looked for."""
    deadline = time.monotonic() + SOON_S
    while latest(reader, position) == position:
        assert time.monotonic() < deadline, "nobody has noticed"


@pytest.mark.parametrize("how", ["subscribe", "subscribePattern"])
def test_a_query_that_may_lose_data_goes_on_without_a_topic_that_is_deleted(
    quorate_cluster: LocalCluster, new_topic: NewTopic, how: str
) -> None:
    kept, deleted = new_topic(2), new_topic(1)
    send(quorate_cluster, deleted, 5)
    names = f"{kept},{deleted}" if how == "subscribe" else pattern_of(kept, deleted)
    reader = patient(quorate_cluster, names, how, failOnDataLoss="false")
    position = looks_until(reader, reader.initialOffset(), {kept, deleted})

    delete(quorate_cluster, deleted)
    position = looks_until(reader, position, {kept})
    send(quorate_cluster, kept, 3)
    assert latest(reader, position)[kept]["offsets"] == {"0": 3, "1": 0}


def test_a_query_that_may_not_lose_data_says_soon_which_topic_is_gone(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    kept, deleted = new_topic(1), new_topic(1)
    reader = patient(quorate_cluster, pattern_of(kept, deleted), "subscribePattern")
    position = looks_until(reader, reader.initialOffset(), {kept, deleted})
    delete(quorate_cluster, deleted)
    began = time.monotonic()
    with pytest.raises(DataLost, match=f"{deleted}-0: it is not there any more"):
        looks_until(reader, position, {kept})
    assert time.monotonic() - began < SOON_S, "one look may be what takes long"


def test_a_query_that_may_miss_old_records_only_refuses_a_topic_that_is_deleted_and_whatever_follows_it(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    gaps_only = {"failOnDataLoss": "false", "dataLossAllowed": "retention"}
    send(quorate_cluster, topic, 5)
    reader = patient(quorate_cluster, topic, **gaps_only)
    position = latest(reader, reader.initialOffset())
    delete(quorate_cluster, topic)
    with pytest.raises(DataLost, match=f"{topic}-0: it is not there any more.* begin anew") as caught:
        looks_until(reader, position, set())
    assert "failOnDataLoss" not in caught.value.message, "it is what was asked for"
    with quorate_cluster.admin() as admin:
        admin.create_topic(topic, partitions=1, replication_factor=3)
    send(quorate_cluster, topic, 9)
    for each in (reader, patient(quorate_cluster, topic, **gaps_only)):
        with pytest.raises(TopicRecreated, match=f"topic {topic} was deleted and made anew"):
            refused_within(each, position)


@pytest.mark.parametrize("how", ["subscribe", "subscribePattern"])
def test_a_query_that_may_lose_data_refuses_a_topic_that_is_made_anew_between_two_batches(
    quorate_cluster: LocalCluster, new_topic: NewTopic, how: str
) -> None:
    """It did not notice that the old one was gone: its offsets would be taken for the new one's."""
    topic = new_topic(1)
    send(quorate_cluster, topic, 5)
    reader = patient(quorate_cluster, topic, how, failOnDataLoss="false")
    begin = reader.initialOffset()
    position = latest(reader, begin)
    planned = reader.partitions(begin, position)
    with quorate_cluster.admin() as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1, replication_factor=3)
    send(quorate_cluster, topic, 9)
    with pytest.raises(TopicRecreated, match=f"topic {topic} was deleted and made anew"):
        refused_within(reader, position)
    with pytest.raises(TopicRecreated, match=f"topic {topic} was deleted and made anew"):
        list(reader.read(planned[0]))
    # Neither by a start from the checkpoint, with the batch that is planned again.
    again = patient(quorate_cluster, topic, how, failOnDataLoss="false")
    with pytest.raises(TopicRecreated, match=f"topic {topic} was deleted and made anew"):
        again.partitions(begin, position)


def test_a_topic_that_is_not_named_any_more_is_not_called_deleted(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    kept, left_out = new_topic(1), new_topic(1)
    reader = patient(quorate_cluster, f"{kept},{left_out}")
    position = looks_until(reader, reader.initialOffset(), {kept, left_out})
    with pytest.raises(
        DataLost, match=rf"{left_out}-0: .* no option names it now.*fail\.on\.data\.loss=false"
    ):
        latest(patient(quorate_cluster, kept), position)
    lenient = patient(quorate_cluster, kept, failOnDataLoss="false", dataLossAllowed="retention")
    assert latest(lenient, position).keys() == {kept}


def test_a_query_that_is_started_again_after_its_topic_was_deleted_says_so_or_goes_on(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    kept, deleted = new_topic(1), new_topic(1)
    reader = patient(quorate_cluster, f"{kept},{deleted}")
    position = latest(reader, reader.initialOffset())
    delete(quorate_cluster, deleted)
    with pytest.raises(DataLost, match=f"{deleted}-0: it is not there any more"):
        looks_until(patient(quorate_cluster, f"{kept},{deleted}"), position, {kept})
    lenient = patient(quorate_cluster, f"{kept},{deleted}", failOnDataLoss="false")
    lenient.prepareForTriggerAvailableNow()
    assert latest(lenient, position).keys() == {kept}


def test_a_new_query_refuses_a_topic_that_is_not_there(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic nobody-made-it"):
        patient(quorate_cluster, f"{new_topic(1)},nobody-made-it", failOnDataLoss="false").initialOffset()


def test_a_topic_that_is_deleted_before_a_query_has_noted_where_it_begins_is_left_out(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    kept, deleted = new_topic(1), new_topic(1)
    names = pattern_of(kept, deleted)
    lenient = {"failOnDataLoss": "false", "startingOffsets": "latest"}
    reader = patient(quorate_cluster, names, "subscribePattern", **lenient)
    looks_until(reader, {}, {kept, deleted})
    reader.prepareForTriggerAvailableNow()
    delete(quorate_cluster, deleted)
    began = time.monotonic()
    # The same question each time: nothing is noted yet, and its leader may not have heard of it.
    while latest(reader, {}).keys() != {kept}:
        assert time.monotonic() - began < SOON_S


def read(reader: QuorateStreamReader, wanted: OffsetRange) -> list[int]:
    return [n for batch in reader.read(RangePartition(wanted)) for n in batch.column(0).to_pylist()]


@pytest.mark.parametrize(("start", "expected"), [(3, [3, 4]), (5, []), (7, [])])
def test_of_a_log_that_was_cut_off_a_task_reads_what_there_is_or_says_what_is_lost(
    quorate_cluster: LocalCluster, new_topic: NewTopic, start: int, expected: list[int]
) -> None:
    """Spark plans a batch of its checkpoint again, wherever the log ends by now."""
    topic = new_topic(1)
    send(quorate_cluster, topic, 5)
    strict = patient(quorate_cluster, topic)
    topic_id = latest(strict, strict.initialOffset())[topic]["id"]
    wanted = OffsetRange(topic, topic_id, 0, start, 10)

    began = time.monotonic()
    assert read(patient(quorate_cluster, topic, failOnDataLoss="false"), wanted) == expected
    first_lost = max(start, 5)
    with pytest.raises(DataLost, match=rf"{topic}-0 at offset {first_lost}: .*the log ends at 5") as caught:
        read(strict, wanted)
    assert caught.value.facts["offset"] == first_lost
    assert time.monotonic() - began < SOON_S


def test_a_task_of_a_deleted_topic_reads_nothing_or_says_that_it_is_gone(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    send(quorate_cluster, topic, 5)
    strict = patient(quorate_cluster, topic)
    topic_id = latest(strict, strict.initialOffset())[topic]["id"]
    wanted = OffsetRange(topic, topic_id, 0, 0, 5)
    delete(quorate_cluster, topic)

    began = time.monotonic()
    lenient = patient(quorate_cluster, topic, failOnDataLoss="false")
    while found := read(lenient, wanted):
        assert found == [0, 1, 2, 3, 4], "its leader has not heard of it yet"
    with pytest.raises(DataLost, match=f"{topic}-0 at offset 0: .*the topic was deleted"):
        read(strict, wanted)
    assert time.monotonic() - began < SOON_S


def test_a_running_query_in_spark_goes_on_without_a_topic_that_is_deleted(
    spark: SparkSession, quorate_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    kept, deleted = new_topic(1), new_topic(1)
    send(quorate_cluster, deleted, 5)
    options = {
        "kafka.bootstrap.servers": quorate_cluster.bootstrap,
        "subscribePattern": pattern_of(kept, deleted),
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }
    writer = (
        spark.readStream.format("quorate").options(**options).load().select("topic", "offset").writeStream
    )
    data, checkpoint = str(tmp_path / "data"), str(tmp_path / "checkpoint")
    query = writer.format("parquet").option("path", data).option("checkpointLocation", checkpoint).start()
    try:
        query.processAllAvailable()
        delete(quorate_cluster, deleted)
        # It may be told of the records before it is told of the deletion: then there is another look.
        send(quorate_cluster, kept, 3)
        query.processAllAvailable()
    finally:
        query.stop()
    found = sorted(tuple(row) for row in spark.read.parquet(data).collect())
    assert found == sorted([(deleted, n) for n in range(5)] + [(kept, n) for n in range(3)])
