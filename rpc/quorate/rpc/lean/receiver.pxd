import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean cimport wire
from quorate.rpc.lean.connection cimport Connection
from quorate.rpc.lean.incoming_data cimport IncomingData


@cython.final
cdef class Receiver:
    cdef Connection _connection
    cdef int64_t _frame_bytes_max
    cdef bytes _preface_left
    cdef IncomingData _data
    cdef object _headers
    cdef dict _on_frame

    @cython.locals(
        at=Py_ssize_t, end=Py_ssize_t, content_at=Py_ssize_t,
        length=int64_t, kind=int64_t, flags=int64_t, stream_id=int64_t,
    )
    cpdef Py_ssize_t receive(self, view) except -1
    cdef _check_frame(self, int64_t length, int64_t kind, int64_t stream_id)
