"""Bytes written by others, or by hand from the format: they must never come to mean anything else."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import pytest

from quorate.core.records import Compression, Record, TimestampType
from tests.unit.records.batches import TIMESTAMP as T


class Golden(NamedTuple):
    name: str
    batch: str
    records: list[Record]
    #: how to encode it; None if encoders make other bytes of it (compressors differ) or none (compaction)
    keywords: dict[str, Any] | None = {}  # noqa: RUF012  # a default of a named tuple, never changed


# Written by aiokafka 0.14.
BY_AIOKAFKA = [
    Golden(
        "one record",
        """000000000000000000000040ffffffff02db5e9cdd0000000000000000018bcfe568000000018bcfe56800ffffffffff
        ffffffffffffffffff000000011c000000066b65790a76616c756500""",
        [Record(0, T, b"key", b"value")],
    ),
    Golden(
        "null and empty keys and values",
        """00000000000000000000004fffffffff020bcb01c30000000000030000018bcfe568000000018bcfe56800ffffffffff
        ffffffffffffffffff000000040c0000000101000c0000020000000e000004010276000e000006026b0100""",
        [
            Record(0, T, None, None),
            Record(1, T, b"", b""),
            Record(2, T, None, b"v"),
            Record(3, T, b"k", None),
        ],
    ),
    Golden(
        "headers: repeated key, null value, empty key and value, a key beyond ASCII",
        """00000000000000000000004dffffffff02d318af8d0000000000000000018bcfe568000000018bcfe56800ffffffffff
        ffffffffffffffffff0000000136000000026b0276080261023102610100000c68c3a9e298830400ff""",
        [Record(0, T, b"k", b"v", (("a", b"1"), ("a", None), ("", b""), ("h\u00e9\u2603", b"\x00\xff")))],
    ),
    Golden(
        "timestamps that go forward and back",
        """000000000000000000000059ffffffff02d53cc4f60000000000020000018bcfe568000000018bcfe6eea0ffffffffff
        ffffffffffffffffff0000000316000000010a6669727374001a00c09a0c02010a6c61746572001a000904010e656172
        6c69657200""",
        [
            Record(0, T, None, b"first"),
            Record(1, T + 100_000, None, b"later"),
            Record(2, T - 5, None, b"earlier"),
        ],
    ),
    Golden(
        "idempotent producer at its last sequence number",
        """000000000000000000000039ffffffff025d1452b50000000000000000018bcfe568000000018bcfe568000000000000
        00126700037fffffff000000010e00000001027600""",
        [Record(0, T, None, b"v")],
        {"producer_id": 4711, "producer_epoch": 3, "base_sequence": 2**31 - 1},
    ),
    Golden(
        "transactional",
        """000000000000000000000039ffffffff02855ef97a0010000000000000018bcfe568000000018bcfe568000000000000
        001267000300000011000000010e00000001027600""",
        [Record(0, T, None, b"v")],
        {"producer_id": 4711, "producer_epoch": 3, "base_sequence": 17, "is_transactional": True},
    ),
]

PAIR = [
    Record(0, T, None, b"quorate" * 20),
    Record(1, T + 1, b"k", b"quorate" * 20, (("h", b"x"),)),
]

COMPRESSED_BY_AIOKAFKA = [
    Golden(
        "gzip",
        """000000000000000000000066ffffffff02d18ef4850001000000010000018bcfe568000000018bcfe56801ffffffffff
        ffffffffffffffffff000000021f8b0800059dfa6a02ff5bc6c4c0c0c03883a9b034bf28b1247550500c1b9818989898
        b20797ab989832982a00a5d48e282f010000""",
        PAIR,
        None,
    ),
    Golden(
        "snappy, framed as by snappy-java",
        """000000000000000000000077ffffffff028cae8b930002000000010000018bcfe568000000018bcfe56801ffffffffff
        ffffffffffffffffff0000000282534e4150505900000000010000000100000032af0238a60200000001980271756f72
        617465fe0700fe070005071c00b002000202026bfe9600fe9600369600100202680278""",
        PAIR,
        None,
    ),
    Golden(
        "lz4",
        """00000000000000000000006affffffff022ea50f170003000000010000018bcfe568000000018bcfe56801ffffffffff
        ffffffffffffffffff0000000204224d187040ad26000000ff00a60200000001980271756f726174650700728f00b002
        000202026b96007b5002026802781426841f00000000""",
        PAIR,
        None,
    ),
    Golden(
        "zstd",
        """000000000000000000000062ffffffff024a1a44a00004000000010000018bcfe568000000018bcfe56801ffffffffff
        ffffffffffffffffff0000000228b52ffd602f003d0100e0a60200000001980271756f7261746500b002000202026b02
        0268027802008b8ca13881a85207""",
        PAIR,
        None,
    ),
]

# By hand, from the format: what only brokers write.
BY_HAND = [
    Golden(
        "commit marker: a transactional control batch",
        """000000000000002a0000004200000007027b4425550030000000000000018bcfe568000000018bcfe568000000000000
        0012670003ffffffff000000012000000008000000010c00000000000500""",
        [Record(42, T, bytes.fromhex("00000001"), bytes.fromhex("000000000005"))],
        {
            "base_offset": 42,
            "leader_epoch": 7,
            "producer_id": 4711,
            "producer_epoch": 3,
            "is_transactional": True,
            "is_control": True,
        },
    ),
    Golden(
        "log append time: the batch's timestamp is that of all its records",
        """000000000000000000000041ffffffff025d9359f50008000000010000018bcfe568000000018bcfe56b09ffffffffff
        ffffffffffffffffff000000020e000000010276000e00040201027600""",
        [Record(0, T + 777, None, b"v"), Record(1, T + 777, None, b"v")],
        None,
    ),
    Golden(
        "emptied by compaction: no records, but offsets 100 to 109",
        """000000000000006400000031000000040259824a5e0000000000090000018bcfe568000000018bcfe56800ffffffffff
        ffffffffffffffffff00000000""",
        [],
        None,
    ),
    Golden(
        "thinned by compaction: two of ten records",
        """0000000000000064000000410000000402701f2d3e0000000000090000018bcfe568000000018bcfe56800ffffffffff
        ffffffffffffffffff000000020e000004010276000e00000e01027600""",
        [Record(102, T, None, b"v"), Record(107, T, None, b"v")],
        None,
    ),
]

ALL = [*BY_AIOKAFKA, *COMPRESSED_BY_AIOKAFKA, *BY_HAND]


@pytest.mark.parametrize("golden", ALL, ids=lambda golden: golden.name)
def test_golden_bytes_decode_to_the_same_records_for_ever(codec: ModuleType, golden: Golden) -> None:
    batch = bytes.fromhex(golden.batch)
    assert codec.decode_batch(batch) == golden.records
    assert codec.check_batch(batch).size_in_bytes == len(batch)
    assert codec.check_batch(batch).record_count == len(golden.records)


ENCODABLE = [golden for golden in ALL if golden.keywords is not None]


@pytest.mark.parametrize("golden", ENCODABLE, ids=lambda golden: golden.name)
def test_records_encode_to_the_golden_bytes(codec: ModuleType, golden: Golden) -> None:
    assert golden.keywords is not None
    assert codec.encode_batch(golden.records, **golden.keywords).hex() == "".join(golden.batch.split())


def test_log_append_time_encodes_to_the_golden_bytes(codec: ModuleType) -> None:
    records = [Record(0, T, None, b"v"), Record(0, T + 2, None, b"v")]
    batch = codec.encode_batch(
        records, timestamp_type=TimestampType.LOG_APPEND_TIME, append_timestamp_ms=T + 777
    )
    assert batch.hex() == "".join(BY_HAND[1].batch.split())


@pytest.mark.parametrize("golden", COMPRESSED_BY_AIOKAFKA, ids=lambda golden: golden.name)
def test_the_header_names_the_compression_of_the_golden_bytes(codec: ModuleType, golden: Golden) -> None:
    header = codec.parse_header(bytes.fromhex(golden.batch))
    assert header.compression is Compression[golden.name.partition(",")[0].upper()]
