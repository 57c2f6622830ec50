"""The loads on Kafka's usual Python client, confluent-kafka, in a process of its own.

Usage: PYTHON -m bench.peers.kafka.confluent_client COMMAND BOOTSTRAP ARGUMENT...

PYTHON is an interpreter that has confluent-kafka; nothing else of the project is there, so this file stands
alone. Each command prints one JSON document; ``write`` prints a line for each write, until it is ended. The
producer is idempotent and waits for all replicas, as ours does when nothing is said; unless it is told to, it
does not linger.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from typing import Any, Final

from confluent_kafka import (  # type: ignore[import-not-found]  # in an environment of its own
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[import-not-found]

__all__: list[str] = []

_TIMEOUT_S: Final = 60.0
#: as many as our own consumer is asked for at a time
_POLL_RECORDS: Final = 10_000
_SENT_AT: Final = struct.Struct("<q")


def create_topic(bootstrap: str, topic: str, partitions: str, *settings: str) -> None:
    """``settings``: as ``flush.messages=1``."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = dict(setting.split("=") for setting in settings)
    asked = NewTopic(topic, num_partitions=int(partitions), replication_factor=3, config=config)
    admin.create_topics([asked])[topic].result()
    # Created is not yet known: wait until every partition has its three replicas in sync.
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        found = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        if len(found) == int(partitions) and all(len(each.isrs) == 3 for each in found.values()):
            break
        time.sleep(0.1)
    print(json.dumps({}))


def describe(bootstrap: str, topic: str) -> None:
    """Of each partition, who leads it, and how many replicas are in sync."""
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=_TIMEOUT_S)
    partitions = [each for _, each in sorted(metadata.topics[topic].partitions.items())]
    leaders = [each.leader for each in partitions]
    print(json.dumps({"leaders": leaders, "in_sync": [len(each.isrs) for each in partitions]}))


def send_alone(bootstrap: str, topic: str, records: str, value_bytes: str, warm_up_records: str) -> None:
    producer = _producer(bootstrap)
    value = bytes(int(value_bytes))
    for _ in range(int(warm_up_records)):
        _send_and_wait(producer, topic, value)
    latencies_ms = []
    for _ in range(int(records)):
        began = time.perf_counter()
        _send_and_wait(producer, topic, value)
        latencies_ms.append((time.perf_counter() - began) * 1e3)
    print(json.dumps({"latencies_ms": latencies_ms}))


def write(bootstrap: str, topic: str, partition: str, value_bytes: str) -> None:
    """One record after the other until this process is ended; when each was sent and acknowledged."""
    producer = _producer(bootstrap)
    value = bytes(int(value_bytes))
    while True:
        sent_at = time.monotonic()
        _send_and_wait(producer, topic, value, int(partition))
        print(sent_at, time.monotonic(), flush=True)


def _send_and_wait(producer: Any, topic: str, value: bytes, partition: int = 0) -> None:
    outcome: list[KafkaError | None] = []
    producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: outcome.append(error))
    while not outcome:
        producer.poll(_TIMEOUT_S)
    if outcome[0] is not None:
        sys.exit(str(outcome[0]))


def many_producers(
    bootstrap: str, topic: str, producers: str, value_bytes: str, warm_up_s: str, seconds: str
) -> None:
    """Each in a thread of its own, with one record on its way; the library works outside Python's lock."""
    value = bytes(int(value_bytes))
    made = [_producer(bootstrap) for _ in range(int(producers))]
    for producer in made:
        _send_and_wait(producer, topic, value, -1)
    begins_at = time.monotonic() + float(warm_up_s)
    ends_at = begins_at + float(seconds)
    counts = [0] * len(made)

    def send_on(number: int) -> None:
        while True:
            _send_and_wait(made[number], topic, value, -1)
            now = time.monotonic()
            if now >= ends_at:
                return
            counts[number] += now >= begins_at

    threads = [threading.Thread(target=send_on, args=(number,)) for number in range(len(made))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"records_per_s": sum(counts) / float(seconds)}))


def send_paced(
    bootstrap: str, topic: str, records: str, value_bytes: str, rate: str, partitions: str, linger_ms: str
) -> None:
    """Each record holds when it was due: a sender that falls behind makes records late, not fewer."""
    producer = _producer(bootstrap, int(linger_ms))
    padding = bytes(int(value_bytes) - _SENT_AT.size)
    began = time.monotonic_ns()
    for number in range(int(records)):
        due = began + int(number * 1e9 / float(rate))
        wait_ns = due - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        producer.produce(topic, _SENT_AT.pack(due) + padding, partition=number % int(partitions))
        producer.poll(0)
    producer.flush(_TIMEOUT_S)
    print(json.dumps({}))


def receive(bootstrap: str, topic: str, records: str, partitions: str) -> None:
    """What is sent once this is ready."""
    consumer = _consumer(bootstrap)
    assigned = [TopicPartition(topic, number) for number in range(int(partitions))]
    for partition in assigned:
        _, partition.offset = consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)
    consumer.assign(assigned)
    print("ready", flush=True)
    latencies_ms: list[float] = []
    while len(latencies_ms) < int(records):
        # Not consume(): it returns once it has all the records it was asked for, or its time is up.
        message = consumer.poll(_TIMEOUT_S)
        if message is None:
            sys.exit(f"only {len(latencies_ms)} of {records} records")
        [due] = _SENT_AT.unpack_from(_value_of(message))
        latencies_ms.append((time.monotonic_ns() - due) / 1e6)
    print(json.dumps({"latencies_ms": latencies_ms}))


def consume(bootstrap: str, topic: str, records: str, partitions: str) -> None:
    consumer = _consumer(bootstrap)
    began = time.perf_counter()
    consumer.assign([TopicPartition(topic, number, 0) for number in range(int(partitions))])
    count = value_bytes = 0
    while count < int(records):
        messages = consumer.consume(_POLL_RECORDS, _TIMEOUT_S)
        if not messages:
            sys.exit(f"only {count} of {records} records")
        count += len(messages)
        for message in messages:
            value_bytes += len(_value_of(message))
    seconds = time.perf_counter() - began
    print(json.dumps({"records_per_s": count / seconds, "value_bytes": value_bytes}))


def _producer(bootstrap: str, linger_ms: int = 0) -> Any:
    options = {"acks": "all", "enable.idempotence": True, "linger.ms": linger_ms}
    return Producer({"bootstrap.servers": bootstrap, **options})


def _consumer(bootstrap: str) -> Any:
    options = {"group.id": f"bench-{time.time_ns()}", "enable.auto.commit": False}
    return Consumer({"bootstrap.servers": bootstrap, **options})


def _value_of(message: Any) -> bytes:
    if message.error() is not None:
        sys.exit(str(message.error()))
    value: bytes = message.value()
    return value


_COMMANDS: Final = {
    command.__name__.replace("_", "-"): command
    for command in (create_topic, describe, send_alone, write, many_producers, send_paced, receive, consume)
}

if __name__ == "__main__":
    _COMMANDS[sys.argv[1]](*sys.argv[2:])
