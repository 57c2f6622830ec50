"""gRPC's messages in a stream of bytes: a flag, a length, and so many bytes.

A message that lies whole in what arrived is handed on where it lies. Only one that is spread over several
arrivals is collected, and only as it comes: its length is a peer's word, and reserves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.rpc.lean import wire

__all__ = [
    "BrokenMessage",
    "MessageReader",
    "MessageTooLarge",
    "whole_bytes",
]


class BrokenMessage(Exception):
    """Its flag says that it is compressed, which nobody has agreed on."""


class MessageTooLarge(Exception):
    def __init__(self, message_bytes: int) -> None:
        super().__init__(message_bytes)
        self.message_bytes = message_bytes


def whole_bytes(content: memoryview | bytearray, at: int, bytes_max: int) -> int:
    """The length of the message whose prefix is there, with the prefix."""
    flag, length = wire.read_prefix(content, at)
    if flag:
        raise BrokenMessage
    if length > bytes_max:
        raise MessageTooLarge(length)
    return wire.PREFIX_BYTES + length


class MessageReader:
    __slots__ = ("_bytes_max", "_collected", "begun_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        #: the beginning of a message, with its prefix
        self._collected = bytearray()
        #: the length of the message that has begun, with its prefix, once that is there
        self.begun_bytes = 0

    @property
    def is_between_messages(self) -> bool:
        return not self._collected

    @property
    def collected_bytes(self) -> int:
        """What is held of a message that has begun."""
        return len(self._collected)

    @property
    def missing_bytes(self) -> int:
        """Of the message that has begun; 0: none has, or its length is not known yet."""
        return self.begun_bytes - len(self._collected) if self.begun_bytes else 0

    def feed(self, part: memoryview) -> Iterator[memoryview]:
        """The messages that are complete now. Each is only lent until the next is asked for."""
        at, end = 0, len(part)
        while at < end:
            if not self._collected and end - at >= wire.PREFIX_BYTES:
                whole = whole_bytes(part, at, self._bytes_max)
                if end - at >= whole:
                    yield part[at + wire.PREFIX_BYTES : at + whole]
                    at += whole
                    continue
                self.begun_bytes = whole
            at += self._collect(part, at)
            if self.begun_bytes and len(self._collected) == self.begun_bytes:
                content, self._collected, self.begun_bytes = self._collected, bytearray(), 0
                yield memoryview(content)[wire.PREFIX_BYTES :]

    def _collect(self, part: memoryview, at: int) -> int:
        """How much of it was taken: up to the end of the prefix, or of the message."""
        wanted = (self.begun_bytes or wire.PREFIX_BYTES) - len(self._collected)
        taken = part[at : at + wanted]
        self._collected += taken
        if not self.begun_bytes and len(self._collected) == wire.PREFIX_BYTES:
            self.begun_bytes = whole_bytes(self._collected, 0, self._bytes_max)
        return len(taken)
