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
from quorate.node.interruption import telling_of_interruption

if TYPE_CHECKING:
    from quorate.client.admin_calls import AdminCalls
    from quorate.v1 import admin_pb2

__all__ = ["NotSettled", "Restarted", "Roll", "UnsafeToRestart"]

_POLL_S: Final = 0.25
#: It has to look well for this long: a voter that has just stopped may pass for its former self for a moment.
#: For brokers, whose sessions are longer than that, there is their epoch.
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


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A node that was restarted."""

    node: RollingNode
    #: before that; None: it was no broker, or not registered
    broker_epoch: int | None

    def is_back(self, cluster: admin_pb2.DescribeClusterResponse) -> bool:
        """A broker that is gone looks as before until its session lapses; a new process has a new epoch."""
        if self.broker_epoch is None:
            return True
        epoch = _broker_epoch(cluster, self.node)
        return epoch is not None and epoch > self.broker_epoch


def _broker_epoch(cluster: admin_pb2.DescribeClusterResponse, node: RollingNode) -> int | None:
    if "broker" not in node.roles:
        return None
    return next((each.broker_epoch for each in cluster.brokers if each.broker_id == node.id), None)


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
                f"nothing was restarted: {'; '.join(problems)}",
                "`quorate cluster health` says what to do; begin when it is healthy and no partition moves: "
                "moves end by themselves, or are called off by `quorate partition reassign --cancel`",
            )
        await self._check_all(nodes)
        while left:
            before = await self._look()
            node = next_node(left.values(), before.controller if before.HasField("controller") else None)
            await self._check(node)
            del left[node.name]
            self._tell(f"{len(done) + 1}/{len(nodes)} {node.name}: stopping and starting it")
            try:
                restart_s, settle_s = await self._restart(node, before, list(left))
            except asyncio.CancelledError:
                self._tell(
                    f"{node.name} was started, and not waited for; not restarted: "
                    f"{', '.join(left) or 'none'}; `quorate cluster health` says when all is as before"
                )
                raise
            done.append(Restarted(node.name, node.id, restart_s, settle_s))
            self._tell(
                f"{len(done)}/{len(nodes)} {node.name}: back after {restart_s:.1f} s, "
                f"all in sync after another {settle_s:.1f} s"
            )
        return done

    async def _restart(
        self, node: RollingNode, before: admin_pb2.DescribeClusterResponse, left: Sequence[str]
    ) -> tuple[float, float]:
        began = time.monotonic()
        await telling_of_interruption(
            self._restarter.restart(node.name),
            lambda: self._tell(f"interrupted; {node.name} is not left stopped"),
        )
        started = time.monotonic()
        await self._settled(_Awaited(node, _broker_epoch(before, node)), left)
        return started - began, time.monotonic() - started

    async def _settled(self, awaited: _Awaited, left: Sequence[str]) -> None:
        began = time.monotonic()
        well_since: float | None = None
        told: list[str] = []
        while well_since is None or time.monotonic() - well_since < _STEADY_S:
            problems = await self._problems(awaited)
            now = time.monotonic()
            if not problems:
                well_since = well_since if well_since is not None else now
            else:
                well_since = None
                if now - began > self._timeout_s:
                    raise NotSettled(awaited.node.name, problems, left, self._timeout_s)
                if now - began > _SILENCE_S and problems != told:
                    self._tell(f"  waiting: {'; '.join(problems)}")
                    told = problems
            await asyncio.sleep(_POLL_S)

    async def _problems(self, awaited: _Awaited | None = None) -> list[str]:
        """Nobody who could be asked is a problem like others: it passes, or it does not."""
        try:
            async with self._connected(self._restarter.bootstrap) as connection:
                cluster = await connection.describe_cluster()
                moves = await connection.list_reassignments() if cluster.reassigning_partition_count else []
                problems = unsettled(cluster, await connection.describe_quorum(), moves)
        except QuorateError as error:
            return [f"{error.code}: {error.message}"]
        if awaited is not None and not awaited.is_back(cluster):
            problems.append(f"{awaited.node.name} has not registered again")
        return problems

    async def _look(self) -> admin_pb2.DescribeClusterResponse:
        async with self._connected(self._restarter.bootstrap) as connection:
            return await connection.describe_cluster()

    async def _check_all(self, nodes: Sequence[RollingNode]) -> None:
        """What can be known before the first one is touched: too few replicas or voters stay too few."""
        if self._is_forced:
            return
        found = {node.name: objections for node in nodes if (objections := await self._objections(node))}
        if found:
            (name, objections), *others = found.items()
            also = f" Not safe either: {', '.join(other for other, _ in others)}." if others else ""
            raise _unsafe(name, objections, also)

    async def _check(self, node: RollingNode) -> None:
        objections = await self._objections(node)
        if objections and not self._is_forced:
            raise _unsafe(node.name, objections)
        for objection in objections:
            self._tell(f"  forced: {objection}")

    async def _objections(self, node: RollingNode) -> list[str]:
        objections: list[str] = []
        async with self._connected(self._restarter.bootstrap) as connection:
            if "broker" in node.roles:
                answer = await connection.check_broker_restart(node.id)
                objections += [] if answer.is_safe else answer.reasons
            objections += quorum_objections(node.id, await connection.describe_quorum(), name=node.name)
        return objections


def _unsafe(name: str, objections: Sequence[str], also: str = "") -> UnsafeToRestart:
    return UnsafeToRestart(
        f"{name}: {' '.join(objections)}{also}",
        "give those topics more replicas (`quorate partition reassign`) or a smaller min.insync.replicas "
        "(`quorate topic alter`, `quorate cluster alter-config`), or the quorum more voters; or accept it "
        "with --force",
    )
