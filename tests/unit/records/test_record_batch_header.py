"""Headers: parsing, checking, scanning and stamping whole batches."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from quorate.core.records import Compression, FaultKind, TimestampType, stated_bytes
from quorate.errors import CorruptBatch, UnsupportedBatch
from tests.unit.records.batches import TIMESTAMP, raw_batch, raw_record

GOOD = raw_batch(raw_record())


def test_every_field_of_a_header_is_read(codec: ModuleType) -> None:
    batch = raw_batch(
        raw_record(),
        base_offset=2**40,
        leader_epoch=7,
        attributes=0x38,
        last_offset_delta=5,
        base_timestamp=-1,
        max_timestamp=2**62,
        producer_id=2**63 - 1,
        producer_epoch=2**15 - 1,
        base_sequence=11,
    )
    header = codec.parse_header(batch)
    assert header.base_offset == 2**40
    assert header.batch_length == len(batch) - 12
    assert header.leader_epoch == 7
    assert header.magic == 2
    assert header.crc == int.from_bytes(batch[17:21])
    assert header.attributes == 0x38
    assert header.last_offset_delta == 5
    assert header.base_timestamp == -1
    assert header.max_timestamp == 2**62
    assert header.producer_id == 2**63 - 1
    assert header.producer_epoch == 2**15 - 1
    assert header.base_sequence == 11
    assert header.record_count == 1


def test_derived_fields_follow_from_the_wire_fields(codec: ModuleType) -> None:
    header = codec.parse_header(
        raw_batch(raw_record(), base_offset=100, attributes=0x18, last_offset_delta=5)
    )
    assert header.last_offset == 105
    assert header.next_offset == 106
    assert header.size_in_bytes == 61 + len(raw_record())
    assert header.compression is Compression.NONE
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.is_transactional is True
    assert header.is_control is False


def test_flags_are_told_apart(codec: ModuleType) -> None:
    header = codec.parse_header(raw_batch(raw_record(), attributes=0x24))
    assert header.compression is Compression.ZSTD
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.is_transactional is False
    assert header.is_control is True


def test_attribute_bits_of_the_future_are_ignored(codec: ModuleType) -> None:
    assert codec.parse_header(raw_batch(raw_record(), attributes=-64)).attributes == -64
    assert len(codec.decode_batch(raw_batch(raw_record(), attributes=-64))) == 1


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(-1, 9, -1), (0, 0, 0), (5, 4, 9), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 3, 1)],
)
def test_sequence_numbers_wrap_to_zero_after_the_largest(
    codec: ModuleType, base_sequence: int, last_offset_delta: int, last_sequence: int
) -> None:
    batch = raw_batch(raw_record(), base_sequence=base_sequence, last_offset_delta=last_offset_delta)
    assert codec.parse_header(batch).last_sequence == last_sequence


def test_headers_are_equal_if_all_fields_are(codec: ModuleType) -> None:
    header = codec.parse_header(GOOD)
    assert header == codec.parse_header(b"x" + GOOD, 1)
    assert header != codec.parse_header(raw_batch(raw_record(), leader_epoch=3))
    assert header != "header"
    with pytest.raises(TypeError):
        hash(header)


def test_a_header_shows_its_fields(codec: ModuleType) -> None:
    assert repr(codec.parse_header(GOOD)) == (
        f"BatchHeader(base_offset=0, batch_length=57, leader_epoch=-1, magic=2, "
        f"crc={int.from_bytes(GOOD[17:21]):#010x}, attributes=0x0000, last_offset_delta=0, "
        f"base_timestamp={TIMESTAMP}, max_timestamp={TIMESTAMP}, producer_id=-1, producer_epoch=-1, "
        f"base_sequence=-1, record_count=1)"
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"batch_length": 48}, "length 48"),
        ({"batch_length": -1}, "length -1"),
        ({"magic": 3}, "magic 3"),
        ({"magic": -1}, "magic -1"),
        ({"magic": 0, "batch_length": 0}, "magic 0 with length 0"),
        ({"base_offset": -1}, "base offset -1"),
        ({"base_offset": 2**63 - 1}, "base offset"),
        ({"last_offset_delta": -1}, "last offset delta -1"),
        ({"producer_id": -2}, "producer id -2"),
        ({"producer_epoch": -2}, "epoch -2"),
        ({"base_sequence": -2}, "sequence -2"),
        ({"record_count": -1}, "-1 records"),
        ({"record_count": 2, "last_offset_delta": 0}, "2 records"),
        ({"record_count": 2}, "2 records in 8 bytes"),
        ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 1}, "records in 8 bytes"),
    ],
)
def test_a_field_out_of_range_is_corrupt(codec: ModuleType, fields: dict[str, Any], reason: str) -> None:
    # As the record count may be what is wrong, its consequence for the last offset delta is undone.
    fields = {"last_offset_delta": max(fields.get("record_count", 1) - 1, 0), **fields}
    batch = raw_batch(raw_record(), **fields)
    with pytest.raises(CorruptBatch, match=reason):
        codec.parse_header(batch)
    assert codec.scan_batches(batch).fault.kind is FaultKind.CORRUPT


def test_compressed_records_need_at_least_one_byte(codec: ModuleType) -> None:
    with pytest.raises(CorruptBatch, match="1 records in 0 bytes"):
        codec.parse_header(raw_batch(b"", attributes=Compression.GZIP))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"magic": 0, "batch_length": 14}, "magic 0"),
        ({"magic": 1, "batch_length": 100}, "magic 1"),
        ({"attributes": 5}, "compression 5"),
        ({"attributes": 7}, "compression 7"),
    ],
)
def test_older_formats_and_unknown_compression_are_unsupported(
    codec: ModuleType, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedBatch, match=reason):
        codec.parse_header(raw_batch(raw_record(), **fields))


@pytest.mark.parametrize("size", [0, 1, 60])
def test_less_than_a_header_is_corrupt_to_parse_and_incomplete_to_scan(codec: ModuleType, size: int) -> None:
    with pytest.raises(CorruptBatch, match=f"{size} of 61 bytes"):
        codec.parse_header(GOOD[:size])
    with pytest.raises(CorruptBatch, match=f"{size} of 61 bytes"):
        codec.parse_header(GOOD + GOOD[:size], len(GOOD))
    if size:
        assert codec.scan_batches(GOOD[:size]).fault.kind is FaultKind.INCOMPLETE


def test_a_position_beyond_the_buffer_is_corrupt_and_one_below_zero_a_mistake(codec: ModuleType) -> None:
    with pytest.raises(CorruptBatch, match="0 of 61 bytes"):
        codec.check_batch(GOOD, len(GOOD) + 5)
    assert codec.scan_batches(GOOD, len(GOOD) + 5) == ([], len(GOOD) + 5, None)
    for function in (codec.parse_header, codec.check_batch, codec.scan_batches, codec.decode_batch):
        with pytest.raises(ValueError, match="position is -1"):
            function(GOOD, -1)


def test_check_batch_wants_all_bytes_and_the_right_crc(codec: ModuleType) -> None:
    assert codec.check_batch(GOOD) == codec.parse_header(GOOD)
    with pytest.raises(CorruptBatch, match="68 of 69 bytes"):
        codec.check_batch(GOOD[:-1])
    with pytest.raises(CorruptBatch, match="CRC") as caught:
        codec.check_batch(b"pad" + GOOD[:-1] + b"x", 3)
    assert caught.value.facts == {"position": 3, "base_offset": 0}


def test_every_flipped_bit_under_the_crc_is_found(codec: ModuleType) -> None:
    for bit in range(17 * 8, len(GOOD) * 8):
        damaged = bytearray(GOOD)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptBatch, UnsupportedBatch)):
            codec.check_batch(damaged)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_scanned_to_its_end(codec: ModuleType, kind: Any) -> None:
    batches = [raw_batch(raw_record(), base_offset=offset) for offset in (10, 11, 12)]
    result = codec.scan_batches(kind(b"12" + b"".join(batches)), 2)
    assert [header.base_offset for header in result.headers] == [10, 11, 12]
    assert result.end == 2 + 3 * len(GOOD)
    assert result.fault is None


def test_an_empty_buffer_scans_to_nothing(codec: ModuleType) -> None:
    assert codec.scan_batches(b"") == ([], 0, None)


def test_a_torn_tail_is_incomplete_at_every_byte(codec: ModuleType) -> None:
    for size in range(1, len(GOOD)):
        headers, end, fault = codec.scan_batches(GOOD + GOOD[:size])
        assert (len(headers), end, fault.kind) == (1, len(GOOD), FaultKind.INCOMPLETE)
        assert fault.reason == f"batch at position 69: {size} of {61 if size < 61 else 69} bytes"


def test_a_scan_stops_at_the_first_batch_whose_crc_is_wrong(codec: ModuleType) -> None:
    headers, end, fault = codec.scan_batches(GOOD + GOOD[:-1] + b"x" + GOOD)
    assert (len(headers), end, fault.kind) == (1, len(GOOD), FaultKind.CORRUPT)
    assert "position 69" in fault.reason
    assert "CRC" in fault.reason


def test_zeros_after_the_last_batch_are_corrupt_not_incomplete(codec: ModuleType) -> None:
    headers, end, fault = codec.scan_batches(GOOD + bytes(100))
    assert (len(headers), end, fault.kind) == (1, len(GOOD), FaultKind.CORRUPT)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_stamping_in_place_leaves_the_crc_valid(codec: ModuleType, kind: Any) -> None:
    buffer = kind(bytearray(b"ab" + GOOD))
    codec.patch_header(buffer, 2, base_offset=2**40, leader_epoch=9)
    header = codec.check_batch(buffer, 2)
    assert (header.base_offset, header.leader_epoch) == (2**40, 9)
    assert bytes(buffer[:2]) == b"ab"
    assert bytes(buffer[18:]) == GOOD[16:]


def test_stamping_refuses_what_it_cannot_do_and_changes_nothing(codec: ModuleType) -> None:
    with pytest.raises(BufferError):
        codec.patch_header(GOOD, 0, base_offset=1, leader_epoch=1)
    buffer = bytearray(GOOD)
    for position in (-1, 9):
        with pytest.raises(ValueError, match="no header at position"):
            codec.patch_header(buffer, position, base_offset=1, leader_epoch=1)
    with pytest.raises(OverflowError):
        codec.patch_header(buffer, 0, base_offset=1, leader_epoch=2**31)
    assert buffer == GOOD


def test_a_stamped_prefix_replaces_the_first_sixteen_bytes(codec: ModuleType) -> None:
    prefix = codec.stamped_prefix(codec.parse_header(GOOD), base_offset=2**40, leader_epoch=9)
    stamped = bytearray(GOOD)
    codec.patch_header(stamped, 0, base_offset=2**40, leader_epoch=9)
    assert prefix + GOOD[16:] == stamped


def test_the_size_a_batch_states_is_read_from_its_first_bytes() -> None:
    assert stated_bytes(GOOD) == stated_bytes(memoryview(GOOD)[:12]) == len(GOOD)
    for length in (-(2**31), -1, 0, 48):
        assert stated_bytes(bytes(8) + length.to_bytes(4, "big", signed=True)) == 61
    assert stated_bytes(b"\xff") == 61
