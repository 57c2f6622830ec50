"""One machine of a simulated cluster: its disk and its clock outlive the processes that run on it.

The process is the real node, unchanged. What happens to it is what happens to processes: it is killed or
paused between any two of its turns, resumed, restarted; the power fails and the disk forgets what was not
synced.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from quorate.broker.broker import Broker
from quorate.chaos.sim.clock import SimClock, Simulation
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import ProcessDied
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.process import SimProcess
from quorate.chaos.sim.transport import SimTransport
from quorate.controller.controller import Controller
from quorate.core.config import NodeConfig
from quorate.errors import QuorateError
from quorate.node.node import Node, Surroundings

__all__ = ["SimMachine"]

#: what a device takes to make something durable
_SYNC_DELAY_S: Final = 0.002


class SimMachine:
    """``on_change``: called when another process runs, or none any more, and when the disk is harmed."""

    def __init__(
        self,
        simulation: Simulation,
        network: SimNetwork,
        name: str,
        config: NodeConfig,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self.name = name
        self.config = config
        self.disk = SimDisk(sync_delay_s=_SYNC_DELAY_S)
        self.disk.on_harm = on_change
        self.clock = SimClock(simulation.loop)
        #: of the process that runs, once it listens
        self.node: Node | None = None
        #: what the last process ended with by itself; None: it did not
        self.failure: BaseException | None = None
        #: all that a process of this machine ended with, and that was no error of its own kind
        self.crashes: list[Exception] = []
        self.starts = 0
        self._simulation = simulation
        self._network = network
        self._on_change = on_change
        self._process: SimProcess | None = None
        self._main: asyncio.Task[None] | None = None
        self._stop_requested = asyncio.Event()
        self._ready = asyncio.Event()

    @property
    def address(self) -> str:
        return str(self.config.listeners[0])

    @property
    def broker(self) -> Broker | None:
        """Of the process that runs, once it listens; None also where the machine is none."""
        return None if self.node is None else self.node.broker

    @property
    def controller(self) -> Controller | None:
        """As ``broker``."""
        return None if self.node is None else self.node.controller

    @property
    def is_running(self) -> bool:
        """Paused or not."""
        return self._process is not None

    @property
    def is_paused(self) -> bool:
        return self._process is not None and self._process.is_frozen

    async def ready(self) -> None:
        """Returns once the node is: a broker serves, a controller listens."""
        await self._ready.wait()

    @property
    def is_ready(self) -> bool:
        return self.is_running and self._ready.is_set()

    # -- what happens to it

    def start(self) -> None:
        assert not self.is_running
        self.starts += 1
        self.failure = None
        self._ready = asyncio.Event()
        self._stop_requested = asyncio.Event()
        process = self._process = SimProcess(f"{self.name}#{self.starts}")
        self._main = process.start(self._run(process))

    async def stop(self) -> None:
        """As SIGTERM; returns when the process has ended."""
        assert self._main is not None
        self._stop_requested.set()
        await asyncio.wait([self._main])

    def kill(self) -> None:
        """As kill -9: what is in the page cache stays there, and what is under way may arrive."""
        self._end_process()
        self._network.process_died(self.name)
        self.disk.crash()

    def lose_power(self, rng: random.Random) -> None:
        """What was not synced is gone, without a trace; or any part of it is gone, torn or there still."""
        if self.is_running:
            self._end_process()
        self._network.node_died(self.name)
        self.disk.power_loss(rng if rng.random() < 0.5 else None)

    def lose_page_cache(self) -> None:
        """The volume goes and comes back while nobody uses it; the machine stays up."""
        assert not self.is_running
        self.disk.lose_page_cache()

    def wipe(self) -> None:
        assert not self.is_running
        self.disk.wipe()

    def pause(self) -> None:
        assert self._process is not None
        self._process.freeze()

    def resume(self) -> None:
        assert self._process is not None
        self._process.thaw(self._simulation.loop)

    @contextmanager
    def ambushed(self, turns: int, spring: Callable[[], None]) -> Iterator[None]:
        """``spring`` at the last of so many turns of the process that runs now, if they come in time."""
        process = self._process
        assert process is not None

        def spring_if_it_runs() -> None:
            # What a process that has ended by itself leaves behind has turns too.
            if self._process is process:
                spring()

        process.ambush(turns, spring_if_it_runs)
        try:
            yield
        finally:
            process.disarm()

    # -- the process

    async def _run(self, process: SimProcess) -> None:
        def die(reason: str) -> NoReturn:
            # A process that was killed before is only being unwound.
            if self._process is process:
                self.kill()
                self.failure = RuntimeError(reason)
            raise ProcessDied

        surroundings = Surroundings(
            clock=self.clock,
            disk=self.disk,
            transport=SimTransport(self._network, self.name, requests_max=self.config.queued_max_requests),
            random_bytes=self._simulation.rng.randbytes,
            on_fatal=die,
        )
        try:
            node = await Node.start(self.config, surroundings)
            self.node = node
            self._on_change()
            try:
                await node.run(self._stop_requested, on_ready=self._ready.set)
            finally:
                await node.stop()
        except QuorateError as error:
            self.failure = error
        except Exception as error:  # noqa: BLE001  # whatever it is: a process ends with a traceback then
            self.failure = error
            self.crashes.append(error)
        finally:
            if self._process is process:
                self._forget_process()

    def _end_process(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._forget_process()

    def _forget_process(self) -> None:
        self._process = None
        self._main = None
        self.node = None
        self._on_change()
