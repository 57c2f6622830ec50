"""What is checked of a voter's directory: for the tests, and for mutations of its journal and its snapshots.

Each lays a directory out, damages it or lets its process die, and looks at what the next start makes of it.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from quorate.chaos.models.quorum.directory_harness import (
    PATH,
    DirectoryHarness,
    command,
    commands,
    hard_state,
    snapshot_at,
)
from quorate.chaos.models.quorum.directory_life import check_goes_on, random_life
from quorate.chaos.sim.disk import DiskSnapshot
from quorate.chaos.sim.disk_faults import FaultHook, Operation, ProcessDied, fail_nth
from quorate.errors import QuorumDamaged
from quorate.metadata.raft.journal_format import HEADER_BYTES
from quorate.metadata.raft.ready import Restored

__all__ = [
    "FIRST_FILE",
    "bits",
    "check_damage_before_a_sound_group",
    "check_damaged_newest_snapshot",
    "check_damaged_snapshots",
    "check_damaged_tail",
    "check_every_flip_of_a_small_file",
    "check_every_flip_of_the_journal",
    "check_every_flip_of_the_newest_snapshot",
    "check_flips_after_a_power_loss",
    "check_group_whose_sync_failed",
    "check_incarnations_grow",
    "check_last_file_that_is_gone",
    "check_one_group_at_a_time",
    "check_random_deaths",
    "check_snapshot_is_durable_first",
    "entries_of",
    "founded",
    "journal_of_three",
    "journal_with_snapshots",
    "large_last_group",
    "live_and_die",
    "recovered_entries",
    "small_directory",
    "start_with_flip",
]

_RANDOM_SEEDS: Final = 40


@contextmanager
def _raising(kind: type[Exception], words: str = "") -> Iterator[list[Any]]:
    """Inside, this is raised, and it says so."""
    caught: list[Any] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    assert caught, f"no {kind.__name__} was raised"
    assert words in str(caught[0]), f"{words!r} is not in {caught[0]}"


FIRST_FILE: Final = f"{1:020d}.journal"


async def journal_of_three(**options: int) -> tuple[DirectoryHarness, list[bytes]]:
    """Three groups in one file, and the file as it was before each of them and after the last."""
    harness = DirectoryHarness(segment_bytes=options.get("segment_bytes", 1 << 20))
    await harness.begin()
    await harness.write_hard_state(hard_state(1))
    contents = [harness.content(FIRST_FILE)]
    for first in (1, 3, 5):
        await harness.store(*commands(first, first + 1))
        contents.append(harness.content(FIRST_FILE))
    return harness, contents


async def recovered_entries(harness: DirectoryHarness) -> int:
    """How many entries a start finds."""
    directory = await harness.restart()
    assert directory.restored is not None
    entries = directory.restored.entries
    assert list(entries) == commands(1, len(entries))
    return len(entries)


async def check_last_file_that_is_gone() -> None:
    harness, _ = await journal_of_three(segment_bytes=1)
    harness.disk.unlink(harness.path(harness.names(".journal")[-1]))
    assert await recovered_entries(harness) == 4
    assert harness.directory.hard_state.is_recovering


async def check_damaged_tail() -> None:
    harness, (_, _, before, whole) = await journal_of_three()
    damaged = whole[:-1] + b"?"
    harness.overwrite(FIRST_FILE, damaged)
    assert await recovered_entries(harness) == 4
    assert harness.directory.hard_state.is_recovering
    assert harness.directory.restored is not None
    assert harness.directory.restored.hard_state.is_recovering
    (aside,) = harness.names(".damaged")
    assert harness.content(aside) == damaged[len(before) :]
    assert harness.directory.opening_report.damaged_tail == harness.path(aside)
    # It stays so, start after start, until a leader's log was caught up with.
    assert await recovered_entries(harness) == 4
    assert harness.directory.hard_state.is_recovering
    assert harness.directory.opening_report.damaged_tail is None


async def check_damage_before_a_sound_group() -> None:
    harness, (_, one, two, whole) = await journal_of_three()
    for position in (len(one), len(one) + HEADER_BYTES, len(two) - 1):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        harness.overwrite(FIRST_FILE, bytes(damaged))
        with _raising(QuorumDamaged) as caught:
            await harness.open()
        assert caught[0].facts == {"path": harness.path(FIRST_FILE), "position": len(one)}
        assert "add it again" in caught[0].message
        assert harness.content(FIRST_FILE) == damaged, "nothing is cut on a guess"
        assert harness.disk.open_paths == []


async def large_last_group() -> tuple[DirectoryHarness, int, bytes]:
    """A last group of many sectors, at no sector boundary: its harness, position, and the file."""
    harness = DirectoryHarness(segment_bytes=1 << 20)
    await harness.begin()
    await harness.write_hard_state(hard_state(1))
    await harness.store(*commands(1, 3))
    position = len(harness.content(FIRST_FILE))
    await harness.store(command(4, data=random.Random(4).randbytes(3000)))
    return harness, position, harness.content(FIRST_FILE)


async def check_flips_after_a_power_loss() -> None:
    harness, position, whole = await large_last_group()
    for bit in range(8 * position, 8 * len(whole), 97):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        harness.overwrite(FIRST_FILE, bytes(damaged))
        directory = await harness.power_loss()
        assert directory.hard_state.is_recovering, f"bit {bit}"
        await directory.write_hard_state(hard_state(1))


async def check_group_whose_sync_failed() -> None:
    """The page cache shows it to the next process, and the device has nothing of it."""
    harness = DirectoryHarness()
    await harness.begin()
    await harness.write_hard_state(hard_state(1))
    await harness.store(*commands(1, 2))
    harness.append([command(3)])
    harness.disk.fault_hook = fail_nth(1, OSError(errno.EIO, "input/output error"), names=["fdatasync"])
    with _raising(OSError, "input/output"):
        await harness.sync()
    harness.disk.fault_hook = None
    with _raising(OSError, "failed before"):
        await harness.sync()
    directory = await harness.restart()
    assert directory.restored is not None
    found = directory.restored.entries
    directory = await harness.power_loss()
    assert directory.restored is not None
    assert directory.restored.entries == found


async def founded(**options: int) -> DirectoryHarness:
    harness = DirectoryHarness(**options)
    await harness.begin()
    await harness.write_hard_state(hard_state(1))
    return harness


def entries_of(harness: DirectoryHarness) -> list[object]:
    assert harness.directory.restored is not None
    return list(harness.directory.restored.entries)


async def check_one_group_at_a_time() -> None:
    """Recovery stands on it: only the last group may be unfinished."""
    harness = await founded(segment_bytes=100)
    groups = 0

    def check(operation: Operation) -> None:
        nonlocal groups
        if operation.name == "pwritev":
            groups += 1
            for name in harness.names(".journal"):
                assert harness.disk.unsynced_bytes(harness.path(name)) == 0

    harness.disk.fault_hook = check
    syncs = []
    for index in range(1, 9):
        harness.append([command(index)])
        syncs += [asyncio.ensure_future(harness.sync()) for _ in range(3)]
        await asyncio.sleep(0)
    await asyncio.gather(*syncs)
    assert 2 < groups < 8


async def journal_with_snapshots(*indexes: int) -> DirectoryHarness:
    """Twenty entries, one in each file."""
    harness = await founded(segment_bytes=1)
    for index in range(1, 21):
        await harness.store(command(index))
    for index in indexes:
        await harness.save(snapshot_at(index, data=b"at %d" % index))
    return harness


async def check_snapshot_is_durable_first() -> None:
    harness = await journal_with_snapshots(5, 9)
    harness.disk.trace = []
    await harness.save(snapshot_at(15))
    names = [each.name for each in harness.disk.trace]
    assert names.index("rename") < names.index("fsync_directory") < names.index("unlink")


async def check_damaged_newest_snapshot(snapshots: tuple[int, ...] = (5, 9)) -> None:
    harness = await journal_with_snapshots(*snapshots)
    newest = harness.names(".snapshot")[-1]
    harness.overwrite(newest, harness.content(newest)[:-1])
    directory = await harness.restart()
    assert entries_of(harness) == commands(6 if len(snapshots) == 2 else 1, 20)
    assert len(directory.opening_report.damaged_snapshots) == 1
    assert newest in harness.names(".snapshot"), "nothing is removed on a guess (rule 42)"
    # The next one takes its place, and when there are two again it is worth nothing.
    for index in (12,) if len(snapshots) == 2 else (11, 12):
        await harness.save(snapshot_at(index))
    assert newest not in harness.names(".snapshot")
    assert len(harness.names(".snapshot")) == 2
    await harness.restart()
    assert entries_of(harness) == commands(13, 20)


async def check_damaged_snapshots() -> None:
    harness = await journal_with_snapshots(5, 9)
    for name in harness.names(".snapshot"):
        harness.overwrite(name, b"")
    with _raising(QuorumDamaged, "does not make up for it") as caught:
        await harness.open()
    assert caught[0].facts["path"] == harness.path(harness.names(".snapshot")[-1])


_LIVES: Final = 4


#: to die at one of these operations on such a file; there are about so many of them in a life
_MOMENTS: Final[Sequence[tuple[str, str, int]]] = [
    ("", "", 250),
    ("pwritev", "", 8),
    ("fdatasync", ".journal", 8),
]


def _die_in(rng: random.Random) -> FaultHook:
    name, file, number_max = rng.choice(_MOMENTS)
    death = ProcessDied(written=rng.randint(0, 1000))
    left = rng.randint(1, number_max)

    def hook(operation: Operation) -> None:
        nonlocal left
        left -= name in operation.name and file in operation.path
        if left == 0:
            raise death

    return hook


async def live_and_die(seed: int, *, loses_power: bool) -> list[str]:
    """Why something was torn, each time that it was."""
    rng = random.Random(seed)
    harness = DirectoryHarness(segment_bytes=rng.choice((1, 200, 3000, 100_000)), seed=seed)
    reasons = []
    for _ in range(_LIVES):
        harness.disk.fault_hook = _die_in(rng)
        with suppress(ProcessDied):
            await random_life(harness, rng, steps=rng.randint(5, 40))
        harness.disk.fault_hook = None
        await (harness.power_loss(rng) if loses_power else harness.restart())
        reasons.append(harness.directory.opening_report.torn_reason)
        harness.ledger.check(harness.directory)
        # Nobody has damaged anything: if all voters lost power at once, all of them must count again.
        assert not harness.directory.hard_state.is_recovering
        assert harness.names(".damaged") == []
        harness.directory.close()
    await harness.begin()
    harness.ledger.check(harness.directory)
    await check_goes_on(harness)
    return [reason for reason in reasons if reason]


async def small_directory() -> tuple[DirectoryHarness, DiskSnapshot, Restored]:
    """Two files of the journal, entries that were replaced, two snapshots."""
    harness = DirectoryHarness(segment_bytes=120)
    await harness.begin()
    await harness.write_hard_state(hard_state(1, voted_for=2))
    await harness.store(*commands(1, 2))
    await harness.save(snapshot_at(1, data=b"one"))
    await harness.write_hard_state(hard_state(2))
    await harness.store(command(2, term=2), command(3, term=2))
    await harness.save(snapshot_at(2, term=2, data=b"two"))
    await harness.store(command(4, term=2))
    await harness.restart()
    assert harness.directory.restored is not None
    assert len(harness.names(".journal")) == 2
    harness.disk.crash()
    return harness, harness.disk.snapshot(PATH), harness.directory.restored


def bits(files: DiskSnapshot, suffix: str) -> list[tuple[str, int]]:
    names = [name for name in files.files if name.endswith(suffix)]
    return [(name, bit) for name in names for bit in range(8 * len(files.files[name]))]


async def start_with_flip(harness: DirectoryHarness, files: DiskSnapshot, name: str, bit: int) -> Restored:
    harness.disk.restore(files, PATH)
    harness.disk.flip_bit(harness.path(name), bit)
    directory = await harness.open()
    restored = directory.restored
    assert restored is not None
    directory.close()
    return restored


async def check_every_flip_of_the_journal(*, lost_power: bool) -> None:
    harness, files, sound = await small_directory()
    refused = caught_up = 0
    flips = bits(files, ".journal")
    for name, bit in flips:
        if lost_power:
            harness.disk.power_loss()
        try:
            found = await start_with_flip(harness, files, name, bit)
        except QuorumDamaged as error:
            refused += error.facts["path"] == harness.path(name)
            continue
        assert found.hard_state.is_recovering, f"bit {bit} of {name} was not noticed"
        assert found.entries == sound.entries[: len(found.entries)]
        assert len(found.entries) < len(sound.entries)
        caught_up += 1
    assert refused + caught_up == len(flips), "a refusal names the file"
    assert min(refused, caught_up) > 300


async def check_incarnations_grow() -> None:
    """Every start has a new one, which is durable when it is told."""
    harness = DirectoryHarness()
    for incarnation in range(1, 5):
        directory = await harness.begin()
        assert directory.identity.incarnation == incarnation
        assert directory.restored is not None
        assert directory.restored.incarnation == incarnation
        harness.disk.power_loss()


async def check_random_deaths() -> None:
    for seed in range(_RANDOM_SEEDS):
        await live_and_die(seed, loses_power=True)


async def check_every_flip_of_the_newest_snapshot() -> None:
    """The older one serves, with what the journal has after it."""
    harness, files, sound = await small_directory()
    newest = max(name for name in files.files if name.endswith(".snapshot"))
    for name, bit in bits(files, newest):
        found = await start_with_flip(harness, files, name, bit)
        assert found.snapshot is not None
        assert found.snapshot.index == 1, f"bit {bit} of {name} was not noticed"
        assert found.entries[1:] == sound.entries
        assert found.entries[0] == command(2, term=2)
        assert harness.directory.snapshot is not None
        assert harness.directory.snapshot.data == b"one"
        assert len(harness.directory.opening_report.damaged_snapshots) == 1


async def check_every_flip_of_a_small_file(name: str) -> None:
    """Of the identity or the vote: the start is refused, and nothing is changed."""
    harness, files, _ = await small_directory()
    for each, bit in bits(files, name):
        with _raising(QuorumDamaged) as caught:
            await start_with_flip(harness, files, each, bit)
        assert caught[0].facts["path"] == harness.path(name)
        assert harness.disk.snapshot(PATH).files.keys() == files.files.keys()
