import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean cimport wire
from quorate.rpc.lean.connection cimport Connection

cdef int64_t _COPIED_BYTES_MAX
cdef int64_t _WHOLE_FRAME_BYTES_MIN


@cython.final
cdef class Stream:
    cdef readonly int64_t id
    cdef readonly Connection connection
    cdef public object listener, content_bytes_left
    cdef public int64_t send_window, receive_window, held_bytes
    cdef readonly int64_t window_bytes, waiting_bytes, left_bytes
    cdef public bint has_headers, is_ending, is_local_ended, is_remote_ended, end_follows
    cdef object _waiting, _trailers

    @cython.locals(size=int64_t)
    cpdef send(self, bytes prefix, bytes content, int64_t flags=*)
    @cython.locals(size=int64_t)
    cpdef pump(self)
    @cython.locals(frame_bytes_max=int64_t)
    cdef int64_t _room(self) except? -1
    @cython.locals(is_last=bint, flags=int64_t)
    cdef _send_waiting(self, int64_t size)
    cdef _let_go_of_sent(self)
    cdef _end_local(self)
    @cython.locals(lacking=int64_t)
    cpdef consumed(self, int64_t size)
    cpdef passed_over(self, int64_t size)
    cpdef expect(self, int64_t size)
    cdef _open_window(self, int64_t size)
