"""``make demo``: ends by itself, and with status 0 only because the proof held."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from pathlib import Path

from rich.console import Console

from quorate.chaos.demo.demonstration import Demonstration
from quorate.chaos.demo.reading_group import ReadingGroup
from quorate.chaos.history.history import History
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.core.records import ConsumerRecord


async def test_demonstration_holds_and_tells_what_happened(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.chaos.demo", "--seconds", "0.3"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    out, _ = await asyncio.wait_for(process.communicate(), 240)
    text = out.decode()
    assert process.returncode == 0, text
    for word in ("kill -9", "failover", "restart"):
        assert text.count(word) == 2, text
    assert "0 of them unclean" in text
    # Whoever coordinates the group is killed once, and a member joins under load.
    assert text.count("the coordinator of the group") >= 1, text
    assert "consumer-3: has partitions" in text
    assert "committed to the last one" in text
    assert "the same bytes on every node" in text
    assert "The proof holds" in text
    assert os.listdir(tmp_path) == []


PARTITION = TopicPartition(TopicName("demo"), PartitionId(0))


def record(offset: int, value: bytes) -> ConsumerRecord:
    return ConsumerRecord("demo", 0, offset, 0, None, value, (), 0)


def test_acknowledged_record_that_the_group_missed_is_told() -> None:
    demonstration = Demonstration(Console(file=io.StringIO()), "/nowhere", 0.0)
    history = demonstration._history
    group = ReadingGroup("nobody:1", [PARTITION], group="g", history=history)
    first, second, third = [history.begin("producer", PARTITION) for _ in range(3)]
    for offset, sent in enumerate((first, second, third)):
        history.acknowledge(sent, Offset(offset))
    # It was committed too far when the partition moved.
    history.polled(history.assign("a", {PARTITION: Offset(0)}), [record(0, first.value)])
    moved = history.assign("b", {PARTITION: Offset(2)})
    history.polled(moved, [record(2, third.value)])
    history.caught_up(moved)
    assert not demonstration._holds("consumed", group.seen())
    assert any(finding.startswith("consumed: lost-write: ") for finding in demonstration._findings)


def test_records_that_came_again_are_counted_and_two_readers_at_once_are_told() -> None:
    history = History()
    group = ReadingGroup("nobody:1", [PARTITION], group="g", history=history)
    before = history.assign("a", {PARTITION: Offset(0)})
    history.polled(before, [record(0, b"0"), record(1, b"1")])
    history.polled(history.assign("b", {PARTITION: Offset(1)}), [record(1, b"1")])
    assert group.repeated_count() == 1
    assert group.rivals() == []
    history.polled(before, [record(2, b"2")])
    assert group.rivals() == ["demo-0: a read on when b had it"]
