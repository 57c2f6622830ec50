"""The Transport seam: typed calls between processes.

Messages, handlers and transport stay apart. A ``Method`` names a call and its message types, taken from
the protobuf service; a ``Service`` binds each method of a service to a handler; a ``Transport`` carries
both. Implementations: ``quorate.rpc.grpcio_transport`` on the network, ``quorate.chaos.sim.transport``
in memory, which loses and delays.

What holds for all of them:

- Every unary call has a deadline. A stream may live without one, and then ends when either side ends
  it, or when the connection is found to be dead.
- Both sides see errors as ``QuorateError``. A handler raises one, and the caller gets the same class
  with the same facts. Whatever else a handler raises is logged where it happened, and the caller gets
  ``UnknownServerError`` without a word about the server's insides.
- Nothing is retried: only the caller knows whether doing it twice is harmless.
- When the caller gives up (cancelled, deadline passed), the handler is cancelled, soon.
- Concurrency is bounded: beyond the bound a call is refused with ``Overloaded`` before its handler runs.
  Services for clients and services between nodes have bounds of their own: clients that wait must not keep
  the nodes from each other, and a call that is forwarded must not need two places under one bound. So have
  long polls: those that wait must not keep out the calls that make their waiting end.
- A call counts until the transport has taken its answer, not only until it has one: answers that nobody
  fetches are held by this process.

There are two kinds of calls, not gRPC's four. On the wire a stream with one request is the same as a
server stream, so ``STREAM`` covers every kind but the unary.
"""

from __future__ import annotations

import enum
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message

__all__ = [
    "Call",
    "CallKind",
    "Channel",
    "Handler",
    "Method",
    "Server",
    "Service",
    "StreamHandler",
    "Transport",
    "UnaryHandler",
    "call_once",
    "method_of",
    "methods_of",
]

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class CallKind(enum.Enum):
    UNARY = "unary"
    #: any number of requests, any number of responses, both sides at once
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """One call of a service."""

    #: as on the wire: "/quorate.v1.BrokerService/Produce"
    path: str
    kind: CallKind
    request_type: type[Request]
    response_type: type[Response]

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def methods_of(service: ServiceDescriptor) -> Mapping[str, Method[Any, Any]]:
    """Every method of a protobuf service, by its bare name."""
    return {method.name: _method(service, method) for method in service.methods}


def method_of(
    service: ServiceDescriptor, name: str, request_type: type[Request], response_type: type[Response]
) -> Method[Request, Response]:
    """One method with its message types known to the type checker."""
    method = methods_of(service)[name]
    if (method.request_type, method.response_type) != (request_type, response_type):
        raise TypeError(f"{method} is declared with {method.request_type} and {method.response_type}")
    return method


def _method(service: ServiceDescriptor, method: MethodDescriptor) -> Method[Any, Any]:
    streaming = method.client_streaming or method.server_streaming
    return Method(
        path=f"/{service.full_name}/{method.name}",
        kind=CallKind.STREAM if streaming else CallKind.UNARY,
        request_type=message_factory.GetMessageClass(method.input_type),
        response_type=message_factory.GetMessageClass(method.output_type),
    )


class Call(Protocol):
    """What a handler may know about the call beside its message."""

    @property
    def peer(self) -> str:
        """Where the call comes from, for logs."""
        ...

    def remaining_s(self) -> float:
        """Time left until the caller gives up; infinite for a stream without a deadline."""
        ...

    def when_over(self, callback: Callable[[], None]) -> None:
        """Once, when the transport has taken the answer, or the call has ended without one."""
        ...


UnaryHandler: TypeAlias = Callable[[Request, Call], Awaitable[Response]]
#: an async generator function; it is closed when the call ends early
StreamHandler: TypeAlias = Callable[[AsyncIterator[Request], Call], AsyncGenerator[Response, None]]
Handler: TypeAlias = UnaryHandler[Any, Any] | StreamHandler[Any, Any]


class Service:
    """A protobuf service with a handler for each of its methods.

    A method without a handler is an error at start-up rather than at the first call.

    ``is_internal``: it is for calls between nodes, not for clients.
    ``long_polls``: unary methods that wait until there is something to tell.
    """

    def __init__(
        self,
        descriptor: ServiceDescriptor,
        handlers: Mapping[str, Handler],
        *,
        is_internal: bool = False,
        long_polls: Collection[str] = (),
    ) -> None:
        methods = methods_of(descriptor)
        if methods.keys() != handlers.keys():
            wrong = sorted(methods.keys() ^ handlers.keys())
            raise TypeError(f"{descriptor.full_name}: these have a method or a handler, not both: {wrong}")
        self.name: str = descriptor.full_name
        self.is_internal = is_internal
        self.long_polls = frozenset(methods[name] for name in long_polls)
        self.handlers: Mapping[Method[Any, Any], Handler] = {
            methods[name]: handler for name, handler in handlers.items()
        }


class Channel(Protocol):
    """The way to one address. Connecting happens by itself, and again after a break."""

    @property
    def address(self) -> str: ...

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        """``RequestTimedOut`` after ``timeout_s``; ``Unavailable`` when nobody is there."""
        ...

    def stream(
        self,
        method: Method[Request, Response],
        requests: AsyncIterable[Request],
        *,
        timeout_s: float | None,
    ) -> AsyncGenerator[Response, None]:
        """The responses. ``requests`` is read meanwhile, as fast as the other side takes them.

        The call ends when the server ends it, or when the generator is closed; an error raised by
        ``requests`` ends it as well, and is raised here.
        """
        ...

    async def close(self) -> None:
        """Calls under way fail with ``Unavailable``."""
        ...


class Server(Protocol):
    @property
    def address(self) -> str:
        """Where it listens; with the real port, where port 0 was asked for."""
        ...

    async def set_serving(self, *, serving: bool) -> None:
        """What health checks are told. Calls are served either way."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Accept no more calls, let those under way finish for ``grace_s``, cancel the rest."""
        ...


class Transport(Protocol):
    def connect(self, address: str) -> Channel:
        """Returns at once; whether anybody is there shows at the first call."""
        ...

    async def serve(self, address: str, services: Sequence[Service], *, serving: bool = True) -> Server:
        """Returns once it accepts calls; ``CannotListen`` if the address is not to be had.

        ``serving``: what health checks are told until ``set_serving`` says otherwise.
        """
        ...

    async def is_refused(self, address: str, *, timeout_s: float) -> bool:
        """Whether the machine at the address says that nobody listens there: the process is gone.

        Silence says nothing, and neither does any other answer: then it is False.
        """
        ...


async def call_once(
    transport: Transport,
    address: str,
    method: Method[Request, Response],
    request: Request,
    *,
    timeout_s: float,
) -> Response:
    """One question to somebody who is not asked again soon: connect, call, and let go."""
    channel = transport.connect(address)
    try:
        return await channel.call(method, request, timeout_s=timeout_s)
    finally:
        await channel.close()
