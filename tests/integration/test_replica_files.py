"""The proof of the ledger reads files by itself, and finds what it is there to find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.chaos.cluster.checks import Violation
from quorate.chaos.ledger.proof import check_copies
from quorate.chaos.ledger.replica_files import batches_in_files, records_in_batches, replica_directory
from quorate.core.ids import Offset, PartitionId, TopicId, TopicName, TopicPartition
from quorate.core.os_disk import OsDisk
from quorate.core.records import encode_values
from quorate.errors import CorruptBatch
from quorate.storage.segment import LOG_SUFFIX, segment_path

PARTITION = TopicPartition(TopicName("t"), PartitionId(0))
TOPIC_ID = TopicId("A" * 22)


@pytest.fixture
def disk() -> Iterator[OsDisk]:
    disk = OsDisk(read_only=True)
    yield disk
    disk.close()


def batch(base_offset: int, *values: bytes) -> bytes:
    return encode_values(list(values), timestamp_ms=1, base_offset=base_offset)


def write_segments(directory: Path, segments: dict[int, bytes]) -> str:
    for base_offset, content in segments.items():
        Path(segment_path(str(directory), Offset(base_offset), LOG_SUFFIX)).write_bytes(content)
    return str(directory)


def test_batches_of_all_segments_are_read_up_to_the_high_watermark(disk: OsDisk, tmp_path: Path) -> None:
    segments = {0: batch(0, b"a", b"b") + batch(2, b"c"), 3: batch(3, b"d") + batch(4, b"not committed")}
    batches = batches_in_files(disk, write_segments(tmp_path, segments), Offset(4))
    assert records_in_batches(batches) == {0: b"a", 1: b"b", 2: b"c", 3: b"d"}


@pytest.mark.parametrize(
    ("segments", "fault"),
    [
        ({0: batch(0, b"a") + batch(2, b"c")}, "begins at 2, 1 was due"),
        ({0: batch(0, b"a"), 3: batch(3, b"d")}, "begins at 3, 1 was due"),
        ({0: batch(0, b"a")}, "end at 1, 4 was committed"),
        ({}, "end at 0, 4 was committed"),
    ],
)
def test_records_that_are_missing_are_found(
    disk: OsDisk, tmp_path: Path, segments: dict[int, bytes], fault: str
) -> None:
    with pytest.raises(Violation, match=fault):
        batches_in_files(disk, write_segments(tmp_path, segments), Offset(4))


def test_flipped_bit_is_found(disk: OsDisk, tmp_path: Path) -> None:
    content = bytearray(batch(0, b"a", b"b"))
    content[-1] ^= 1
    with pytest.raises(CorruptBatch):
        batches_in_files(disk, write_segments(tmp_path, {0: bytes(content)}), Offset(2))


def test_replica_is_found_by_the_id_of_its_topic_and_not_by_its_name(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / f"t-0.{'B' * 22}").mkdir()
    with pytest.raises(Violation, match="holds no replica"):
        replica_directory(disk, str(tmp_path), TOPIC_ID, PartitionId(0))
    (tmp_path / f"t-0.{TOPIC_ID}").mkdir()
    assert replica_directory(disk, str(tmp_path), TOPIC_ID, PartitionId(0)).endswith(TOPIC_ID)


def test_copies_that_differ_are_found() -> None:
    copies = {"broker-1": batch(0, b"a"), "broker-2": batch(0, b"b")}
    with pytest.raises(Violation, match="broker-1 and broker-2 differ below 1"):
        check_copies(PARTITION, copies, {Offset(0): b"a"}, Offset(1))


def test_readers_that_were_shown_something_else_are_found() -> None:
    with pytest.raises(Violation, match="readers were shown something else"):
        check_copies(PARTITION, {"broker-1": batch(0, b"a")}, {Offset(0): b"b"}, Offset(1))
