"""The transport of clients that are given none."""

from __future__ import annotations

from typing import Final

from quorate.core.config import RpcTransport, rpc_transport_of_clients
from quorate.core.transport import Transport
from quorate.rpc.choice import client_transport_of

__all__ = ["client_transport"]

#: A single batch may be as large as 128 MiB, whatever a fetch asks for.
_MESSAGE_BYTES_MAX: Final = 160 << 20


def client_transport(kind: RpcTransport | None = None) -> Transport:
    """For the argument ``transport`` of a client. None: what the environment says, or the default."""
    chosen = rpc_transport_of_clients() if kind is None else kind
    return client_transport_of(chosen, message_bytes_max=_MESSAGE_BYTES_MAX)
