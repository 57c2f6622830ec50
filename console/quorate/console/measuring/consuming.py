"""``quorate bench consume``: everything that a topic holds, from its beginning.

The time starts when the first records have arrived, and they do not count: connections are made by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.client import Consumer, TopicPartition
from quorate.console.measuring.bench_topic import TopicOptions, bench_topic
from quorate.console.measuring.producing import fill
from quorate.console.measuring.progress import progress_of
from quorate.console.session import Session
from quorate.errors import InvalidRequest, RequestTimedOut

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
            partitions = [TopicPartition(chosen.name, number) for number in range(chosen.partition_count)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            with progress_of(session, "consumed", load.records) as advance:
                return _consume(consumer, chosen.name, load, advance)


def _consume(consumer: Consumer, topic: str, load: ConsumeLoad, advance: Callable[[int], None]) -> Consumed:
    first = consumer.poll(max_records=load.max_poll_records, timeout=_TIMEOUT_S)
    began = time.perf_counter()
    count = len(first)
    value_bytes = 0
    while count < load.records:
        records = consumer.poll(max_records=load.max_poll_records, timeout=_TIMEOUT_S)
        if not records:
            raise RequestTimedOut(f"{topic} has {count} records, {load.records} were asked for")
        value_bytes += sum([len(record.value or b"") for record in records])
        count += len(records)
        advance(len(records))
    if count == len(first):
        raise InvalidRequest(f"all {count} records came at once; --records must be more to be measured")
    return Consumed(topic, count - len(first), value_bytes, time.perf_counter() - began)
