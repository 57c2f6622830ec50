"""Which headers make a request, a response, or trailers (RFC 9113, section 8.1 to 8.3).

A header list that breaks these rules is malformed, and its stream is reset: to guess what a peer meant is how
requests are smuggled past somebody who guessed otherwise.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import Final

from quorate.rpc.lean.faults import StreamFault
from quorate.rpc.lean.frames import ErrorCode
from quorate.rpc.lean.header_codec import Header, HeaderList

__all__ = ["Role", "check", "content_length"]


class Role(enum.Enum):
    REQUEST = "request"
    RESPONSE = "response"
    TRAILERS = "trailers"


_NEEDED: Final = {
    Role.REQUEST: frozenset({b":method", b":scheme", b":path"}),
    Role.RESPONSE: frozenset({b":status"}),
    Role.TRAILERS: frozenset[bytes](),
}
_ALLOWED: Final = {
    Role.REQUEST: _NEEDED[Role.REQUEST] | {b":authority"},
    Role.RESPONSE: _NEEDED[Role.RESPONSE],
    Role.TRAILERS: frozenset[bytes](),
}
#: they speak of a connection of HTTP/1
_OF_CONNECTIONS: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE: Final = re.compile(rb"[^\x00\r\n]*")
_BLANKS: Final = (b" ", b"\t")


def check(found: HeaderList, role: Role) -> None:
    if found.checked_as is role:
        return
    pseudo: set[bytes] = set()
    is_regular = False
    for name, value in found.headers:
        if name.startswith(b":"):
            if is_regular:
                raise _malformed(f"{name!r} comes too late")
            if name in pseudo or name not in _ALLOWED[role]:
                raise _malformed(f"{name!r} does not belong there")
            pseudo.add(name)
        else:
            is_regular = True
            _check_regular(name, value)
        if _VALUE.fullmatch(value) is None or (role is Role.REQUEST and _has_blank_end(value)):
            raise _malformed(f"{name!r} has a value that is none")
    if not _NEEDED[role] <= pseudo:
        raise _malformed("a header is missing")
    if (b":path", b"") in found.headers:
        raise _malformed("the path is empty")
    found.checked_as = role


def content_length(headers: Iterable[Header]) -> int | None:
    found = None
    for name, value in headers:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise _malformed("content-length is no number")
            if found is not None and found != int(value):
                raise _malformed("content-length is two numbers")
            found = int(value)
    return found


def _check_regular(name: bytes, value: bytes) -> None:
    if _NAME.fullmatch(name) is None:
        raise _malformed(f"{name!r} is no name of a header")
    if name in _OF_CONNECTIONS or (name == b"te" and value != b"trailers"):
        raise _malformed(f"{name!r} does not exist in HTTP/2")


def _has_blank_end(value: bytes) -> bool:
    """Whoever passes a request on may cut them off (8.2.1). Of an answer they are let be: gRPC's messages of
    a status may have them."""
    return value.startswith(_BLANKS) or value.endswith(_BLANKS)


def _malformed(reason: str) -> StreamFault:
    return StreamFault(ErrorCode.PROTOCOL_ERROR, reason)
