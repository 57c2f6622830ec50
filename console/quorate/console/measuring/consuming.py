"""``quorate bench consume``: everything that a topic holds, from its beginning.

The time runs from the assignment, so connections and the first fetch are in it: records that were fetched
ahead before the clock started would make a consumer look faster than it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.client import Consumer
from quorate.console.measuring.bench_topic import TopicOptions, bench_topic
from quorate.console.measuring.producing import fill
from quorate.console.measuring.progress import progress_of
from quorate.console.session import Session
from quorate.errors import RequestTimedOut

__all__ = ["ConsumeLoad", "Consumed", "measure_consuming"]

_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class ConsumeLoad:
    records: int
    #: of the records that a topic for this measurement alone is filled with
    value_bytes: int
    max_poll_records: int


class Consumed(NamedTuple):
    topic: str
    records: int
    value_bytes: int
    seconds: float

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def mb_per_s(self) -> float:
        return self.value_bytes / self.seconds / 1e6

    def document(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "records_per_s": round(self.records_per_s, 1),
            "mb_per_s": round(self.mb_per_s, 3),
        }


def measure_consuming(session: Session, topic: TopicOptions, load: ConsumeLoad) -> Consumed:
    with bench_topic(session, topic) as chosen:
        if topic.name is None:
            fill(session, chosen.name, records=load.records, value_bytes=load.value_bytes)
        with Consumer(session.bootstrap) as consumer:
            partitions = [(chosen.name, number) for number in range(chosen.partition_count)]
            with progress_of(session, "consumed", load.records) as advance:
                began = time.perf_counter()
                consumer.assign(partitions)
                consumer.seek_to_beginning(*partitions)
                records, value_bytes = _consume(consumer, chosen.name, load, advance)
                return Consumed(chosen.name, records, value_bytes, time.perf_counter() - began)


def _consume(
    consumer: Consumer, topic: str, load: ConsumeLoad, advance: Callable[[int], None]
) -> tuple[int, int]:
    """How many records, and how many bytes their values have."""
    count = value_bytes = 0
    while count < load.records:
        records = consumer.poll(max_records=load.max_poll_records, timeout=_TIMEOUT_S)
        if not records:
            raise RequestTimedOut(f"{topic} has {count} records, {load.records} were asked for")
        value_bytes += sum([len(record.value or b"") for record in records])
        count += len(records)
        advance(len(records))
    return count, value_bytes
