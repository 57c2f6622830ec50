"""Administration from any node: each call is passed on to whoever is the active controller.

A call is passed on once. Whoever gets it by ``ControllerService.Administer`` answers it or refuses it, so it
cannot go round in circles while nobody knows who leads. It is tried again, here, until its caller's time is
up: requests name the state they want, so that doing it twice is the same as once. Only names of topics need
help: which topic is meant is settled by its id, here, before the first attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from quorate.core.clock import Clock
from quorate.core.topic_names import topic_id_from
from quorate.core.transport import (
    Call,
    Channel,
    Method,
    Service,
    Transport,
    UnaryHandler,
    method_of,
    methods_of,
)
from quorate.errors import (
    ControllerMoved,
    NoController,
    NotController,
    QuorateError,
    RequestTimedOut,
    Unavailable,
)
from quorate.v1 import admin_pb2, controller_pb2

__all__ = ["AdminForwarding"]

_ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]
_DESCRIBE_TOPIC: Final = method_of(
    _ADMIN, "DescribeTopic", admin_pb2.DescribeTopicRequest, admin_pb2.DescribeTopicResponse
)
_ADMINISTER: Final = method_of(
    controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
    "Administer",
    controller_pb2.AdministerRequest,
    controller_pb2.AdministerResponse,
)

#: One attempt may take this long; an election lasts a second or two.
_ATTEMPT_TIMEOUT_S: Final = 10.0
_RETRY_PAUSE_S: Final = 0.05
#: Kept back from the caller's time, so that our own error arrives and not just the end of the time.
_MARGIN_S: Final = 0.25
_CALL_TIMEOUT_S: Final = 60.0

#: Another attempt, perhaps at another node, may succeed.
_TRANSIENT: Final = (NotController, NoController, ControllerMoved, Unavailable, RequestTimedOut)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
LocalAdministration = Callable[[str, bytes], Awaitable[bytes]]


class AdminForwarding:
    """``AdminService`` for a node that may or may not be the active controller."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        random_bytes: Callable[[int], bytes],
        controller_address: Callable[[], str | None],
        administer_here: LocalAdministration,
        own_address: str,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._random_bytes = random_bytes
        self._controller_address = controller_address
        self._administer_here = administer_here
        self._own_address = own_address
        self._channels: dict[str, Channel] = {}

    def service(self) -> Service:
        handlers: Mapping[str, UnaryHandler[Any, Any]] = {
            name: self._handler(method) for name, method in methods_of(_ADMIN).items()
        }
        return Service(_ADMIN, handlers)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    def _handler(self, method: Method[Any, Any]) -> UnaryHandler[Any, Any]:
        async def handle(request: Message, call: Call) -> Message:
            deadline = self._clock.monotonic() + min(call.remaining_s() - _MARGIN_S, _CALL_TIMEOUT_S)
            await self._name_topic(request, deadline)
            return await self._administer(method, request, deadline)

        return handle

    async def _name_topic(self, request: Message, deadline: float) -> None:
        """Before the first attempt: a name may mean another topic by the time of the second (rule 43)."""
        if isinstance(request, admin_pb2.CreateTopicRequest) and not request.topic_id:
            request.topic_id = topic_id_from(self._random_bytes(16))
        elif isinstance(request, admin_pb2.DeleteTopicRequest) and not request.topic_id:
            described = admin_pb2.DescribeTopicRequest(name=request.name)
            description = await self._administer(_DESCRIBE_TOPIC, described, deadline)
            request.topic_id = description.topic.topic_id

    async def _administer(
        self, method: Method[Request, Response], request: Request, deadline: float
    ) -> Response:
        content = request.SerializeToString()
        response = method.response_type()
        may_be_done = False
        while True:
            try:
                response.ParseFromString(await self._attempt(method.name, content, deadline))
                return response
            except QuorateError as error:
                is_last = self._clock.monotonic() + _RETRY_PAUSE_S >= deadline
                if is_last or not isinstance(error, _TRANSIENT):
                    raise _final(method.name, error, may_be_done=may_be_done) from error
                may_be_done = may_be_done or error.outcome_unknown
            await self._clock.sleep(_RETRY_PAUSE_S)

    async def _attempt(self, method: str, request: bytes, deadline: float) -> bytes:
        address = self._controller_address()
        if address is None:
            raise NoController("nobody leads the metadata quorum right now")
        timeout_s = max(0.001, min(deadline - self._clock.monotonic(), _ATTEMPT_TIMEOUT_S))
        if address == self._own_address:
            return await self._attempt_here(method, request, timeout_s)
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._transport.connect(address)
        wrapped = controller_pb2.AdministerRequest(method=method, request=request)
        return (await channel.call(_ADMINISTER, wrapped, timeout_s=timeout_s)).response

    async def _attempt_here(self, method: str, request: bytes, timeout_s: float) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._administer_here(method, request)
        except TimeoutError:
            raise RequestTimedOut(f"{method}: not done within {timeout_s:.1f} s") from None


def _final(method: str, error: QuorateError, *, may_be_done: bool) -> QuorateError:
    """The last attempt may say that nothing was done; an earlier one may have done it all the same."""
    if error.outcome_unknown or not may_be_done:
        return error
    return ControllerMoved(
        f"{method}: an earlier attempt may have been carried out; asked again, the answer is {error.code}: "
        f"{error.message}"
    )
