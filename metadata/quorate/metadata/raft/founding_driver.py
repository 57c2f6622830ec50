"""Carries the questions and answers of ``founding``, and makes durable what it decides."""

from __future__ import annotations

import asyncio
from typing import Final

from quorate.core.clock import Clock
from quorate.core.config import VoterAddress
from quorate.core.logging import get_logger
from quorate.core.transport import Transport, call_once, method_of
from quorate.errors import QuorateError
from quorate.metadata.raft.founding import (
    Begin,
    ConfiguredVoter,
    Founding,
    IdentifyResponse,
    StayOut,
    Wait,
    WriteFounding,
)
from quorate.metadata.raft.quorum_directory import QuorumDirectory
from quorate.metadata.raft.voters import NodeId, Voters
from quorate.metadata.raft.wire import identity_from_proto
from quorate.v1 import quorum_pb2

__all__ = ["IDENTIFY", "FoundingDriver"]

log = get_logger(__name__)

#: who is there, and with which directory; asked by tools and for voters that join as well
IDENTIFY: Final = method_of(
    quorum_pb2.DESCRIPTOR.services_by_name["QuorumService"],
    "Identify",
    quorum_pb2.IdentifyRequest,
    quorum_pb2.IdentifyResponse,
)

_ASK_TIMEOUT_S: Final = 1.0
_PAUSE_S_MIN: Final = 0.05
_PAUSE_S_MAX: Final = 0.5


class FoundingDriver:
    def __init__(
        self,
        directory: QuorumDirectory,
        voters: tuple[VoterAddress, ...],
        *,
        transport: Transport,
        clock: Clock,
    ) -> None:
        identity = directory.identity
        self._directory = directory
        self._transport = transport
        self._clock = clock
        self._founding = Founding(
            directory.key,
            cluster_id=identity.cluster_id,
            configured=[ConfiguredVoter(NodeId(voter.node_id), str(voter.address)) for voter in voters],
            founding=identity.founding,
            is_confirmed=identity.is_confirmed,
        )
        #: for people: why the quorum does not run yet
        self.waiting_for = ""

    def identify(self) -> IdentifyResponse:
        return self._founding.answer()

    async def run(self) -> None:
        """Returns once this voter may take part. Raises ``OSError`` where its directory cannot be written."""
        pause_s = _PAUSE_S_MIN
        waited_for = ""
        while not await self._advance():
            # Something has changed: others may be about to do the same.
            pause_s = _PAUSE_S_MIN if self.waiting_for != waited_for else min(pause_s * 2, _PAUSE_S_MAX)
            waited_for = self.waiting_for
            await self._clock.sleep(pause_s)

    async def _advance(self) -> bool:
        """Do what is decided. True: there is nothing left to wait for."""
        founding, directory = self._founding, self._directory
        while True:
            match founding.decide():
                case WriteFounding(voters, cluster_id):
                    await directory.found(voters, cluster_id)
                    founding.on_written(voters, directory.identity.cluster_id)
                    log.info("quorum_founding_written", voters=[str(voter.key) for voter in voters])
                case Begin():
                    if not directory.identity.is_confirmed:
                        await directory.confirm_founding()
                        founding.on_confirmed()
                    self.waiting_for = ""
                    return True
                case StayOut(cluster_id, reason):
                    await directory.join(cluster_id)
                    founding.on_written(Voters(()), directory.identity.cluster_id)
                    founding.on_confirmed()
                    log.warning("quorum_joined_without_vote", reason=reason)
                    return True
                case Wait(peers, reason):
                    self._tell(reason)
                    if not await self._ask(peers):
                        return False

    def _tell(self, reason: str) -> None:
        if reason != self.waiting_for:
            log.info("quorum_founding_waits", reason=reason)
            self.waiting_for = reason

    async def _ask(self, peers: tuple[NodeId, ...]) -> bool:
        """All of them at once; whether that may have changed what is to be done."""
        before = self._founding.decide()
        async with asyncio.TaskGroup() as tasks:
            for node_id in peers:
                tasks.create_task(self._ask_one(node_id), name=f"identify-{node_id}")
        return self._founding.decide() != before

    async def _ask_one(self, node_id: NodeId) -> None:
        address = self._founding.address_of(node_id)
        request = quorum_pb2.IdentifyRequest()
        try:
            response = await call_once(self._transport, address, IDENTIFY, request, timeout_s=_ASK_TIMEOUT_S)
            self._founding.on_response(node_id, identity_from_proto(response))
        except QuorateError as error:
            log.debug("voter_not_identified", node_id=node_id, error=str(error))
