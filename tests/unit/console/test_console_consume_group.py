"""``quorate consume --group`` on a real consumer, against a node in memory that coordinates the group."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from typing import Any

import pytest

from quorate.client import TopicPartition
from quorate.client.consumer.async_consumer import AsyncConsumer
from quorate.console.group_consuming import GroupConsumeOptions, _GroupReading
from quorate.console.main import main
from quorate.console.session import Session
from quorate.core.ids import PartitionId, TopicName
from quorate.errors import StorageFailed, UnknownTopicOrPartition
from tests.unit.client.fake_coordinator import Held
from tests.unit.console.fake_group_node import FakeGroupNode

Capture = pytest.CaptureFixture[bytes]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> FakeGroupNode:
    """Two partitions: three records in the first, one in the other."""
    node = FakeGroupNode(partitions=2).install(monkeypatch)
    node.topics["t"].partitions[0].append(b"a", b"b", b"c")
    node.topics["t"].partitions[1].append(b"d")
    return node


def consume(*options: str, status: int = 0) -> None:
    assert main(["consume", "t", "--group", "g", *options]) == status


def printed(capture: Capture) -> list[bytes]:
    return sorted(capture.readouterr().out.splitlines())


def test_group_goes_on_where_it_was(node: FakeGroupNode, capfdbinary: Capture) -> None:
    consume("--exit-at-end")
    assert printed(capfdbinary) == [b"a", b"b", b"c", b"d"]
    assert node.offsets() == {0: 3, 1: 1}
    node.topics["t"].partitions[0].append(b"e")
    consume("--exit-at-end")
    assert printed(capfdbinary) == [b"e"]
    assert node.offsets() == {0: 4, 1: 1}


def test_as_much_is_committed_as_was_printed(node: FakeGroupNode, capfdbinary: Capture) -> None:
    node.commit(1, 1)
    consume("--max", "2")
    assert printed(capfdbinary) == [b"a", b"b"]
    assert node.offsets() == {0: 2, 1: 1}


def test_member_leaves_at_the_end(node: FakeGroupNode) -> None:
    consume("--max", "1")
    assert node.group().members == {}
    assert node.heartbeats()[-1].member_epoch == -1


def test_group_that_is_at_the_end_already_has_nothing_to_wait_for(
    node: FakeGroupNode, capfdbinary: Capture
) -> None:
    node.commit(0, 3)
    node.commit(1, 1)
    consume("--exit-at-end")
    assert printed(capfdbinary) == []


def test_what_others_have_committed_counts_for_the_end(node: FakeGroupNode, capfdbinary: Capture) -> None:
    """Another member holds the first partition, and is half-way."""
    node.commit(0, 1)
    other = node.add_member("other")
    topic_id = node.topics["t"].topic_id
    other.assigned[Held(topic_id, "t", 0)] = 1
    node.pinned_to = {("t", 0): "other"}
    asked = 0

    def other_goes_on() -> None:
        nonlocal asked
        asked += 1
        if asked == 4:
            node.commit(0, 3)

    node.when_asked = other_goes_on
    consume("--exit-at-end")
    assert printed(capfdbinary) == [b"d"]
    assert asked == 4
    assert node.offsets() == {0: 3, 1: 1}


def test_what_is_written_after_it_began_is_left_to_the_next_one(
    node: FakeGroupNode, capfdbinary: Capture
) -> None:
    def write_more() -> None:
        node.when_asked = lambda: None
        node.topics["t"].partitions[0].append(b"late")

    node.when_asked = write_more
    consume("--exit-at-end")
    assert printed(capfdbinary) == [b"a", b"b", b"c", b"d"]
    assert node.offsets() == {0: 3, 1: 1}
    consume("--exit-at-end")
    assert printed(capfdbinary) == [b"late"]


# -- at least once


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_commits_what_was_printed_and_leaves(
    node: FakeGroupNode, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    # Whoever is started in the background by a script ignores Ctrl-C, and so would the test.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    poll = AsyncConsumer.poll

    async def poll_and_be_interrupted(consumer: AsyncConsumer, *arguments: Any, **options: Any) -> Any:
        records = await poll(consumer, *arguments, **options)
        if records:  # as if somebody pressed Ctrl-C, or stopped the service, while these are printed
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
        return records

    monkeypatch.setattr(AsyncConsumer, "poll", poll_and_be_interrupted)
    try:
        consume(status=128 + number)
    finally:
        signal.signal(signal.SIGINT, before)
    values = printed(capfdbinary)
    assert values
    assert sum(node.offsets().values()) == len(values)
    assert node.group().members == {}


def test_nothing_is_committed_that_could_not_be_written(
    node: FakeGroupNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        consume("--max", "3", status=1)
    assert "CANNOT_WRITE_OUTPUT" in capsys.readouterr().err
    assert node.offsets() == {}
    assert node.group().members == {}


def test_commit_that_is_refused_is_an_error_with_advice(
    node: FakeGroupNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.group_errors["CommitOffsets"] = deque([StorageFailed("the disk says no")])
    consume("--exit-at-end", status=1)
    assert "error: STORAGE_FAILED: the disk says no" in capsys.readouterr().err


# -- where it begins


@pytest.mark.parametrize(
    ("start", "values"),
    [
        ("beginning", [b"b", b"c", b"d"]),
        ("0", [b"b", b"c", b"d"]),
        ("1", [b"b", b"c"]),
        ("2000-01-01", [b"b", b"c", b"d"]),
        ("-1h", [b"b", b"c"]),
    ],
)
def test_from_counts_where_nothing_is_committed_and_nowhere_else(
    node: FakeGroupNode, capfdbinary: Capture, start: str, values: list[bytes]
) -> None:
    node.commit(0, 1)
    consume("--from", start, "--exit-at-end")
    assert printed(capfdbinary) == values


def test_group_may_begin_at_the_end_and_that_is_committed(node: FakeGroupNode, capfdbinary: Capture) -> None:
    consume("--from", "end", "--exit-at-end")
    assert printed(capfdbinary) == []
    assert node.offsets() == {0: 3, 1: 1}


@pytest.mark.parametrize("start", ["-1s", "2999-01-01", "1"])
def test_where_from_has_a_group_begin_is_committed_also_if_no_record_is_there(
    node: FakeGroupNode, capfdbinary: Capture, start: str
) -> None:
    """Else it would be forgotten, and the group read everything the next time."""
    consume("--from", start, "--exit-at-end")
    assert printed(capfdbinary) == ([b"b", b"c"] if start == "1" else [])
    assert node.offsets() == {0: 3, 1: 1}
    consume("--exit-at-end")
    assert printed(capfdbinary) == []


def test_offset_that_no_partition_holds_is_not_where_a_group_stands(
    node: FakeGroupNode, capsys: pytest.CaptureFixture[str]
) -> None:
    consume("--from", "4711", "--max", "1", status=1)
    assert "there is no offset 4711" in capsys.readouterr().err
    assert node.offsets() == {}


@pytest.mark.parametrize(
    ("start", "begun"),
    [("beginning", (0, 1)), ("end", (0, 1)), ("0", (0, 1)), ("-1h", (0, 1)), ("end", (0,))],
)
def test_from_is_refused_where_it_cannot_mean_anything(
    node: FakeGroupNode, capsys: pytest.CaptureFixture[str], start: str, begun: tuple[int, ...]
) -> None:
    for partition in begun:
        node.commit(partition, 1)
    consume("--from", start, "--max", "1", status=1)
    error, advice = capsys.readouterr().err.splitlines()
    assert error.startswith("error: INVALID_REQUEST: --from ")
    assert "quorate group reset g --topic t --to" in advice
    assert node.heartbeats() == []


def test_offset_that_retention_has_overtaken_is_told_with_how_to_move_the_group(
    node: FakeGroupNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.commit(0, 7)
    node.commit(1, 1)
    consume("--max", "1", status=1)
    error, advice = capsys.readouterr().err.splitlines()[-2:]
    assert error.startswith("error: OFFSET_OUT_OF_RANGE: there is no offset 7: t-0 ")
    assert "quorate group reset g --topic t --to earliest" in advice


def test_group_decides_who_reads_a_partition(node: FakeGroupNode, capsys: pytest.CaptureFixture[str]) -> None:
    consume("--partition", "0", status=2)
    assert "for the group to decide" in capsys.readouterr().err


def test_topic_that_is_not_there_is_told(node: FakeGroupNode, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "nope", "--group", "g"]) == 1
    assert "error: UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err


# -- what it tells


class _Held:
    """A consumer that holds what it is told to."""

    def __init__(self, *partitions: int) -> None:
        self.partitions = partitions

    def assignment(self) -> list[TopicPartition]:
        return [tp(each) for each in self.partitions]

    async def commit(self, _offsets: object, **_options: object) -> None:
        pass


def tp(partition: int) -> TopicPartition:
    return TopicPartition(TopicName("t"), PartitionId(partition))


async def test_all_that_is_read_is_told_after_each_change_and_what_was_given_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = GroupConsumeOptions("g", "t", start=None, records_max=None, exit_at_end=False)
    reading = _GroupReading(Session(), options)
    consumer: Any = _Held(0, 1)
    reading._consumer = consumer
    await reading._assigned([tp(0), tp(1)])
    await reading._revoked([tp(0)])
    consumer.partitions = 1, 2
    await reading._assigned([tp(2)])
    consumer.partitions = ()
    reading._lost([tp(1), tp(2)])
    assert capsys.readouterr().err.splitlines() == [
        "now reads t:0,1",
        "now reads t:1 (given up: t:0)",
        "now reads t:1,2",
        "lost t:1,2: the group has given this member up",
        "now reads nothing",
    ]


def test_what_is_given_up_at_the_end_is_not_told(
    node: FakeGroupNode, capsys: pytest.CaptureFixture[str]
) -> None:
    consume("--exit-at-end")
    assert capsys.readouterr().err.splitlines() == ["now reads t:0,1"]


async def test_member_whose_topic_was_deleted_hears_that_and_not_of_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Administration:
        async def describe_topic(self, topic: str) -> None:
            raise UnknownTopicOrPartition(f"there is no topic {topic}")

    options = GroupConsumeOptions("g", "t", start=None, records_max=None, exit_at_end=False)
    reading = _GroupReading(Session(), options)
    administration: Any = Administration()
    reading._admin = administration
    assert await reading._why_idle() == (
        "there is no topic t any more; it is waited for, and read once it is made anew"
    )
