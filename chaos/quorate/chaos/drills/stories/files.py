"""Files that are not what the broker left: damaged, mixed up, or from another time."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from quorate.broker.directory.device_witness import DEVICE_WITNESS_LAYOUT
from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.damages import WatchedDamage
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import APART, story
from quorate.chaos.drills.timeline import EventKind
from quorate.chaos.faults.damage import FileKind, Harm, damage, files_of
from quorate.chaos.faults.directories import OldCopy, swap_directories
from quorate.chaos.live.waiting import until_so
from quorate.core.ids import TopicPartition
from quorate.errors import InvalidRequest
from quorate.storage.data_directory_files import DEVICE_WITNESS_NAME
from quorate.storage.segment import LOG_SUFFIX

__all__ = ["bit_rot", "old_copy", "swapped_disks"]

#: what a start repairs or does without, beside the records themselves
_BESIDE_RECORDS: Final = (
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.LOG_CHECKPOINT,
    FileKind.LEADER_EPOCHS,
    FileKind.HIGH_WATERMARKS,
    FileKind.RUN_NOTES,
)
#: the first of them is on the device when the second is written
_NUMBERS_UNTIL_SYNCED: Final = 2
#: a heartbeat, and the controller's next record, each with a margin
_ON_RECORD_S: Final = 3.0
#: of the leader that is to have the damaged files
_READINGS_MAX: Final = 5


@story(
    "bit-rot",
    shows="damaged files under a broker: found when they are read, never served, and fetched anew",
    needs=(Ability.KILL, Ability.FILES, Ability.LOGS),
    layout=APART,
    signs=(EventKind.ISR_SHRUNK, EventKind.ISR_GREW),
)
async def bit_rot(drill: Drill) -> None:
    partition = drill.a_partition()
    described = await drill.describe(partition)
    # Who leads by preference will be made to read what is damaged.
    victim = drill.name_of(described.replicas[0])
    # Every second time the records themselves.
    kind = FileKind.SEGMENT if drill.rounds % 2 else _kind_beside_records(drill, victim)
    with drill.fault(f"damage to a file: {kind}", victim):
        await drill.kill(victim)
        # The others go on without it first: what was acknowledged so far is then not on this disk alone.
        await drill.acknowledges()
        watched = await _damage(drill, victim, kind, partition)
        await drill.start(victim)
        await drill.becomes_whole()
        if watched is not None:
            watched.is_gone = await _was_deleted(drill, watched, partition)
        for _ in range(_READINGS_MAX):
            await drill.admin.elect_preferred_leaders([partition])
            await drill.reads_all(partition)
            # Another one may have led by then, whose files are as they were.
            if watched is None or watched.is_gone or drill.damages.is_noticed(watched):
                break
    await drill.acknowledges()


def _kind_beside_records(drill: Drill, victim: str) -> FileKind:
    """Of those that are there by now: snapshots of producers come with the second segment."""
    there = [kind for kind in _BESIDE_RECORDS if files_of(drill.data_dir(victim), kind)]
    return drill.choices.next_of("kinds of files", there)


async def _damage(
    drill: Drill, victim: str, kind: FileKind, partition: TopicPartition
) -> WatchedDamage | None:
    """None: nobody has to notice."""
    harm = drill.random.choice(list(Harm))
    within, end, is_surely_noticed = "", None, False
    if kind is FileKind.SEGMENT:
        directory = await drill.replica_directory(victim, partition)
        within, end = _surely_committed(directory)
        # A cut leaves a gap before the next segment. Of a single one it leaves a shorter log, which is found
        # out only if a high watermark behind the cut was saved: that happens now and then.
        is_surely_noticed = harm is not Harm.CUT or len(_segments(directory)) > 1
    try:
        done = damage(drill.data_dir(victim), kind, harm, drill.random, within=within, end=end)
    except InvalidRequest as error:
        # Some come and go: an index that is empty, a snapshot of producers.
        drill.tell(f"  {error.message}")
        return None
    drill.tell(f"  {done}")
    return drill.damages.add(victim, done) if is_surely_noticed else None


async def _was_deleted(drill: Drill, watched: WatchedDamage, partition: TopicPartition) -> bool:
    """With the records themselves: no other end is an excuse. A start that cuts damage off has read it."""
    if watched.damage.is_there():
        return False
    described = await drill.described_until(partition, lambda each: each.log_start_offset is not None)
    assert described.log_start_offset is not None
    base_offset = int(os.path.basename(watched.damage.path).removesuffix(LOG_SUFFIX))
    return base_offset < described.log_start_offset


def _surely_committed(directory: str) -> tuple[str, int]:
    """The first segment, and half of its bytes: what lies near the end may have been promised to nobody."""
    first = _segments(directory)[0]
    return f"{os.path.basename(directory)}/{first}", os.path.getsize(f"{directory}/{first}") // 2


def _segments(directory: str) -> list[str]:
    return sorted(name for name in os.listdir(directory) if name.endswith(LOG_SUFFIX))


@story(
    "old-copy",
    shows="a broker's directory is put back from an old copy: it is found out and counts for nothing",
    needs=(Ability.KILL, Ability.FILES),
    layout=APART,
    signs=(EventKind.ISR_SHRUNK, EventKind.ISR_GREW),
)
async def old_copy(drill: Drill) -> None:
    victim = drill.random.choice(drill.brokers)
    if drill.rounds % 2:
        await _put_back_from_an_earlier_run(drill, victim)
    else:
        await _put_back_from_the_same_run(drill, victim)


async def _put_back_from_the_same_run(drill: Drill, victim: str) -> None:
    """It comes back alone, before anybody else: whatever it has synced, it must not lead."""
    others = [name for name in drill.brokers if name != victim]
    copy = OldCopy(drill.data_dir(victim), is_in_use=True)
    await drill.acknowledges()
    await until_so(
        "numbers of the device witness",
        lambda: _numbers_since(drill, victim, copy),
        lambda numbers: numbers >= _NUMBERS_UNTIL_SYNCED,
    )
    await asyncio.sleep(_ON_RECORD_S)
    with drill.fault("a directory from a copy of the same run", victim):
        await drill.kill(*others)
        await drill.kill(victim)
        copy.put_back()
        copy.remove()
        await drill.start(victim)
        await drill.rest(drill.pace.fault_s)
        await drill.start(*others)
        await drill.acknowledges()


async def _numbers_since(drill: Drill, victim: str, copy: OldCopy) -> int:
    return _number_in(drill.data_dir(victim)) - _number_in(copy.path)


def _number_in(directory: str) -> int:
    with open(f"{directory}/{DEVICE_WITNESS_NAME}", "rb") as file:
        return DEVICE_WITNESS_LAYOUT.number_in(file.read()) or 0


async def _put_back_from_an_earlier_run(drill: Drill, victim: str) -> None:
    with drill.fault("a directory from an old copy", victim):
        await drill.kill(victim)
        copy = OldCopy(drill.data_dir(victim))
        await drill.start(victim)
        await drill.becomes_whole()
        await drill.acknowledges()
        await drill.kill(victim)
        await drill.acknowledges()
        copy.put_back()
        copy.remove()
        await drill.start(victim)
        await drill.acknowledges()


@story(
    "swapped-disks",
    shows="two brokers find each other's directories: both refuse to start, and are fine with their own",
    needs=(Ability.KILL, Ability.FILES),
    layout=APART,
    signs=(EventKind.ISR_SHRUNK,),
)
async def swapped_disks(drill: Drill) -> None:
    one, other = drill.shuffled(drill.brokers)[:2]
    directories = drill.data_dir(one), drill.data_dir(other)
    with drill.fault("swapped directories", f"{one} and {other}"):
        await drill.kill(one, other)
        swap_directories(*directories)
        try:
            for name in (one, other):
                refusal = await drill.refuses_to_start(name)
                drill.expect(refusal is not None, f"{name} started with somebody else's directory")
        finally:
            await drill.kill(one, other)
            swap_directories(*directories)
        await drill.start(one, other)
        await drill.acknowledges()
