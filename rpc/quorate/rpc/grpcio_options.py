"""What can be set about the grpcio transport, and what grpcio is told because of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GrpcioOptions"]

_Arguments = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class GrpcioOptions:
    #: largest message that is accepted, either way; more lets one call take more memory
    message_bytes_max: int = 64 << 20
    #: clients' unary calls that a server runs at once; beyond that it answers Overloaded
    requests_max: int = 10_000
    #: clients' streams that a server keeps at once
    streams_max: int = 10_000
    #: unary calls between nodes that a server runs at once, and streams that it keeps; more than nodes need
    internal_calls_max: int = 10_000
    #: a server's own limit for unary calls whose client set none
    default_timeout_s: float = 60.0
    #: silence after which a connection is probed; less finds a dead peer sooner and sends more pings
    keepalive_s: float = 10.0
    #: how long a probe may take before the connection counts as dead
    keepalive_timeout_s: float = 5.0
    #: longest pause between attempts to connect; less finds a restarted peer sooner
    reconnect_backoff_s_max: float = 1.0

    def channel_arguments(self) -> _Arguments:
        return [
            *self._common_arguments(),
            # Retries are the caller's: only the caller knows whether doing it twice is harmless.
            ("grpc.enable_retries", 0),
            # A proxy in the environment is meant for the web, not for the next broker.
            ("grpc.enable_http_proxy", 0),
            # Each channel has its own connection: closing one must not depend on another.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 1000),
            ("grpc.max_reconnect_backoff_ms", int(self.reconnect_backoff_s_max * 1000)),
        ]

    def server_arguments(self) -> _Arguments:
        return [
            *self._common_arguments(),
            # Otherwise a second server may share the port, and each gets some of the calls.
            ("grpc.so_reuseport", 0),
            ("grpc.http2.min_ping_interval_without_data_ms", int(self.keepalive_s * 500)),
        ]

    def _common_arguments(self) -> _Arguments:
        return [
            ("grpc.max_receive_message_length", self.message_bytes_max),
            ("grpc.max_send_message_length", self.message_bytes_max),
            ("grpc.keepalive_time_ms", int(self.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.keepalive_timeout_s * 1000)),
            # gRPC also pings to measure the link, and while such a ping is out it sends no other. If the
            # answer is lost with the link, keepalive would wait for it with everybody else: a minute.
            ("grpc.http2.ping_timeout_ms", int(self.keepalive_timeout_s * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            # Keepalive is ours to spend: without this, gRPC stops probing an idle stream.
            ("grpc.http2.max_pings_without_data", 0),
        ]
