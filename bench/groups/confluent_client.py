"""A member of a group, and a steady load, on confluent-kafka: in a process of its own.

Usage: PYTHON -m bench.groups.confluent_client COMMAND BOOTSTRAP ARGUMENT...

PYTHON is an interpreter that has confluent-kafka and nothing of ours. The group uses Kafka's own new protocol
(KIP-848), in which the coordinator assigns, as ours does; everything else is as the library has it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, Producer  # type: ignore[import-not-found]  # in an environment of its own

from bench.groups.arrivals import Arrived
from bench.groups.member_program import be_member, send_steadily

_POLL_S: Final = 0.1
_VALUE: Final = bytes(100)


class _Member:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> Sequence[Arrived]:
        message = self._consumer.poll(_POLL_S)
        if message is None:
            return []
        if message.error() is not None:
            print(message.error(), file=sys.stderr)
            return []
        return [Arrived(message.partition(), message.offset(), message.timestamp()[1])]

    def close(self) -> None:
        self._consumer.close()


def member(bootstrap: str, topic: str, group: str, path: str) -> None:
    be_member(lambda: _Member(bootstrap, topic, group), path)


def load(bootstrap: str, topic: str, partitions: str, interval_ms: str) -> None:
    producer: Any = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})

    def send(partition: int) -> None:
        producer.produce(topic, _VALUE, partition=partition)
        producer.poll(0)

    send_steadily(send, partitions=int(partitions), interval_s=float(interval_ms) / 1000)


_COMMANDS: Final[Mapping[str, Callable[..., None]]] = {"member": member, "load": load}

if __name__ == "__main__":
    _COMMANDS[sys.argv[1]](*sys.argv[2:])
