"""Moves of partitions, as the command line and plan files name them.

A plan file has the form of Kafka's reassignment JSON, so that the tools that write those can be used:
``{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2, 3]}]}``.
"""

from __future__ import annotations

import json
from typing import Any

from quorate.errors import InvalidRequest
from quorate.v1 import admin_pb2

__all__ = ["read_plan"]


def read_plan(path: str) -> list[admin_pb2.PartitionMove]:
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        moves = [_move(entry) for entry in document["partitions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(f"{path} is no plan of moves: {_told(error)}", path=path) from error
    if not moves:
        raise InvalidRequest(f"{path} moves nothing", path=path)
    return moves


def _move(entry: dict[str, Any]) -> admin_pb2.PartitionMove:
    partition = admin_pb2.PartitionName(topic=entry["topic"], partition=entry["partition"])
    replicas = entry["replicas"]
    if not isinstance(replicas, list) or not replicas:
        # On the wire no replicas mean "call the move off", which nobody says by forgetting them.
        raise ValueError(f"no replicas for {partition.topic}:{partition.partition}")
    return admin_pb2.PartitionMove(partition=partition, replicas=replicas)


def _told(error: Exception) -> str:
    return f"there is no {error}" if isinstance(error, KeyError) else str(error)
