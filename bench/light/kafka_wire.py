"""As little of Kafka's protocol as it takes: who leads, produce, fetch; in versions that Kafka 4 speaks."""

from __future__ import annotations

import struct
from typing import Final

__all__ = [
    "Cursor",
    "WireError",
    "fetch_request",
    "fetched",
    "leaders_of",
    "metadata_request",
    "produce_request",
    "produced_error",
]

_PRODUCE, _FETCH, _METADATA = 0, 1, 3
_HEADER: Final = struct.Struct(">hhih")
_ACKS_ALL: Final = -1
_TIMEOUT_MS: Final = 30_000
_CONSUMER: Final = -1


class WireError(Exception):
    """An answer with an error in it."""


class Cursor:
    """Reads an answer from its beginning, after its correlation id."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._at = 4

    def number(self, size: int) -> int:
        self._at += size
        return int.from_bytes(self._answer[self._at - size : self._at], "big", signed=True)

    def text(self) -> str:
        return self.taken(max(self.number(2), 0)).decode()

    def taken(self, size: int) -> bytes:
        self._at += size
        return self._answer[self._at - size : self._at]


def _frame(api: int, version: int, body: bytes) -> bytes:
    request = _HEADER.pack(api, version, 0, -1) + body
    return struct.pack(">i", len(request)) + request


def _text(content: str) -> bytes:
    encoded = content.encode()
    return struct.pack(">h", len(encoded)) + encoded


def metadata_request(topic: str) -> bytes:
    return _frame(_METADATA, 1, struct.pack(">i", 1) + _text(topic))


def leaders_of(answer: bytes) -> list[str]:
    """The address of each partition's leader."""
    cursor = Cursor(answer)
    addresses = {}
    for _ in range(cursor.number(4)):
        node_id, host, port = cursor.number(4), cursor.text(), cursor.number(4)
        cursor.text()  # its rack
        addresses[node_id] = f"{host}:{port}"
    cursor.number(4)  # the controller
    assert cursor.number(4) == 1, "one topic was asked for"
    if error := cursor.number(2):
        raise WireError(f"error {error} for the topic")
    cursor.text()
    cursor.number(1)
    leaders = {}
    for _ in range(cursor.number(4)):
        cursor.number(2)
        partition, leader = cursor.number(4), cursor.number(4)
        for _ in range(2):  # replicas, and those in sync
            cursor.taken(4 * cursor.number(4))
        leaders[partition] = addresses[leader]
    return [leaders[partition] for partition in sorted(leaders)]


def produce_request(topic: str, partition: int, batch: bytes) -> bytes:
    body = struct.pack(">hhii", -1, _ACKS_ALL, _TIMEOUT_MS, 1) + _text(topic)
    return _frame(_PRODUCE, 7, body + struct.pack(">iii", 1, partition, len(batch)) + batch)


def produced_error(answer: bytes) -> int:
    cursor = Cursor(answer)
    cursor.number(4)
    cursor.text()
    cursor.taken(8)
    return cursor.number(2)


def fetch_request(topic: str, partition: int, offset: int, bytes_max: int) -> bytes:
    body = struct.pack(">iiiibi", _CONSUMER, 0, 1, 2 * bytes_max, 0, 1) + _text(topic)
    return _frame(_FETCH, 4, body + struct.pack(">iiqi", 1, partition, offset, bytes_max))


def fetched(answer: bytes) -> bytes:
    """The batches of the one partition that was asked for."""
    cursor = Cursor(answer)
    cursor.taken(8)
    cursor.text()
    cursor.taken(8)
    if error := cursor.number(2):
        raise WireError(f"error {error} in a fetch")
    cursor.taken(16)
    for _ in range(max(cursor.number(4), 0)):  # aborted transactions
        cursor.taken(16)
    return cursor.taken(max(cursor.number(4), 0))
