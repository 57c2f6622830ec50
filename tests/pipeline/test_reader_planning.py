"""What the readers plan and what tasks read, on a real cluster; Spark's part is played by the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.errors import InvalidConfig
from quorate.pipeline.source import stream_reader
from quorate.pipeline.source.batch_reader import QuorateReader
from quorate.pipeline.source.errors import DataLost, TopicRecreated
from quorate.pipeline.source.positions import Positions
from quorate.pipeline.source.read_options import read_options
from quorate.pipeline.source.stream_reader import QuorateStreamReader
from quorate.pipeline.source.tasks import RangePartition
from quorate.testing import LocalCluster
from tests.pipeline.reader_helpers import OFFSETS, latest, offsets_in, send, stream

NewTopic = Callable[..., str]


def test_with_nothing_new_a_trigger_ends_where_it_began(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    send(quorate_cluster, topic, 5)
    reader = stream(quorate_cluster, topic)
    end = latest(reader, reader.initialOffset())
    assert latest(reader, end) == end
    assert reader.reportLatestOffset() == end
    assert offsets_in(reader, reader.initialOffset(), end) == [0, 1, 2, 3, 4]


def test_a_beginning_at_the_end_of_the_log_is_noted_and_the_same_after_a_kill(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    send(quorate_cluster, topic, 3)
    reader = stream(quorate_cluster, topic, startingOffsets="latest")
    assert reader.initialOffset() == {}
    send(quorate_cluster, topic, 5)
    assert reader.initialOffset() == {}
    noted = latest(reader, {})
    assert noted[topic]["offsets"] == {"0": 3, "1": 0}
    assert offsets_in(reader, {}, noted) == []
    end = latest(reader, noted)

    # Killed before Spark has noted that any batch is done: it asks anew for the first position.
    send(quorate_cluster, topic, 9)
    again = stream(quorate_cluster, topic, startingOffsets="latest")
    assert offsets_in(again, again.initialOffset(), noted) == []
    assert offsets_in(again, noted, end) == [3, 4, 5, 6, 7]


def test_a_new_partition_is_read_from_where_a_position_says_first(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    send(quorate_cluster, topic, 2)
    reader = stream(quorate_cluster, topic)
    start = latest(reader, reader.initialOffset())
    with quorate_cluster.admin() as admin:
        admin.create_partitions(topic, 2)
    with quorate_cluster.producer() as producer:
        producer.send_many(topic, [b"x"] * 4, partition=1).result()
    fresh = stream(quorate_cluster, topic)
    fresh.prepareForTriggerAvailableNow()
    noted = latest(fresh, start)
    assert noted[topic]["offsets"] == {"0": 2, "1": 0}
    end = latest(fresh, noted)
    assert (offsets_in(fresh, start, noted), offsets_in(fresh, noted, end)) == ([], [0, 1, 2, 3])
    assert latest(fresh, end) == end


def test_what_an_earlier_query_of_the_process_knew_is_not_taken_for_what_is(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    given = {"kafka.bootstrap.servers": quorate_cluster.bootstrap, "subscribe": topic}

    def read() -> list[int]:
        reader = QuorateReader(read_options(given, is_streaming=False), OFFSETS)
        tasks = reader.partitions()
        return [offset for task in tasks for batch in reader.read(task) for offset in batch[0].to_pylist()]

    send(quorate_cluster, topic, 2)
    assert read() == [0, 1]
    with quorate_cluster.admin() as admin:
        admin.create_partitions(topic, 2)
        with quorate_cluster.producer() as producer:
            producer.send_many(topic, [b"x"] * 3, partition=1).result()
        assert read() == [0, 1, 0, 1, 2]
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1, replication_factor=3)
    send(quorate_cluster, topic, 1)
    assert read() == [0]


@pytest.mark.parametrize(
    ("option", "expected"), [("startingOffsets", []), ("endingOffsets", [0, 1, 2, 3, 4])]
)
def test_an_offset_behind_the_end_is_refused_or_taken_for_the_end_as_asked_for(
    quorate_cluster: LocalCluster, new_topic: NewTopic, option: str, expected: list[int]
) -> None:
    topic = new_topic(1)
    send(quorate_cluster, topic, 5)

    def read(**more: str) -> list[int]:
        given = {"kafka.bootstrap.servers": quorate_cluster.bootstrap, "subscribe": topic, **more}
        reader = QuorateReader(
            read_options({**given, option: f'{{"{topic}": {{"0": 9}}}}'}, is_streaming=False), OFFSETS
        )
        tasks = reader.partitions()
        return [offset for task in tasks for batch in reader.read(task) for offset in batch[0].to_pylist()]

    with pytest.raises(InvalidConfig, match=rf"option {option}: {topic}-0 ends at 5, before the offset 9"):
        read()
    assert read(failOnDataLoss="false") == expected


def test_too_few_records_are_waited_for_but_not_where_nothing_more_is_looked_at(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    send(quorate_cluster, topic, 5)
    reader = stream(quorate_cluster, topic, minOffsetsPerTrigger=10)
    start = reader.initialOffset()
    assert latest(reader, start) == start
    assert offsets_in(reader, start, reader.latestOffset(start, ReadAllAvailable())) == [0, 1, 2, 3, 4]
    impatient = stream(quorate_cluster, topic, minOffsetsPerTrigger=10, maxTriggerDelay="0ms")
    assert latest(impatient, start) != start
    reader.prepareForTriggerAvailableNow()
    assert latest(reader, start) != start


def test_available_now_ends_where_the_log_ended_when_the_query_began(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    send(quorate_cluster, topic, 5)
    reader = stream(quorate_cluster, topic, maxOffsetsPerTrigger=3)
    reader.prepareForTriggerAvailableNow()
    send(quorate_cluster, topic, 5)
    start = reader.initialOffset()
    first = latest(reader, start)
    second = latest(reader, first)
    assert [offsets_in(reader, start, first), offsets_in(reader, first, second)] == [[0, 1, 2], [3, 4]]
    assert latest(reader, second) == second


class LogThatEnds:
    """In the lookup's place: one partition, whose leader says each of these in turn."""

    def __init__(self, *ends: int) -> None:
        self._ends = list(ends)

    def ends(self, *, is_new_query: bool) -> Positions:
        return Positions({LOST: self._ends.pop(0)}, {LOST.topic: "an id"})

    def beginnings(self, partitions: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        assert not partitions
        return {}


LOST = TopicPartition(TopicName("lost"), PartitionId(0))


def position(offset: int) -> dict[str, Any]:
    return Positions({LOST: offset}, {LOST.topic: "an id"}).to_json()


def following(*ends: int, **options: str) -> QuorateStreamReader:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": LOST.topic, **options}
    reader = QuorateStreamReader(read_options(given, is_streaming=True), OFFSETS)
    reader._lookup_made = cast("Any", LogThatEnds(*ends))
    return reader


def available_now(*ends: int, **options: str) -> QuorateStreamReader:
    reader = following(*ends, **options)
    reader.prepareForTriggerAvailableNow()
    return reader


def test_too_few_records_are_waited_for_no_longer_than_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(stream_reader, "time", SimpleNamespace(monotonic=lambda: now))
    reader = following(9, 9, 9, 12, 12, 30, minOffsetsPerTrigger="10", maxTriggerDelay="30s")
    start = position(0)
    assert latest(reader, start) == start
    now = 29.9
    assert latest(reader, start) == start
    now = 30.0
    assert latest(reader, start) == position(9)
    # The time counts from the last batch, whether it came of enough records or of time.
    now = 59.9
    assert latest(reader, position(9)) == position(9)
    now = 60.0
    assert latest(reader, position(9)) == position(12)
    now = 60.1
    assert latest(reader, position(12)) == position(30)


def test_a_batch_that_was_waited_for_is_no_larger_than_asked_for() -> None:
    reader = following(9, 25, minOffsetsPerTrigger="10", maxOffsetsPerTrigger="12")
    assert latest(reader, position(0)) == position(0)
    assert latest(reader, position(0)) == position(12)


def test_available_now_tells_of_a_log_that_was_cut_off() -> None:
    with pytest.raises(DataLost, match="ends at 60, and was read up to 100"):
        latest(available_now(60, 60), position(100))
    # It goes back, or what is written there would never be read.
    assert latest(available_now(60, 60, failOnDataLoss="false"), position(100)) == position(60)
    # Who keeps what it reads by offset has others by the same offsets.
    gaps_only = {"failOnDataLoss": "false", "dataLossAllowed": "retention"}
    with pytest.raises(DataLost, match=r"ends at 60, .* begin anew: with another checkpoint"):
        latest(available_now(60, 60, **gaps_only), position(100))


def test_a_target_that_was_passed_is_no_loss() -> None:
    assert latest(available_now(60, 110), position(100)) == position(100)


@pytest.fixture
def short_log(quorate_cluster: LocalCluster, new_topic: NewTopic) -> Iterator[tuple[str, int]]:
    """A topic that has lost its first records to retention; with the offset that it begins at."""
    topic = new_topic(1, **{"segment.bytes": "16384", "retention.bytes": "16384"})
    with quorate_cluster.admin() as admin:
        begins_at = 0
        while begins_at == 0:
            send(quorate_cluster, topic, 500, batch_bytes=4096)
            (found,) = admin.list_offsets(topic, "earliest").values()
            begins_at = found.offset or 0
        yield topic, begins_at


def test_a_topic_made_anew_is_refused_by_the_plan_and_by_tasks(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    send(quorate_cluster, topic, 5)
    reader = stream(quorate_cluster, topic)
    start = reader.initialOffset()
    end = latest(reader, start)
    (planned,) = reader.partitions(start, end)
    with quorate_cluster.admin() as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1, replication_factor=3)
    send(quorate_cluster, topic, 9)
    with pytest.raises(TopicRecreated, match=f"topic {topic} was deleted and made anew"):
        list(reader.read(planned))
    fresh = stream(quorate_cluster, topic)
    with pytest.raises(TopicRecreated, match=r"run a batch query again, .* new checkpointLocation"):
        latest(fresh, start)


def test_records_that_retention_took_are_an_error_or_are_left_out_as_asked_for(
    quorate_cluster: LocalCluster, short_log: tuple[str, int]
) -> None:
    topic, begins_at = short_log
    reader = stream(quorate_cluster, topic)
    end = latest(reader, reader.initialOffset())
    start: dict[str, Any] = {topic: {**end[topic], "offsets": {"0": 0}}}
    with pytest.raises(
        DataLost, match=rf"{topic}-0 at offset 0: records from 0 to \d+ were deleted"
    ) as caught:
        offsets_in(reader, start, end)
    assert caught.value.facts["topic"] == topic
    assert (caught.value.facts["partition"], caught.value.facts["offset"]) == (0, 0)
    lenient = stream(quorate_cluster, topic, failOnDataLoss="false")
    found = offsets_in(lenient, start, end)
    assert found[0] >= begins_at
    assert found == sorted(set(found)), "retention goes on meanwhile: there may be more than one gap"
    assert found[-1] == end[topic]["offsets"]["0"] - 1


def test_who_is_far_behind_retention_goes_on_at_once_and_says_how_many_offsets_are_gone(
    quorate_cluster: LocalCluster, short_log: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    topic, begins_at = short_log
    few = {"maxOffsetsPerTrigger": "3", "minPartitions": "2"}
    lenient = stream(quorate_cluster, topic, failOnDataLoss="false", **few)
    found = latest(lenient, lenient.initialOffset())
    start: dict[str, Any] = {topic: {**found[topic], "offsets": {"0": 0}}}
    end = latest(lenient, start)
    assert end[topic]["offsets"]["0"] >= begins_at + 3, "else there is batch after batch of nothing"

    ranges = [each.value for each in lenient.partitions(start, end)]
    assert sum(each.size for each in ranges) <= 3, "what is gone is no task's"
    (told,) = [each for each in caplog.messages if "data_lost" in each]
    # A batch that is planned again may find that more is gone.
    assert f"{topic}-0" in told
    lost = re.search(r"offsets\W+(\d+)", told)
    assert lost is not None
    assert int(lost[1]) >= begins_at
    # Nothing may be missing: the plan asks nobody, and its task is refused.
    strict = stream(quorate_cluster, topic, **few)
    assert latest(strict, start)[topic]["offsets"] == {"0": 3}


def test_a_task_reads_on_when_the_leader_dies(quorate_cluster: LocalCluster, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    send(quorate_cluster, topic, 60_000)  # several answers' worth
    reader = stream(quorate_cluster, topic)
    start = reader.initialOffset()
    (planned,) = reader.partitions(start, latest(reader, start))
    batches = reader.read(planned)
    found = next(batches).column(0).to_pylist()
    quorate_cluster.kill(quorate_cluster.leader_of(topic))
    try:
        found += [offset for batch in batches for offset in batch.column(0).to_pylist()]
    finally:
        quorate_cluster.heal()
    assert found == list(range(60_000))


def test_a_batch_of_nothing_has_one_task_that_reads_nothing(
    quorate_cluster: LocalCluster, new_topic: NewTopic
) -> None:
    given = {"kafka.bootstrap.servers": quorate_cluster.bootstrap, "subscribe": new_topic(2)}
    reader = QuorateReader(read_options(given, is_streaming=False), OFFSETS)
    (nothing,) = reader.partitions()
    assert isinstance(nothing, RangePartition)
    assert list(reader.read(nothing)) == []


@pytest.mark.parametrize("option", ["startingOffsets", "startingOffsetsByTimestamp"])
def test_where_a_stream_begins_names_every_partition_but_those_that_came_later(
    quorate_cluster: LocalCluster, new_topic: NewTopic, option: str
) -> None:
    """Spark asks for it anew after a kill before the first batch is done; the topic may have grown since."""
    topic = new_topic(2)
    send(quorate_cluster, topic, 5)
    only_last = stream(quorate_cluster, topic, **{option: f'{{"{topic}": {{"1": 0}}}}'})
    with pytest.raises(InvalidConfig, match=f"option {option}: it says nothing about {topic}-0"):
        only_last.initialOffset()

    given = {option: f'{{"{topic}": {{"0": 0, "1": 0}}}}', "startingOffsetsByTimestampStrategy": "latest"}
    reader = stream(quorate_cluster, topic, **given)
    start = reader.initialOffset()
    noted = latest(reader, start)
    with quorate_cluster.admin() as admin:
        admin.create_partitions(topic, 3)
    send(quorate_cluster, topic, 2, partition=2)
    again = stream(quorate_cluster, topic, **given)
    assert offsets_in(again, again.initialOffset(), noted) == ([0, 1, 2, 3, 4] if start else [])
    assert latest(again, noted)[topic]["offsets"]["2"] == 0
    given |= {"kafka.bootstrap.servers": quorate_cluster.bootstrap, "subscribe": topic}
    with pytest.raises(InvalidConfig, match=f"option {option}: it says nothing about {topic}-2"):
        QuorateReader(read_options(given, is_streaming=False), OFFSETS).partitions()
