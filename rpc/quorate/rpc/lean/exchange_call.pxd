import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean cimport wire
from quorate.rpc.lean.messages cimport whole_bytes
from quorate.rpc.lean.streamed_requests cimport StreamedRequests

cdef int64_t _REQUESTS_PER_READ_MAX


@cython.final
cdef class ExchangeCall(StreamedRequests):
    cdef bint _is_paused, _is_giving_due, _is_end_told
    cdef int64_t _read_number, _given_of_read
    cdef object _listener

    @cython.locals(at=Py_ssize_t)
    cpdef on_data(self, part)
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, size=int64_t)
    cdef Py_ssize_t _give_whole(self, part) except -1
    cdef _give(self, request)
