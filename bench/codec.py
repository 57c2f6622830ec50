"""The record batch codec, against aiokafka's compiled one, and to Arrow.

All contenders take turns within each round, so that a noisy machine disturbs them alike; a figure is
the ratio of medians. Both sides start from the same Python objects and end with bytes, or the other
way round, checksums included.

    python -m bench.codec
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)

from bench.figure import Figure, show
from quorate.core.records import (
    CODEC,
    Headers,
    Record,
    batch_to_arrow,
    decode_batch,
    encode_batch,
    encode_values,
    scan_batches,
)
from quorate.core.records import _pure as pure

__all__ = ["main", "run"]

# Many short rounds: whatever else the machine does then falls on few of them, and the median on none.
ROUNDS: Final = 201
RECORDS: Final = 1000
SCANNED_BATCHES: Final = 2000
VALUE: Final = b"v" * 100
HEADERS: Final[Headers] = (("trace", b"0123456789abcdef"), ("kind", b"order"))

Work = Callable[[], object]


def main() -> None:
    show(f"record batch codec ({CODEC})", run())


def run() -> list[Figure]:
    return [
        *_against_aiokafka("without headers", ()),
        *_against_aiokafka("with two headers", HEADERS),
        _arrow(),
        _scan(),
        *_pure(),
    ]


def _medians(contenders: dict[str, Work], *, rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds for one call of each, after one that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for counted in range(-1, rounds):
        for name, work in contenders.items():
            began = time.perf_counter()
            work()
            if counted >= 0:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in seconds.items()}


def _records(headers: Headers) -> list[Record]:
    return [Record(row, 1_700_000_000_000 + row, b"key-%06d" % row, VALUE, headers) for row in range(RECORDS)]


def _aiokafka_encode(records: list[Record], headers: list[Any]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**30,
    )
    append = builder.append
    for offset, record in enumerate(records):
        append(offset, record.timestamp, record.key, record.value, headers)
    return bytes(builder.build())


def _aiokafka_decode(batch: bytes) -> list[Any]:
    reader = DefaultRecordBatch(batch)
    assert reader.validate_crc()
    return list(reader)


def _against_aiokafka(what: str, headers: Headers) -> list[Figure]:
    records = _records(headers)
    timestamps = [record.timestamp for record in records]
    keys = [record.key for record in records]
    values = [record.value for record in records]
    header_column = [headers] * RECORDS if headers else None
    header_list = list(headers)
    batch = encode_batch(records)
    assert batch == _aiokafka_encode(records, header_list)

    medians = _medians(
        {
            "aiokafka encode": lambda: _aiokafka_encode(records, header_list),
            "encode": lambda: encode_batch(records),
            "encode columns": lambda: encode_values(
                values, timestamps=timestamps, keys=keys, headers=header_column
            ),
            "aiokafka decode": lambda: _aiokafka_decode(batch),
            "decode": lambda: decode_batch(batch),
        }
    )

    def ratio(name: str, theirs: str) -> Figure:
        nanoseconds = medians[name] * 1e9 / RECORDS
        detail = f"{nanoseconds:.0f} ns a record, aiokafka {medians[theirs] * 1e9 / RECORDS:.0f} ns"
        return Figure.against(f"{name} {what}", medians[theirs] / medians[name], "x aiokafka", 1.0, detail)

    return [
        ratio("encode", "aiokafka encode"),
        ratio("encode columns", "aiokafka encode"),
        ratio("decode", "aiokafka decode"),
    ]


def _arrow() -> Figure:
    timestamps = [1_700_000_000_000 + row for row in range(RECORDS)]
    batch = encode_values([VALUE] * RECORDS, timestamps=timestamps)
    seconds = _medians({"arrow": lambda: batch_to_arrow(batch)})["arrow"]
    return Figure.against(
        "batch to Arrow",
        RECORDS / seconds / 1e6,
        "M records/s",
        5.0,
        f"batches of {RECORDS} records of 100 bytes",
    )


def _scan() -> Figure:
    batch = encode_values(
        [bytes(1024 - len(encode_values([bytes(900)], timestamp_ms=1)) + 900)], timestamp_ms=1
    )
    log = batch * SCANNED_BATCHES
    seconds = _medians({"scan": lambda: scan_batches(log)}, rounds=51)["scan"]
    return Figure.at_most(
        "recovery scan",
        seconds * 1e9 / SCANNED_BATCHES,
        "ns/batch",
        None,
        f"batches of {len(batch)} bytes, CRC checked",
    )


def _pure() -> list[Figure]:
    """Stated, without a bar: what a machine without a C compiler gets."""
    records = _records(())
    batch = encode_batch(records)
    medians = _medians(
        {"encode": lambda: pure.encode_batch(records), "decode": lambda: pure.decode_batch(batch)},
        rounds=11,
    )
    return [
        Figure.against(
            f"{name}, pure Python", RECORDS / seconds / 1e6, "M records/s", None, "records of 100 bytes"
        )
        for name, seconds in medians.items()
    ]


if __name__ == "__main__":
    main()
