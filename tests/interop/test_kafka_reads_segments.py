"""Kafka's own DumpLogSegments reads our segment files and finds every batch valid."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from quorate.core.clock import SystemClock
from quorate.core.config import CleanupPolicy
from quorate.core.ids import LeaderEpoch
from quorate.core.os_disk import OsDisk
from quorate.core.records import Compression, Record, encode_batch
from quorate.storage import LogConfig, LogContext, OpenFiles, PartitionLog, StartKind

JARS = Path(__file__).parents[2] / ".tools" / "kafka"

pytestmark = pytest.mark.skipif(
    not JARS.exists() or shutil.which("java") is None,
    reason="Kafka's tools are missing; `make kafkatools` fetches them where Maven is installed",
)

EPOCH = LeaderEpoch(3)
HEADERS = (("key", b"value"), ("null", None))
RECORDS = [
    Record(0, 1_700_000_000_000, b"customer", b"placed" * 20, HEADERS),
    Record(0, 1_700_000_000_001, None, b"", ()),
    Record(0, 1_700_000_000_002, b"", None, ()),
]


def _stop(reason: str) -> NoReturn:
    sys.exit(reason)


async def _write_log(directory: Path) -> int:
    """Two batches for every compression, over several segments; returns how many."""
    disk = OsDisk()
    context = LogContext(disk, SystemClock(), OpenFiles(disk, files_max=4), _stop)
    config = LogConfig(segment_bytes=1024)
    log = await PartitionLog.open(context, config, str(directory), start=StartKind.CLEAN)
    log.become_leader(EPOCH)
    count = 0
    for compression in [*Compression, *Compression]:
        batch = encode_batch(
            RECORDS,
            compression=compression,
            producer_id=7,
            producer_epoch=0,
            base_sequence=count * len(RECORDS),
        )
        log.append_as_leader(batch, leader_epoch=EPOCH)
        count += 1
    assert log.segment_count > 1
    assert await log.close()
    disk.close()
    return count


async def _write_compacted_log(directory: Path) -> None:
    """Of some batches a few records are left, of others nothing."""
    disk = OsDisk()
    context = LogContext(disk, SystemClock(), OpenFiles(disk, files_max=4), _stop)
    config = LogConfig(cleanup_policy=(CleanupPolicy.COMPACT,), segment_ms=0)
    log = await PartitionLog.open(context, config, str(directory), start=StartKind.CLEAN)
    log.become_leader(EPOCH)
    for number, compression in enumerate([*Compression, *Compression]):
        records = [Record(0, 1_700_000_000_000, b"%d" % n, b"placed" * 20) for n in range(number, 6)]
        records += [Record(0, 1_700_000_000_000, b"always", b"%d" % number, HEADERS)]
        producer_id = -1 if number < 4 else number
        batch = encode_batch(
            records,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=min(producer_id, 0),
            base_sequence=min(producer_id, 0),
        )
        log.append_as_leader(batch, leader_epoch=EPOCH)
    log.roll_if_old()
    await log.checkpoint()
    assert await log.compact(below=log.log_end_offset) is not None
    assert await log.close()
    disk.close()


def _dump(directory: Path) -> str:
    segments = ",".join(sorted(str(path) for path in directory.glob("*.log")))
    tool = ("java", "-cp", f"{JARS}/*", "kafka.tools.DumpLogSegments")
    command = (*tool, "--deep-iteration", "--print-data-log", "--files", segments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def test_kafka_dumps_every_batch_and_record_and_calls_them_valid(tmp_path: Path) -> None:
    count = await _write_log(tmp_path)
    dump = _dump(tmp_path)
    assert dump.count("isvalid: true") == count
    assert "isvalid: false" not in dump
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", dump, re.MULTILINE)]
    assert offsets == list(range(count * len(RECORDS)))
    assert dump.count("partitionLeaderEpoch: 3") == count
    assert dump.count(f"payload: {'placed' * 20}") == count
    for compression in Compression:
        assert f"compresscodec: {compression.name.lower()}" in dump


async def test_kafka_reads_what_compaction_has_left(tmp_path: Path) -> None:
    """Batches that cover more offsets than they have records, and some that have none."""
    await _write_compacted_log(tmp_path)
    dump = _dump(tmp_path)
    assert "isvalid: false" not in dump
    batches = re.findall(r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+)", dump, re.MULTILINE)
    assert any(count == "0" for *_, count in batches)
    due = 0
    for base_offset, last_offset, count in batches:
        assert int(base_offset) == due
        assert int(count) <= int(last_offset) - int(base_offset) + 1
        due = int(last_offset) + 1
    records = re.findall(r"^\| offset: \d+ .* key: (\w+) payload:", dump, re.MULTILINE)
    assert sorted(records) == ["0", "1", "2", "3", "4", "5", "always"]
