"""Errors on the wire, in grpcio's classes; what they mean is in ``status_errors``."""

from __future__ import annotations

from typing import Any

import grpc
from grpc_status import rpc_status  # type: ignore[import-untyped]  # it has no types

from quorate.core.transport import Method
from quorate.errors import QuorateError
from quorate.rpc.status_errors import DETAILS_KEY, error_from_status, status_with_detail

__all__ = ["error_from_rpc", "status_from_error"]


def status_from_error(error: QuorateError) -> grpc.Status:
    """For ``context.abort_with_status``."""
    translated: grpc.Status = rpc_status.to_status(status_with_detail(error))
    return translated


def error_from_rpc(error: grpc.aio.AioRpcError, method: Method[Any, Any], address: str) -> QuorateError:
    """What the caller raises in place of gRPC's error."""
    return error_from_status(error.code().name, error.details() or "", _details_of(error), method, address)


def _details_of(error: grpc.aio.AioRpcError) -> bytes:
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return value
    return b""
