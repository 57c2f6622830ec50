"""Each rule of the quorum is switched off in turn, and the simulator must notice, within the seeds we run.

A check that cannot fail proves nothing. That the simulator is content with the core as it is, over the same
seeds and more, is in ``test_simulation_seeds``.
"""

from __future__ import annotations

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_raft import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
