"""How a gRPC call ended: its status, as trailers carry it."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from quorate.errors import QuorateError, Unavailable
from quorate.rpc.lean.frames import ErrorCode

__all__ = ["OK", "Status", "StatusCode", "StatusError", "Unseen", "code_of_http", "code_of_reset"]


class StatusCode(enum.IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Status(NamedTuple):
    code: StatusCode
    message: str = ""
    #: a google.rpc.Status, serialized
    details: bytes = b""


OK: Final = Status(StatusCode.OK)


class StatusError(QuorateError):
    """A bare status, for services that are gRPC's own; ours raise errors that say more."""

    code = "GRPC_STATUS"

    def __init__(self, status_code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = Status(status_code, message)


class Unseen(Unavailable):
    """The server has not looked at the call: nothing was done, and it may be repeated at once."""

    outcome_unknown = False


#: what a response without gRPC's trailers means, as gRPC defines it (http-grpc-status-mapping.md)
_BY_HTTP_STATUS: Final = {
    b"400": StatusCode.INTERNAL,
    b"401": StatusCode.UNAUTHENTICATED,
    b"403": StatusCode.PERMISSION_DENIED,
    b"404": StatusCode.UNIMPLEMENTED,
    b"429": StatusCode.UNAVAILABLE,
    b"502": StatusCode.UNAVAILABLE,
    b"503": StatusCode.UNAVAILABLE,
    b"504": StatusCode.UNAVAILABLE,
}

#: what a reset stream means (PROTOCOL-HTTP2.md); every other: INTERNAL
_BY_RESET: Final = {
    ErrorCode.REFUSED_STREAM: StatusCode.UNAVAILABLE,
    ErrorCode.CANCEL: StatusCode.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: StatusCode.PERMISSION_DENIED,
}


def code_of_http(http_status: bytes) -> StatusCode:
    return _BY_HTTP_STATUS.get(http_status, StatusCode.UNKNOWN)


def code_of_reset(code: ErrorCode) -> StatusCode:
    return _BY_RESET.get(code, StatusCode.INTERNAL)
