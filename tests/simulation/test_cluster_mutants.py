"""The proof of the proof: a whole cluster with one safety rule switched off is found out.

Each mutant runs under the faults that it does not survive, and is to be seen within a few seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import pytest

from quorate.chaos.cluster.nemesis import Fault
from quorate.chaos.cluster.run import run_seed
from quorate.core.config import Durability
from tests.simulation import cluster_mutants


class Case(NamedTuple):
    mutate: Callable[[pytest.MonkeyPatch], None]
    faults: tuple[Fault, ...]
    durability: Durability = Durability.REPLICATED


CASES: Final = {
    "rule 8": Case(
        cluster_mutants.truncate_to_the_high_watermark, (Fault.KILL_BROKER, Fault.KILL_ALL_BROKERS)
    ),
    "rule 13": Case(cluster_mutants.commit_what_the_leader_has, (Fault.CUT_OFF,)),
    "rule 14": Case(cluster_mutants.commit_with_too_few, (Fault.KILL_ONE_BY_ONE,)),
    "rule 16": Case(
        cluster_mutants.acknowledge_before_the_sync, (Fault.LOSE_POWER_EVERYWHERE,), Durability.FSYNC
    ),
    "rule 30": Case(cluster_mutants.trust_the_log_after_a_loss_of_power, (Fault.KILL_ONE_BY_ONE,)),
    "rule 49": Case(cluster_mutants.forget_producers, (Fault.LOSE_ANSWERS,)),
}


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_that_is_switched_off_is_missed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[rule]
    case.mutate(monkeypatch)
    run = partial(run_seed, faults=case.faults, durability=case.durability)
    assert cluster_mutants.first_violation(run, seeds_max=12) is not None
