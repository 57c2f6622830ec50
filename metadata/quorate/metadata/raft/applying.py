"""Gives committed entries to the state machine: in order, each exactly once.

Entries are applied at once, in the step that commits them. Only the installation of a snapshot takes time;
what is committed meanwhile waits behind it.

A state machine that raises has met an entry that every other voter applies: it, or this version of the
software, is wrong. Going on would make another state of the same log, so the process ends.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from quorate.core.logging import get_logger
from quorate.errors import QuorateError, copy_of
from quorate.metadata.raft.entries import Entry, Index, Snapshot
from quorate.metadata.raft.raft_log import entry_bytes
from quorate.metadata.raft.ready import SoftState

__all__ = ["Applier", "StateMachine"]

log = get_logger(__name__)


class StateMachine(Protocol):
    """What the quorum's log is for."""

    def apply(self, entries: Sequence[Entry]) -> None:
        """Committed, in order, without a gap; every kind of entry. Must not raise."""
        ...

    async def take_snapshot(self) -> tuple[Index, bytes]:
        """Of the state as it is now, and the index of the last entry applied to it."""
        ...

    async def install_snapshot(self, snapshot: Snapshot) -> None:
        """Replaces the state. Nothing is applied meanwhile. Must not raise."""
        ...

    def leadership_changed(self, soft_state: SoftState) -> None:
        """A leader acts once the entry at ``term_start`` is applied, not before (rule 39)."""
        ...


class Applier:
    def __init__(self, state_machine: StateMachine, *, on_fatal: Callable[[str], NoReturn]) -> None:
        self._state_machine = state_machine
        self._on_fatal = on_fatal
        #: the last entry that is part of the state
        self.applied_index = Index(0)
        #: of entries since the last snapshot that is durable
        self.bytes_since_snapshot = 0
        #: waiting behind the installation of a snapshot, which is the first of them
        self._held_up: deque[Snapshot | Sequence[Entry]] = deque()
        self._readers: list[tuple[Index, int, asyncio.Future[None]]] = []
        self._serials = itertools.count()

    def apply(self, entries: Sequence[Entry]) -> None:
        if self._held_up:
            self._held_up.append(entries)
        else:
            self._apply(entries)

    def hold_up_for(self, snapshot: Snapshot) -> bool:
        """A snapshot has to be installed. True: the caller starts ``install_all``."""
        self._held_up.append(snapshot)
        return len(self._held_up) == 1

    async def install_all(self) -> None:
        """Everything that is held up. What waits stays in the queue until it is done, to hold up the next."""
        while self._held_up:
            first = self._held_up[0]
            if isinstance(first, Snapshot):
                await self.install(first)
            else:
                self._apply(first)
            self._held_up.popleft()

    async def install(self, snapshot: Snapshot) -> None:
        assert snapshot.id.index >= self.applied_index, "the state never goes back"
        try:
            await self._state_machine.install_snapshot(snapshot)
        except Exception as error:
            log.exception("snapshot_not_installed", index=snapshot.id.index)
            self._on_fatal(f"the snapshot at {snapshot.id.index} cannot be installed: {error!r}")
        self.bytes_since_snapshot = 0
        self._advance(snapshot.id.index)

    def snapshot_saved(self, size: int) -> None:
        """A snapshot stands for ``size`` bytes of the entries that were applied."""
        self.bytes_since_snapshot = max(0, self.bytes_since_snapshot - size)

    async def wait_for(self, index: Index) -> None:
        """Returns once ``index`` is applied."""
        if index > self.applied_index:
            reader = asyncio.get_running_loop().create_future()
            heapq.heappush(self._readers, (index, next(self._serials), reader))
            await reader

    def give_up(self, error: QuorateError) -> None:
        """Nothing will be applied any more: tell those who wait."""
        for _, _, reader in self._readers:
            if not reader.done():
                reader.set_exception(copy_of(error))
        self._readers.clear()

    def _apply(self, entries: Sequence[Entry]) -> None:
        assert entries[0].index == self.applied_index + 1, f"{entries[0].index} after {self.applied_index}"
        try:
            self._state_machine.apply(entries)
        except Exception as error:
            log.exception("entries_not_applied", first_index=entries[0].index, last_index=entries[-1].index)
            self._on_fatal(f"entries from {entries[0].index} on cannot be applied: {error!r}")
        self.bytes_since_snapshot += entry_bytes(*(entry.data for entry in entries))
        self._advance(entries[-1].index)

    def _advance(self, index: Index) -> None:
        self.applied_index = index
        while self._readers and self._readers[0][0] <= index:
            _, _, reader = heapq.heappop(self._readers)
            if not reader.done():
                reader.set_result(None)
