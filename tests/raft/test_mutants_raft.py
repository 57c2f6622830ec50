"""Each rule of the core is switched off in turn, and the simulator must notice, within the seeds that we run.

A check that cannot fail proves nothing. The mutants are in ``raft_mutants``; that the simulator is content
with the core as it is, over the same seeds and more, is in ``test_simulation_seeds``.
"""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.raft.runs import run_seed
from tests.raft.raft_mutants import MUTANTS, Mutant
from tests.raft.test_simulation_seeds import SEEDS

#: most need one or two; if one needs more than this, the simulator is too kind
SEEDS_PER_MUTANT: Final = 150


@pytest.mark.parametrize("mutate", MUTANTS, ids=[mutate.__name__.replace("_", " ") for mutate in MUTANTS])
def test_mutant_is_noticed(mutate: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    assert any(run_seed(seed).failure for seed in range(1, min(SEEDS, SEEDS_PER_MUTANT) + 1))
