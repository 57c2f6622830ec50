"""The receiving end of a stream that is measured: a process of its own.

Usage: python -m quorate.console.measuring.receiver BOOTSTRAP TOPIC PARTITIONS RECORDS

Reads from where each partition ends now. Says that it is ready, then prints the latency of each record as one
JSON list, in the order of arrival.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from quorate.client import Consumer
from quorate.console.measuring.latency import DUE_AT, READY

__all__: list[str] = []

_POLL_S: Final = 1.0
_SILENCE_MAX_S: Final = 30.0


def main() -> int:
    bootstrap, topic, partition_count, records = sys.argv[1:]
    with Consumer(bootstrap) as consumer:
        partitions = [(topic, number) for number in range(int(partition_count))]
        consumer.assign(partitions)
        consumer.seek_to_end(*partitions)
        for partition in partitions:
            consumer.position(partition)  # once each is known, nothing that is sent later can be missed
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        latencies_ms = _receive(consumer, int(records))
    if len(latencies_ms) < int(records):
        return 1
    sys.stdout.write(json.dumps(latencies_ms) + "\n")
    return 0


def _receive(consumer: Consumer, records_wanted: int) -> list[float]:
    """Fewer, if nothing more comes for a while."""
    latencies_ms: list[float] = []
    heard_at = time.monotonic()
    while len(latencies_ms) < records_wanted and time.monotonic() - heard_at < _SILENCE_MAX_S:
        for record in consumer.poll(timeout=_POLL_S):
            heard_at = time.monotonic()
            [due] = DUE_AT.unpack_from(record.value or b"")
            if due:  # the first record of the sender is for its connection
                latencies_ms.append((time.monotonic_ns() - due) / 1e6)
    return latencies_ms


if __name__ == "__main__":
    sys.exit(main())
