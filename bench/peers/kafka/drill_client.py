"""A drill's clients on confluent-kafka.

Usage: PYTHON -m bench.peers.kafka.drill_client COMMAND BOOTSTRAP ARGUMENT...

PYTHON is an interpreter that has confluent-kafka. The producer is idempotent and waits for all replicas; it
tries again by itself for two minutes, as Kafka's own producer does when nothing is said.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import (  # type: ignore[import-not-found]  # in an environment of its own
    Consumer,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient  # type: ignore[import-not-found]

from bench.peers.client_lines import acknowledged, failed, read, say
from bench.peers.kafka.confluent_client import create_topic

__all__: list[str] = []

_REPLICAS: Final = 3
_TIMEOUT_S: Final = 30.0
_DELIVERY_TIMEOUT_MS: Final = 120_000
_TURN_S: Final = 0.005
_POLL_S: Final = 0.2
_POLL_RECORDS: Final = 500
_READ_BYTES: Final = 1 << 16


def look(bootstrap: str, topic: str, partitions: str) -> None:
    """Of each partition, its first and next offset, and whether all of its replicas are in sync."""
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=_TIMEOUT_S)
    consumer = _consumer(bootstrap)
    found = []
    for number in range(int(partitions)):
        partition = metadata.topics[topic].partitions[number]
        is_whole = partition.leader >= 0 and len(partition.isrs) == _REPLICAS
        start, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_TIMEOUT_S)
        found.append({"start": start, "end": end, "is_whole": is_whole})
    consumer.close()
    say({"partitions": found})


def send(bootstrap: str) -> None:
    options = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": _DELIVERY_TIMEOUT_MS}
    producer = Producer({"bootstrap.servers": bootstrap, **options})
    lines = _Lines()
    while not lines.is_over:
        for number, topic, partition, value in lines.take(_TURN_S):
            producer.produce(
                topic,
                value.encode("latin-1"),
                partition=partition,
                on_delivery=lambda error, message, number=number: _tell(number, error, message),
            )
        producer.poll(0)
    producer.flush()


def _tell(number: int, error: Any, message: Any) -> None:
    if error is not None:
        failed(number, error)
    else:
        acknowledged(number, message.offset())


class _Lines:
    """Of standard input, without waiting for one: the producer wants to be polled in between."""

    def __init__(self) -> None:
        self.is_over = False
        self._rest = b""

    def take(self, timeout_s: float) -> list[Any]:
        ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
        if not ready:
            return []
        content = os.read(sys.stdin.fileno(), _READ_BYTES)
        self.is_over = not content
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [json.loads(line) for line in lines]


def read_from(bootstrap: str, starts: str) -> None:
    consumer = _consumer(bootstrap)
    consumer.assign([TopicPartition(topic, number, start) for topic, number, start in json.loads(starts)])
    while True:
        found = []
        for message in consumer.consume(_POLL_RECORDS, _POLL_S):
            if message.error() is not None:
                print(message.error(), file=sys.stderr)
            else:
                found.append((message.topic(), message.partition(), message.offset(), message.value()))
        if found:
            read(found)


def _consumer(bootstrap: str) -> Any:
    """A reader behind the end of a log that has shrunk begins again, which the checks notice."""
    options = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return Consumer({"bootstrap.servers": bootstrap, "group.id": f"drill-{time.time_ns()}", **options})


_COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "create-topic": create_topic,
    "look": look,
    "send": send,
    "read": read_from,
}

if __name__ == "__main__":
    _COMMANDS[sys.argv[1]](*sys.argv[2:])
