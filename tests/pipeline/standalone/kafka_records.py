"""Lines of JSON on standard input become records of a Kafka: `kafka_records.py BOOTSTRAP TOPIC`.

Runs in an environment that has confluent-kafka and nothing of the project.
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Producer  # type: ignore[import-not-found]  # in an environment of its own


def main(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    failed: list[object] = []
    for line in sys.stdin:
        record = json.loads(line)
        producer.produce(
            topic,
            value=record["value"],
            key=record["key"],
            partition=record["partition"],
            timestamp=record["timestamp"],
            headers=[(name, value) for name, value in record["headers"]],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    producer.flush()
    if failed:
        sys.exit(f"not written: {failed[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
