"""Which implementation of the Transport seam a process speaks through; other processes cannot tell.

Each is imported only if it is chosen: grpcio's core is large, and looks at its environment at once.
"""

from __future__ import annotations

from quorate.core.config import RpcTransport
from quorate.core.transport import Transport
from quorate.rpc.traffic import NO_TRAFFIC, Traffic

__all__ = ["client_transport_of", "node_transport_of"]


def node_transport_of(
    kind: RpcTransport,
    *,
    message_bytes_max: int,
    requests_max: int,
    arriving_bytes_max: int,
    untaken_bytes_max: int,
    internal_arriving_bytes_max: int,
    internal_untaken_bytes_max: int,
    connections_max: int,
    default_timeout_s: float,
    traffic: Traffic = NO_TRAFFIC,
) -> Transport:
    """The bounds are those of the options of the same names; grpcio has fewer of them."""
    if kind is RpcTransport.LEAN:
        from quorate.rpc.lean.transport import LeanOptions, LeanTransport

        return LeanTransport(
            LeanOptions(
                message_bytes_max=message_bytes_max,
                requests_max=requests_max,
                arriving_bytes_max=arriving_bytes_max,
                untaken_bytes_max=untaken_bytes_max,
                internal_arriving_bytes_max=internal_arriving_bytes_max,
                internal_untaken_bytes_max=internal_untaken_bytes_max,
                connections_max=connections_max,
                default_timeout_s=default_timeout_s,
                traffic=traffic,
            )
        )
    from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport

    return GrpcioTransport(
        GrpcioOptions(
            message_bytes_max=message_bytes_max,
            requests_max=requests_max,
            arriving_bytes_max=arriving_bytes_max,
            default_timeout_s=default_timeout_s,
            traffic=traffic,
        )
    )


def client_transport_of(kind: RpcTransport, *, message_bytes_max: int) -> Transport:
    if kind is RpcTransport.LEAN:
        from quorate.rpc.lean.transport import LeanOptions, LeanTransport

        return LeanTransport(LeanOptions(message_bytes_max=message_bytes_max))
    from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport

    return GrpcioTransport(GrpcioOptions(message_bytes_max=message_bytes_max))
