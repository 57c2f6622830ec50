"""With one rule of the driver switched off, the storms go red: they look where it hurts.

That a failed sync ends the process is tested directly, too (test_driver_persistence.py), and hunted in whole
clusters: syncs fail too seldom in a storm for it to matter there.
"""

from __future__ import annotations

import pytest

from quorate.chaos.mutations.mutation import Mutation
from quorate.chaos.mutations.of_quorum_driver import MUTATIONS
from tests.mutants import assert_is_noticed


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation) -> None:
    assert_is_noticed(mutation)
