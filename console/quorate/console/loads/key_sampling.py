"""Reads the last records of each partition, and weighs their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quorate.console.loads.heaviest import Heaviest
from quorate.console.loads.rates import Seen
from quorate.errors import OffsetOutOfRange, RequestTimedOut

if TYPE_CHECKING:
    from quorate.client import AsyncConsumer

__all__ = ["KeySample", "sample_keys"]

#: Keys that are told apart while reading; error bounds are in `Heaviest`.
_COUNTERS: Final = 1_000
_POLL_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class KeySample:
    #: by bytes of key and value; None is no key at all
    keys: Heaviest[bytes | None]
    records: int


async def sample_keys(
    consumer: AsyncConsumer, topic: str, seen: Mapping[int, Seen], *, records_max: int
) -> KeySample:
    """``records_max``: of each partition, the newest that are committed."""
    keys: Heaviest[bytes | None] = Heaviest(_COUNTERS)
    ends = {partition: each.high_watermark for partition, each in seen.items()}
    starts = {
        partition: max(each.log_start_offset, each.high_watermark - records_max)
        for partition, each in seen.items()
    }
    left = {partition for partition in ends if starts[partition] < ends[partition]}
    consumer.assign([(topic, partition) for partition in sorted(left)])
    for partition in left:
        consumer.seek((topic, partition), starts[partition])
    count = 0
    while left:
        try:
            records = await consumer.poll(max_records=5_000, timeout=_POLL_S)
        except OffsetOutOfRange:
            break  # retention was faster: what was read so far has to do
        if not records:
            raise RequestTimedOut(f"no record of {topic} within {_POLL_S:g} s, although there are some")
        for record in records:
            if record.offset < ends[record.partition]:
                keys.add(record.key, len(record.key or b"") + len(record.value or b""))
                count += 1
            if record.offset + 1 >= ends[record.partition]:
                left.discard(record.partition)
    return KeySample(keys, count)
