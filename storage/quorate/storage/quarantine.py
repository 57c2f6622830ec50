"""A damaged log's mark, so that a restart does not forget what a read found out.

The mark is there at once, and on the device a moment later. What has rotted below the recovery point no start
looks at again: if a loss of power took the mark, the log would pass for a sound one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.core.disk import Disk
from quorate.core.ids import Offset
from quorate.errors import QuorateError
from quorate.storage.checkpoint import DamagedCheckpoint, read_checkpoint, write_cached

__all__ = ["DAMAGE_NAME", "Damage", "lift_damage", "load_damage", "save_damage", "sync_damage"]

DAMAGE_NAME: Final = "damage"


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that fail their checks and may have been acknowledged."""

    path: str
    position: int
    #: the offset that was due there
    offset: Offset
    reason: str

    @classmethod
    def found_by(cls, error: QuorateError, *, path: str, offset: Offset) -> Damage:
        """What a check found, at the place it names; ``path`` where it names none."""
        found_in, position = error.facts.get("path"), error.facts.get("position")
        if isinstance(found_in, str) and isinstance(position, int):
            return cls(found_in, position, offset, error.message)
        return cls(path, 0, offset, error.message)

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}, offset {self.offset}: {self.reason}"


def save_damage(disk: Disk, directory: str, damage: Damage) -> None:
    state = {
        "path": damage.path.rpartition("/")[2],
        "position": damage.position,
        "offset": damage.offset,
        "reason": damage.reason,
    }
    write_cached(disk, f"{directory}/{DAMAGE_NAME}", state)


async def sync_damage(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/{DAMAGE_NAME}")
    try:
        await file.fdatasync()
    finally:
        file.close()
    await disk.fsync_directory(directory)


def load_damage(disk: Disk, directory: str) -> Damage | None:
    path = f"{directory}/{DAMAGE_NAME}"
    try:
        state = read_checkpoint(disk, path)
    except DamagedCheckpoint as damaged:
        return Damage(path, 0, Offset(0), f"quarantined; the reason is unreadable: {damaged.reason}")
    if state is None:
        return None
    return Damage(f"{directory}/{state['path']}", state["position"], Offset(state["offset"]), state["reason"])


async def lift_damage(disk: Disk, directory: str) -> None:
    path = f"{directory}/{DAMAGE_NAME}"
    if disk.exists(path):
        disk.unlink(path)
        await disk.fsync_directory(directory)
