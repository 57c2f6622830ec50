import cython
from libc.stdint cimport int64_t

from quorate.rpc.lean cimport wire
from quorate.rpc.lean.messages cimport MessageReader, whole_bytes
from quorate.rpc.lean.stream cimport Stream


cdef class ClientCall:
    cdef public Stream stream
    cdef public object status, failure, initial_metadata, trailing_metadata
    cdef public bint is_unseen
    cdef object _method, _on_end, _head, _ending
    cdef int64_t _message_bytes_max
    cdef MessageReader _reader

    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, next_at=Py_ssize_t)
    cdef _read(self, part)
    cpdef _on_message(self, content)
    cpdef _on_part(self)
    cpdef _welcome_rest(self)


@cython.final
cdef class UnaryClientCall(ClientCall):
    cdef public object response


@cython.final
cdef class StreamClientCall(ClientCall):
    cdef object _responses, _waits_for_response, _waits_for_room
