"""``quorate bench produce``: as many records as the cluster acknowledges.

One record of each thousand is timed from its send to its acknowledgement. The rate counts from the first send
after the warm-up until everything is acknowledged. A single record that was given up makes it fail: it must
not make a cluster look fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from quorate.client import Producer
from quorate.console.measuring.bench_topic import TopicOptions, bench_topic
from quorate.console.measuring.percentiles import Percentiles, percentiles_of
from quorate.console.measuring.progress import progress_of
from quorate.console.measuring.values import values_of
from quorate.console.session import Session
from quorate.errors import DeliveryTimedOut, QuorateError

__all__ = ["ProduceLoad", "Produced", "fill", "measure_producing"]

_CHUNK: Final = 1_000


@dataclass(frozen=True)
class ProduceLoad:
    records: int
    warm_up_records: int
    value_bytes: int
    #: one call for a thousand records, instead of one for each
    send_many: bool
    #: as the producer's own
    producer_options: dict[str, Any]


class Produced(NamedTuple):
    topic: str
    records: int
    value_bytes: int
    seconds: float
    latency_ms: Percentiles | None

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def mb_per_s(self) -> float:
        return self.records_per_s * self.value_bytes / 1e6

    def document(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "records": self.records,
            "value_bytes": self.value_bytes,
            "seconds": round(self.seconds, 3),
            "records_per_s": round(self.records_per_s, 1),
            "mb_per_s": round(self.mb_per_s, 3),
            "latency_ms": None if self.latency_ms is None else self.latency_ms.document(),
        }


def measure_producing(session: Session, topic: TopicOptions, load: ProduceLoad) -> Produced:
    with (
        bench_topic(session, topic, value_bytes=load.value_bytes) as chosen,
        Producer(session.bootstrap, **load.producer_options) as producer,
    ):
        sending = _Sending(producer, chosen.name, load)
        sending.send(load.warm_up_records, lambda _count: None)
        producer.flush()
        sending.latencies_ms.clear()
        with progress_of(session, "produced", load.records) as advance:
            began = time.perf_counter()
            sending.send(load.records, advance)
            producer.flush()
            seconds = time.perf_counter() - began
        sending.check()
    latencies = percentiles_of(sending.latencies_ms) if sending.latencies_ms else None
    return Produced(chosen.name, load.records, load.value_bytes, seconds, latencies)


def fill(session: Session, topic: str, *, records: int, value_bytes: int) -> None:
    """With records to read."""
    load = ProduceLoad(records, 0, value_bytes, send_many=True, producer_options={})
    measure_producing(session, TopicOptions(topic), load)


class _Sending:
    def __init__(self, producer: Producer, topic: str, load: ProduceLoad) -> None:
        self._producer = producer
        self._topic = topic
        self._values = values_of(load.value_bytes, min(_CHUNK, max(load.records, load.warm_up_records)))
        self._send_some = self._send_many if load.send_many else self._send_each
        self.latencies_ms: list[float] = []
        self._error: QuorateError | None = None

    def send(self, count: int, advance: Callable[[int], None]) -> None:
        while count > 0:
            chunk = self._values[:count]
            self._send_some(chunk[1:])
            self._send_timed(chunk[0])
            count -= len(chunk)
            advance(len(chunk))

    def check(self) -> None:
        """That every record was acknowledged; otherwise one of the reasons, if it is known."""
        if self._error is not None:
            raise self._error
        counted = self._producer.statistics()
        lost = counted.records_refused + counted.records_unknown
        if lost:
            raise DeliveryTimedOut(f"{lost} of {lost + counted.records_acknowledged} records were given up")

    def _send_each(self, values: Sequence[bytes]) -> None:
        send, topic = self._producer.send, self._topic
        for value in values:
            send(topic, value)

    def _send_many(self, values: Sequence[bytes]) -> None:
        if values:
            self._producer.send_many(self._topic, values)

    def _send_timed(self, value: bytes) -> None:
        sent_at = time.perf_counter()

        def delivered(_metadata: object, error: QuorateError | None) -> None:
            self.latencies_ms.append((time.perf_counter() - sent_at) * 1e3)
            self._error = self._error or error

        self._producer.send(self._topic, value, on_delivery=delivered)
