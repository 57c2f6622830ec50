"""What can be set about the grpcio transport, and what grpcio is told because of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.rpc.traffic import NO_TRAFFIC, Traffic

__all__ = ["GrpcioOptions"]

_Arguments = list[tuple[str, int]]

_READING_TURNS_MIN: Final = 8
#: More calls than this have more in their windows together than may be arriving.
_WINDOWS: Final = 64
#: HTTP/2's own, below which a server cannot go without costing every stream a round trip
_WINDOW_BYTES_MIN: Final = 64 << 10
#: where streams of large batches are as fast as with windows that gRPC measures; a quarter costs a tenth
_WINDOW_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GrpcioOptions:
    #: largest message that is accepted, either way; more lets one call take more memory
    message_bytes_max: int = 64 << 20
    #: clients' unary calls that a server runs at once; beyond that it answers Overloaded
    requests_max: int = 10_000
    #: what requests that are still arriving may hold, counted as so many of the largest; see reading_turns
    arriving_bytes_max: int = 64 << 20
    #: how long a unary request may take to arrive; a client that is slower holds up nobody for longer
    arrival_s_max: float = 30.0
    #: how long an answer may lie here before its client, alive as it may be, is cut off
    taking_s_max: float = 60.0
    #: calls and streams of one connection, of whichever service; clients keep those beyond it on their side.
    #: Well above what a client should need: at the very limit gRPC refuses a call that comes too early.
    connection_calls_max: int = 2_000
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
    #: told how large messages are
    traffic: Traffic = NO_TRAFFIC

    @property
    def reading_turns(self) -> int:
        """Unary requests of clients that may be arriving at once; at least a few, for clients far away."""
        return max(_READING_TURNS_MIN, self.arriving_bytes_max // self.message_bytes_max)

    @property
    def window_bytes(self) -> int:
        """What a client may send ahead, on each of its calls and streams, before anybody asks for it."""
        return min(max(self.arriving_bytes_max // _WINDOWS, _WINDOW_BYTES_MIN), _WINDOW_BYTES_MAX)

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
            ("grpc.max_concurrent_streams", self.connection_calls_max),
            # Left to itself, gRPC measures the link and grants windows of many megabytes to every call,
            # whether somebody reads it or not.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", self.window_bytes),
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
