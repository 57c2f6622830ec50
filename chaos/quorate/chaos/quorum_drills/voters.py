"""The voters of a drill: real processes, and calls to each of them by name.

Calls go to one voter and are tried once. Whether to ask another one, and what an answer that never came
means, is the business of whoever keeps the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from quorate.client.transport import client_transport
from quorate.core.transport import Channel, Method, methods_of
from quorate.errors import QuorateError, Unavailable
from quorate.metadata.raft.quorum_config import QUORUM_DIRECTORY_NAME
from quorate.node.local_cluster import LocalCluster
from quorate.v1 import admin_pb2, controller_pb2

__all__ = ["DrillVoters"]

Response = TypeVar("Response", bound=Message)

_ADMIN: Final = methods_of(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])
_CONTROLLER: Final = methods_of(controller_pb2.DESCRIPTOR.services_by_name["ControllerService"])
_CALL_TIMEOUT_S: Final = 2.0
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class DrillVoters:
    """Of a cluster that has been started."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.names = cluster.names
        self.transport = client_transport()
        self._channels: dict[str, Channel] = {}
        self._down: set[str] = set()

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    @property
    def running(self) -> list[str]:
        """Paused ones too: clients cannot tell."""
        return [name for name in self.names if name not in self._down]

    def address(self, name: str) -> str:
        return self.cluster.node(name).address

    def quorum_directory(self, name: str) -> str:
        return f"{self.cluster.data_dir(name)}/{QUORUM_DIRECTORY_NAME}"

    # --- processes ------------------------------------------------------------------------------------

    async def kill(self, *names: str) -> None:
        """kill -9, all at once."""
        await self.cluster.kill(*names)
        self._down.update(names)
        for name in names:
            # gRPC waits before it dials again, and the next process may be there soon.
            channel = self._channels.pop(name, None)
            if channel is not None:
                await channel.close()

    async def start(self, *names: str) -> None:
        """``Unavailable`` where one does not start; the message ends with its log."""
        await self.cluster.start(names)
        self._down.difference_update(names)

    # --- calls ----------------------------------------------------------------------------------------

    async def administer(
        self, name: str, method: str, request: Message, *, timeout_s: float = _CALL_TIMEOUT_S
    ) -> Any:
        """A call of AdminService, which the voter passes on to whoever is the active controller."""
        return await self._call(name, _ADMIN[method], request, timeout_s)

    async def administer_there(
        self, name: str, method: str, request: Message, *, timeout_s: float = _CALL_TIMEOUT_S
    ) -> Any:
        """The same, answered or refused by this very voter."""
        wrapped = controller_pb2.AdministerRequest(method=method, request=request.SerializeToString())
        answer = await self._call(name, _CONTROLLER["Administer"], wrapped, timeout_s)
        response = _ADMIN[method].response_type()
        response.ParseFromString(answer.response)
        return response

    async def control(
        self, name: str, method: str, request: Message, *, timeout_s: float = _CALL_TIMEOUT_S
    ) -> Any:
        """A unary call of ControllerService."""
        return await self._call(name, _CONTROLLER[method], request, timeout_s)

    async def _call(self, name: str, method: Method[Any, Any], request: Message, timeout_s: float) -> Any:
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = self.transport.connect(self.address(name))
        return await channel.call(method, request, timeout_s=timeout_s)

    # --- the quorum -----------------------------------------------------------------------------------

    async def describe_quorum(self) -> admin_pb2.DescribeQuorumResponse:
        """As its leader sees it, through whichever voter answers."""
        refusal: QuorateError = Unavailable("no voter runs")
        for name in self.running:
            try:
                answer: admin_pb2.DescribeQuorumResponse = await self.administer(
                    name, "DescribeQuorum", admin_pb2.DescribeQuorumRequest()
                )
            except QuorateError as error:
                refusal = error
            else:
                return answer
        raise refusal

    async def describe_image(self, name: str) -> controller_pb2.DescribeImageResponse:
        answer: controller_pb2.DescribeImageResponse = await self.control(
            name, "DescribeImage", controller_pb2.DescribeImageRequest()
        )
        return answer

    def name_of(self, node_id: int) -> str:
        return next(node.name for node in self.cluster.nodes if node.id == node_id)

    def node_id(self, name: str) -> int:
        return self.cluster.node(name).id

    # --- logs -----------------------------------------------------------------------------------------

    def log_events(self) -> dict[str, str]:
        """Every event in the logs of all voters, and the highest level at which it was logged."""
        levels: dict[str, str] = {}
        for event in (event for name in self.names for event in self._events(name)):
            before = levels.get(event["event"], _LEVELS[0])
            levels[event["event"]] = max(before, event["level"], key=_LEVELS.index)
        return levels

    def _events(self, name: str) -> Iterator[dict[str, Any]]:
        with open(self.cluster.log_file(name), encoding="utf-8", errors="replace") as file:
            for line in file:
                # What a process says to people before it ends is not JSON, and the last line may be cut.
                with suppress(ValueError):
                    yield json.loads(line)
