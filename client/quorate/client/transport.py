"""The transport of clients that are given none."""

from __future__ import annotations

from typing import Final

from quorate.core.config import RpcTransport
from quorate.core.transport import Transport
from quorate.rpc.choice import client_transport_of

__all__ = ["client_transport"]

#: A single batch may be as large as 128 MiB, whatever a fetch asks for.
_MESSAGE_BYTES_MAX: Final = 160 << 20


def client_transport(kind: RpcTransport = RpcTransport.GRPCIO) -> Transport:
    return client_transport_of(kind, message_bytes_max=_MESSAGE_BYTES_MAX)
