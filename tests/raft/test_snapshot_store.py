"""Snapshots on disk: whole or not there, and found out if they are neither."""

from __future__ import annotations

import random

import pytest

from quorate.chaos.models.quorum.directory_harness import snapshot_at
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import ProcessDied, fail_nth
from quorate.metadata.raft.snapshot_store import DamagedSnapshot, SnapshotStore

PATH = "/snapshots"
LARGE = random.Random(1).randbytes((5 << 19) + 17)


def new_store() -> tuple[SimDisk, SnapshotStore]:
    disk = SimDisk()
    disk.make_directory(PATH)
    return disk, SnapshotStore(disk, PATH)


@pytest.mark.parametrize("data", [b"", b"state", LARGE], ids=["empty", "small", "many pieces"])
async def test_snapshot_is_read_as_it_was_written_also_after_a_power_loss(data: bytes) -> None:
    disk, store = new_store()
    await disk.fsync_directory("/")
    snapshot = snapshot_at(7, term=3, data=data)
    await store.write(snapshot)
    disk.power_loss()
    assert store.stored() == [snapshot.id]
    assert await store.read(snapshot.id) == snapshot
    assert disk.open_paths == []


async def test_snapshots_are_listed_newest_first_and_strange_files_are_left_out() -> None:
    disk, store = new_store()
    for index, term in ((9, 1), (10, 1), (2, 5)):
        await store.write(snapshot_at(index, term))
    for name in ("1-1.snapshot", "x.snapshot", f"{3:020d}-{1:020d}.snapshot.tmp", "identity"):
        await disk.write_file(f"{PATH}/{name}", b"")
    assert [each.index for each in store.stored()] == [10, 9, 2]


async def test_file_cut_anywhere_or_longer_than_it_says_is_damaged() -> None:
    disk, store = new_store()
    snapshot = snapshot_at(1, data=b"state")
    await store.write(snapshot)
    whole = disk.read_file(store.path_of(snapshot.id))
    for content in (*(whole[:length] for length in range(len(whole))), whole + b"x"):
        await disk.write_file(store.path_of(snapshot.id), content)
        with pytest.raises(DamagedSnapshot):
            await store.read(snapshot.id)
    assert disk.open_paths == []


async def test_every_flipped_bit_is_found() -> None:
    disk, store = new_store()
    snapshot = snapshot_at(1, data=b"state")
    await store.write(snapshot)
    path = store.path_of(snapshot.id)
    for bit in range(8 * disk.size(path)):
        disk.flip_bit(path, bit)
        with pytest.raises(DamagedSnapshot):
            await store.read(snapshot.id)
        disk.flip_bit(path, bit)
    assert await store.read(snapshot.id) == snapshot


async def test_snapshot_under_the_name_of_another_is_damaged() -> None:
    disk, store = new_store()
    await store.write(snapshot_at(1))
    disk.rename(store.path_of(snapshot_at(1).id), store.path_of(snapshot_at(2).id))
    with pytest.raises(DamagedSnapshot, match="of entry 1 in term 1"):
        await store.read(snapshot_at(2).id)


async def test_name_appears_only_once_the_content_is_durable() -> None:
    """At whichever operation the process dies, and whatever the power loss leaves."""
    number = 0
    is_finished = False
    while not is_finished:
        number += 1
        disk, store = new_store()
        await disk.fsync_directory("/")
        disk.fault_hook = fail_nth(number, ProcessDied(written=1))
        try:
            await store.write(snapshot_at(1, data=LARGE[:3000]))
            is_finished = True
        except ProcessDied:
            pass
        disk.fault_hook = None
        disk.power_loss(random.Random(number))
        for each in store.stored():
            assert (await store.read(each)).data == LARGE[:3000]
        assert not is_finished or store.stored()
        store.remove_unfinished()
        assert [name for name in disk.list(PATH) if name.endswith(".tmp")] == []
    assert number > 7
