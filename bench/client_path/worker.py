"""One round, in a process of its own: nanoseconds of processor time for a record, by what is done with it.

Run by file, so that the clients can be those of another checkout: see `bench.client_path`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.client_path.answering_transport import ADDRESS, AnsweringTransport
from quorate.client import Producer
from quorate.client.consumer.buffer import Account, Chunk, FetchBuffer
from quorate.client.consumer.positions import BEGINNING, PartitionReader
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.records import encode_values

VALUES: Final = [b"v" * 100 for _ in range(1000)]
KEYS: Final = [b"key-%d" % number for number in range(1000)]
PARTITIONS: Final = 6
#: so that batches fill as they do before a broker that takes its time
LINGER_MS: Final = 20
POLLED: Final = 500


def send(producer: Producer, thousands: int) -> None:
    for _ in range(thousands):
        for value in VALUES:
            producer.send("t", value)


def send_keyed(producer: Producer, thousands: int) -> None:
    for _ in range(thousands):
        for value, key in zip(VALUES, KEYS, strict=True):
            producer.send("t", value, key=key)


def send_many(producer: Producer, thousands: int) -> None:
    for _ in range(thousands):
        producer.send_many("t", VALUES)


def send_many_keyed(producer: Producer, thousands: int) -> None:
    for _ in range(thousands):
        producer.send_many("t", VALUES, keys=KEYS)


def produced(work: Callable[[Producer, int], None], thousands: int) -> float:
    with Producer(ADDRESS, transport=AnsweringTransport(PARTITIONS), linger_ms=LINGER_MS) as producer:
        work(producer, 1)
        producer.flush()
        began = time.process_time_ns()
        work(producer, thousands)
        producer.flush()
        return (time.process_time_ns() - began) / (1000 * thousands)


def consumed(thousands: int) -> float:
    """From the bytes of an answer to records that the application has looked at, as a poll hands them out."""
    batch = encode_values(VALUES, timestamp_ms=1)
    reader = PartitionReader(TopicPartition(TopicName("t"), PartitionId(0)), BEGINNING)
    buffer, account = FetchBuffer(), Account(lambda: None)
    for _ in range(thousands):
        buffer.put(reader, Chunk(batch, from_offset=0, next_offset=1000, account=account))
    seen = 0
    began = time.process_time_ns()
    while records := buffer.take(POLLED):
        for record in records:
            seen += len(record.value or b"")
    spent = time.process_time_ns() - began
    assert seen == 100_000 * thousands, "every record was seen"
    return spent / (1000 * thousands)


def main(thousands: int) -> None:
    works = {
        "send": send,
        "send, keys": send_keyed,
        "send_many": send_many,
        "send_many, keys": send_many_keyed,
    }
    figures = {name: produced(work, thousands) for name, work in works.items()}
    json.dump({**figures, "consume": consumed(thousands)}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
