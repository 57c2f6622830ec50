"""The record batch: Kafka's RecordBatch v2, in two implementations with one behaviour.

`_compiled.pyx` is used where it was built, `_pure` everywhere else, and where the environment says
``QUORATE_CODEC=pure``; `CODEC` tells which. Both produce the same bytes, the same records and the
same errors, and every test runs on both.

A broker looks at headers only (`check_batch`, `scan_batches`, `stamped_prefix`), unless a topic is
compacted (`has_null_key`, `decode_keys`, `thinned`); clients make batches and take them apart
(`encode_batch`, `encode_values`, `decode_batch`, `decode_consumer_records`, `batch_to_arrow`).
"""

from quorate.core.records.arrow import arrow_schema, batch_to_arrow
from quorate.core.records.codec import (
    CODEC,
    BatchHeader,
    BatchRun,
    ColumnBuilder,
    ScanResult,
    are_plain_fields,
    check_batch,
    decode_batch,
    decode_consumer_records,
    encode_batch,
    encode_values,
    murmur2,
    parse_header,
    partition_for_key,
    partitions_for_keys,
    patch_header,
    picked,
    record_bytes,
    record_ends,
    rows_by_partition,
    scan_batches,
    scan_run,
    stamped_prefix,
)
from quorate.core.records.format import (
    ATTRIBUTES_POSITION,
    DECOMPRESSED_BYTES_MAX_DEFAULT,
    HEADER_BYTES,
    LEADER_EPOCH_END,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchFault,
    Buffer,
    Compression,
    ConsumerRecord,
    EncodableHeaders,
    EncodableRecord,
    FaultKind,
    Headers,
    Record,
    TimestampType,
    stated_bytes,
)
from quorate.core.records.keys import RecordKey, decode_keys, has_null_key
from quorate.core.records.renumber import renumbered
from quorate.core.records.split import split_batches
from quorate.core.records.thinning import FILLED_OFFSETS_MAX, emptied, filler, is_filler, thinned

__all__ = [
    "ATTRIBUTES_POSITION",
    "CODEC",
    "DECOMPRESSED_BYTES_MAX_DEFAULT",
    "FILLED_OFFSETS_MAX",
    "HEADER_BYTES",
    "LEADER_EPOCH_END",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "MAGIC_POSITION",
    "BatchFault",
    "BatchHeader",
    "BatchRun",
    "Buffer",
    "ColumnBuilder",
    "Compression",
    "ConsumerRecord",
    "EncodableHeaders",
    "EncodableRecord",
    "FaultKind",
    "Headers",
    "Record",
    "RecordKey",
    "ScanResult",
    "TimestampType",
    "are_plain_fields",
    "arrow_schema",
    "batch_to_arrow",
    "check_batch",
    "decode_batch",
    "decode_consumer_records",
    "decode_keys",
    "emptied",
    "encode_batch",
    "encode_values",
    "filler",
    "has_null_key",
    "is_filler",
    "murmur2",
    "parse_header",
    "partition_for_key",
    "partitions_for_keys",
    "patch_header",
    "picked",
    "record_bytes",
    "record_ends",
    "renumbered",
    "rows_by_partition",
    "scan_batches",
    "scan_run",
    "split_batches",
    "stamped_prefix",
    "stated_bytes",
    "thinned",
]
