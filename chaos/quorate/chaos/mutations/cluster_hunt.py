"""Hunting in the whole cluster: real controllers, brokers and clients in the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace

from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.cluster.run import run_plan
from quorate.chaos.mutations.hunts import caught
from quorate.chaos.mutations.mutation import Catch
from quorate.chaos.sim.clock import SimulationStuck
from quorate.core.config import Durability

__all__ = ["ClusterHunt"]


@dataclass(frozen=True, slots=True)
class ClusterHunt:
    """Under the faults that the mutation does not survive, and nothing else; the rest is drawn by the seed.

    A mix of everything would find it too, and take longer: that is what the campaigns are for.
    """

    faults: tuple[Fault, ...]
    durability: Durability = Durability.REPLICATED
    #: nobody but clients that compete for the end of one log with conditional appends
    is_competition: bool = False
    #: three copies of every partition and MinISR 2, the default; False: as drawn
    is_usual: bool = True
    seeds_max: int = 60

    @property
    def where(self) -> str:
        faults = ", ".join(self.faults).replace("_", " ")
        return (
            f"whole cluster, competing clients: {faults}"
            if self.is_competition
            else f"whole cluster: {faults}"
        )

    def plan(self, seed: int) -> Plan:
        plan = Plan.draw(seed, kinds=self.faults, durability=self.durability)
        if self.is_competition:
            plan = plan.only_competing()
        if not self.is_usual:
            return plan
        topics = (replace(each, replication_factor=3, min_insync_replicas=2) for each in plan.topics)
        return replace(plan, topics=tuple(topics))

    def trial(self, seed: int) -> Catch | None:
        try:
            run_plan(self.plan(seed))
        except (AssertionError, SimulationStuck) as error:
            return caught(error)
        return None
