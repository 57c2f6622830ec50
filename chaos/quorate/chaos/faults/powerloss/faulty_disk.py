"""A disk below one directory that forgets, fills up and fails: the shim, its side directory, and the faults.

A node runs with ``environment()``. However often it is killed and started again, its page cache lives on, as
the kernel's does; ``lose_power`` is the end of it. Beside the directory stands ``<directory>.powerloss`` with
the undo journal, on the same file system, because removed files are kept there by renaming them.
"""

from __future__ import annotations

import os
import random
import shutil
import uuid
from collections.abc import Mapping
from typing import Final

from quorate.chaos.faults.powerloss.build import shim_library
from quorate.chaos.faults.powerloss.journal import Entry, parse_journal, unsynced
from quorate.chaos.faults.powerloss.undo import Loss, undo

__all__ = ["FaultyDisk"]

#: Without the prefix of settings: a node refuses to start with settings that it does not know.
_ROOT_VARIABLE: Final = "POWERLOSS_ROOT"
_SIDE_VARIABLE: Final = "POWERLOSS_SIDE"
_FULL: Final = "full"
_SYNC_FAILS: Final = "sync-fails"
_BOOT_ID: Final = "boot_id"


class FaultyDisk:
    """Below ``directory``, which is made if it is missing; what is in it now counts as synced."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        self._side = f"{self.directory}.powerloss"
        os.makedirs(self.directory, exist_ok=True)
        os.makedirs(self._held, exist_ok=True)

    @property
    def _held(self) -> str:
        return f"{self._side}/held"

    @property
    def _journal(self) -> str:
        return f"{self._side}/journal"

    def environment(self) -> Mapping[str, str]:
        """Of a process whose writes below the directory are to be revocable."""
        return {
            "LD_PRELOAD": shim_library(),
            _ROOT_VARIABLE: self.directory,
            _SIDE_VARIABLE: self._side,
        }

    def lose_power(self, rng: random.Random | None = None) -> Loss:
        """Once no process uses the directory (all were killed). The next start is one after a reboot.

        With ``rng`` some of what was not synced survives, or half of it does.
        """
        loss = undo(self.directory, self._held, unsynced(self._entries()), rng)
        self.settle()
        # The kernel's own id stays as it is; a node takes its page cache for lost when the id changes.
        boot_id = uuid.UUID(int=rng.getrandbits(128)) if rng is not None else uuid.uuid4()
        self._write(_BOOT_ID, f"{boot_id}\n")
        return loss

    def settle(self) -> None:
        """What is there now counts as synced; no process may use the directory.

        Also after somebody else has changed it, who wiped it or put an old copy back: the journal names files
        by their inodes, and those numbers belong to other files then.
        """
        os.makedirs(self.directory, exist_ok=True)
        shutil.rmtree(self._held)
        os.makedirs(self._held)
        if os.path.exists(self._journal):
            os.unlink(self._journal)

    # -- what else the shim can do to writes

    def fill(self) -> None:
        """Nothing below the directory can grow from now on (ENOSPC)."""
        self._write(_FULL, "")

    def make_room(self) -> None:
        self._clear(_FULL)

    def fail_syncs(self) -> None:
        """Every sync below the directory fails (EIO), and nothing counts as synced by it."""
        self._write(_SYNC_FAILS, "")

    def let_syncs_succeed(self) -> None:
        self._clear(_SYNC_FAILS)

    def _entries(self) -> list[Entry]:
        if not os.path.exists(self._journal):
            return []
        with open(self._journal, "rb") as file:
            return parse_journal(file.read())

    def _write(self, name: str, content: str) -> None:
        with open(f"{self._side}/{name}", "w", encoding="ascii") as file:
            file.write(content)

    def _clear(self, name: str) -> None:
        if os.path.exists(f"{self._side}/{name}"):
            os.unlink(f"{self._side}/{name}")
