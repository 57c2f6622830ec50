"""One node after the other: look, restart, wait until all is as it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quorate.client.impatient_admin import connect
from quorate.client.quorum_objections import quorum_objections
from quorate.console.output import CodedError
from quorate.console.rolling.restarters import Restarter
from quorate.console.rolling.safety import RollingNode, next_node, unsettled
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from quorate.client.admin_calls import AdminCalls

__all__ = ["NotSettled", "Restarted", "Roll", "UnsafeToRestart"]

_POLL_S: Final = 0.25
#: It has to look well for this long: a node that has just stopped may pass for its former self for a moment.
_STEADY_S: Final = 1.0
#: Of whom nothing is known to be wrong, somebody hears this much later what is waited for.
_SILENCE_S: Final = 5.0


class UnsafeToRestart(CodedError):
    """Nothing was begun with the node that the message names."""

    code = "UNSAFE_TO_RESTART"

    def __init__(self, message: str, what_to_do: str) -> None:
        super().__init__(message)
        self.what_to_do = what_to_do


class NotSettled(CodedError):
    """A node was restarted, and the cluster is not as it was."""

    code = "NOT_SETTLED"

    def __init__(self, name: str, why: Sequence[str], left: Sequence[str], timeout_s: float) -> None:
        super().__init__(f"{timeout_s:g} s after the restart of {name}: {'; '.join(why)}")
        self.what_to_do = (
            f"look into the log of {name}, and at `quorate cluster health`; when it is healthy, run it again "
            f"for those that are left: {', '.join(left) or 'none'}"
        )


@dataclass(frozen=True, slots=True)
class Restarted:
    name: str
    id: int
    #: until it had stopped and was started
    restart_s: float
    #: after that, until everything was in sync
    settle_s: float


class Roll:
    """``tell`` gets a line for each step."""

    def __init__(
        self,
        restarter: Restarter,
        *,
        timeout_s: float,
        is_forced: bool,
        tell: Callable[[str], None],
        connected: Callable[[str], AbstractAsyncContextManager[AdminCalls]] = connect,
    ) -> None:
        self._restarter = restarter
        self._timeout_s = timeout_s
        self._is_forced = is_forced
        self._tell = tell
        self._connected = connected

    async def run(self, nodes: Sequence[RollingNode]) -> list[Restarted]:
        left = {node.name: node for node in nodes}
        done: list[Restarted] = []
        if problems := await self._problems():
            raise UnsafeToRestart(
                f"the cluster is not healthy: {'; '.join(problems)}",
                "`quorate cluster health` says what to do; begin when it is healthy",
            )
        while left:
            node = next_node(left.values(), await self._controller_id())
            await self._check(node)
            del left[node.name]
            self._tell(f"{len(done) + 1}/{len(nodes)} {node.name}: stopping and starting it")
            restart_s, settle_s = await self._restart(node, list(left))
            done.append(Restarted(node.name, node.id, restart_s, settle_s))
            self._tell(
                f"{len(done)}/{len(nodes)} {node.name}: back after {restart_s:.1f} s, "
                f"all in sync after another {settle_s:.1f} s"
            )
        return done

    async def _restart(self, node: RollingNode, left: Sequence[str]) -> tuple[float, float]:
        began = time.monotonic()
        await self._restarter.restart(node.name)
        started = time.monotonic()
        await self._settled(node, left)
        return started - began, time.monotonic() - started

    async def _settled(self, node: RollingNode, left: Sequence[str]) -> None:
        began = time.monotonic()
        well_since: float | None = None
        told: list[str] = []
        while well_since is None or time.monotonic() - well_since < _STEADY_S:
            problems = await self._problems()
            now = time.monotonic()
            if not problems:
                well_since = well_since if well_since is not None else now
            else:
                well_since = None
                if now - began > self._timeout_s:
                    raise NotSettled(node.name, problems, left, self._timeout_s)
                if now - began > _SILENCE_S and problems != told:
                    self._tell(f"  waiting: {'; '.join(problems)}")
                    told = problems
            await asyncio.sleep(_POLL_S)

    async def _problems(self) -> list[str]:
        """Nobody who could be asked is a problem like others: it passes, or it does not."""
        try:
            async with self._connected(self._restarter.bootstrap) as connection:
                return unsettled(await connection.describe_cluster(), await connection.describe_quorum())
        except QuorateError as error:
            return [f"{error.code}: {error.message}"]

    async def _controller_id(self) -> int | None:
        async with self._connected(self._restarter.bootstrap) as connection:
            found = await connection.describe_cluster()
        return found.controller if found.HasField("controller") else None

    async def _check(self, node: RollingNode) -> None:
        objections: list[str] = []
        async with self._connected(self._restarter.bootstrap) as connection:
            if "broker" in node.roles:
                answer = await connection.check_broker_restart(node.id)
                objections += [] if answer.is_safe else answer.reasons
            objections += quorum_objections(node.id, await connection.describe_quorum(), name=node.name)
        if objections and not self._is_forced:
            raise UnsafeToRestart(
                f"{node.name}: {' '.join(objections)}",
                "give those topics more replicas (`quorate partition reassign`), or the quorum more voters; "
                "or accept it with --force",
            )
        for objection in objections:
            self._tell(f"  forced: {objection}")
