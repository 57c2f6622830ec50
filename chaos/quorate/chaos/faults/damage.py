"""What disks do to the files of a node that does not run: chosen by kind, drawn from a seed, on record."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from quorate.errors import InvalidRequest
from quorate.metadata.raft.quorum_config import QUORUM_DIRECTORY_NAME
from quorate.metadata.raft.quorum_state import HARD_STATE_NAME
from quorate.storage.data_directory_files import HIGH_WATERMARKS_NAME, RUN_NOTES_NAME
from quorate.storage.leader_epochs import EPOCH_CHECKPOINT_NAME
from quorate.storage.log_files import LOG_CHECKPOINT_NAME, SNAPSHOT_SUFFIX
from quorate.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX

__all__ = ["Damage", "FileKind", "Harm", "damage", "files_of", "overwrite"]

_JOURNAL_SUFFIX: Final = ".journal"
_SECTOR_BYTES: Final = 512


class FileKind(StrEnum):
    """As people call them."""

    SEGMENT = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    LOG_CHECKPOINT = "log checkpoint"
    LEADER_EPOCHS = "leader epochs"
    HIGH_WATERMARKS = "high watermarks"
    RUN_NOTES = "run notes"
    JOURNAL = "journal"
    QUORUM_SNAPSHOT = "quorum snapshot"
    HARD_STATE = "hard state"


class Harm(StrEnum):
    FLIP = "a bit is flipped"
    GARBLE = "a sector holds something else"
    CUT = "the end is missing"


#: whether it is in the directory of the quorum, and how its name ends
_ENDINGS: Final[dict[FileKind, tuple[bool, str]]] = {
    FileKind.SEGMENT: (False, LOG_SUFFIX),
    FileKind.OFFSET_INDEX: (False, INDEX_SUFFIX),
    FileKind.TIME_INDEX: (False, TIME_INDEX_SUFFIX),
    FileKind.PRODUCER_SNAPSHOT: (False, SNAPSHOT_SUFFIX),
    FileKind.LOG_CHECKPOINT: (False, LOG_CHECKPOINT_NAME),
    FileKind.LEADER_EPOCHS: (False, EPOCH_CHECKPOINT_NAME),
    FileKind.HIGH_WATERMARKS: (False, HIGH_WATERMARKS_NAME),
    FileKind.RUN_NOTES: (False, RUN_NOTES_NAME),
    FileKind.JOURNAL: (True, _JOURNAL_SUFFIX),
    FileKind.QUORUM_SNAPSHOT: (True, SNAPSHOT_SUFFIX),
    FileKind.HARD_STATE: (True, HARD_STATE_NAME),
}


@dataclass(frozen=True, slots=True)
class Damage:
    """What was hit."""

    path: str
    kind: FileKind
    harm: Harm
    #: where it begins
    position: int
    #: how many bytes are not what they were, or gone
    count: int
    #: what stands there instead
    left: bytes = field(default=b"", repr=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.path}: {self.harm}, {self.count} bytes from byte {self.position}"

    def is_there(self) -> bool:
        """Still: the file was neither deleted nor cut before it, and nobody has written over it."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.position)
                # Behind a cut there is nothing, or somebody has written.
                found = file.read(max(1, len(self.left)))
                return found == self.left and os.path.getsize(self.path) >= self.position
        except FileNotFoundError:
            return False


def files_of(data_dir: str, kind: FileKind) -> list[str]:
    """Those that have content, sorted."""
    in_quorum, ending = _ENDINGS[kind]
    found = []
    for parent, directories, names in os.walk(data_dir):
        directories.sort()
        is_quorum = os.path.basename(parent) == QUORUM_DIRECTORY_NAME
        paths = [f"{parent}/{name}" for name in sorted(names) if name.endswith(ending)]
        found += [path for path in paths if is_quorum == in_quorum and os.path.getsize(path)]
    return sorted(found)


def damage(
    data_dir: str,
    kind: FileKind,
    harm: Harm,
    rng: random.Random,
    *,
    within: str = "",
    end: int | None = None,
) -> Damage:
    """To one file of the kind, of a node that does not run.

    ``within``: only files whose path below ``data_dir`` begins so (a partition's directory). ``end``: only
    bytes before it, as those behind the high watermark were promised to nobody.
    """
    paths = [path for path in files_of(data_dir, kind) if os.path.relpath(path, data_dir).startswith(within)]
    if not paths:
        raise InvalidRequest(f"{data_dir} holds no {kind} that could be damaged", path=data_dir)
    path = rng.choice(paths)
    size = os.path.getsize(path)
    bound = size if end is None else min(size, end)
    if bound <= 0:
        raise InvalidRequest(f"{path} has nothing before byte {end}", path=path)
    position = rng.randrange(bound)
    if harm is Harm.CUT:
        os.truncate(path, position)
        return Damage(path, kind, harm, position, size - position)
    if harm is Harm.FLIP:
        left = overwrite(path, position, lambda old: bytes([old[0] ^ 1 << rng.randrange(8)]), 1)
        return Damage(path, kind, harm, position, 1, left)
    start = position - position % _SECTOR_BYTES
    count = min(_SECTOR_BYTES, bound - start)
    # Each byte becomes another one.
    left = overwrite(
        path, start, lambda old: bytes((byte + rng.randint(1, 255)) % 256 for byte in old), count
    )
    return Damage(path, kind, harm, start, count, left)


def overwrite(path: str, position: int, change: Callable[[bytes], bytes], count: int) -> bytes:
    """Returns what stands there now."""
    with open(path, "r+b") as file:
        file.seek(position)
        old = file.read(count)
        file.seek(position)
        new = change(old)
        file.write(new)
    return new
