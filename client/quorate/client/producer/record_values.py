"""Keys, values and headers as applications give them, turned into what a batch holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from quorate.client.arguments import shown
from quorate.core.records import EncodableHeaders
from quorate.errors import InvalidRecord

__all__ = ["HeadersArgument", "as_bytes", "as_headers"]

#: A header may be there twice, and order counts: pairs; or a mapping, where that is of no interest
HeadersArgument: TypeAlias = (
    Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]] | None
)


def as_bytes(what: str, found: Any, serializer: Callable[[Any], bytes | None] | None = None) -> bytes | None:
    """A key or a value as it is stored. What could change later is copied."""
    if serializer is not None:
        found = serializer(found)
    if isinstance(found, str):
        try:
            return found.encode()
        except UnicodeEncodeError as error:
            raise InvalidRecord(f"a {what} that has no UTF-8: {error}") from None
    if found is None or isinstance(found, bytes):
        return found
    if isinstance(found, bytearray | memoryview):
        return bytes(found)
    raise InvalidRecord(
        f"a {what} of type {type(found).__name__}: bytes, str and None are taken, or set a serializer"
    )


def as_headers(found: HeadersArgument) -> EncodableHeaders:
    if not found:
        return ()
    pairs: Iterable[object] = found.items() if isinstance(found, Mapping) else found
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise InvalidRecord(f"headers is {shown(found)}: a mapping, or a sequence of pairs, is expected")
    headers = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidRecord(f"a header is a name and a value, not {pair!r}")
        headers.append((pair[0], as_bytes("header value", pair[1])))
    return tuple(headers)
