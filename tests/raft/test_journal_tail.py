"""What is cut, what makes a voter catch up first, and what refuses the start (rule 44 in the quorum)."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest

from quorate.chaos.models.quorum import journal_checkers as check
from quorate.chaos.models.quorum.directory_harness import (
    DirectoryHarness,
    command,
    commands,
    hard_state,
    snapshot_at,
)
from quorate.chaos.models.quorum.journal_checkers import (
    FIRST_FILE,
    journal_of_three,
    large_last_group,
    recovered_entries,
)
from quorate.errors import QuorumDamaged
from quorate.metadata.raft.entries import SnapshotId
from quorate.metadata.raft.journal_format import HEADER_BYTES, encode_group
from quorate.metadata.raft.journal_mark import MARK_NAME


async def test_last_group_torn_at_any_byte_is_cut_and_the_voter_counts() -> None:
    harness, (_, _, before, whole) = await journal_of_three()
    for length in range(len(before), len(whole)):
        harness.overwrite(FIRST_FILE, whole[:length])
        harness.forget_synced()
        assert await recovered_entries(harness) == 4
        assert harness.directory.opening_report.torn_bytes == length - len(before)
        assert not harness.directory.hard_state.is_recovering
        assert harness.content(FIRST_FILE) == before
        assert harness.names(".damaged") == []


@pytest.mark.parametrize("rest", [0, 5])
async def test_groups_that_were_synced_and_are_gone_make_the_voter_catch_up(rest: int) -> None:
    """Cut at the end of a group, or within one: in the middle of what was answered for."""
    harness, (_, one, _, whole) = await journal_of_three()
    harness.overwrite(FIRST_FILE, whole[: len(one) + rest])
    for groups_lost in (2, 0):
        assert await recovered_entries(harness) == 2
        assert harness.directory.hard_state.is_recovering
        assert harness.directory.opening_report.groups_lost == groups_lost, "it is told once, and stays so"


async def test_mark_that_is_missing_or_damaged_accuses_nobody() -> None:
    harness, (*_, whole) = await journal_of_three()
    for content in (b"", b"\0" * 5, b"\xff" * 12, b"\xff" * 20):
        harness.overwrite(MARK_NAME, content)
        assert await recovered_entries(harness) == 6
        assert not harness.directory.hard_state.is_recovering
    assert harness.content(FIRST_FILE) == whole


async def test_that_groups_are_lost_is_durable_before_the_mark_is_lowered() -> None:
    harness, (_, one, *_) = await journal_of_three()
    harness.overwrite(FIRST_FILE, one)
    harness.disk.trace = []
    await harness.open()
    steps = [(each.name, each.path.rpartition("/")[2]) for each in harness.disk.trace]
    noted = steps.index(("rename", "hard-state.tmp"))
    assert steps.index(("fsync_directory", "quorum"), noted) < steps.index(("pwrite", MARK_NAME))


async def test_zeros_behind_the_last_group_are_cut() -> None:
    harness, (*_, whole) = await journal_of_three()
    for count in (1, HEADER_BYTES - 1, HEADER_BYTES, 100, 5000):
        harness.overwrite(FIRST_FILE, whole + bytes(count))
        assert await recovered_entries(harness) == 6
        assert not harness.directory.hard_state.is_recovering


async def test_that_the_end_was_lost_is_durable_before_it_is_cut() -> None:
    harness, (*_, whole) = await journal_of_three()
    harness.overwrite(FIRST_FILE, whole[:-1] + b"?")
    harness.disk.trace = []
    await harness.open()
    steps = [(each.name, each.path.rpartition("/")[2]) for each in harness.disk.trace]
    noted = steps.index(("rename", "hard-state.tmp"))
    kept = steps.index(("fdatasync", harness.names(".damaged")[0]))
    assert noted < steps.index(("fsync_directory", "quorum"), noted) < kept
    assert kept < steps.index(("truncate", FIRST_FILE))


async def test_garbage_behind_the_last_group_makes_the_voter_catch_up() -> None:
    """Whatever it was, it was no write that the process was torn from."""
    harness, (*_, whole) = await journal_of_three()
    harness.overwrite(FIRST_FILE, whole + random.Random(1).randbytes(100))
    assert await recovered_entries(harness) == 6
    assert harness.directory.hard_state.is_recovering


async def test_zeros_with_a_sound_group_behind_them_refuse_the_start() -> None:
    harness, (_, one, two, whole) = await journal_of_three()
    harness.overwrite(FIRST_FILE, one + bytes(len(two) - len(one)) + whole[len(two) :])
    with pytest.raises(QuorumDamaged):
        await harness.open()


@pytest.mark.parametrize(
    "change", [lambda content: content[:-1], lambda content: content[:-1] + b"?", lambda _: b""]
)
async def test_fault_in_a_file_that_another_one_follows_refuses_the_start(change: object) -> None:
    harness, _ = await journal_of_three(segment_bytes=1)
    first, second, _ = harness.names(".journal")
    for name in (first, second):
        whole = harness.content(name)
        assert callable(change)
        harness.overwrite(name, change(whole))
        with pytest.raises(QuorumDamaged):
            await harness.open()
        harness.overwrite(name, whole)
    assert await recovered_entries(harness) == 6


async def test_missing_file_in_the_middle_or_at_the_start_refuses_the_start() -> None:
    for missing in (0, 1):
        harness, _ = await journal_of_three(segment_bytes=1)
        harness.remove(harness.names(".journal")[missing])
        with pytest.raises(QuorumDamaged):
            await harness.open()


async def test_missing_file_is_noticed_even_where_the_entries_would_fit() -> None:
    """Its entries replaced others, so that without it the old ones would be back."""
    harness, _ = await journal_of_three(segment_bytes=1)
    await harness.write_hard_state(hard_state(3))
    await harness.store(command(4, term=2), command(5, term=2))
    await harness.store(command(6, term=3))
    harness.remove(harness.names(".journal")[3])
    with pytest.raises(QuorumDamaged, match="lacks its groups 4 to 4"):
        await harness.open()


async def test_founded_directory_without_any_journal_refuses_the_start() -> None:
    harness = DirectoryHarness()
    await harness.begin()
    harness.remove(FIRST_FILE)
    with pytest.raises(QuorumDamaged, match="the journal is missing"):
        await harness.open()


@pytest.mark.parametrize(
    "group",
    [
        encode_group(5, None, commands(7, 7)),
        encode_group(3, None, commands(7, 7)),
        encode_group(4, None, commands(8, 8)),
        encode_group(4, None, [command(7), command(9)]),
        encode_group(4, None, [command(7, term=0)]),
        encode_group(4, SnapshotId(snapshot_at(9).id.index, snapshot_at(9).id.term), commands(9, 9)),
    ],
    ids=["number skipped", "number repeated", "gap", "gap inside", "term falls", "replaces the snapshot"],
)
async def test_sound_group_that_does_not_follow_refuses_the_start(group: tuple[bytes, bytes]) -> None:
    harness, (*_, whole) = await journal_of_three()
    harness.overwrite(FIRST_FILE, whole + b"".join(group))
    with pytest.raises(QuorumDamaged):
        await harness.open()


async def test_journal_of_a_later_version_is_refused_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.metadata.raft.journal_format.VERSION", 2)
    harness, (*_, whole) = await journal_of_three()
    monkeypatch.undo()
    harness.disk.crash()
    with pytest.raises(QuorumDamaged, match="version 2"):
        await harness.open()
    assert harness.content(FIRST_FILE) == whole


async def test_entries_of_a_term_that_is_not_on_record_refuse_the_start() -> None:
    """Then the file with the vote is an old copy, or was put back."""
    harness, (*_, whole) = await journal_of_three()
    harness.overwrite(FIRST_FILE, whole + b"".join(encode_group(4, None, [command(7, term=2)])))
    with pytest.raises(QuorumDamaged, match="old copy"):
        await harness.open()


# --- the machine was started anew ------------------------------------------------------------------------


def without_sector(content: bytes, sector: int, position: int) -> bytes:
    """As if it had not reached the device; what stood before ``position`` was there already."""
    start, end = max(position, 512 * sector), min(len(content), 512 * (sector + 1))
    return content[:start] + bytes(end - start) + content[end:]


async def test_missing_sector_of_the_last_group_is_cut_after_a_power_loss_and_the_voter_counts() -> None:
    harness, position, whole = await large_last_group()
    for sector in range(position // 512, -(-len(whole) // 512)):
        harness.overwrite(FIRST_FILE, without_sector(whole, sector, position))
        harness.forget_synced()
        directory = await harness.power_loss()
        assert directory.restored is not None
        assert len(directory.restored.entries) == 3
        assert not directory.hard_state.is_recovering, f"sector {sector}"


async def test_missing_sector_without_a_power_loss_makes_the_voter_catch_up() -> None:
    harness, position, whole = await large_last_group()
    harness.overwrite(FIRST_FILE, without_sector(whole, position // 512 + 1, position))
    await harness.restart()
    assert harness.directory.hard_state.is_recovering


async def test_power_loss_is_remembered_until_the_journal_is_repaired() -> None:
    """A start that dies on the way must not make the next one believe that only a process had died."""
    harness, position, whole = await large_last_group()
    harness.overwrite(FIRST_FILE, without_sector(whole, position // 512 + 1, position))
    harness.forget_synced()
    harness.disk.power_loss()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quorate.metadata.raft.journal.Journal.open", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await harness.open()
    await harness.restart()
    assert not harness.directory.hard_state.is_recovering


async def test_sectors_that_were_written_as_zeros_prove_nothing() -> None:
    harness = DirectoryHarness()
    await harness.begin()
    await harness.write_hard_state(hard_state(1))
    await harness.store(command(1, data=b"a" * 300 + bytes(2000) + b"b"))
    harness.disk.crash()
    harness.disk.flip_bit(harness.path(FIRST_FILE), 8 * 100)
    await harness.power_loss()
    assert harness.directory.hard_state.is_recovering


@pytest.mark.parametrize(
    "checker",
    [
        check.check_last_file_that_is_gone,
        check.check_damaged_tail,
        check.check_damage_before_a_sound_group,
        check.check_flips_after_a_power_loss,
    ],
)
async def test_checkers_that_mutations_are_held_against_are_content(
    checker: Callable[[], Awaitable[None]],
) -> None:
    await checker()
