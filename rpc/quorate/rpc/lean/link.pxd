import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean.connection cimport Connection


@cython.final
cdef class _Shared:
    cdef object buffer
    cdef bint is_reading
    cdef list to_flush


cdef class LinkCore:
    cdef readonly Connection connection
    cdef public str peer
    cdef public bint is_paused
    cdef public int64_t read_number
    cdef readonly double since, last_heard
    cdef readonly bint is_closed
    cdef object _loop, _buffer, _keep_alive, _on_opened, _on_closed, _transport, _taking, _untaken
    cdef _Shared _shared
    cdef bytes _rest
    # For tests.
    cdef readonly bint _is_said
    cdef readonly object _timer
    cdef bint _flush_is_due, _is_aborted
    cdef int64_t _written_bytes, _taken_when_asked
    cdef double _look_at

    cpdef promise_flush(self)
    cpdef flush(self)
