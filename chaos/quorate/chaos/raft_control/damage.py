"""What pysyncobj makes of files that are damaged: it believes them.

Neither its journal nor its dump has a checksum of its own; a dump that cannot be read is logged and left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from quorate.chaos.raft_control.connections import Traffic
from quorate.chaos.raft_control.pysyncobj_package import load_pysyncobj
from quorate.chaos.raft_control.stock_voter import Files
from quorate.chaos.raft_control.world import World, commands_in, stock_world

__all__ = ["BitFlips", "TornDump", "flip_bits_of_a_journal", "start_on_a_torn_dump"]

_ENTRIES: Final = 5
_COMMANDS: Final = 20
_QUIET: Final = Traffic(delay_s=(0.001, 0.01))


@dataclass(frozen=True, slots=True)
class BitFlips:
    """Of one file, each bit in turn."""

    flips: int
    #: the journal opens, and has other entries than were written
    believed: int
    #: the journal does not open
    refused: int


def flip_bits_of_a_journal(*, every: int = 1) -> BitFlips:
    """One in each copy of the part that is in use; ``every``: 1 for all bits, 2 for every second one."""
    journal_module = load_pysyncobj().journal
    written = [(b"\0the command number %d" % number, number, 1) for number in range(1, _ENTRIES + 1)]
    believed = refused = 0
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "journal")
        journal = journal_module.createJournal(path)
        for entry in written:
            journal.add(*entry)
        journal._destroy()  # noqa: SLF001  how it is closed
        with open(path, "rb") as file:
            content = file.read().rstrip(b"\0")  # the file is longer than what is in use
        flips = range(0, len(content) * 8, every)
        for position in flips:
            damaged = bytearray(content)
            damaged[position // 8] ^= 1 << position % 8
            with open(path, "wb") as file:
                file.write(damaged)
            entries = _entries_of(journal_module, path)
            refused += entries is None
            believed += entries is not None and entries != written
    return BitFlips(len(flips), believed, refused)


def _entries_of(journal_module: Any, path: str) -> list[tuple[bytes, int, int]] | None:
    try:
        journal = journal_module.createJournal(path)
    except Exception:  # noqa: BLE001  it has no error of its own for this: whatever it is, it did not open
        return None
    entries: list[tuple[bytes, int, int]] = journal[:]
    journal._destroy()  # noqa: SLF001  how it is closed
    return entries


@dataclass(frozen=True, slots=True)
class TornDump:
    acknowledged: int
    #: commands in the state of the voter that started on half a dump
    known_to_the_voter: int
    #: it was elected, and answers for the others
    has_led: bool


def start_on_a_torn_dump() -> TornDump:
    """One voter's dump is cut in half while it is down. Later its vote is needed, or its leadership."""
    with stock_world(0, has_files=True) as (world, _observer, files):
        world.play(_story_of_a_torn_dump(world, files[0]))
        damaged, *_others = world.voters.values()
        return TornDump(
            acknowledged=len(world.acknowledged),
            known_to_the_voter=len(commands_in(damaged.machine)),
            has_led=damaged.is_leader,
        )


def _story_of_a_torn_dump(world: World, files: Files) -> Iterator[float]:
    world.connections.traffic = _QUIET
    for voter in world.voters.values():
        voter.start()
    yield 3.0
    world.write(_COMMANDS)
    yield 3.0
    for voter in world.voters.values():
        voter.compact()
    yield 1.0
    damaged, second, third = world.voters.values()
    damaged.crash()
    os.truncate(files.dump, os.path.getsize(files.dump) // 2)
    damaged.start()
    yield 3.0
    # One of the other two is enough for a majority with the damaged one. Whoever leads, goes, until it leads.
    for _ in range(20):
        if damaged.is_leader:
            return
        leader = second if second.is_leader else third
        leader.crash()
        yield 5.0
        leader.start()
        yield 3.0
