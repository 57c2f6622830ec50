"""The proof of the ledger reads files by itself, and finds what it is there to find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.chaos.live.replica_files import ReplicaFiles, read_replica, replica_directory
from quorate.core.ids import Offset, PartitionId, TopicId
from quorate.core.os_disk import OsDisk
from quorate.core.records import encode_values
from quorate.storage.segment import LOG_SUFFIX, segment_path

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


def read(disk: OsDisk, directory: str, *, to: int, start: int = 0) -> ReplicaFiles:
    return read_replica(disk, directory, log_start_offset=Offset(start), high_watermark=Offset(to))


def test_batches_of_all_segments_are_read_up_to_the_high_watermark(disk: OsDisk, tmp_path: Path) -> None:
    segments = {0: batch(0, b"a", b"b") + batch(2, b"c"), 3: batch(3, b"d") + batch(4, b"not committed")}
    files = read(disk, write_segments(tmp_path, segments), to=4)
    assert files.records == {0: b"a", 1: b"b", 2: b"c", 3: b"d"}
    assert list(files.copy.batches) == [0, 2, 3]
    assert files.copy.faults == ()


def test_log_may_begin_within_its_first_batch_after_retention(disk: OsDisk, tmp_path: Path) -> None:
    directory = write_segments(tmp_path, {5: batch(5, b"a", b"b") + batch(7, b"c")})
    assert read(disk, directory, start=6, to=8).copy.faults == ()
    assert read(disk, directory, start=4, to=8).copy.faults == ("a batch begins at 5, 4 was due",)


@pytest.mark.parametrize(
    ("segments", "faults"),
    [
        ({0: batch(0, b"a") + batch(2, b"c", b"d")}, ["a batch begins at 2, 1 was due"]),
        ({0: batch(0, b"a"), 3: batch(3, b"d")}, ["a batch begins at 3, 1 was due"]),
        ({0: batch(0, b"a", b"b") + batch(1, b"c", b"d", b"e")}, ["a batch begins at 1, 2 was due"]),
        ({0: batch(0, b"a")}, ["its files end at 1, 4 was committed"]),
        ({}, ["its files end at 0, 4 was committed"]),
    ],
)
def test_records_that_are_missing_are_found(
    disk: OsDisk, tmp_path: Path, segments: dict[int, bytes], faults: list[str]
) -> None:
    assert list(read(disk, write_segments(tmp_path, segments), to=4).copy.faults) == faults


def test_flipped_bit_is_found(disk: OsDisk, tmp_path: Path) -> None:
    content = bytearray(batch(0, b"a") + batch(1, b"b"))
    content[-1] ^= 1
    files = read(disk, write_segments(tmp_path, {0: bytes(content)}), to=2)
    assert [fault.partition(":")[0] for fault in files.copy.faults] == ["damaged after 1"]


def test_replica_is_found_by_the_id_of_its_topic_and_not_by_its_name(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / f"t-0.{'B' * 22}").mkdir()
    assert replica_directory(disk, str(tmp_path), TOPIC_ID, PartitionId(0)) is None
    (tmp_path / f"t-0.{TOPIC_ID}").mkdir()
    assert replica_directory(disk, str(tmp_path), TOPIC_ID, PartitionId(0)) == f"{tmp_path}/t-0.{TOPIC_ID}"
