"""The codec in plain Python: the reference for the compiled one, and its stand-in."""

from quorate.core.records._pure.decode import decode_batch, decode_columns, decode_consumer_records
from quorate.core.records._pure.encode import encode_batch, encode_values
from quorate.core.records._pure.gather import (
    Budget,
    ColumnBuilder,
    Intake,
    are_plain_fields,
    picked,
    record_bytes,
    record_ends,
    rows_by_partition,
)
from quorate.core.records._pure.header import (
    BatchHeader,
    ScanResult,
    check_batch,
    parse_header,
    patch_header,
    scan_batches,
    stamped_prefix,
)
from quorate.core.records._pure.key_hash import murmur2, partition_for_key, partitions_for_keys
from quorate.core.records._pure.run import BatchRun, scan_run

__all__ = [
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
