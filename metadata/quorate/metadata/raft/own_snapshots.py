"""Snapshots of this voter's own state, taken now and then so that the journal does not grow for ever.

Taking one does not interrupt anything: the state machine hands out what it is at one moment, in slices, and
the file is written beside the journal. Only when it is durable may entries be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import NoReturn

from quorate.core.logging import get_logger
from quorate.metadata.raft.applying import Applier, StateMachine
from quorate.metadata.raft.core import RaftCore
from quorate.metadata.raft.entries import Snapshot, SnapshotId
from quorate.metadata.raft.quorum_directory import QuorumDirectory

__all__ = ["OwnSnapshots"]

log = get_logger(__name__)


class OwnSnapshots:
    def __init__(
        self,
        core: RaftCore,
        directory: QuorumDirectory,
        state_machine: StateMachine,
        applier: Applier,
        *,
        interval_bytes: int,
        on_saved: Callable[[Snapshot], None],
        on_fatal: Callable[[str], NoReturn],
    ) -> None:
        self._core = core
        self._directory = directory
        self._state_machine = state_machine
        self._applier = applier
        self._interval_bytes = interval_bytes
        self._on_saved = on_saved
        self._on_fatal = on_fatal
        self._is_taking = False

    @property
    def is_due(self) -> bool:
        return self._applier.bytes_since_snapshot >= self._interval_bytes and not self._is_taking

    def take(self) -> Coroutine[None, None, None]:
        """To be run by the caller; from now on no other is due."""
        self._is_taking = True
        return self._take_and_save()

    async def _take_and_save(self) -> None:
        try:
            snapshot = await self._take()
        except Exception as error:
            log.exception("snapshot_failed")
            self._on_fatal(f"a snapshot of the metadata cannot be taken: {error!r}")
        finally:
            self._is_taking = False
        if snapshot is not None:
            log.info("snapshot_taken", index=snapshot.id.index, bytes=len(snapshot.data))
            self._on_saved(snapshot)

    async def _take(self) -> Snapshot | None:
        """None: a snapshot of the leader's has overtaken it."""
        size = self._applier.bytes_since_snapshot
        index, data = await self._state_machine.take_snapshot()
        term = self._core.term_at(index)
        if term is None:
            return None
        snapshot = Snapshot(SnapshotId(index, term), self._core.voters_at(index), data)
        await self._directory.save_snapshot(snapshot)
        self._applier.snapshot_saved(size)
        return snapshot
