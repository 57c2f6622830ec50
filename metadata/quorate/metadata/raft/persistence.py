"""Makes durable what the core wants durable, in order, with one sync for all that wait.

While the device works, what the core wants next piles up; when the device is done, all of that goes into the
next write and the next sync together (group commit). So the number of syncs is set by the device and not by
the number of changes, and a message that needs no durability never waits for one that does.

Only then are the messages of these steps released, in their order, and the core told. A step that wants
nothing persisted still waits for those before it: what it says may rest on what they write.

A write or sync that fails ends the process (rule 45): nobody knows any more what the device holds. What lacks
a file descriptor has not failed: the device was not asked. It is tried again for some seconds, in which this
voter is one with a slow device: it answers for nothing that is new. Descriptors that are used up everywhere
for a moment would else be the end of the quorum. To go on like that for good would keep a leader in office
that makes nothing durable. A snapshot that lacks one ends the process all the same: it consists of several
steps, not all of which may be repeated, and is seldom due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NoReturn, Protocol

from quorate.core.clock import Clock
from quorate.metadata.raft.entries import Entry, Snapshot
from quorate.metadata.raft.ready import HardState, Ready
from quorate.storage.descriptors import with_descriptors

__all__ = ["Durable", "Persistence"]


class Durable(Protocol):
    """The voter's directory, as far as steps are written to it."""

    async def write_hard_state(self, hard_state: HardState) -> None: ...

    async def install_snapshot(self, snapshot: Snapshot) -> None: ...

    def append(self, entries: Sequence[Entry]) -> None: ...

    async def sync(self) -> None: ...


class Persistence:
    def __init__(
        self,
        directory: Durable,
        *,
        clock: Clock,
        on_durable: Callable[[Sequence[Ready]], None],
        on_fatal: Callable[[str], NoReturn],
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._on_durable = on_durable
        self._on_fatal = on_fatal
        self._waiting: list[Ready] = []
        self._is_writing = False
        self._is_stopping = False
        self._wakeup: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        """All that was submitted is durable."""
        return not self._waiting and not self._is_writing

    def submit(self, ready: Ready) -> None:
        """To be called for steps in their order."""
        self._waiting.append(ready)
        self._wake_up()

    def stop(self) -> None:
        """``run`` finishes the write that is under way, releases nothing more, and returns."""
        self._is_stopping = True
        self._wake_up()

    async def run(self) -> None:
        while not self._is_stopping:
            if not self._waiting:
                self._wakeup = asyncio.get_running_loop().create_future()
                await self._wakeup
                continue
            batch, self._waiting = self._waiting, []
            self._is_writing = True
            try:
                await self._write(batch)
            except OSError as error:
                if self._is_stopping:
                    return
                self._on_fatal(f"the metadata journal cannot be written: {error}")
            self._is_writing = False
            if not self._is_stopping:
                self._on_durable(batch)

    def _wake_up(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def _write(self, batch: Sequence[Ready]) -> None:
        directory = self._directory
        is_unsynced = False
        for ready in batch:
            if ready.hard_state is not None:
                # Ahead of entries that wait for the one sync at the end. That a term is known sooner than
                # these is no harm: nobody was told of either.
                await self._with_descriptors(partial(directory.write_hard_state, ready.hard_state))
            if ready.snapshot is not None:
                if is_unsynced:
                    await self._with_descriptors(directory.sync)
                await directory.install_snapshot(ready.snapshot)
                is_unsynced = False
            if ready.entries:
                directory.append(ready.entries)
                is_unsynced = True
        if is_unsynced:
            await self._with_descriptors(directory.sync)

    async def _with_descriptors(self, write: Callable[[], Awaitable[None]]) -> None:
        """``write`` may be repeated if it lacked a descriptor.

        Also where it lacked one to sync the directory, after a file was replaced: to replace it once more
        changes nothing.
        """
        await with_descriptors(
            write,
            self._clock,
            doing="write",
            path="the metadata journal",
            is_given_up=lambda: self._is_stopping,
        )
