"""Segments, indexes, checkpoints and the partition log."""

from quorate.storage.compaction import CompactionReport
from quorate.storage.compaction_checkpoint import NOT_COMPACTED, Compacted
from quorate.storage.log_config import LogConfig
from quorate.storage.log_context import LogContext
from quorate.storage.log_directory import LogDirectory
from quorate.storage.log_reader import LogRead, TimestampedOffset
from quorate.storage.log_writer import Appended
from quorate.storage.open_files import OpenFiles
from quorate.storage.partition_key import PartitionKey
from quorate.storage.partition_log import PartitionLog
from quorate.storage.quarantine import Damage
from quorate.storage.recent_batches import RecentBatches
from quorate.storage.recovery import StartKind

__all__ = [
    "NOT_COMPACTED",
    "Appended",
    "Compacted",
    "CompactionReport",
    "Damage",
    "LogConfig",
    "LogContext",
    "LogDirectory",
    "LogRead",
    "OpenFiles",
    "PartitionKey",
    "PartitionLog",
    "RecentBatches",
    "StartKind",
    "TimestampedOffset",
]
