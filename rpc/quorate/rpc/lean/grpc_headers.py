"""gRPC's own headers: what a request and a response say beside their messages (PROTOCOL-HTTP2.md)."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import quote_from_bytes, unquote_to_bytes

from quorate.rpc.error_detail import shorten
from quorate.rpc.lean.header_codec import Header, HeaderList
from quorate.rpc.lean.status import Status, StatusCode

__all__ = [
    "ACCEPTED_ENCODINGS",
    "RESPONSE",
    "TRAILERS_OK",
    "Ending",
    "Metadata",
    "RequestHead",
    "ResponseHead",
    "ending",
    "http_refusal",
    "is_grpc",
    "metadata_headers",
    "metadata_of",
    "parse_timeout",
    "request_head",
    "request_headers",
    "response_head",
    "status_trailers",
    "text_timeout",
]

#: names ending in "-bin" have bytes for values, all others ASCII
Metadata: TypeAlias = tuple[tuple[str, bytes], ...]

_CONTENT_TYPE: Final = (b"content-type", b"application/grpc")
ACCEPTED_ENCODINGS: Final = (b"grpc-accept-encoding", b"identity")
#: how every response begins
RESPONSE: Final[tuple[Header, ...]] = ((b":status", b"200"), _CONTENT_TYPE)
#: how every call ends that went well
TRAILERS_OK: Final[tuple[Header, ...]] = ((b"grpc-status", b"0"),)

_USER_AGENT: Final = (b"user-agent", b"quorate-lean")
_NS_BY_UNIT: Final = {
    b"H": 3_600 * 10**9,
    b"M": 60 * 10**9,
    b"S": 10**9,
    b"m": 10**6,
    b"u": 10**3,
    b"n": 1,
}
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_TIMEOUT_NUMBER_MAX: Final = 10**8 - 1
_TIMEOUT_DIGITS: Final = 3
_US_PER_HOUR: Final = 3_600 * 10**6
#: part of a status message as it is; all else is written as %XX
_PLAIN: Final = bytes(sorted({*range(0x20, 0x7F)} - {ord("%")}))
#: of a status message before it is written so; more than any of ours, and than a client's log wants
_MESSAGE_BYTES_MAX: Final = 1_000
_NOT_METADATA: Final = frozenset({b"content-type", b"te", b"user-agent"})


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a server has to know of a request's headers."""

    path: bytes
    is_grpc: bool
    timeout_s: float | None
    is_timeout_broken: bool
    encoding: bytes


def request_head(found: HeaderList) -> RequestHead:
    """Worked out once for headers that come again."""
    if not isinstance(found.meaning, RequestHead):
        found.meaning = _request_head(found)
    return found.meaning


def _request_head(found: HeaderList) -> RequestHead:
    headers = dict(found.headers)
    timeout = headers.get(b"grpc-timeout")
    timeout_s = None if timeout is None else parse_timeout(timeout)
    return RequestHead(
        path=headers[b":path"],
        is_grpc=headers[b":method"] == b"POST" and is_grpc(headers),
        timeout_s=timeout_s,
        is_timeout_broken=timeout is not None and timeout_s is None,
        encoding=headers.get(b"grpc-encoding", b"identity"),
    )


def is_grpc(headers: dict[bytes, bytes]) -> bool:
    content_type = headers.get(b"content-type", b"")
    return content_type == b"application/grpc" or content_type.startswith(
        (b"application/grpc+", b"application/grpc;")
    )


def http_refusal(text: str) -> tuple[tuple[Header, ...], bytes]:
    """For somebody who does not speak gRPC: headers, and a body that a person can read."""
    body = text.encode()
    headers = (
        (b":status", b"415"),
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    )
    return headers, body


@lru_cache(maxsize=1_000)
def request_headers(
    path: str, authority: str, scheme: bytes, timeout_s: float | None, metadata: Metadata = ()
) -> tuple[Header, ...]:
    timeout = () if timeout_s is None else ((b"grpc-timeout", text_timeout(timeout_s)),)
    return (
        (b":method", b"POST"),
        (b":scheme", scheme),
        (b":path", path.encode()),
        (b":authority", authority.encode()),
        (b"te", b"trailers"),
        _CONTENT_TYPE,
        ACCEPTED_ENCODINGS,
        _USER_AGENT,
        *timeout,
        *metadata_headers(metadata),
    )


def text_timeout(timeout_s: float) -> bytes:
    """Rounded up to three digits: the caller itself knows its deadline better, and headers that repeat are
    cheap on both sides (see header_codec)."""
    number = max(1, math.ceil(min(timeout_s * 10**6, _TIMEOUT_NUMBER_MAX * _US_PER_HOUR)))
    rounding = 10 ** max(0, len(str(number)) - _TIMEOUT_DIGITS)
    timeout_us = -(-number // rounding) * rounding
    for unit in (b"u", b"m", b"S", b"M", b"H"):
        number = -(-timeout_us * 1_000 // _NS_BY_UNIT[unit])
        if number <= _TIMEOUT_NUMBER_MAX:
            return b"%d%b" % (number, unit)
    return b"%dH" % _TIMEOUT_NUMBER_MAX


def parse_timeout(value: bytes) -> float | None:
    """Seconds; None: it is no timeout."""
    match = _TIMEOUT.fullmatch(value)
    return None if match is None else int(match[1]) * _NS_BY_UNIT[match[2]] / 10**9


def status_trailers(status: Status, metadata: Metadata = ()) -> tuple[Header, ...]:
    if not status.code and not metadata:
        return TRAILERS_OK
    trailers = [(b"grpc-status", str(int(status.code)).encode())]
    if status.message:
        trailers.append((b"grpc-message", _percent_encoded(status.message)))
    if status.details:
        trailers.append((b"grpc-status-details-bin", _base64(status.details)))
    return (*trailers, *metadata_headers(metadata))


@dataclass(frozen=True, slots=True)
class Ending:
    """What a client has to know of a call's trailers."""

    status: Status
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What a client has to know of a response's headers."""

    http_status: bytes
    is_grpc: bool
    encoding: bytes
    metadata: Metadata
    #: of a response that consists of nothing but headers
    ending: Ending | None


def response_head(found: HeaderList) -> ResponseHead:
    """Worked out once for headers that come again."""
    if not isinstance(found.meaning, ResponseHead):
        headers = dict(found.headers)
        found.meaning = ResponseHead(
            http_status=headers[b":status"],
            is_grpc=is_grpc(headers),
            encoding=headers.get(b"grpc-encoding", b"identity"),
            metadata=metadata_of(found),
            ending=_ending(found) if b"grpc-status" in headers else None,
        )
    return found.meaning


def ending(found: HeaderList) -> Ending:
    """Worked out once for trailers that come again."""
    if not isinstance(found.meaning, Ending):
        found.meaning = _ending(found)
    return found.meaning


def _ending(found: HeaderList) -> Ending:
    headers = dict(found.headers)
    number = headers.get(b"grpc-status")
    if number is None:
        return Ending(Status(StatusCode.UNKNOWN, "the trailers have no status"), metadata_of(found))
    status = Status(
        _status_code(number),
        unquote_to_bytes(headers.get(b"grpc-message", b"")).decode("utf-8", "replace"),
        _from_base64(headers.get(b"grpc-status-details-bin", b"")),
    )
    return Ending(status, metadata_of(found))


def metadata_of(found: HeaderList) -> Metadata:
    """What the other side added of its own."""
    return tuple(
        (name.decode("latin-1"), each)
        for name, value in found.headers
        if not name.startswith((b":", b"grpc-")) and name not in _NOT_METADATA
        for each in (_binary_values(value) if name.endswith(b"-bin") else (value,))
    )


def metadata_headers(metadata: Metadata) -> Iterable[Header]:
    for name, value in metadata:
        yield name.encode(), _base64(value) if name.endswith("-bin") else value


def _status_code(number: bytes) -> StatusCode:
    # Not whatever int() takes: "+1" and "1_0" are no statuses.
    try:
        return StatusCode(int(number)) if number.isdigit() else StatusCode.UNKNOWN
    except ValueError:
        return StatusCode.UNKNOWN


def _percent_encoded(text: str) -> bytes:
    """No more of it than anybody reads: it may repeat what a peer has sent, and three bytes for one."""
    return quote_from_bytes(shorten(text, _MESSAGE_BYTES_MAX).encode(), safe=_PLAIN).encode()


def _binary_values(value: bytes) -> Iterable[bytes]:
    """Several may have been joined on their way; no base64 has a comma."""
    return map(_from_base64, value.split(b","))


def _base64(content: bytes) -> bytes:
    return base64.b64encode(content).rstrip(b"=")


def _from_base64(value: bytes) -> bytes:
    """Peers may leave out the padding, and need not."""
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4))
    except binascii.Error:
        return b""
