"""Each rule of the core is switched off in turn, and the simulator must notice, within the seeds that we run.

A check that cannot fail proves nothing. The mutants are in ``raft_mutants``; that the simulator is content
with the core as it is, over the same seeds and more, is in ``test_simulation_seeds``.
"""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.raft.runs import run_seed
from tests.raft import raft_mutants as mutants
from tests.raft.raft_mutants import MUTANTS, Mutant
from tests.raft.test_simulation_seeds import SEEDS

#: most need one or two; if one needs more than this, the simulator is too kind
SEEDS_PER_MUTANT: Final = 150

#: Where the rarest showed when they were last looked for, to save the time of finding them again. The search
#: starts there, and takes as many seeds as for all others.
LAST_SEEN: Final[dict[Mutant, int]] = {
    mutants.a_snapshot_moves_the_commit_index_unchecked: 70,
    mutants.a_recovering_voter_catches_up_to_the_commit_index: 39,
    mutants.answers_to_earlier_questions_are_taken: 105,
}


@pytest.mark.parametrize("mutate", MUTANTS, ids=[mutate.__name__.replace("_", " ") for mutate in MUTANTS])
def test_mutant_is_noticed(mutate: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    first = LAST_SEEN.get(mutate, 1)
    assert first + SEEDS_PER_MUTANT <= SEEDS
    assert any(run_seed(seed).failure for seed in range(first, first + SEEDS_PER_MUTANT))
