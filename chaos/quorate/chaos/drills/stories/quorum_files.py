"""Files of a controller that are not what it left: it must not vote as if nothing had happened."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import Layout, story
from quorate.chaos.faults.damage import Damage, FileKind, Harm, damage, files_of
from quorate.chaos.live.waiting import until_so
from quorate.client.admin.types import QuorumDescription

__all__ = ["journal_rot"]

#: Snapshots every few dozen changes, so that there are some, and short files behind them.
_FREQUENT_SNAPSHOTS: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "4096",
    "metadata.log.segment.bytes": "16384",
}
_CHANGES: Final = 40
_DAMAGES: Final = [
    (kind, harm)
    for kind in (FileKind.JOURNAL, FileKind.QUORUM_SNAPSHOT, FileKind.HARD_STATE)
    for harm in Harm
]
#: what a controller logs that starts in spite of it
_NOTICED: Final = ("journal_tail_damaged", "journal_tail_cut", "journal_shortened", "snapshot_damaged")
_REFUSALS: Final = "refusals to start"


@story(
    "journal-rot",
    shows="damaged files under a controller: it refuses to start, or catches up before it counts",
    needs=(Ability.KILL, Ability.FILES, Ability.LOGS, Ability.WIPE),
    layout=Layout(is_combined=False, can_be_combined=False, settings=_FREQUENT_SNAPSHOTS),
)
async def journal_rot(drill: Drill) -> None:
    kind, harm = drill.choices.next_of("kinds of damage", _DAMAGES)
    victim = drill.random.choice(drill.controllers)
    if kind is FileKind.QUORUM_SNAPSHOT:
        await _until_snapshot(drill, victim)
    with drill.fault(f"damage to a controller's file: {kind}", victim):
        await drill.kill(victim)
        # The others go on without it first: what was confirmed so far is then not on this disk alone.
        await drill.change_metadata()
        told_before = _times_told(drill)
        done = _damage(drill, victim, kind, harm)
        drill.tell(f"  {done}")
        refusal = await drill.refuses_to_start(victim)
        if refusal is not None:
            drill.counted[_REFUSALS] += 1
            for words in (done.path, "it does not start", "remove the voter", "add it again"):
                drill.expect(words in refusal, f"the refusal does not say {words!r}: {refusal}")
        else:
            drill.expect(_times_told(drill) > told_before, f"{victim} has not noticed the {done}")
        if refusal is not None or not await _is_taken_back(drill, victim):
            await _replace(drill, victim)
        await drill.change_metadata()
        await drill.acknowledges()
    await _quorum_until(drill, lambda quorum: all(_counts(each.state) for each in quorum.voters))
    drill.figures[_REFUSALS] = str(drill.counted[_REFUSALS])


def _damage(drill: Drill, victim: str, kind: FileKind, harm: Harm) -> Damage:
    data_dir = drill.data_dir(victim)
    # The newest: an older snapshot is there in case that one is damaged, and is not read otherwise.
    newest = os.path.relpath(files_of(data_dir, kind)[-1], data_dir)
    return damage(data_dir, kind, harm, drill.random, within=newest)


def _times_told(drill: Drill) -> int:
    return sum(map(drill.agent.times_logged, _NOTICED))


async def _until_snapshot(drill: Drill, name: str) -> None:
    """There is one after so many changes at the latest."""
    for _ in range(_CHANGES):
        if files_of(drill.data_dir(name), FileKind.QUORUM_SNAPSHOT):
            return
        await drill.change_metadata()


def _counts(state: str) -> bool:
    return state in ("leader", "follower")


async def _is_taken_back(drill: Drill, name: str) -> bool:
    """Waits until the voter has caught up and counts, or the leader will have nothing to do with it."""
    node_id = drill.id_of(name)

    def state(quorum: QuorumDescription) -> str:
        return next(voter.state for voter in quorum.voters if voter.node_id == node_id)

    found = await _quorum_until(drill, lambda quorum: _counts(state(quorum)) or state(quorum) == "refused")
    return _counts(state(found))


async def _replace(drill: Drill, name: str) -> None:
    """As operators are told to: remove the voter, empty its directory, start it, add it again."""
    node_id = drill.id_of(name)
    quorum = await drill.admin.describe_quorum()
    address = next(voter.address for voter in quorum.voters if voter.node_id == node_id)
    await drill.admin.remove_voter(node_id)
    await drill.kill(name)
    await drill.agent.wipe(name)
    await drill.start(name)
    await drill.admin.add_voter(node_id, address)


async def _quorum_until(drill: Drill, is_so: Callable[[QuorumDescription], bool]) -> QuorumDescription:
    return await until_so("the quorum", drill.admin.describe_quorum, is_so)
