"""Everything that happens to a quorum in the drills.

Each strike leaves all voters running, so that the next one meets a whole quorum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from quorate.chaos.faults.journal_damage import (
    cut_tail,
    flip_bit_in_last_group,
    flip_bit_in_the_middle,
    tear_write,
    unfinished_snapshots,
)
from quorate.chaos.quorum_drills.quorum_drill import QuorumDrill, QuorumFault
from quorate.errors import Unavailable
from quorate.v1 import admin_pb2

__all__ = ["FAULTS"]

#: beyond the election that others hold meanwhile: the old leader misses more than one time-out (0.5 to 1 s)
_PAUSE_S: Final = 1.5
#: time enough for an election, if there could be one
_NO_ELECTION_S: Final = 3.0
_SNAPSHOT_TIMEOUT_S: Final = 10.0
#: Counted and not timed: on a busy machine a start takes as long as many snapshots.
_SNAPSHOT_ATTEMPTS_MAX: Final = 10
_WATCH_S: Final = 0.0005
_VOTER_CHANGE_TIMEOUT_S: Final = 30.0
#: enough for a snapshot every few dozen changes
_FREQUENT_SNAPSHOTS: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "4096",
    "metadata.log.segment.bytes": "16384",
}


# --- crashes ------------------------------------------------------------------------------------------


async def _kill_leader(drill: QuorumDrill) -> None:
    leader = await drill.leader()
    await drill.voters.kill(leader)
    await drill.acknowledges()
    await drill.voters.start(leader)
    await drill.until_all_vote()


async def _kill_follower(drill: QuorumDrill) -> None:
    follower = (await drill.followers())[0]
    await drill.voters.kill(follower)
    await drill.acknowledges()
    await drill.voters.start(follower)
    await drill.until_all_vote()


async def _kill_minority(drill: QuorumDrill) -> None:
    """The leader and as many others as the quorum can do without."""
    leader, *followers = [await drill.leader(), *await drill.followers()]
    killed = [leader, *followers[: (len(drill.voters.names) - 1) // 2 - 1]]
    await drill.voters.kill(*killed)
    await drill.acknowledges()
    await drill.voters.start(*killed)
    await drill.until_all_vote()


async def _kill_all(drill: QuorumDrill) -> None:
    await drill.voters.kill(*drill.voters.names)
    await drill.voters.start(*drill.voters.names)
    await drill.until_all_vote()


async def _kill_during_snapshot(drill: QuorumDrill) -> None:
    """In the middle of the file, of a leader and of a follower in turn."""
    for victim in (await drill.leader(), (await drill.followers())[0]):
        was_cut_short, attempts = False, 0
        while not was_cut_short and attempts < _SNAPSHOT_ATTEMPTS_MAX:
            attempts += 1
            await _until_snapshot_is_written(drill, victim)
            await drill.voters.kill(victim)
            was_cut_short = bool(unfinished_snapshots(drill.voters.quorum_directory(victim)))
            await drill.voters.start(victim)
            await drill.until_all_vote()
        drill.expect(was_cut_short, f"no snapshot of {victim} was cut short by its death")


async def _until_snapshot_is_written(drill: QuorumDrill, victim: str) -> None:
    directory = drill.voters.quorum_directory(victim)
    async with asyncio.timeout(_SNAPSHOT_TIMEOUT_S):
        while not unfinished_snapshots(directory):  # noqa: ASYNC110 - another process makes one
            await asyncio.sleep(_WATCH_S)


# --- disks --------------------------------------------------------------------------------------------


async def _stop_follower(drill: QuorumDrill) -> str:
    """Killed, and then not needed: all that was acknowledged so far is on a majority of the others."""
    follower = (await drill.followers())[0]
    await drill.voters.kill(follower)
    await drill.acknowledges()
    return follower


async def _tear_write(drill: QuorumDrill) -> None:
    follower = await _stop_follower(drill)
    tear_write(drill.voters.quorum_directory(follower))
    await drill.voters.start(follower)
    await drill.until_all_vote()


async def _lose_tail(drill: QuorumDrill) -> None:
    """What was synced is gone, and looks like a torn write; the mark of how far it was synced tells."""
    follower = await _stop_follower(drill)
    cut_tail(drill.voters.quorum_directory(follower))
    await drill.voters.start(follower)
    if not await drill.is_taken_back(follower):
        await drill.voters.kill(follower)
        await _replace(drill, follower)


async def _flip_bit_at_tail(drill: QuorumDrill) -> None:
    """It may have answered for that entry: it starts, and neither votes nor counts until it has caught up."""
    follower = await _stop_follower(drill)
    flip_bit_in_last_group(drill.voters.quorum_directory(follower))
    await drill.voters.start(follower)
    await drill.until_all_vote()


async def _flip_bit_in_the_middle(drill: QuorumDrill) -> None:
    follower = await _stop_follower(drill)
    path = flip_bit_in_the_middle(drill.voters.quorum_directory(follower))
    try:
        await drill.voters.start(follower)
    except Unavailable as error:
        for words in (path, "it does not start", "remove the voter", "add it again"):
            drill.expect(words in error.message, f"the refusal does not say {words!r}: {error.message}")
    else:
        drill.findings.append(f"{follower} started although {path} is damaged in the middle")
        await drill.voters.kill(follower)
    await _replace(drill, follower)


async def _wipe(drill: QuorumDrill) -> None:
    """It comes back with a new directory, so its old vote is nobody's: it must not help to elect."""
    follower = await _stop_follower(drill)
    drill.cluster.wipe(follower)
    await drill.voters.start(follower)
    leader = await drill.leader()
    needed = len(drill.voters.names) // 2 + 1
    others = [name for name in drill.voters.names if name not in (leader, follower)]
    # With the wiped one there would be a majority, without it there is none.
    killed = [leader, *others[needed - 1 :]]
    await drill.voters.kill(*killed)
    served = await drill.load.acknowledged(within_s=_NO_ELECTION_S)
    drill.expect(not served, f"{follower} has voted under the identity of the disk that it lost")
    await drill.voters.start(*killed)
    await drill.acknowledges()
    await _replace(drill, follower)


async def _replace(drill: QuorumDrill, name: str) -> None:
    """What the refusal says: remove the voter, empty its directory, start it, add it again."""
    via = await drill.leader()
    node_id, address = drill.voters.node_id(name), drill.voters.address(name)
    remove = admin_pb2.RemoveVoterRequest(node_id=node_id)
    await drill.voters.administer(via, "RemoveVoter", remove, timeout_s=_VOTER_CHANGE_TIMEOUT_S)
    if name not in drill.voters.running:
        drill.cluster.wipe(name)
        await drill.voters.start(name)
    add = admin_pb2.AddVoterRequest(node_id=node_id, address=address)
    await drill.voters.administer(via, "AddVoter", add, timeout_s=_VOTER_CHANGE_TIMEOUT_S)
    await drill.until_all_vote()


# --- pauses -------------------------------------------------------------------------------------------


async def _pause_leader(drill: QuorumDrill) -> None:
    """It wakes up believing that it leads, with questions in its queue that others could answer better."""
    leader = await drill.leader()
    await drill.cluster.pause(leader)
    try:
        await drill.acknowledges()
        await asyncio.sleep(_PAUSE_S)
        questions = [asyncio.create_task(drill.load.read_at(leader, timeout_s=5)) for _ in range(20)]
        # They are on their way, and changes that they must see are acknowledged.
        await drill.acknowledges()
    finally:
        drill.cluster.resume(leader)
    await asyncio.gather(*questions)
    await drill.until_all_vote()


FAULTS: Final[Sequence[QuorumFault]] = (
    QuorumFault("kill -9 of the leader", 3, _kill_leader, signs=("quorum_role",)),
    QuorumFault("kill -9 of a follower", 3, _kill_follower),
    QuorumFault("kill -9 of all at once", 3, _kill_all),
    QuorumFault(
        "kill -9 during a snapshot", 3, _kill_during_snapshot, _FREQUENT_SNAPSHOTS, ("snapshot_taken",)
    ),
    QuorumFault("torn write", 3, _tear_write, signs=("journal_tail_cut",)),
    QuorumFault("lost tail", 3, _lose_tail, signs=("journal_shortened", "journal_tail_damaged")),
    QuorumFault(
        "bit flip at the tail",
        3,
        _flip_bit_at_tail,
        signs=("journal_tail_damaged",),
        # Unless it died before the group was synced.
        may_leave=("journal_shortened",),
    ),
    QuorumFault("bit flip in the middle", 3, _flip_bit_in_the_middle),
    QuorumFault("wiped directory", 3, _wipe),
    QuorumFault("paused leader", 3, _pause_leader),
    QuorumFault("kill -9 of a minority with the leader", 5, _kill_minority),
    QuorumFault("kill -9 of all at once", 5, _kill_all),
    QuorumFault("wiped directory", 5, _wipe),
    QuorumFault("paused leader", 5, _pause_leader),
)
