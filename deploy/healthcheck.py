"""Exits with 0 if the node in this container serves: what it answers to ``grpc.health.v1`` itself.

About this node alone. `quorate cluster health` asks the cluster, and one dead node would make all others
unhealthy that way. Nothing of Quorate is imported: this runs every few seconds, beside a node at work.
"""

from __future__ import annotations

import os
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # it has no types

_TIMEOUT_S = 3.0


def main() -> int:
    listener = os.environ.get("QUORATE_LISTENERS", "127.0.0.1:9092").split(",")[0]
    port = listener.rpartition(":")[2]
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        try:
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            sys.stdout.write(f"{error.code().name}: {error.details()}\n")
            return 1
    sys.stdout.write(f"{health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}\n")
    return 0 if answer.status == health_pb2.HealthCheckResponse.SERVING else 1


if __name__ == "__main__":
    sys.exit(main())
