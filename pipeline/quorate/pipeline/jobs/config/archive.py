"""What the job ``archive`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.core.config.kinds import INT64_MAX, ByteCount, Choice, Integer
from quorate.core.config.schema import REQUIRED, setting
from quorate.pipeline.jobs.config.base import StoreFormat, StreamingConfig
from quorate.pipeline.jobs.config.kinds import SharedPath, TopicNames

__all__ = ["ArchiveConfig"]

_MIB: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ArchiveConfig(StreamingConfig):
    """Topics into Parquet or Delta, each record once."""

    topics: tuple[str, ...] = setting(
        "topics",
        TopicNames(),
        default=REQUIRED,
        about="What is archived.",
        trade_off="Topics can be added later; to leave one out takes another `checkpoint.dir`.",
    )
    path: str = setting(
        "path",
        SharedPath(),
        default=REQUIRED,
        about="Where the archive is, for the driver and for every worker.",
        trade_off="A file system with atomic renames: local, NFS, a persistent volume.",
    )
    store_format: StoreFormat = setting(
        "format",
        Choice(StoreFormat),
        default=StoreFormat.PARQUET,
        about="What is written.",
        trade_off="Parquet needs nothing to read it; Delta shows readers whole batches only, also while "
        "files are compacted.",
    )
    compact_files_min: int = setting(
        "compact.files.min",
        Integer(0, 1_000_000),
        default=32,
        about="So many small files of a topic and date are made into one; 0: never.",
        trade_off="Fewer: files are larger and rewritten more often.",
    )
    compact_bytes_max: int = setting(
        "compact.bytes.max",
        ByteCount(1, INT64_MAX),
        default=128 * _MIB,
        about="How large a compacted file becomes; files of half of it are not small any more.",
        trade_off="Larger files read faster, and need more memory to be made.",
    )

    @property
    def checkpoint(self) -> str:
        return self.checkpoint_dir or f"{self.path}/_checkpoint"
