"""Running a handler so that nothing but a QuorateError can come out of it.

Shared by every transport, so that a handler's failure looks the same to the caller whatever carried
the call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from google.protobuf.message import DecodeError

from quorate.core.logging import get_logger, number_request
from quorate.core.transport import (
    Call,
    CallKind,
    Method,
    Request,
    Response,
    Service,
    StreamHandler,
    UnaryHandler,
)
from quorate.errors import InvalidRequest, Overloaded, QuorateError, UnknownServerError

__all__ = [
    "Admission",
    "Admissions",
    "parse_request",
    "parse_response",
    "run_stream",
    "run_unary",
    "unexpected",
]

log = get_logger(__name__)


class Admission:
    """A bound on calls that run at once. Beyond it they are refused before anything is done for them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running = 0

    def enter(self, method: Method[Any, Any]) -> None:
        if self._running >= self._limit:
            raise Overloaded(
                f"{self._limit} calls are under way, the most that are allowed", method=method.path
            )
        self._running += 1

    def leave(self) -> None:
        self._running -= 1

    @contextmanager
    def admit(self, method: Method[Any, Any]) -> Iterator[None]:
        self.enter(method)
        try:
            yield
        finally:
            self.leave()


class Admissions:
    """The bounds of one server. No call takes the place of one of another sort.

    Unary calls and streams are apart: a stream may live for days, and under one bound a few of them could
    shut out every call.

    Long polls are apart from the calls that end by themselves: those that wait would shut out what they
    wait for. Those of different services are apart, too: readers of quiet topics must not keep the members of
    groups from being heard.

    Clients and nodes are apart. Under one bound, fetches that wait could keep a broker from its controller,
    and a node that forwards a client's call to itself would need two places for it. Calls between nodes cause
    each other, too; so their bound is not what an operator grants to clients, but one that only nodes gone
    wild would reach.
    """

    def __init__(self, *, requests_max: int, streams_max: int, internal_calls_max: int) -> None:
        """``requests_max``: clients' unary calls, and as many long polls of each service.

        ``internal_calls_max``: unary calls between nodes, and as many streams.
        """
        self._of_clients = {
            CallKind.UNARY: Admission(requests_max),
            CallKind.STREAM: Admission(streams_max),
        }
        self._of_nodes = {kind: Admission(internal_calls_max) for kind in CallKind}
        self._long_polls_max = requests_max
        #: by the name of the service
        self._of_long_polls: dict[str, Admission] = {}

    def of(self, service: Service, method: Method[Any, Any]) -> Admission:
        if service.is_internal:
            return self._of_nodes[method.kind]
        if method in service.long_polls:
            return self._of_long_polls.setdefault(service.name, Admission(self._long_polls_max))
        return self._of_clients[method.kind]


async def run_unary(
    handler: UnaryHandler[Request, Response], method: Method[Request, Response], request: Request, call: Call
) -> Response:
    request_id = number_request()
    try:
        return await handler(request, call)
    except QuorateError:
        raise
    except Exception as error:
        raise unexpected(error, method, call, request_id) from error


async def run_stream(
    handler: StreamHandler[Request, Response],
    method: Method[Request, Response],
    requests: AsyncIterator[Request],
    call: Call,
) -> AsyncGenerator[Response, None]:
    request_id = number_request()
    try:
        async with aclosing(handler(requests, call)) as responses:
            async for response in responses:
                yield response
    except QuorateError:
        raise
    except Exception as error:
        raise unexpected(error, method, call, request_id) from error


def unexpected(
    error: Exception, method: Method[Any, Any], call: Call, request_id: int | None = None
) -> UnknownServerError:
    """What went wrong stays here: a stranger's exception may hold paths, data, anything."""
    if request_id is None:
        request_id = number_request()
    log.error("handler_failed", method=method.path, peer=call.peer, exc_info=error)
    return UnknownServerError(
        f"the server failed; its log says why, under request_id {request_id}",
        method=method.path,
        request_id=request_id,
    )


def parse_request(method: Method[Request, Any], content: bytes | memoryview) -> Request:
    try:
        return method.request_type.FromString(content)  # type: ignore[arg-type]  # takes views as well
    except DecodeError as error:
        name = method.request_type.DESCRIPTOR.full_name
        raise InvalidRequest(f"the request is no {name}", method=method.path) from error


def parse_response(method: Method[Any, Response], content: bytes | memoryview) -> Response:
    try:
        return method.response_type.FromString(content)  # type: ignore[arg-type]  # takes views as well
    except DecodeError as error:
        name = method.response_type.DESCRIPTOR.full_name
        raise UnknownServerError(f"the answer is no {name}", method=method.path) from error
