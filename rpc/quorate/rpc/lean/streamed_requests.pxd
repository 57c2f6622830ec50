import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean cimport wire
from quorate.rpc.lean.messages cimport whole_bytes
from quorate.rpc.lean.server_call cimport ServerCall


cdef class StreamedRequests(ServerCall):
    # For calls that are not compiled, too.
    cdef public bytearray _unread
    cdef public bint _is_ended
    cdef readonly int64_t _given_bytes, _next_bytes
    cdef int64_t _window_bytes

    @cython.locals(at=int64_t, unread_bytes=int64_t, size=int64_t)
    cpdef _next_request(self)
