"""Transport over the simulated network.

Messages are serialized on one side and parsed on the other, so that two nodes never share an object,
and handlers run through the same dispatch as on the real network: a program cannot tell the difference,
except that here the network can be told to fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from quorate.chaos.sim.channel import SimChannel
from quorate.chaos.sim.network import SimNetwork, node_of
from quorate.chaos.sim.server import SimServer
from quorate.core.transport import Service
from quorate.errors import CannotListen
from quorate.rpc.dispatch import Admissions

__all__ = ["SimTransport"]

_CALLS_MAX: Final = 10_000


class SimTransport:
    """The network as ``node`` sees it. An address is a node's name and a port."""

    def __init__(
        self,
        network: SimNetwork,
        node: str,
        *,
        requests_max: int = _CALLS_MAX,
        streams_max: int = _CALLS_MAX,
        internal_calls_max: int = _CALLS_MAX,
    ) -> None:
        self._network = network
        self._node = node
        self._requests_max = requests_max
        self._streams_max = streams_max
        self._internal_calls_max = internal_calls_max

    def connect(self, address: str) -> SimChannel:
        return SimChannel(self._network, self._node, address)

    async def serve(self, address: str, services: Sequence[Service], *, serving: bool = True) -> SimServer:
        if node_of(address) != self._node:
            raise CannotListen(f"cannot listen on {address}: this is {self._node}", address=address)
        admissions = Admissions(
            requests_max=self._requests_max,
            streams_max=self._streams_max,
            internal_calls_max=self._internal_calls_max,
        )
        server = SimServer(self._network, address, services, admissions)
        await server.set_serving(serving=serving)
        return server

    async def is_refused(self, address: str, *, timeout_s: float) -> bool:
        network, node, target = self._network, self._node, node_of(address)
        answer: asyncio.Future[bool] = network.loop.create_future()

        def knock() -> None:
            hear = be_refused if network.listener_at(address, asking=node) is None else be_accepted
            network.transmit(network.link(target, node), hear, not_before=0.0)

        def be_refused() -> None:
            if not answer.done():
                answer.set_result(True)

        def be_accepted() -> None:
            if not answer.done():
                answer.set_result(False)

        network.transmit(network.link(node, target), knock, not_before=0.0)
        try:
            # Not wait_for: before Python 3.12 it forgets a cancellation that comes together with the answer.
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            return False
