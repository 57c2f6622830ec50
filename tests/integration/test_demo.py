"""``make demo``: ends by itself, and with status 0 only because the proof held."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from pathlib import Path

from rich.console import Console

from quorate.chaos.demo.demonstration import Demonstration
from quorate.chaos.live.final_state import seen_by_readers
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition


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
    assert "the same bytes on every node" in text
    assert "The proof holds" in text
    assert os.listdir(tmp_path) == []


def test_acknowledged_record_that_the_consumers_missed_is_told() -> None:
    demonstration = Demonstration(Console(file=io.StringIO()), "/nowhere", 0.0)
    history, partition = demonstration._history, TopicPartition(TopicName("demo"), PartitionId(0))
    history.acknowledge(history.begin("producer", partition), Offset(0))
    history.caught_up(history.assign("consumer", {partition: Offset(0)}))
    assert not demonstration._holds("consumed", seen_by_readers(history))
    assert any(finding.startswith("consumed: lost-write: ") for finding in demonstration._findings)
