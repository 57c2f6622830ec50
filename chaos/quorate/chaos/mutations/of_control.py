"""The control: a whole implementation that is known to be broken, put behind the same invariants.

Nothing of ours is patched here: stock pysyncobj takes the place of our core in the stories of
``quorate.chaos.raft_control``, and has to be caught in each of them. If it is not, the invariants of the Raft
simulator have gone blind.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Final

from quorate.chaos.mutations.hunts import SeededHunt
from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.raft_control.scenarios import SCENARIOS, Scenario
from quorate.chaos.raft_control.world import Verdict, run_own, run_stock
from quorate.chaos.sim.patch import Patch

__all__ = ["MUTATIONS"]

_SEEDS_MAX: Final = 10


#: ours, unless a mutation says otherwise
_run_quorum: Callable[[int, Scenario], Verdict] = run_own


def _judge(scenario: Scenario, seed: int) -> None:
    with warnings.catch_warnings():
        # pysyncobj leaves files open for the garbage collector to find.
        warnings.simplefilter("ignore", ResourceWarning)
        verdict = _run_quorum(seed, scenario)
    if verdict.violation is not None:
        raise verdict.violation


def _take_pysyncobj(patch: Patch) -> None:
    patch.setattr(sys.modules[__name__], "_run_quorum", run_stock)


def _control(scenario: Scenario) -> Mutation:
    return Mutation(
        name=f"stock-pysyncobj-{scenario.name}",
        rules=(38,),
        what=f"The quorum is pysyncobj 0.3.17 as it comes: {scenario.about}.",
        apply=_take_pysyncobj,
        hunt=SeededHunt("control", partial(_judge, scenario), seeds_max=_SEEDS_MAX),
    )


MUTATIONS: Final[tuple[Mutation, ...]] = tuple(map(_control, SCENARIOS))
