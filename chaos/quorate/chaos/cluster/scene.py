"""Where faults happen: a cluster, what may be lost, and who is being tampered with already.

Faults overlap, and each undoes itself. So that they do not undo each other's work, a fault holds every
machine that it stops, starts or damages until it is done with it, and takes only machines that nobody holds.
Links are cut as often as somebody wants them cut, and are whole when everybody has let go.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from quorate.chaos.cluster.budget import FaultBudget
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.history.history import History
from quorate.chaos.invariants.demands import Demands
from quorate.chaos.sim.network import LinkFaults
from quorate.client.admin import AsyncAdmin
from quorate.metadata.image import MetadataImage

__all__ = ["LONG_S_RANGE", "MOMENT_S_RANGE", "SHORT_S_RANGE", "Scene"]

MOMENT_S_RANGE: Final = (0.0, 0.2)
SHORT_S_RANGE: Final = (0.1, 0.8)
#: beyond a session
LONG_S_RANGE: Final = (1.3, 2.0)


class Scene:
    """``image``: see the budget."""

    def __init__(
        self,
        cluster: SimCluster,
        plan: Plan,
        history: History,
        demands: Demands,
        image: Callable[[], MetadataImage],
    ) -> None:
        self.cluster = cluster
        self.plan = plan
        self.history = history
        #: told of what operators change
        self.demands = demands
        self.image = image
        self.budget = FaultBudget(cluster, plan.topics, image)
        #: topics whose old records were allowed to go
        self.may_delete: dict[str, None] = {}
        self._held: dict[str, None] = {}
        self._cuts: Counter[tuple[str, str]] = Counter()

    async def rest(self, rng: random.Random, seconds: tuple[float, float]) -> None:
        await self.cluster.clock.sleep(rng.uniform(*seconds))

    # -- machines

    def is_held(self, machine: SimMachine) -> bool:
        return machine.name in self._held

    def free(self, machines: Iterable[SimMachine]) -> list[SimMachine]:
        """Those that run, and that nobody holds."""
        return [each for each in machines if each.is_running and not self.is_held(each)]

    @contextmanager
    def holding(self, machines: Sequence[SimMachine]) -> Iterator[None]:
        """Afterwards they run, if nobody has taken them for something else."""
        names = [each.name for each in machines]
        assert not any(name in self._held for name in names)
        self._held.update(dict.fromkeys(names))
        try:
            yield
        finally:
            for name in names:
                del self._held[name]
        # Not when the run is being ended: a process that is started then would outlive it.
        for machine in machines:
            self.bring_back(machine)

    def bring_back(self, machine: SimMachine) -> None:
        if machine.is_paused:
            machine.resume()
        elif not machine.is_running:
            machine.start()

    @contextmanager
    def any_of(
        self,
        rng: random.Random,
        machines: Iterable[SimMachine],
        *,
        may: Callable[[SimMachine], bool] = lambda _: True,
    ) -> Iterator[SimMachine | None]:
        """One that is free and to which it may be done, held for so long; None: there is none."""
        candidates = self.free(machines)
        rng.shuffle(candidates)
        machine = next((each for each in candidates if may(each)), None)
        if machine is None:
            yield None
            return
        with self.holding([machine]):
            yield machine

    # -- links

    @contextmanager
    def cut(self, links: Iterable[tuple[str, str]]) -> Iterator[None]:
        """One way each."""
        wanted = list(dict.fromkeys(links))
        network = self.cluster.network
        for link in wanted:
            self._cuts[link] += 1
            network.block(*link)
        try:
            yield
        finally:
            for link in wanted:
                self._cuts[link] -= 1
                if self._cuts[link] == 0:
                    network.unblock(*link)

    @contextmanager
    def worse(self, links: Iterable[tuple[str, str]], faults: LinkFaults) -> Iterator[None]:
        """Of faults that overlap the last one counts, until one of them ends."""
        wanted = list(links)
        for source, target in wanted:
            self.cluster.network.set_faults(source, target, faults)
        try:
            yield
        finally:
            for source, target in wanted:
                self.cluster.network.set_faults(source, target, None)

    # -- operators

    def admin(self, rng: random.Random, *, at: SimMachine | None = None) -> AsyncAdmin:
        """``at``: the broker to begin with."""
        bootstrap = [] if at is None else [at.address]
        return self.cluster.admin(rng=random.Random(rng.getrandbits(64)), bootstrap=bootstrap)
