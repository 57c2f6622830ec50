import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean cimport wire
from quorate.rpc.lean.link cimport LinkCore
from quorate.rpc.lean.stream cimport Stream


cdef class ServerCall:
    cdef readonly str peer
    cdef public object initial_metadata, trailing_metadata, arriving_since
    # For calls that are not compiled, too.
    cdef readonly Stream _stream
    cdef readonly object _route, _surroundings, _reading, _taking
    cdef readonly bint _has_turn, _is_finished, _is_over
    cdef public object _task
    cdef LinkCore _link
    cdef object _method, _traffic, _found, _arrived, _timer
    cdef list _on_over
    cdef bint _are_headers_sent
    cdef int64_t _message_bytes_max, _held_bytes
    cdef double _deadline

    cpdef _hold(self, int64_t held_bytes)
    @cython.locals(size=int64_t, limit=int64_t)
    cpdef _send(self, bytes content)
    cpdef _send_headers(self)
