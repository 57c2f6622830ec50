"""A lone sender on redis-py.

Usage: PYTHON -m bench.peers.redis.client ADDRESS STREAM RECORDS VALUE_BYTES WARM_UP_RECORDS

PYTHON is an interpreter that has redis-py. A record counts as written when two replicas have it; both
commands travel together, as a program does it that cares for its time.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

import redis  # type: ignore[import-not-found]  # in an environment of its own

_REPLICAS: Final = 2
_TIMEOUT_MS: Final = 30_000


def main(address: str, stream: str, records: int, value_bytes: int, warm_up_records: int) -> None:
    host, _, port = address.rpartition(":")
    client = redis.Redis(host=host, port=int(port))
    value = bytes(value_bytes)
    latencies_ms = []
    for number in range(warm_up_records + records):
        began = time.perf_counter()
        pipeline = client.pipeline(transaction=False)
        pipeline.xadd(stream, {"v": value})
        pipeline.execute_command("WAIT", _REPLICAS, _TIMEOUT_MS)
        _, replicas = pipeline.execute()
        if replicas < _REPLICAS:
            sys.exit(f"only {replicas} replicas have the record")
        if number >= warm_up_records:
            latencies_ms.append((time.perf_counter() - began) * 1e3)
    json.dump({"latencies_ms": latencies_ms}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
