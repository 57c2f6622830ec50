"""Hunting in the whole cluster: real controllers, brokers and clients in the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.plan import Plan
from quorate.chaos.cluster.run import run_plan
from quorate.chaos.mutations.hunts import caught
from quorate.chaos.mutations.mutation import Catch
from quorate.chaos.sim.loop import SimulationStuck
from quorate.core.config import Durability

__all__ = ["ClusterHunt"]

#: MinISR by default
_USUAL: Final = 2


@dataclass(frozen=True, slots=True)
class ClusterHunt:
    """Under the faults that the mutation does not survive, and nothing else; the rest is drawn by the seed.

    A mix of everything would find it too, and take longer: that is what the campaigns are for.
    """

    faults: tuple[Fault, ...]
    durability: Durability = Durability.REPLICATED
    #: nobody but clients that compete for the end of one log with conditional appends
    is_competition: bool = False
    #: members of a group are there, too, who come and go
    is_grouped: bool = False
    is_compacted: bool = False
    #: of three copies of every partition. With 3, whoever is away waits in the ELR, and must be complete.
    min_insync_replicas: int = _USUAL
    #: Controllers are machines of their own, as they are where the disk of a broker may be lost or rot.
    is_apart: bool = False
    #: several times what any has taken so far: a change of the code shifts what a seed comes to
    seeds_max: int = 150

    @property
    def where(self) -> str:
        who = ", competing clients" if self.is_competition else ""
        who += ", a group" if self.is_grouped else ""
        who += ", compaction" if self.is_compacted else ""
        copies = "" if self.min_insync_replicas == _USUAL else f", MinISR {self.min_insync_replicas}"
        faults = ", ".join(self.faults).replace("_", " ")
        return f"whole cluster{who}{copies}: {faults}"

    def plan(self, seed: int) -> Plan:
        plan = Plan.draw(seed, kinds=self.faults, durability=self.durability).plain()
        if self.is_competition:
            plan = plan.only_competing()
        if self.is_grouped:
            plan = plan.with_group()
        if self.is_compacted:
            plan = plan.with_compaction()
        if self.is_apart:
            plan = replace(plan, is_combined=False)
        topics = (
            replace(each, replication_factor=3, min_insync_replicas=self.min_insync_replicas)
            for each in plan.topics
        )
        return replace(plan, topics=tuple(topics))

    def prepare(self) -> None:
        pass

    def trial(self, seed: int) -> Catch | None:
        try:
            run_plan(self.plan(seed))
        except (AssertionError, SimulationStuck) as error:
            return caught(error)
        return None
