"""Errors on the wire: the one place where a QuorateError becomes a gRPC status, and back.

A status travels with the error as a typed detail (``grpc-status-details-bin``, a google.rpc.Status), so
that the other side gets the same class. A status without it comes from gRPC itself, from a proxy, or
from a server that is not ours; then the status alone decides.
"""

from __future__ import annotations

from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, status_pb2  # type: ignore[import-untyped]  # it has no types
from grpc_status import rpc_status  # type: ignore[import-untyped]  # it has no types

from quorate.core.transport import Method
from quorate.errors import (
    BatchTooLarge,
    InvalidRequest,
    Overloaded,
    QuorateError,
    RequestTimedOut,
    Unavailable,
    UnknownServerError,
)
from quorate.rpc.error_detail import detail_from_error, error_from_detail, shorten
from quorate.v1 import errors_pb2

__all__ = ["error_from_rpc", "status_from_error"]

_DETAILS_KEY: Final = "grpc-status-details-bin"
# The status line repeats the beginning of the message for tools that know nothing of details.
_STATUS_BYTES_MAX: Final = 200

#: refused before it left, or before the server's handler saw it; any other words may be about the answer
_REQUEST_TOO_LARGE: Final = ("CLIENT: Sent message", "SERVER: Received message")

_KIND_BY_STATUS: Final[dict[grpc.StatusCode, type[QuorateError]]] = {
    grpc.StatusCode.DEADLINE_EXCEEDED: RequestTimedOut,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    # Cancelled by the server: it is stopping. The caller's own cancellation never gets here.
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.UNIMPLEMENTED: InvalidRequest,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
}


def status_from_error(error: QuorateError) -> grpc.Status:
    """For ``context.abort_with_status``."""
    detail = detail_from_error(error)
    status = status_pb2.Status(
        code=code_pb2.Code.Value(error.grpc_status),
        message=shorten(f"{error.code}: {error.message}", _STATUS_BYTES_MAX),
    )
    status.details.add().Pack(detail)
    translated: grpc.Status = rpc_status.to_status(status)
    return translated


def error_from_rpc(error: grpc.aio.AioRpcError, method: Method[Any, Any], address: str) -> QuorateError:
    """What the caller raises in place of gRPC's error."""
    detail = _detail_of(error)
    if detail is not None:
        return error_from_detail(detail)
    status, text = error.code(), error.details() or ""
    kind = _KIND_BY_STATUS.get(status, UnknownServerError)
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        # gRPC has one status for "too much at once" and "too much ever"; only its text tells them apart, and
        # only its text says which message it was. After an answer, whatever was asked for has been done.
        kind = BatchTooLarge if text.startswith(_REQUEST_TOO_LARGE) else UnknownServerError
    if status is grpc.StatusCode.UNIMPLEMENTED:
        # Nothing of ours answers so: a node says what it lacks in a detail.
        told = f"something answers at {address}, but it is no Quorate node with {method.name}: {text}"
    else:
        told = f"{method.name} at {address}: {status.name}: {text}"
    return kind(
        told,
        address=address,
        method=method.path,
        grpc_status=status.name,
    )


def _detail_of(error: grpc.aio.AioRpcError) -> errors_pb2.ErrorDetail | None:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            return _parse_detail(value)
    return None


def _parse_detail(content: bytes) -> errors_pb2.ErrorDetail | None:
    """None for anything that is not ours: other servers put other things there."""
    detail = errors_pb2.ErrorDetail()
    try:
        status = status_pb2.Status.FromString(content)
        found = any(packed.Unpack(detail) for packed in status.details)
    except DecodeError:
        return None
    return detail if found and detail.code else None
