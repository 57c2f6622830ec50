"""Picks the implementation: compiled where it was built, else pure.

``QUORATE_CODEC=pure`` in the environment forces the pure one, here and in the lean transport. It is read
here, on import, and not through the configuration: a process has one codec, and tests and tools without a
configuration choose it too.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quorate.core.records import _pure as _codec
else:
    from quorate.core.records import _pure as _codec

    if os.environ.get("QUORATE_CODEC") != "pure":
        # Not built here? Then the pure one stands in, and CODEC says so.
        with suppress(ImportError):
            from quorate.core.records import _compiled as _codec

__all__ = [
    "CODEC",
    "BatchHeader",
    "BatchRun",
    "Budget",
    "ColumnBuilder",
    "Intake",
    "ScanResult",
    "are_plain_fields",
    "check_batch",
    "decode_batch",
    "decode_columns",
    "decode_consumer_records",
    "encode_batch",
    "encode_values",
    "murmur2",
    "parse_header",
    "partition_for_key",
    "partitions_for_keys",
    "patch_header",
    "picked",
    "record_bytes",
    "record_ends",
    "rows_by_partition",
    "scan_batches",
    "scan_run",
    "stamped_prefix",
]

#: "compiled" or "pure"
CODEC: Final[str] = _codec.__name__.rpartition("._")[2]

BatchHeader = _codec.BatchHeader
BatchRun = _codec.BatchRun
Budget = _codec.Budget
ColumnBuilder = _codec.ColumnBuilder
Intake = _codec.Intake
ScanResult = _codec.ScanResult
are_plain_fields = _codec.are_plain_fields
check_batch = _codec.check_batch
decode_batch = _codec.decode_batch
decode_columns = _codec.decode_columns
decode_consumer_records = _codec.decode_consumer_records
encode_batch = _codec.encode_batch
encode_values = _codec.encode_values
murmur2 = _codec.murmur2
parse_header = _codec.parse_header
partition_for_key = _codec.partition_for_key
partitions_for_keys = _codec.partitions_for_keys
patch_header = _codec.patch_header
picked = _codec.picked
record_bytes = _codec.record_bytes
record_ends = _codec.record_ends
rows_by_partition = _codec.rows_by_partition
scan_batches = _codec.scan_batches
scan_run = _codec.scan_run
stamped_prefix = _codec.stamped_prefix
