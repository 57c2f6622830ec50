import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean cimport wire
from quorate.rpc.lean.connection cimport Connection
from quorate.rpc.lean.stream cimport Stream


@cython.final
cdef class IncomingData:
    cdef Connection _connection
    cdef Stream _stream
    cdef int64_t _window_bytes, _receive_window, _content_left, _padding_left
    cdef bint _ends_stream
    cdef readonly bint is_open

    @cython.locals(stream=Stream, window_left=int64_t, end=Py_ssize_t)
    cpdef Py_ssize_t take_whole(self, view, Py_ssize_t at, int64_t length, int64_t flags, int64_t stream_id) except -1
    cpdef Py_ssize_t begin(self, view, Py_ssize_t at, int64_t length, int64_t flags, int64_t stream_id) except -1
    @cython.locals(available=int64_t, size=int64_t, skipped=int64_t, rest=int64_t, stream=Stream)
    cpdef Py_ssize_t receive(self, view, Py_ssize_t at) except -1
    @cython.locals(stream=Stream)
    cdef Stream _find_stream(self, int64_t stream_id, int64_t length)
    @cython.locals(lacking=int64_t)
    cdef _count(self, int64_t length)
    cdef _count_for_stream(self, Stream stream, int64_t length)
    cdef _end(self, Stream stream)
