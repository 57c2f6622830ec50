"""Every single bit of a small directory flipped in turn: found, and never a shorter log that counts."""

from __future__ import annotations

import pytest

from quorate.chaos.sim.disk import DiskSnapshot
from quorate.errors import QuorumDamaged
from quorate.metadata.raft.ready import Restored
from tests.raft.directory_harness import PATH, DirectoryHarness, command, commands, hard_state, snapshot_at


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


@pytest.mark.parametrize("lost_power", [False, True])
async def test_every_flipped_bit_of_the_journal_refuses_the_start_or_makes_the_voter_catch_up(
    *, lost_power: bool
) -> None:
    await find_every_flip_of_the_journal(lost_power=lost_power)


async def find_every_flip_of_the_journal(*, lost_power: bool) -> None:
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


async def test_every_flipped_bit_of_the_newest_snapshot_is_found_and_the_older_one_serves() -> None:
    harness, files, sound = await small_directory()
    newest = max(name for name in files.files if name.endswith(".snapshot"))
    for name, bit in bits(files, newest):
        found = await start_with_flip(harness, files, name, bit)
        assert found.snapshot is not None
        assert found.snapshot.index == 1
        assert found.entries[1:] == sound.entries
        assert found.entries[0] == command(2, term=2)
        assert harness.directory.snapshot is not None
        assert harness.directory.snapshot.data == b"one"
        assert len(harness.directory.opening_report.damaged_snapshots) == 1


@pytest.mark.parametrize("name", ["identity", "hard-state"])
async def test_every_flipped_bit_of_identity_and_vote_refuses_the_start(name: str) -> None:
    harness, files, _ = await small_directory()
    for each, bit in bits(files, name):
        with pytest.raises(QuorumDamaged) as caught:
            await start_with_flip(harness, files, each, bit)
        assert caught.value.facts["path"] == harness.path(name)
        assert harness.disk.snapshot(PATH).files.keys() == files.files.keys()
