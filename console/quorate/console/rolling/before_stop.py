"""What ``quorate node safe-to-stop`` asks: a node about itself, before somebody ends it.

An orchestrator that replaces nodes one after another knows whether those that it has *replaced* are ready. It
does not look at the others: one of them may have died meanwhile, and then the next replacement is the
second loss. The node itself can ask the cluster, and wait.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quorate.client.impatient_admin import connect
from quorate.client.quorum_objections import quorum_objections
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from quorate.client.admin_calls import AdminCalls
    from quorate.core.config import NodeConfig

__all__ = ["StoppingNode", "objections_to_stop", "wait_until_safe"]

_POLL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class StoppingNode:
    id: int
    roles: tuple[str, ...]
    #: where it answers by itself
    address: str

    @property
    def name(self) -> str:
        return f"node {self.id}"

    @classmethod
    def of(cls, config: NodeConfig) -> StoppingNode:
        """On this machine, whatever it advertises to others."""
        listener = config.listeners[0]
        host = "127.0.0.1" if listener.is_wildcard else listener.host
        return cls(config.node_id, tuple(role.value for role in config.node_roles), f"{host}:{listener.port}")


async def wait_until_safe(node: StoppingNode, timeout_s: float) -> list[str]:
    """What still speaks against it at the end; nothing: it may stop."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            async with connect(node.address) as connection:
                objections = await objections_to_stop(node, connection)
        except QuorateError as error:
            # Whom nobody can ask is not known to be safe: without a quorum no leader is moved either.
            objections = [f"{error.code}: {error.message}"]
        if not objections or time.monotonic() + _POLL_S > deadline:
            return objections
        await asyncio.sleep(_POLL_S)


async def objections_to_stop(node: StoppingNode, connection: AdminCalls) -> list[str]:
    objections: list[str] = []
    if "broker" in node.roles:
        answer = await connection.check_broker_restart(node.id)
        objections += [] if answer.is_safe else answer.reasons
    quorum = await connection.describe_quorum()
    return objections + quorum_objections(node.id, quorum, name=node.name)
