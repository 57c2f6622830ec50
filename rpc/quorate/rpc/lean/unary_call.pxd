import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean.messages cimport MessageReader
from quorate.rpc.lean.server_call cimport ServerCall


@cython.final
cdef class UnaryCall(ServerCall):
    cdef MessageReader _reader
    cdef object _request, _content
    cdef int64_t _request_bytes
    cdef bint _is_whole
