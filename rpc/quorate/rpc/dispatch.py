"""Running a handler so that nothing but a QuorateError can come out of it.

Shared by every transport, so that a handler's failure looks the same to the caller whatever carried
the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from google.protobuf.message import DecodeError

from quorate.core.logging import get_logger
from quorate.core.transport import Call, Method, Request, Response, StreamHandler, UnaryHandler
from quorate.errors import InvalidRequest, Overloaded, QuorateError, UnknownServerError

__all__ = ["Admission", "parse_request", "parse_response", "run_stream", "run_unary"]

log = get_logger(__name__)


class Admission:
    """A bound on calls that run at once, of each service by itself. More are refused before anything is done.

    Under one bound, clients whose fetches wait could shut out the brokers that replicate from this node, and
    the calls with which a broker asks the controller in its own process.

    Unary calls and streams each need their own: a stream may live for days, and a few of them could shut out
    every call.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: by service
        self._running: Counter[str] = Counter()

    @contextmanager
    def admit(self, method: Method[Any, Any]) -> Iterator[None]:
        service = method.service_path
        if self._running[service] >= self._limit:
            raise Overloaded(
                f"{self._limit} calls are under way, the most that are allowed", method=method.path
            )
        self._running[service] += 1
        try:
            yield
        finally:
            self._running[service] -= 1


async def run_unary(
    handler: UnaryHandler[Request, Response], method: Method[Request, Response], request: Request, call: Call
) -> Response:
    with _only_quorate_errors(method, call):
        return await handler(request, call)


async def run_stream(
    handler: StreamHandler[Request, Response],
    method: Method[Request, Response],
    requests: AsyncIterator[Request],
    call: Call,
) -> AsyncGenerator[Response, None]:
    with _only_quorate_errors(method, call):
        async with aclosing(handler(requests, call)) as responses:
            async for response in responses:
                yield response


@contextmanager
def _only_quorate_errors(method: Method[Any, Any], call: Call) -> Iterator[None]:
    try:
        yield
    except QuorateError:
        raise
    except Exception as error:
        log.exception("handler_failed", method=method.path, peer=call.peer)
        # What went wrong stays here: a stranger's exception may hold paths, data, anything.
        raise UnknownServerError("the server failed; its log says why", method=method.path) from error


def parse_request(method: Method[Request, Any], content: bytes) -> Request:
    try:
        return method.request_type.FromString(content)
    except DecodeError as error:
        name = method.request_type.DESCRIPTOR.full_name
        raise InvalidRequest(f"the request is no {name}", method=method.path) from error


def parse_response(method: Method[Any, Response], content: bytes) -> Response:
    try:
        return method.response_type.FromString(content)
    except DecodeError as error:
        name = method.response_type.DESCRIPTOR.full_name
        raise UnknownServerError(f"the answer is no {name}", method=method.path) from error
