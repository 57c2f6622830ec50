"""Brokers that exist in the metadata alone, so that controllers have topics to look after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from quorate.chaos.quorum_drills.voters import DrillVoters
from quorate.core.transport import method_of
from quorate.v1 import controller_pb2

__all__ = ["FAKE_BROKER_SETTINGS", "BrokerSession", "register_fake_brokers"]

#: They send one heartbeat each. Sessions outlast any drill, and nobody asks whether they are still there.
FAKE_BROKER_SETTINGS: Final = {"broker.session.timeout.ms": "3600000", "controller.probe.enable": "false"}

_SESSION: Final = method_of(
    controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
    "BrokerSession",
    controller_pb2.BrokerSessionRequest,
    controller_pb2.BrokerSessionResponse,
)
_TIMEOUT_S: Final = 10.0
#: whatever was decided about a broker, it has seen it
_SEEN_EVERYTHING: Final = (1 << 63) - 1


class BrokerSession:
    """A registered broker: what it needs to speak to a controller."""

    def __init__(self, broker_id: int, broker_epoch: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self._sequence = 0
        self._hangs_up = asyncio.Event()

    async def unfence(self, voters: DrillVoters, controller: str) -> None:
        """By a heartbeat; the connection ends with it."""
        async with self.held_open(voters, controller):
            pass

    @asynccontextmanager
    async def held_open(self, voters: DrillVoters, controller: str) -> AsyncIterator[None]:
        """Unfenced, and connected until the end or until ``hang_up``."""
        channel = voters.transport.connect(voters.address(controller))
        try:
            answers = channel.stream(_SESSION, self._heartbeats(), timeout_s=None)
            async with asyncio.timeout(_TIMEOUT_S):
                answer = await anext(answers)
            assert not answer.HasField("error"), answer.error
            assert not answer.is_fenced
            yield
            await answers.aclose()
        finally:
            await channel.close()

    def hang_up(self) -> None:
        """As when its process dies: what it said is said, and nothing follows."""
        self._hangs_up.set()

    async def _heartbeats(self) -> AsyncIterator[controller_pb2.BrokerSessionRequest]:
        self._sequence += 1
        yield controller_pb2.BrokerSessionRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            metadata_offset=_SEEN_EVERYTHING,
            wants_unfence=True,
            sequence=self._sequence,
        )
        await self._hangs_up.wait()


async def register_fake_brokers(voters: DrillVoters, controller: str, count: int) -> list[BrokerSession]:
    """With the active controller; returns once all are unfenced."""
    return [await _register(voters, controller, broker_id) for broker_id in range(1, count + 1)]


async def _register(voters: DrillVoters, controller: str, broker_id: int) -> BrokerSession:
    request = controller_pb2.RegisterBrokerRequest(
        broker_id=broker_id,
        incarnation_id=f"fake-{broker_id}",
        directory_id=f"directory-of-{broker_id}",
        address=f"127.0.0.1:{broker_id}",
        feature_level_min=1,
        feature_level_max=1,
    )
    answer = await voters.control(controller, "RegisterBroker", request, timeout_s=_TIMEOUT_S)
    session = BrokerSession(broker_id, answer.broker_epoch)
    await session.unfence(voters, controller)
    return session
