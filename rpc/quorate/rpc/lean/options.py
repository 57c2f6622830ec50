"""What can be set about the lean transport; what grpcio's options have as well has the same name here."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final

from quorate.rpc.lean.limits import Limits
from quorate.rpc.traffic import NO_TRAFFIC, Traffic

__all__ = ["LeanOptions"]

_READING_TURNS_MIN: Final = 8
#: More calls than this have more in their windows together than may be arriving.
_WINDOWS: Final = 64
#: streams of clients that may have a full window of requests which no handler has asked for; beyond that
#: they are refused
_UNREAD_WINDOWS: Final = 256
_WINDOW_BYTES_MIN: Final = 64 << 10
_WINDOW_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LeanOptions:
    #: largest message that is accepted, either way; more lets one call take more memory
    message_bytes_max: int = 64 << 20
    #: clients' unary calls that a server runs at once; beyond that it answers Overloaded
    requests_max: int = 10_000
    #: what requests that are still arriving may hold: the small ones together, and the large ones, which take
    #: turns, counted as so many of the largest
    arriving_bytes_max: int = 64 << 20
    #: what answers may hold that clients have not taken yet, of all connections together; long before that
    #: they are given less at a time, and calls with large answers wait (``untaken``). More than a handler's
    #: own bound lets it answer with, so that this is for those that have none; and several of the largest
    #: message.
    untaken_bytes_max: int = 512 << 20
    #: the same two for calls between nodes, which anybody can make who reaches the address: what a hundred
    #: nodes would hold if all of them were stuck at once, and more. Less lets a node that is only slow lose
    #: its calls; more is memory that somebody who means harm can take.
    internal_arriving_bytes_max: int = 256 << 20
    internal_untaken_bytes_max: int = 1 << 30
    #: how long a unary request may take to arrive, or one of a stream once its handler waits for it; a client
    #: that is slower holds up nobody for longer
    arrival_s_max: float = 30.0
    #: how long nothing may be taken of an answer before its call, alive as its client may be, is ended
    taking_s_max: float = 60.0
    #: calls and streams of one connection, of whichever service; clients keep those beyond it on their side
    connection_calls_max: int = 2_000
    #: clients' streams that a server keeps at once
    streams_max: int = 10_000
    #: unary calls between nodes that a server runs at once, and streams that it keeps; more than nodes need
    internal_calls_max: int = 10_000
    #: connections that a server keeps at once; beyond that a new one is closed as soon as it comes
    connections_max: int = 20_000
    #: a server's own limit for unary calls whose client set none
    default_timeout_s: float = 60.0
    #: silence after which a connection is probed; less finds a dead peer sooner and sends more pings
    keepalive_s: float = 10.0
    #: how long a probe may take before the connection counts as dead
    keepalive_timeout_s: float = 5.0
    #: how long a connection may take until both sides have said what they are
    greeting_s_max: float = 5.0
    #: how long an attempt to connect may take
    connect_s_max: float = 2.0
    #: longest pause between attempts to connect; less finds a restarted peer sooner
    reconnect_backoff_s_max: float = 1.0
    #: against peers that mean harm
    limits: Limits = field(default_factory=Limits)
    #: for servers, with a certificate; without it nothing is encrypted
    server_tls: ssl.SSLContext | None = None
    #: for clients; without it nothing is encrypted
    client_tls: ssl.SSLContext | None = None
    #: told how large messages are
    traffic: Traffic = NO_TRAFFIC

    @property
    def reading_turns(self) -> int:
        """Large requests of clients that may be arriving at once; at least a few, for clients far away."""
        return max(_READING_TURNS_MIN, self.arriving_bytes_max // self.message_bytes_max)

    @property
    def window_bytes(self) -> int:
        """What a client may send ahead, on each of its calls and streams, before anybody asks for it."""
        return min(max(self.arriving_bytes_max // _WINDOWS, _WINDOW_BYTES_MIN), _WINDOW_BYTES_MAX)

    @property
    def unread_bytes_max(self) -> int:
        """What streams of clients may hold together before their handlers ask for it."""
        return _UNREAD_WINDOWS * self.window_bytes
