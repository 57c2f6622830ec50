import cython

from quorate.rpc.lean cimport wire
from quorate.rpc.lean.client_call cimport ClientCall
from quorate.rpc.lean.link cimport LinkCore
from quorate.rpc.lean.stream cimport Stream


@cython.final
cdef class LeanExchange(ClientCall):
    cdef object _channel, _listener, _connection
    cdef bint _is_sending, _is_cancelled
    cdef public object opening
