import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean cimport wire


@cython.locals(flag=int64_t, length=int64_t)
cpdef int64_t whole_bytes(object content, Py_ssize_t at, int64_t bytes_max) except -1


@cython.final
cdef class MessageReader:
    cdef bytearray _collected
    cdef int64_t _bytes_max
    cdef readonly int64_t begun_bytes
