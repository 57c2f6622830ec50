# What wire.py has, in C: inlined into the modules that are compiled.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Check, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_Check, PyMemoryView_GET_BUFFER
from libc.stdint cimport int64_t
from libc.string cimport memcpy

cdef enum:
    HEADER_BYTES = 9
    PREFIX_BYTES = 5
    DATA = 0x0
    END_STREAM = 0x1
    PADDED = 0x8


cdef inline const unsigned char* _located(object content, Py_ssize_t at, Py_ssize_t size) except NULL:
    """Where so many bytes of it lie, all of them."""
    cdef const unsigned char* start
    cdef Py_ssize_t length
    if PyMemoryView_Check(content):
        buffer = PyMemoryView_GET_BUFFER(content)
        if buffer.ndim != 1 or buffer.itemsize != 1 or (buffer.strides != NULL and buffer.strides[0] != 1):
            raise ValueError("a view of bytes in a row is needed")
        start, length = <const unsigned char*>buffer.buf, buffer.len
    elif PyByteArray_Check(content):
        start, length = <const unsigned char*>PyByteArray_AS_STRING(content), PyByteArray_GET_SIZE(content)
    else:
        raise TypeError("a memoryview or a bytearray is needed")
    if at < 0 or length - at < size:
        raise ValueError("there are fewer bytes than that")
    return start + at


cdef inline int64_t _uint32(const unsigned char* start):
    return <int64_t>start[0] << 24 | <int64_t>start[1] << 16 | <int64_t>start[2] << 8 | <int64_t>start[3]


cdef inline void _write_uint32(unsigned char* target, int64_t value):
    target[0] = <unsigned char>(value >> 24 & 0xFF)
    target[1] = <unsigned char>(value >> 16 & 0xFF)
    target[2] = <unsigned char>(value >> 8 & 0xFF)
    target[3] = <unsigned char>(value & 0xFF)


cdef inline int _write_header(
    unsigned char* target, int64_t length, int64_t frame_type, int64_t flags, int64_t stream_id
) except -1:
    if length < 0 or length >> 24 or frame_type & ~0xFF or flags & ~0xFF or stream_id < 0 or stream_id >> 32:
        raise ValueError("no frame has such a header")
    _write_uint32(target, length << 8 | frame_type)
    target[4] = <unsigned char>flags
    _write_uint32(target + 5, stream_id)
    return 0


cdef inline bytes frame_header(int64_t length, int64_t frame_type, int64_t flags, int64_t stream_id):
    written = PyBytes_FromStringAndSize(NULL, HEADER_BYTES)
    _write_header(<unsigned char*>PyBytes_AS_STRING(written), length, frame_type, flags, stream_id)
    return written


cdef inline bytes data_frame(int64_t stream_id, int64_t flags, bytes prefix, bytes content):
    cdef Py_ssize_t prefix_bytes = len(prefix), content_bytes = len(content)
    written = PyBytes_FromStringAndSize(NULL, HEADER_BYTES + prefix_bytes + content_bytes)
    target = <unsigned char*>PyBytes_AS_STRING(written)
    _write_header(target, prefix_bytes + content_bytes, DATA, flags, stream_id)
    memcpy(target + HEADER_BYTES, PyBytes_AS_STRING(prefix), prefix_bytes)
    memcpy(target + HEADER_BYTES + prefix_bytes, PyBytes_AS_STRING(content), content_bytes)
    return written


cdef inline (int64_t, int64_t, int64_t, int64_t) read_frame_header(object view, Py_ssize_t at) except *:
    start = _located(view, at, HEADER_BYTES)
    return _uint32(start) >> 8, start[3], start[4], _uint32(start + 5) & 0x7FFFFFFF


cdef inline bytes message_prefix(int64_t message_bytes):
    if message_bytes < 0 or message_bytes >> 32:
        raise ValueError("no message has that length")
    written = PyBytes_FromStringAndSize(NULL, PREFIX_BYTES)
    target = <unsigned char*>PyBytes_AS_STRING(written)
    target[0] = 0
    _write_uint32(target + 1, message_bytes)
    return written


cdef inline (int64_t, int64_t) read_prefix(object content, Py_ssize_t at) except *:
    start = _located(content, at, PREFIX_BYTES)
    return start[0], _uint32(start + 1)
