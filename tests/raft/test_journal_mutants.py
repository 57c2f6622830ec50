"""Each rule of the journal switched off in turn: the tests notice, so they are worth having."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.metadata.raft import journal_recovery, quorum_directory
from quorate.metadata.raft.journal import Journal
from quorate.metadata.raft.journal_mark import NOTHING_SYNCED, SyncedMark
from quorate.metadata.raft.journal_recovery import Recovered
from quorate.metadata.raft.quorum_directory import QuorumDirectory
from tests.mutants import assert_story_notices
from tests.raft import (
    test_journal_bit_flips,
    test_journal_faults,
    test_journal_power_loss,
    test_journal_tail,
    test_quorum_directory,
)

SEEDS = 40


async def random_deaths() -> None:
    for seed in range(SEEDS):
        await test_journal_power_loss.live_and_die(seed, loses_power=True)


async def open_without_writing_again(
    kind: type[Journal], /, disk: Any, directory: str, recovered: Recovered, **options: int
) -> Journal:
    journal = kind(disk, directory, recovered, segment_bytes=options["segment_bytes"])
    journal._file.truncate(recovered.segments[-1].size)
    await journal._file.fdatasync()
    return journal


async def open_without_cutting(
    kind: type[Journal], /, disk: Any, directory: str, recovered: Recovered, **options: int
) -> Journal:
    return kind(disk, directory, recovered, segment_bytes=options["segment_bytes"])


async def sync_the_file_alone(journal: Journal) -> None:
    await journal._file.fdatasync()
    journal._is_unsynced = journal._is_name_unsynced = False


async def write_while_syncing(journal: Journal) -> None:
    if journal._waiting or journal._restart_after is not None:
        journal._write_group()
    await journal._file.fdatasync()


async def trim_to_the_newest(directory: QuorumDirectory, snapshot: Any) -> None:
    directory.snapshot = snapshot
    await directory._founded_journal.trim(snapshot.id.index)


async def note_nothing(directory: QuorumDirectory, tail: Any) -> None:
    """Cut without a word."""


#: rule that is off -> what is patched, with what, and who notices
MUTANTS: dict[str, tuple[object, str, object, Callable[[], Awaitable[None]]]] = {
    "the last group is written again": (
        Journal,
        "open",
        classmethod(open_without_writing_again),
        test_journal_faults.test_group_whose_sync_failed_is_written_again_before_it_counts,
    ),
    "the tail is cut": (
        Journal,
        "open",
        classmethod(open_without_cutting),
        random_deaths,
    ),
    "a new file's name is synced": (
        Journal,
        "_sync_file",
        sync_the_file_alone,
        random_deaths,
    ),
    "one group at a time": (
        Journal,
        "sync",
        write_while_syncing,
        test_quorum_directory.test_nothing_is_written_while_a_sync_is_under_way,
    ),
    "a power loss is told from damage": (
        journal_recovery,
        "has_missing_sector",
        lambda *_: False,
        random_deaths,
    ),
    "damage is told from a power loss": (
        journal_recovery,
        "has_missing_sector",
        lambda *_: True,
        test_journal_tail.test_flipped_bit_is_no_missing_sector_also_after_a_power_loss,
    ),
    "damage before a sound group refuses the start": (
        journal_recovery._SegmentScan,
        "_find_later_group",
        lambda _: None,
        test_journal_tail.test_damage_with_a_sound_group_behind_it_refuses_the_start_and_names_the_place,
    ),
    "a payload has a checksum": (
        journal_recovery,
        "_has_sound_payload",
        lambda *_: True,
        lambda: test_journal_bit_flips.find_every_flip_of_the_journal(lost_power=False),
    ),
    "a damaged tail is noted": (
        QuorumDirectory,
        "_note_tail",
        note_nothing,
        test_journal_tail.test_full_length_group_with_a_wrong_checksum_at_the_end_makes_the_voter_catch_up,
    ),
    "a journal that is too short is noted": (
        quorum_directory,
        "read_synced_mark",
        lambda *_: NOTHING_SYNCED,
        test_journal_tail.test_last_file_that_is_gone_makes_the_voter_catch_up,
    ),
    "the mark follows the sync": (
        SyncedMark,
        "set",
        lambda *_: None,
        test_journal_tail.test_last_file_that_is_gone_makes_the_voter_catch_up,
    ),
    "the journal is kept from the older snapshot on": (
        QuorumDirectory,
        "_take_in",
        trim_to_the_newest,
        lambda: test_quorum_directory.test_damaged_newest_snapshot_is_made_up_for_by_the_journal((5, 9)),
    ),
    "an installed snapshot restarts the journal": (
        Journal,
        "restart_after",
        lambda journal, snapshot: setattr(journal, "_last_index", snapshot.index),
        random_deaths,
    ),
}


@pytest.mark.parametrize("rule", MUTANTS)
def test_tests_notice_when_a_rule_is_off(rule: str) -> None:
    owner, name, replacement, notice = MUTANTS[rule]
    assert_story_notices(lambda patch: patch.setattr(owner, name, replacement), notice)
