"""Moves of partitions, as the command line and plan files name them.

A plan file has the form of Kafka's reassignment JSON, so that the tools that write those can be used:
``{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2, 3]}]}``.
"""

from __future__ import annotations

import json
from typing import Any

from quorate.client.arguments import has_utf8
from quorate.console.option_types import INT32_MAX
from quorate.errors import InvalidRequest
from quorate.v1 import admin_pb2

__all__ = ["read_plan"]


def read_plan(path: str) -> list[admin_pb2.PartitionMove]:
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        moves = [_move(entry) for entry in _entries(document)]
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{path} is no plan of moves: {error}", path=path) from error
    if not moves:
        raise InvalidRequest(f"{path} moves nothing", path=path)
    return moves


def _entries(document: Any) -> list[Any]:
    entries = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError('there is no list of "partitions"')  # it is about the file
    return entries


def _move(entry: Any) -> admin_pb2.PartitionMove:
    if not isinstance(entry, dict):
        raise ValueError(f"{entry!r} is no move: topic, partition and replicas are expected")
    for key in ("topic", "partition", "replicas"):
        if key not in entry:
            raise ValueError(f"there is no {key} in {entry!r}")
    topic, number, replicas = entry["topic"], entry["partition"], entry["replicas"]
    if not isinstance(topic, str) or not has_utf8(topic) or not _is_number(number):
        raise ValueError(f"{topic!r} and {number!r} are not a topic's name and a partition's number")
    if not isinstance(replicas, list) or not all(map(_is_number, replicas)):
        raise ValueError(f"the replicas of {topic}:{number} are no list of broker ids")
    if not replicas:
        # On the wire no replicas mean "call the move off", which nobody says by forgetting them.
        raise ValueError(f"no replicas for {topic}:{number}")
    partition = admin_pb2.PartitionName(topic=topic, partition=number)
    return admin_pb2.PartitionMove(partition=partition, replicas=replicas)


def _is_number(found: Any) -> bool:
    return type(found) is int and 0 <= found <= INT32_MAX
