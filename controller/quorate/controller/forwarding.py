"""Administration from any node: each call is passed on to whoever is the active controller.

A call is passed on once. Whoever gets it by ``ControllerService.Administer`` answers it or refuses it, so it
cannot go round in circles while nobody knows who leads. It is tried again, here, until its caller's time is
up: requests name the state they want, so that doing it twice is the same as once. The one thing that needs
help is a new topic's id, which is drawn here, before the first attempt.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from quorate.core.clock import Clock
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
    ControllerError,
    ControllerMoved,
    NoController,
    NotController,
    QuorateError,
    RequestTimedOut,
    TransportError,
    Unavailable,
)
from quorate.v1 import admin_pb2, controller_pb2

__all__ = ["AdminForwarding", "new_topic_id"]

_ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]
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
_CALL_TIMEOUT_S: Final = 30.0

#: Another attempt, perhaps at another node, may succeed.
_TRANSIENT: Final = (NotController, NoController, ControllerMoved, Unavailable, RequestTimedOut)

LocalAdministration = Callable[[str, bytes], Awaitable[bytes]]


def new_topic_id(random_bytes: Callable[[int], bytes]) -> str:
    return base64.urlsafe_b64encode(random_bytes(16)).decode().rstrip("=")


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
            if isinstance(request, admin_pb2.CreateTopicRequest) and not request.topic_id:
                request.topic_id = new_topic_id(self._random_bytes)
            content = request.SerializeToString()
            response: Message = method.response_type()
            response.ParseFromString(await self._administer(method.name, content, call))
            return response

        return handle

    async def _administer(self, method: str, request: bytes, call: Call) -> bytes:
        deadline = self._clock.monotonic() + min(call.remaining_s() - _MARGIN_S, _CALL_TIMEOUT_S)
        may_be_done = False
        while True:
            try:
                return await self._attempt(method, request, deadline)
            except (ControllerError, TransportError) as error:
                may_be_done = may_be_done or error.outcome_unknown
                if not isinstance(error, _TRANSIENT):
                    raise
                if self._clock.monotonic() + _RETRY_PAUSE_S >= deadline:
                    raise _out_of_time(method, error, may_be_done=may_be_done) from error
            await self._clock.sleep(_RETRY_PAUSE_S)

    async def _attempt(self, method: str, request: bytes, deadline: float) -> bytes:
        address = self._controller_address()
        if address is None:
            raise NoController("nobody leads the metadata quorum right now")
        if address == self._own_address:
            return await self._administer_here(method, request)
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._transport.connect(address)
        remaining_s = deadline - self._clock.monotonic()
        response = await channel.call(
            _ADMINISTER,
            controller_pb2.AdministerRequest(method=method, request=request),
            timeout_s=max(0.001, min(remaining_s, _ATTEMPT_TIMEOUT_S)),
        )
        return response.response


def _out_of_time(method: str, error: QuorateError, *, may_be_done: bool) -> QuorateError:
    """The last attempt may say that nothing was done; an earlier one may have done it all the same."""
    kind = ControllerMoved if may_be_done else NoController
    return kind(f"{method}: no controller could answer in time; the last one said: {error.message}")
