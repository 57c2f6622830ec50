import cython
from libc.stdint cimport int64_t


@cython.final
cdef class Connection:
    cdef readonly bint is_client
    cdef readonly object settings, limits, acceptor, peer, rates, encoder, blocked
    cdef readonly dict streams, ended
    cdef readonly list output
    cdef readonly int64_t output_bytes
    cdef readonly object fault
    cdef public object on_output, on_full
    cdef readonly int64_t sent_frame_bytes_max, sent_at_once_bytes_max
    cdef public int64_t send_window, last_peer_stream_id, last_taken_stream_id
    cdef public bint is_writable, is_peer_going_away, is_going_away
    cdef object _receiver
    cdef int64_t _last_forgotten_id, _next_stream_id, _granted_bytes

    cpdef Py_ssize_t receive(self, view, double now) except -1
    cpdef write(self, piece)
    cpdef list take_output(self)
