"""How a controller's node reaches the active controller for ``AdminForwarding``: it may be itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from quorate.core.clock import Clock
from quorate.core.transport import Channel, Transport
from quorate.errors import NoController, RequestTimedOut
from quorate.metadata.admin_forwarding import ADMINISTER, ATTEMPT_TIMEOUT_S, has_effect
from quorate.metadata.controller_calls import until_answered
from quorate.v1 import controller_pb2

__all__ = ["AdministeringNode"]

_RETRY_PAUSE_S: Final = 0.05

LocalAdministration = Callable[[str, bytes], Awaitable[bytes]]


class AdministeringNode:
    """A node with a voter of the quorum, which knows who leads."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        controller_address: Callable[[], str | None],
        administer_here: LocalAdministration,
        own_address: str,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._controller_address = controller_address
        self._administer_here = administer_here
        self._own_address = own_address
        self._channels: dict[str, Channel] = {}

    async def administer(self, method: str, request: bytes, deadline: float) -> bytes:
        return await until_answered(
            method,
            lambda timeout_s: self._attempt(method, request, timeout_s),
            clock=self._clock,
            deadline=deadline,
            attempt_s_max=ATTEMPT_TIMEOUT_S,
            pause_s=lambda: _RETRY_PAUSE_S,
            has_effect=has_effect(method),
        )

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def _attempt(self, method: str, request: bytes, timeout_s: float) -> bytes:
        address = self._controller_address()
        if address is None:
            raise NoController("nobody leads the metadata quorum right now")
        if address == self._own_address:
            return await self._attempt_here(method, request, timeout_s)
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._transport.connect(address)
        wrapped = controller_pb2.AdministerRequest(method=method, request=request)
        return (await channel.call(ADMINISTER, wrapped, timeout_s=timeout_s)).response

    async def _attempt_here(self, method: str, request: bytes, timeout_s: float) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._administer_here(method, request)
        except TimeoutError:
            raise RequestTimedOut(f"{method}: not done within {timeout_s:.1f} s") from None
