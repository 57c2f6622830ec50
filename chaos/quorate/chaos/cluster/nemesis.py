"""What goes wrong in a simulated cluster: one fault after the other, drawn from the seed.

Within the fault model that the project states: any number of processes are killed or paused and any link
fails. Of what is only replicated, MinISR - 1 replicas may be lost at once, that is one with the default
MinISR of two: the power or a disk fails on one broker at a time, and on the next one only when every
partition has all its replicas in sync again. What is synced survives wherever the power fails.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final

from quorate.chaos.cluster.checks import replicas_of
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.client.admin import AsyncAdmin
from quorate.core.ids import BrokerId, TopicPartition
from quorate.core.logging import get_logger
from quorate.errors import QuorateError

__all__ = ["Fault", "Nemesis"]

log = get_logger(__name__)

_CALM_S: Final = (0.1, 1.5)
_MOMENT_S: Final = (0.0, 0.5)
_SHORT_S: Final = (0.2, 2.0)
#: beyond a session
_LONG_S: Final = (3.5, 6.0)


class Fault(StrEnum):
    """What may happen; each is a method of the nemesis."""

    KILL_BROKER = "kill_broker"
    KILL_BROKER_AND_RESTART_AT_ONCE = "kill_broker_and_restart_at_once"
    KILL_CONTROLLER = "kill_controller"
    KILL_ALL_BROKERS = "kill_all_brokers"
    KILL_ONE_BY_ONE = "kill_one_by_one"
    LOSE_POWER = "lose_power"
    LOSE_POWER_EVERYWHERE = "lose_power_everywhere"
    LOSE_DISK = "lose_disk"
    PAUSE = "pause"
    CUT_OFF = "cut_off"
    CUT_ONE_WAY = "cut_one_way"
    LOSE_ANSWERS = "lose_answers"
    STOP_CLEANLY = "stop_cleanly"
    MOVE_REPLICAS = "move_replicas"
    DRAIN = "drain"


#: what operators do: only where a run asks for it, so that a seed stands for the same mix as ever
_PLANNED: Final = (Fault.MOVE_REPLICAS, Fault.DRAIN)


class Nemesis:
    """``is_whole``: whether every partition has all its replicas in sync. ``is_synced``: durability=fsync.

    ``faults``: those that are drawn from. By default each seed has a mix of its own: a few kinds of faults,
    often repeated, find more than all of them rarely.
    """

    def __init__(
        self,
        cluster: SimCluster,
        rng: random.Random,
        is_whole: Callable[[], bool],
        *,
        is_synced: bool,
        faults: Sequence[Fault] = (),
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._is_whole = is_whole
        self._is_synced = is_synced
        unplanned = [fault for fault in Fault if fault not in _PLANNED]
        chosen = faults or rng.sample(unplanned, k=rng.randint(2, 5))
        self._faults: list[Callable[[], Awaitable[str | None]]] = [
            getattr(self, f"_{fault}") for fault in chosen
        ]
        #: what was done, for reports
        self.story: list[str] = []

    async def run(self, *, until_s: float) -> None:
        """Fault after fault; whole again when it returns."""
        clock = self._cluster.clock
        while clock.monotonic() < until_s:
            await clock.sleep(self._rng.uniform(*_CALM_S))
            began = clock.monotonic()
            what = await self._rng.choice(self._faults)()
            if what is not None:
                self.story.append(f"{began:8.3f} {what}")
        self._cluster.network.heal()
        for machine in self._cluster.machines.values():
            self._bring_back(machine)

    def _bring_back(self, machine: SimMachine) -> None:
        if machine.is_paused:
            machine.resume()
        elif not machine.is_running:
            machine.start()

    def _any_broker(self) -> SimMachine:
        return self._rng.choice(self._cluster.brokers)

    async def _for(self, seconds: tuple[float, float]) -> None:
        await self._cluster.clock.sleep(self._rng.uniform(*seconds))

    # -- the faults: each undoes itself, and says what it did

    async def _kill_broker(self) -> str | None:
        machine = self._any_broker()
        if not machine.is_running:
            return None
        machine.kill()
        await self._for(_SHORT_S)
        machine.start()
        return f"killed {machine.name}"

    async def _kill_broker_and_restart_at_once(self) -> str | None:
        machine = self._any_broker()
        if not machine.is_running:
            return None
        machine.kill()
        machine.start()
        return f"killed {machine.name}, back at once"

    async def _kill_controller(self) -> str | None:
        machine = self._rng.choice(self._cluster.controllers)
        if not machine.is_running:
            return None
        machine.kill()
        await self._for(_SHORT_S)
        machine.start()
        return f"killed {machine.name}"

    async def _kill_all_brokers(self) -> str | None:
        brokers = [each for each in self._cluster.brokers if each.is_running]
        for machine in brokers:
            machine.kill()
        for machine in self._rng.sample(brokers, k=len(brokers)):
            await self._for(_SHORT_S)
            machine.start()
        return "killed every broker"

    async def _kill_one_by_one(self) -> str | None:
        """The ISR shrinks to the last one, and there the power fails. Any of them may be back first."""
        brokers = [each for each in self._cluster.brokers if each.is_running]
        if not brokers:
            return None
        *killed, last = self._rng.sample(brokers, k=len(brokers))
        is_power_lost = self._may_lose_something()
        for machine in killed:
            if machine.is_running:
                machine.kill()
            await self._for(_SHORT_S)
        if last.is_running and is_power_lost:
            last.lose_power()
        elif last.is_running:
            last.kill()
        for machine in self._rng.sample(brokers, k=len(brokers)):
            await self._for(_SHORT_S)
            self._bring_back(machine)
        names = " ".join(each.name for each in (*killed, last))
        return f"killed one by one: {names}{', which lost its power' if is_power_lost else ''}"

    def _may_lose_something(self) -> bool:
        """What is not synced, on one broker."""
        return self._is_synced or self._is_whole()

    async def _lose_power(self) -> str | None:
        machine = self._any_broker()
        if not machine.is_running or not self._may_lose_something():
            return None
        machine.lose_power()
        await self._for(_SHORT_S)
        machine.start()
        return f"power failed at {machine.name}"

    async def _lose_power_everywhere(self) -> str | None:
        """Controllers too: their log is always synced."""
        if not self._is_synced:
            return None
        machines = list(self._cluster.machines.values())
        for machine in machines:
            if machine.is_running:
                machine.lose_power()
        for machine in self._rng.sample(machines, k=len(machines)):
            self._bring_back(machine)
            await self._for(_MOMENT_S)
        return "power failed everywhere"

    async def _lose_disk(self) -> str | None:
        """Of a broker that is nothing else: a voter without its votes has to be replaced by an operator."""
        machine = self._any_broker()
        if machine.config.is_controller or not machine.is_running or not self._is_whole():
            return None
        machine.kill()
        machine.wipe()
        await self._for(_SHORT_S)
        machine.start()
        return f"killed {machine.name} and wiped its disk"

    async def _pause(self) -> str | None:
        machine = self._rng.choice(list(self._cluster.machines.values()))
        if not machine.is_running:
            return None
        machine.pause()
        await self._for(self._rng.choice((_SHORT_S, _LONG_S)))
        if machine.is_paused:
            machine.resume()
        return f"paused {machine.name}"

    async def _cut_off(self) -> str | None:
        """One machine from all others, clients among them or not."""
        machine = self._rng.choice(list(self._cluster.machines.values()))
        others = [name for name in self._cluster.machines if name != machine.name]
        self._cluster.network.partition([machine.name], others)
        await self._for(self._rng.choice((_SHORT_S, _LONG_S)))
        self._cluster.network.heal()
        return f"cut off {machine.name}"

    async def _cut_one_way(self) -> str | None:
        source, target = self._rng.sample(list(self._cluster.machines), k=2)
        self._cluster.network.block(source, target)
        await self._for(self._rng.choice((_SHORT_S, _LONG_S)))
        self._cluster.network.heal()
        return f"cut {source} -> {target}"

    async def _lose_answers(self) -> str | None:
        """What clients ask of one broker gets there, its answers do not; then the connections break."""
        machine = self._any_broker()
        for client in self._cluster.clients:
            self._cluster.network.block(machine.name, client)
        await self._for(_MOMENT_S)
        for client in self._cluster.clients:
            self._cluster.network.break_connections(machine.name, client)
            self._cluster.network.unblock(machine.name, client)
        return f"lost the answers of {machine.name}"

    async def _stop_cleanly(self) -> str | None:
        machine = self._any_broker()
        if not machine.is_running:
            return None
        await machine.stop()
        await self._for(_SHORT_S)
        if not machine.is_running:
            machine.start()
        return f"restarted {machine.name}"

    # -- what operators do

    async def _move_replicas(self) -> str | None:
        """Away from one broker, which may hear of it late, and back; sometimes called off under way."""
        partition = self._rng.choice(sorted(replicas_of(self._cluster)))
        brokers = [each.config.node_id for each in self._cluster.brokers]
        target = self._rng.sample(brokers, k=len(brokers) - 1)
        late = self._cluster.broker(next(each for each in brokers if each not in target))
        deaf_to = self._deafen(late)
        is_called_off = self._rng.random() < 0.3
        async with self._admin() as admin:
            with contextlib.suppress(QuorateError):
                await admin.reassign_partitions({partition: target})
                await self._for(_SHORT_S)
                if is_called_off:
                    await admin.reassign_partitions({partition: None})
            self._cluster.network.heal()
            await self._move_for_sure(admin, partition, self._rng.sample(brokers, k=len(brokers)))
        what = f"moved {partition} to {target} and back, {late.name} deaf to {' '.join(deaf_to)}"
        return f"{what}, called off" if is_called_off else what

    async def _move_for_sure(
        self, admin: AsyncAdmin, partition: TopicPartition, target: Sequence[BrokerId]
    ) -> None:
        while True:
            with contextlib.suppress(QuorateError):
                await admin.reassign_partitions({partition: target})
                if not await admin.list_reassignments():
                    return
            await self._for(_MOMENT_S)

    async def _drain(self) -> str | None:
        """The broker may hear of it late."""
        machine = self._any_broker()
        deaf_to = self._deafen(machine)
        async with self._admin() as admin:
            with contextlib.suppress(QuorateError):
                await admin.drain_broker(machine.config.node_id)
            await self._for(_SHORT_S)
            self._cluster.network.heal()
            with contextlib.suppress(QuorateError):
                await admin.drain_broker(machine.config.node_id, cancel=True)
        return f"drained {machine.name}, deaf to {' '.join(deaf_to)}"

    def _deafen(self, machine: SimMachine) -> list[str]:
        """Two controllers do not reach it: it may follow one of them, and speak to the third."""
        others = [each.name for each in self._cluster.controllers if each is not machine]
        deaf_to = self._rng.sample(others, k=2)
        for name in deaf_to:
            self._cluster.network.block(name, machine.name)
        return deaf_to

    def _admin(self) -> AsyncAdmin:
        cluster = self._cluster
        return AsyncAdmin(
            cluster.bootstrap,
            transport=cluster.client_transport(),
            clock=cluster.clock,
            rng=cluster.client_rng(),
        )
