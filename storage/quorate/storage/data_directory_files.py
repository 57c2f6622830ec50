"""Names in a broker's data directory, beside those of the logs (``partition_key``)."""

from __future__ import annotations

from typing import Final

__all__ = [
    "CACHE_WITNESS_NAME",
    "DEVICE_WITNESS_NAME",
    "HIGH_WATERMARKS_NAME",
    "IDENTITY_NAME",
    "LOCK_NAME",
    "RUN_NOTES_NAME",
]

#: held while a process uses the directory
LOCK_NAME: Final = ".lock"
#: whose directory it is; no start without. A quorum's directory has an ``identity`` of another kind
IDENTITY_NAME: Final = "broker-identity"
#: the last process that served from here, and how it ended; without it no replica here counts
RUN_NOTES_NAME: Final = "run-notes"
#: a lower bound of each replica's high watermark; does without
HIGH_WATERMARKS_NAME: Final = "high-watermarks"
#: a number that is never synced while a process runs: whether the page cache has survived (rule 30)
CACHE_WITNESS_NAME: Final = "cache-witness"
#: a number that is synced before anybody is told of it: whether this is an old copy (rule 30)
DEVICE_WITNESS_NAME: Final = "device-witness"
