"""HPACK with a memory.

Unpacking a header block in Python costs about as much as everything else about a small call. But the blocks
of one connection repeat: once names and values are in the dynamic table, a client's calls of one method are
the same few bytes each time. A block that leaves the table as it is always means the same, until some other
block changes the table; so it is remembered until then. Likewise for packing.

What varies from call to call (a deadline) is packed so that it does not enter the table. Otherwise every call
would change it, and nothing could be remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple, OversizedHeaderListError
from hpack.table import HeaderTable

from quorate.rpc.lean.faults import ConnectionFault
from quorate.rpc.lean.frames import ErrorCode

__all__ = ["Header", "HeaderDecoder", "HeaderEncoder", "HeaderList"]

Header: TypeAlias = tuple[bytes, bytes]

#: What is remembered, each way: some fifty blocks of a stock client, more than it has methods. Blocks that
#: have a deadline of their own each, as some send them, do not repeat, however many are remembered.
_REMEMBERED_BYTES_MAX: Final = 48 << 10
#: of one of them; longer ones do not repeat, and a peer must not drive out the others with it
_BLOCK_BYTES_MAX: Final = 512
#: of one unpacked: a byte can stand for a long header, and for many
_UNPACKED_BYTES_MAX: Final = 4096
#: of a block beside its headers, and of a header beside its name and value: what Python's objects take
_BLOCK_OVERHEAD_BYTES: Final = 320
_HEADER_OVERHEAD_BYTES: Final = 64
#: of the dynamic table that we pack with, whatever the peer allows
_TABLE_BYTES_MAX: Final = 4096
#: names whose values are rarely the same twice
_VARYING: Final = frozenset({b"grpc-timeout", b"grpc-message", b"grpc-status-details-bin", b"content-length"})


class HeaderList:
    """One block, unpacked. The same object each time the block comes again."""

    __slots__ = ("checked_as", "headers", "meaning")

    def __init__(self, headers: tuple[Header, ...]) -> None:
        self.headers = headers
        #: the rules that it was found to keep (see header_rules)
        self.checked_as: object = None
        #: what the layers above made of it, so that they need not do it again
        self.meaning: Any = None


class _WatchedTable(HeaderTable):
    """Counts its changes."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0

    def add(self, name: bytes, value: bytes) -> None:
        self.changes += 1
        super().add(name, value)

    @property
    def maxsize(self) -> int:
        return self._maxsize

    @maxsize.setter
    def maxsize(self, newmax: int) -> None:
        self.changes += 1
        # The setter of the class above, which a property hides.
        HeaderTable.maxsize.fset(self, newmax)  # type: ignore[attr-defined]  # mypy takes it for the int


class _Remembered(dict[Any, Any]):
    """Bounded by its bytes. When it is full it begins anew: who is in it often is soon in it again."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes = 0

    def clear(self) -> None:
        super().clear()
        self._bytes = 0

    def remember(self, key: Any, value: Any, block: bytes, headers: tuple[Header, ...]) -> None:
        unpacked_bytes = sum(len(name) + len(value) + _HEADER_OVERHEAD_BYTES for name, value in headers)
        if len(block) > _BLOCK_BYTES_MAX or unpacked_bytes > _UNPACKED_BYTES_MAX:
            return
        size = _BLOCK_OVERHEAD_BYTES + len(block) + unpacked_bytes
        if self._bytes + size > _REMEMBERED_BYTES_MAX:
            self.clear()
        self[key] = value
        self._bytes += size


class HeaderDecoder:
    def __init__(self, list_bytes_max: int) -> None:
        self._decoder = Decoder(list_bytes_max)
        self._table = _WatchedTable()
        self._decoder.header_table = self._table
        self._known = _Remembered()

    def decode(self, block: bytes) -> HeaderList:
        known: HeaderList | None = self._known.get(block)
        if known is not None:
            return known
        changes = self._table.changes
        try:
            headers = tuple(
                (bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)
            )
        except OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "the headers are too large") from error
        except HPACKError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "the headers cannot be unpacked") from error
        found = HeaderList(headers)
        if self._table.changes != changes:
            self._known.clear()
        else:
            self._known.remember(block, found, block, headers)
        return found


class HeaderEncoder:
    def __init__(self) -> None:
        self._encoder = Encoder()
        self._table = _WatchedTable()
        self._encoder.header_table = self._table
        self._known = _Remembered()
        #: of sizes that the peer has set since the last block: the least, and the last
        self._sizes_to_tell: tuple[int, int] | None = None

    def allow_table_bytes(self, bytes_max: int) -> None:
        """The peer's SETTINGS_HEADER_TABLE_SIZE."""
        table_bytes = min(bytes_max, _TABLE_BYTES_MAX)
        least, _ = self._sizes_to_tell or (table_bytes, 0)
        self._sizes_to_tell = min(least, table_bytes), table_bytes

    def _resize_table(self) -> None:
        """Only now: hpack notes every change until the next block, and a peer could make it any number."""
        sizes, self._sizes_to_tell = self._sizes_to_tell, None
        for table_bytes in sizes or ():
            # To set what is set already would make hpack forget to tell the peer of a change before it.
            if table_bytes != self._encoder.header_table_size:
                self._encoder.header_table_size = table_bytes
                self._known.clear()

    def encode(self, headers: tuple[Header, ...]) -> bytes:
        if self._sizes_to_tell is not None:
            self._resize_table()
        known: bytes | None = self._known.get(headers)
        if known is not None:
            return known
        # The peer is told of a new size at the beginning of the next block, and of that one only.
        is_plain = not self._table.resized
        changes = self._table.changes
        # Without Huffman's code: in Python it costs more time than its few bytes are worth.
        block = self._encoder.encode(_marked(headers), huffman=False)
        if self._table.changes != changes:
            self._known.clear()
        elif is_plain:
            self._known.remember(headers, block, block, headers)
        return block


def _marked(headers: Iterable[Header]) -> list[Header]:
    return [
        NeverIndexedHeaderTuple(name, value) if name in _VARYING else (name, value) for name, value in headers
    ]
