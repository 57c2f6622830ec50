"""``quorate bench latency``: how long one record takes, alone or in a steady stream.

Alone: a record is sent when the one before it was acknowledged, as a program does that waits for each. In a
stream, at ``--rate``: until a consumer in another process has it. Each record then holds the moment when it
was *due*, on the machine's monotonic clock, which its processes share: a cluster that stalls makes every
record of the stall late, and not just the one that waited for it.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from quorate.client import Producer
from quorate.console.measuring.bench_topic import BenchTopic, TopicOptions, bench_topic
from quorate.console.measuring.percentiles import Percentiles, percentiles_of
from quorate.console.measuring.progress import progress_of
from quorate.console.session import Session
from quorate.errors import InvalidRequest, RequestTimedOut

__all__ = ["DUE_AT", "READY", "LatencyLoad", "Measured", "measure_alone", "measure_stream"]

#: begins the value of a record in a stream: nanoseconds
DUE_AT: Final = struct.Struct("<q")
#: what the receiver says once it reads
READY: Final = "ready"

_ADVANCE_EVERY: Final = 100
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class LatencyLoad:
    records: int
    warm_up_records: int
    value_bytes: int
    acks: Literal["all", "1", "0"]
    #: records per second; None: one at a time
    rate: float | None


class Measured(NamedTuple):
    topic: str
    records: int
    value_bytes: int
    rate: float | None
    latency_ms: Percentiles

    def document(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "records": self.records,
            "value_bytes": self.value_bytes,
            "rate": self.rate,
            "latency_ms": self.latency_ms.document(),
        }


def measure_alone(session: Session, topic: TopicOptions, load: LatencyLoad) -> Measured:
    value = bytes(load.value_bytes)
    with (
        bench_topic(session, topic, value_bytes=load.value_bytes) as chosen,
        Producer(session.bootstrap, acks=load.acks) as producer,
    ):
        for _ in range(load.warm_up_records):
            producer.send(chosen.name, value, partition=0).result(_TIMEOUT_S)
        latencies_ms = []
        with progress_of(session, "sent", load.records) as advance:
            for number in range(load.records):
                began = time.perf_counter()
                producer.send(chosen.name, value, partition=0).result(_TIMEOUT_S)
                latencies_ms.append((time.perf_counter() - began) * 1e3)
                if number % _ADVANCE_EVERY == 0:
                    advance(_ADVANCE_EVERY)
    return Measured(chosen.name, load.records, load.value_bytes, None, percentiles_of(latencies_ms))


def measure_stream(session: Session, topic: TopicOptions, load: LatencyLoad) -> Measured:
    if load.value_bytes < DUE_AT.size:
        raise InvalidRequest(f"a value has at least {DUE_AT.size} bytes, for the time that it is due")
    with bench_topic(session, topic, value_bytes=load.value_bytes) as chosen:
        total = load.warm_up_records + load.records
        with _receiver(session, chosen, total) as receiver:
            _send_paced(session, chosen, load, total)
            latencies_ms = _answer_of(receiver)
    counted = latencies_ms[load.warm_up_records :]
    return Measured(chosen.name, load.records, load.value_bytes, load.rate, percentiles_of(counted))


def _send_paced(session: Session, topic: BenchTopic, load: LatencyLoad, total: int) -> None:
    assert load.rate is not None
    padding = bytes(load.value_bytes - DUE_AT.size)
    with (
        Producer(session.bootstrap, acks=load.acks) as producer,
        progress_of(session, "sent", total) as advance,
    ):
        # Known before the clock starts: the first record must not wait for a connection.
        producer.send(topic.name, DUE_AT.pack(0), partition=0).result(_TIMEOUT_S)
        began = time.monotonic_ns()
        for number in range(total):
            due = began + int(number * 1e9 / load.rate)
            wait_ns = due - time.monotonic_ns()
            if wait_ns > 0:
                time.sleep(wait_ns / 1e9)
            value = DUE_AT.pack(due) + padding
            producer.send(topic.name, value, partition=number % topic.partition_count)
            if number % _ADVANCE_EVERY == 0:
                advance(_ADVANCE_EVERY)
        producer.flush()


@contextmanager
def _receiver(session: Session, topic: BenchTopic, records: int) -> Iterator[subprocess.Popen[str]]:
    """A process of its own: in ours it would share one interpreter with the sender, and wait for it."""
    command = [sys.executable, "-m", "quorate.console.measuring.receiver", session.bootstrap, topic.name]
    receiver = subprocess.Popen(  # noqa: S603  # ourselves
        [*command, str(topic.partition_count), str(records)],
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,  # Ctrl-C is for us, and we end it: it would only add its traceback
    )
    try:
        assert receiver.stdout is not None
        if receiver.stdout.readline().strip() != READY:
            raise RequestTimedOut("the receiving process did not start; what it said stands above")
        yield receiver
    finally:
        receiver.kill()
        receiver.communicate()


def _answer_of(receiver: subprocess.Popen[str]) -> list[float]:
    assert receiver.stdout is not None
    line = receiver.stdout.readline()
    if not line:
        raise RequestTimedOut("not every record has arrived")
    latencies_ms: list[float] = json.loads(line)
    return latencies_ms
