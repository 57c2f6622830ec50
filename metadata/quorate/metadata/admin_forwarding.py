"""Administration from any node: each call is passed on to whoever is the active controller.

A call is passed on once. Whoever gets it by ``ControllerService.Administer`` answers it or refuses it, so
it cannot go round in circles while nobody knows who leads. It is tried again, here, until its caller's time
is up: requests name the state they want, so that doing it twice in a row is the same as once; and where a
copy that comes much later could cost records, they name the state that they are based on (docs/protocol.md
has the table). Nothing of that is filled in here, since a copy of what a client has sent to this node would
get it as well. One thing is drawn here, for callers that do not: the id of a new topic, which makes one
topic of all attempts from here on. A copy of the caller's own request makes another one, if the name is
free by then.

Controllers and brokers differ only in how they find the active one, which is what ``Administer`` stands for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from quorate.core.clock import Clock
from quorate.core.topic_names import topic_id_from
from quorate.core.transport import Call, Method, Service, UnaryHandler, method_of, methods_of
from quorate.errors import (
    ControllerMoved,
    NoController,
    NotController,
    QuorateError,
    RequestTimedOut,
    Unavailable,
)
from quorate.metadata.leader_descriptions import LeaderDescriptions
from quorate.rpc.dispatch import parse_response
from quorate.v1 import admin_pb2, controller_pb2

__all__ = ["ADMINISTER", "ATTEMPT_TIMEOUT_S", "AdminForwarding", "Administer", "has_effect"]

_ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]
_DESCRIBE_TOPIC: Final = method_of(
    _ADMIN, "DescribeTopic", admin_pb2.DescribeTopicRequest, admin_pb2.DescribeTopicResponse
)
#: for those who implement ``Administer``
ADMINISTER: Final = method_of(
    controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
    "Administer",
    controller_pb2.AdministerRequest,
    controller_pb2.AdministerResponse,
)
#: One attempt may take this long; an election lasts a second or two.
ATTEMPT_TIMEOUT_S: Final = 10.0

#: Kept back from the caller's time, so that our own error arrives and not just the end of the time.
_MARGIN_S: Final = 0.25
_CALL_TIMEOUT_S: Final = 60.0

#: of methods that only look
_PREFIXES_WITHOUT_EFFECT: Final = ("Check", "Describe", "List")

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

#: (method, request, monotonic deadline) -> response: tries until the active controller has answered
Administer = Callable[[str, bytes, float], Awaitable[bytes]]


class AdminForwarding:
    """``AdminService`` for a node that may or may not be the active controller."""

    def __init__(
        self,
        administer: Administer,
        descriptions: LeaderDescriptions,
        *,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._administer = administer
        self._descriptions = descriptions
        self._clock = clock
        self._random_bytes = random_bytes

    def service(self) -> Service:
        handlers: Mapping[str, UnaryHandler[Any, Any]] = {
            name: self._handler(method) for name, method in methods_of(_ADMIN).items()
        }
        return Service(_ADMIN, {**handlers, _DESCRIBE_TOPIC.name: self._describe_topic})

    def _handler(self, method: Method[Any, Any]) -> UnaryHandler[Any, Any]:
        async def handle(request: Message, call: Call) -> Message:
            deadline = self._deadline(call)
            if isinstance(request, admin_pb2.CreateTopicRequest) and not request.topic_id:
                request.topic_id = topic_id_from(self._random_bytes(16))
            return await self._ask(method, request, deadline)

        return handle

    async def _describe_topic(
        self, request: admin_pb2.DescribeTopicRequest, call: Call
    ) -> admin_pb2.DescribeTopicResponse:
        deadline = self._deadline(call)
        response = await self._ask(_DESCRIBE_TOPIC, request, deadline)
        await self._descriptions.complete(response.topic, timeout_s=deadline - self._clock.monotonic())
        return response

    def _deadline(self, call: Call) -> float:
        return self._clock.monotonic() + min(call.remaining_s() - _MARGIN_S, _CALL_TIMEOUT_S)

    async def _ask(self, method: Method[Request, Response], request: Request, deadline: float) -> Response:
        try:
            answer = await self._administer(method.name, request.SerializeToString(), deadline)
        except (Unavailable, RequestTimedOut, NotController, ControllerMoved) as error:
            raise _said_of_controllers(method, error) from error
        return parse_response(method, answer)


def has_effect(method: str) -> bool:
    """False: it only asks, so nothing can have been done by it."""
    return not method.startswith(_PREFIXES_WITHOUT_EFFECT)


def _said_of_controllers(method: Method[Any, Any], error: QuorateError) -> QuorateError:
    """As this node's own word it would mean that nobody is here, and whoever asks would look elsewhere."""
    if not has_effect(method.name):
        return NoController(f"{method.name}: no active controller could be reached; {error.message}")
    if isinstance(error, NotController | ControllerMoved):
        return error
    return ControllerMoved(f"{method.name}: it may have been carried out; {error.message}")
