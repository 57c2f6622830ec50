"""Errors on the wire: the one place where a QuorateError becomes a gRPC status, and back.

A status travels with the error as a typed detail (``grpc-status-details-bin``, a google.rpc.Status), so
that the other side gets the same class. A status without it comes from gRPC itself, from a proxy, or
from a server that is not ours; then the status alone decides.

Statuses are names and bytes here: every implementation of gRPC has classes of its own for them.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import DecodeError
from google.rpc import code_pb2, status_pb2  # type: ignore[import-untyped]  # it has no types

from quorate.core.transport import Method
from quorate.errors import (
    BatchTooLarge,
    InvalidRequest,
    QuorateError,
    RequestTimedOut,
    Unavailable,
    UnknownServerError,
)
from quorate.rpc.error_detail import detail_from_error, error_from_detail, shorten
from quorate.v1 import errors_pb2

__all__ = ["DETAILS_KEY", "error_from_status", "status_with_detail"]

DETAILS_KEY: Final = "grpc-status-details-bin"
# The status line repeats the beginning of the message for tools that know nothing of details.
_STATUS_BYTES_MAX: Final = 200

#: refused before it left, or before the server's handler saw it; any other words may be about the answer
_REQUEST_TOO_LARGE: Final = ("CLIENT: Sent message", "SERVER: Received message")

_KIND_BY_STATUS: Final[dict[str, type[QuorateError]]] = {
    "DEADLINE_EXCEEDED": RequestTimedOut,
    "UNAVAILABLE": Unavailable,
    # Cancelled by the server: it is stopping. The caller's own cancellation never gets here.
    "CANCELLED": Unavailable,
    # Not Overloaded, which says that nothing was done: whoever is ours says so in a detail. gRPC itself makes
    # this status of a stream that was reset with ENHANCE_YOUR_CALM, whatever had become of the call by then.
    "RESOURCE_EXHAUSTED": Unavailable,
    "UNIMPLEMENTED": InvalidRequest,
    "INVALID_ARGUMENT": InvalidRequest,
}


def status_with_detail(error: QuorateError) -> status_pb2.Status:
    """A google.rpc.Status."""
    detail = detail_from_error(error)
    status = status_pb2.Status(
        code=code_pb2.Code.Value(error.grpc_status),
        message=shorten(f"{error.code}: {error.message}", _STATUS_BYTES_MAX),
    )
    status.details.add().Pack(detail)
    return status


def error_from_status(
    status: str, text: str, details: bytes, method: Method[Any, Any], address: str
) -> QuorateError:
    """What the caller raises. ``details``: what came under ``DETAILS_KEY``, or nothing."""
    detail = _parse_detail(details)
    if detail is not None:
        return error_from_detail(detail)
    kind = _KIND_BY_STATUS.get(status, UnknownServerError)
    if status == "RESOURCE_EXHAUSTED" and "larger than max" in text:
        # gRPC has one status for "too much at once" and "too much ever"; only its text tells them apart, and
        # only its text says which message it was. After an answer, whatever was asked for has been done.
        kind = BatchTooLarge if text.startswith(_REQUEST_TOO_LARGE) else UnknownServerError
    if status == "UNIMPLEMENTED":
        # Nothing of ours answers so: a node says what it lacks in a detail.
        told = f"something answers at {address}, but it is no Quorate node with {method.name}: {text}"
    else:
        # Where the error's own code is the status it stands in front of this already.
        told = f"{method.name} at {address}: {text if text and kind.code == status else f'{status}: {text}'}"
    return kind(told, address=address, method=method.path, grpc_status=status)


def _parse_detail(content: bytes) -> errors_pb2.ErrorDetail | None:
    """None for anything that is not ours: other servers put other things there."""
    if not content:
        return None
    detail = errors_pb2.ErrorDetail()
    try:
        status = status_pb2.Status.FromString(content)
        found = any(packed.Unpack(detail) for packed in status.details)
    except DecodeError:
        return None
    return detail if found and detail.code else None
