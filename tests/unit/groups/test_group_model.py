"""Groups under random joins, leaves, deaths, delays, changes of topics, and restarts from a compacted log.

`make test` takes the same walks every time. For more, and others:

    QUORATE_GROUP_WALKS=5000 QUORATE_GROUP_SEED=1000 pytest -k whatever tests/unit/groups
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Final

import pytest

from quorate.chaos.models.groups.client_member import ClientMember
from quorate.chaos.models.groups.group_model import walk
from quorate.chaos.models.groups.model_member import ModelMember

_WALKS: Final = int(os.environ.get("QUORATE_GROUP_WALKS", "40"))
_FIRST_SEED: Final = int(os.environ.get("QUORATE_GROUP_SEED", "0"))
_STEPS: Final = 400

#: each must have happened so often for every hundred walks, or the walks have proved little
_FLOORS: Final = {
    "changes": 1_000,
    "heard": 2_000,
    "given up late": 200,
    "removed": 400,
    "began anew": 150,
    "UNKNOWN_MEMBER_ID": 400,
    "FENCED_MEMBER_EPOCH": 80,
    "UNRELEASED_INSTANCE_ID": 80,
    "committed": 150,
    "commit: UNKNOWN_MEMBER_ID": 60,
    "commit: STALE_MEMBER_EPOCH": 15,
    "topics": 500,
    "restarts": 250,
    "gone": 15,
}


#: of members that number their calls and say what their joins are based on: fewer calls of before are heard
_FLOORS_OF_ORDERED: Final = {
    "changes": 1_000,
    "heard": 2_000,
    "given up late": 150,
    "removed": 400,
    "began anew": 150,
    "HEARTBEAT_OVERTAKEN": 200,
    "INVALID_UPDATE_VERSION": 1_000,
    "UNKNOWN_MEMBER_ID": 400,
    "committed": 120,
    "topics": 500,
    "restarts": 250,
    "gone": 15,
}


@pytest.mark.parametrize("member_type", [ModelMember, ClientMember])
def test_every_partition_has_one_reader_whatever_happens_and_in_the_end_it_has_one(
    member_type: type[ModelMember],
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(_FIRST_SEED, _FIRST_SEED + _WALKS):
        counts += walk(seed, steps=_STEPS, member_type=member_type)
    check_floors(counts, _FLOORS)


@pytest.mark.parametrize("member_type", [ModelMember, ClientMember])
def test_members_that_number_their_calls_are_taken_at_their_last_word(member_type: type[ModelMember]) -> None:
    counts: Counter[str] = Counter()
    for seed in range(_FIRST_SEED, _FIRST_SEED + _WALKS):
        counts += walk(seed, steps=_STEPS, member_type=member_type, is_ordered=True)
    check_floors(counts, _FLOORS_OF_ORDERED)


def check_floors(counts: Counter[str], floors: Mapping[str, int]) -> None:
    too_rare = {name: counts[name] for name, floor in floors.items() if counts[name] * 100 < floor * _WALKS}
    assert not too_rare
