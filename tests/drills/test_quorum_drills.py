"""Quorums of real processes under load, and faults that must not make them forget anything.

Several faults share a quorum, one strike each, to save its start; `make drill-quorum` gives every fault a
quorum of its own and half a minute.
"""

from __future__ import annotations

import pytest

from quorate.chaos.quorum_drills.quorum_drill import QuorumFault, run_quorum_drill
from quorate.chaos.quorum_drills.quorum_faults import FAULTS


def _faults(voters: int, *names: str) -> list[QuorumFault]:
    by_name = {fault.name: fault for fault in FAULTS if fault.voters == voters}
    return [by_name[name] for name in names]


_CHOSEN = {
    "crashes": _faults(3, "kill -9 of the leader", "kill -9 of a follower", "kill -9 of all at once"),
    "snapshots": _faults(3, "kill -9 during a snapshot"),
    "tails": _faults(3, "torn write", "lost tail", "bit flip at the tail"),
    "lost-disks": _faults(3, "bit flip in the middle", "wiped directory"),
    "pauses": _faults(3, "paused leader"),
    "five-voters": _faults(
        5,
        "kill -9 of a minority with the leader",
        "kill -9 of all at once",
        "wiped directory",
        "paused leader",
    ),
}


def test_every_fault_is_tried() -> None:
    assert sorted(fault.name for chosen in _CHOSEN.values() for fault in chosen) == sorted(
        fault.name for fault in FAULTS
    )


@pytest.mark.parametrize("faults", _CHOSEN.values(), ids=_CHOSEN)
async def test_no_acknowledged_change_is_lost_or_invented(faults: list[QuorumFault]) -> None:
    report = await run_quorum_drill(faults, seconds=0, clients=4)

    assert report.passed, report
    assert report.acknowledged > 50
    assert report.reads > 5
