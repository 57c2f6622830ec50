# cython: language_level=3, wraparound=False, boundscheck=False, cdivision=True, embedsignature=True
"""The codec, compiled: the same bytes, records and errors as `_pure`, at the speed of C.

Problem: this code reads bytes from the network and from disks by pointer. A length that lies must
not become a read or a write out of bounds, and every input must give what `_pure` gives.

Invariants:

- A pointer moves only through the readers of wire.pxi, each of which first compares how many bytes
  there are with how many it needs: as sizes, never as pointers beyond the buffer's end.
- Sums that could leave their type are tested before they are made; signed overflow never happens.
- No Python code runs while a pointer into a buffer, a list or a string is held, except for crc32c
  and the making of plain objects; buffers are held by the buffer protocol meanwhile, so they can
  be neither freed nor resized.
- Nothing is allocated by a count or a length from the input before the input is known to be at
  least as large.
- This file words no error. A bad header is handed to the pure parser, which raises; a bad record
  becomes a RecordFault. Whatever the fast checks refuse, the pure code refuses with the same words.

Rejected: a C extension by hand (three times the text for the same speed), Rust (a second tool chain
for whoever installs from source), numba or cffi (a heavy dependency at run time).
"""

cimport cython
from cpython cimport array
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize
from cpython.long cimport PyLong_Check
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport (
    PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM,
)
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

import array

from crc32c import crc32c as _crc32c

from quorate.core.records import _pure as pure
from quorate.core.records import faults
from quorate.core.records._pure.header import ScanResult
from quorate.core.records._pure.run import BatchRun
from quorate.core.records.columns import (
    BinaryColumn, HeaderColumns, RecordColumns, as_fields, as_headers, as_timestamps, check_lengths,
)
from quorate.core.records.compression import compress, decompress
from quorate.core.records.fields import BatchFields
from quorate.core.records.format import (
    DECOMPRESSED_BYTES_MAX_DEFAULT, Compression, ConsumerRecord, Record, TimestampType,
)

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

include "_cython/wire.pxi"
include "_cython/checksum.pxi"
include "_cython/header.pxi"
include "_cython/run.pxi"
include "_cython/encode.pxi"
include "_cython/key_hash.pxi"
include "_cython/gather.pxi"
include "_cython/decode.pxi"
include "_cython/columns.pxi"
