"""Administration by fixed addresses, for one command or one step of a drill.

An impatient admin lives briefly and asks the nodes that it was given, and no others: a drill means that very
node, and a person at a terminal wants to hear soon that nobody is there. So one silent round of them ends a
call, while an election is waited for. `AsyncAdmin` is for programs that live longer than a node does.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from quorate.client.admin_calls import AdminCalls
from quorate.client.bootstrap import parse_bootstrap
from quorate.client.failover import Failover, FixedNodes
from quorate.client.transport import client_transport
from quorate.core.clock import Clock, SystemClock
from quorate.core.transport import Transport

__all__ = ["ImpatientAdmin", "connect"]


def connect(bootstrap: str) -> ImpatientAdmin:
    """To a cluster on the network, by gRPC."""
    return ImpatientAdmin(client_transport(), parse_bootstrap(bootstrap))


class ImpatientAdmin(AdminCalls):
    """Use as an asynchronous context manager."""

    def __init__(
        self,
        transport: Transport,
        addresses: Sequence[str],
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """The clock and rng are for simulations."""
        self._nodes = FixedNodes(transport, addresses)
        failover = Failover(
            self._nodes, clock=clock or SystemClock(), rng=rng or random.Random(), is_patient=False
        )
        super().__init__(failover, os.urandom if rng is None else rng.randbytes)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._nodes.close()
