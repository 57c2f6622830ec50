"""Transport over the simulated network.

Messages are serialized on one side and parsed on the other, so that two nodes never share an object,
and handlers run through the same dispatch as on the real network: a program cannot tell the difference,
except that here the network can be told to fail.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from quorate.chaos.sim.conversation import Conversation, End, Frame, HalfClose, Head, Message, Reset
from quorate.chaos.sim.network import SimNetwork
from quorate.core.transport import CallKind, Handler, Method, Request, Response, Service
from quorate.errors import InvalidRequest, QuorateError, RequestTimedOut, Unavailable
from quorate.rpc.dispatch import Admission, parse_request, parse_response, run_stream, run_unary
from quorate.rpc.error_detail import detail_from_error, error_from_detail

__all__ = ["SimTransport"]

_CALLS_MAX: Final = 10_000


class SimTransport:
    """The network as ``node`` sees it."""

    def __init__(
        self,
        network: SimNetwork,
        node: str,
        *,
        requests_max: int = _CALLS_MAX,
        streams_max: int = _CALLS_MAX,
    ) -> None:
        self._network = network
        self._node = node
        self._requests_max = requests_max
        self._streams_max = streams_max

    def connect(self, address: str) -> SimChannel:
        return SimChannel(self._network, self._node, address)

    async def serve(self, address: str, services: Sequence[Service]) -> SimServer:
        return SimServer(
            self._network,
            self._node,
            address,
            services,
            requests=Admission(self._requests_max),
            streams=Admission(self._streams_max),
        )
