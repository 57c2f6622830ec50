"""What people ask about the quorum itself: its voters, its leader, its feature level."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from google.protobuf.message import Message

from quorate.controller.active import ActiveController
from quorate.controller.cluster_description import describe_cluster
from quorate.controller.decision import Decision
from quorate.controller.features import SupportedLevels, update_feature_level
from quorate.core.clock import Clock
from quorate.core.ids import BrokerId
from quorate.core.transport import Method, Transport, call_once, method_of
from quorate.errors import (
    ControllerMoved,
    InvalidRequest,
    QuorateError,
    TransportError,
    UnsupportedFeatureLevel,
    VoterChangeRefused,
)
from quorate.metadata.digest import digest_to_bytes
from quorate.metadata.image import MetadataImage
from quorate.metadata.publisher import MetadataPublisher
from quorate.metadata.raft.founding_driver import IDENTIFY
from quorate.metadata.raft.progress import FollowerProgress, ProgressState
from quorate.metadata.raft.quorum import Quorum
from quorate.metadata.raft.ready import Role
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey
from quorate.v1 import admin_pb2, controller_pb2, quorum_pb2

__all__ = ["QuorumAdministration"]

_DESCRIBE_IMAGE: Final = method_of(
    controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
    "DescribeImage",
    controller_pb2.DescribeImageRequest,
    controller_pb2.DescribeImageResponse,
)
_ASK_TIMEOUT_S: Final = 2.0
_LOOK_AGAIN_S: Final = 0.02

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class QuorumAdministration:
    def __init__(
        self,
        active: ActiveController,
        quorum: Quorum,
        publisher: MetadataPublisher,
        *,
        transport: Transport,
        clock: Clock,
        silence_s_max: float,
    ) -> None:
        """``silence_s_max``: a voter that the leader has not heard for longer counts as unreachable."""
        self._active = active
        self._quorum = quorum
        self._publisher = publisher
        self._transport = transport
        self._clock = clock
        self._silence_s_max = silence_s_max
        #: under way
        self._additions: dict[Voter, asyncio.Task[None]] = {}

    async def describe_cluster(
        self, _request: admin_pb2.DescribeClusterRequest
    ) -> admin_pb2.DescribeClusterResponse:
        image = await self._active.confirm()
        status = self._quorum.status
        return describe_cluster(
            image,
            controller=BrokerId(status.key.node_id),
            controllers=[
                admin_pb2.ControllerDescription(node_id=voter.key.node_id, address=voter.address)
                for voter in status.voters
            ],
        )

    # --- how far everybody is -------------------------------------------------------------------------

    async def describe_quorum(
        self, _request: admin_pb2.DescribeQuorumRequest
    ) -> admin_pb2.DescribeQuorumResponse:
        await self._active.confirm()
        status = self._quorum.status
        learners = [
            (Voter(key, self._quorum.address_of(key)), progress)
            for key, progress in sorted(status.progress.items())
            if not progress.is_voter
        ]
        voters = [(voter, status.progress.get(voter.key)) for voter in status.voters]
        image = self._publisher.image
        return admin_pb2.DescribeQuorumResponse(
            leader=status.key.node_id,
            term=status.term,
            commit_index=status.commit_index,
            voters=await asyncio.gather(*(self._describe(*voter) for voter in voters)),
            learners=await asyncio.gather(*(self._describe(*learner) for learner in learners)),
            digest_offset=image.offset,
            digest=digest_to_bytes(image.digest).hex(),
        )

    async def _describe(self, voter: Voter, progress: FollowerProgress | None) -> admin_pb2.VoterDescription:
        description = admin_pb2.VoterDescription(
            node_id=voter.key.node_id, directory_id=voter.key.directory_id, address=voter.address
        )
        # Whoever answers at its address need not be the voter: a wiped disk answers as well (rule 41).
        is_silent = progress is not None and self._silence_s(progress) > self._silence_s_max
        image = None if is_silent else await self._image_of(voter)
        if image is not None:
            description.applied_index = image.offset
            description.digest = image.digest
            ours = self._publisher.digest_at(image.offset)
            if ours is not None:
                description.is_digest_equal = digest_to_bytes(ours).hex() == image.digest
        if progress is None:
            description.state = "leader"
            description.match_index = self._quorum.status.last_index
            return description
        description.state = "unreachable" if image is None else _state(progress)
        description.match_index = progress.match_index
        description.last_heard_ms = int(self._silence_s(progress) * 1000)
        return description

    def _silence_s(self, progress: FollowerProgress) -> float:
        return self._clock.monotonic() - progress.last_heard

    async def _image_of(self, voter: Voter) -> controller_pb2.DescribeImageResponse | None:
        """None: it does not answer."""
        try:
            return await self._ask(voter.address, _DESCRIBE_IMAGE, controller_pb2.DescribeImageRequest())
        except QuorateError:
            return None

    async def _ask(self, address: str, method: Method[Request, Response], request: Request) -> Response:
        return await call_once(self._transport, address, method, request, timeout_s=_ASK_TIMEOUT_S)

    # --- changes --------------------------------------------------------------------------------------

    async def add_voter(self, request: admin_pb2.AddVoterRequest) -> admin_pb2.AddVoterResponse:
        await self._active.confirm()
        status = self._quorum.status
        try:
            identity = await self._ask(request.address, IDENTIFY, quorum_pb2.IdentifyRequest())
        except (TransportError, InvalidRequest) as error:
            # The latter from whoever has no such method: a broker, or no node at all.
            raise VoterChangeRefused(
                f"no controller answers at {request.address}: {error.message}; start node {request.node_id} "
                "first, it joins without a vote",
                node_id=request.node_id,
            ) from error
        if identity.key.node_id != request.node_id:
            raise InvalidRequest(
                f"node {identity.key.node_id} runs at {request.address}, not node {request.node_id}",
                node_id=request.node_id,
            )
        if identity.cluster_id not in ("", status.cluster_id):
            raise VoterChangeRefused(
                f"node {request.node_id} belongs to cluster {identity.cluster_id}, "
                f"this is {status.cluster_id}",
                node_id=request.node_id,
            )
        key = VoterKey(NodeId(request.node_id), DirectoryId(identity.key.directory_id))
        # Asked again after a lost answer: what was wanted is there, or on its way.
        if key not in status.voters:
            await self._add(Voter(key, request.address))
        await self._voters_committed()
        return admin_pb2.AddVoterResponse(directory_id=key.directory_id)

    async def _add(self, voter: Voter) -> None:
        """A newcomer may need a while to catch up: whoever asks again meanwhile waits for the same."""
        addition = self._additions.get(voter)
        if addition is None:
            addition = asyncio.create_task(self._quorum.add_voter(voter), name=f"add-voter-{voter.key}")
            self._additions[voter] = addition
            addition.add_done_callback(lambda done: self._added(voter, done))
        await asyncio.shield(addition)

    def _added(self, voter: Voter, addition: asyncio.Task[None]) -> None:
        del self._additions[voter]
        if not addition.cancelled():
            addition.exception()  # seen, even if everybody who waited for it has given up

    async def remove_voter(self, request: admin_pb2.RemoveVoterRequest) -> admin_pb2.RemoveVoterResponse:
        await self._active.confirm()
        voter = self._quorum.status.voters.by_node_id(NodeId(request.node_id))
        if voter is not None and request.directory_id in ("", voter.key.directory_id):
            await self._quorum.remove_voter(voter.key)
        await self._voters_committed()
        return admin_pb2.RemoveVoterResponse()

    async def _voters_committed(self) -> None:
        """Voters are in force before they are committed, and until then they may change back (rule 41)."""
        term = self._quorum.status.term
        while (status := self._quorum.status).voters != status.committed_voters:
            if status.role is not Role.LEADER or status.term != term:
                raise ControllerMoved("leadership was lost before the change of the voters was committed")
            await self._clock.sleep(_LOOK_AGAIN_S)
        # A leader that removed itself has resigned with the commit, and cannot confirm anything any more.
        if status.key in status.voters:
            await self._active.confirm()

    async def transfer_controller(
        self, request: admin_pb2.TransferControllerRequest
    ) -> admin_pb2.TransferControllerResponse:
        node_id = NodeId(request.node_id) if request.HasField("node_id") else None
        await self._active.confirm()
        await self._quorum.transfer_leadership(node_id)
        deadline = self._clock.monotonic() + _ASK_TIMEOUT_S
        while (leader := self._quorum.status.leader) is None and self._clock.monotonic() < deadline:
            await self._clock.sleep(_LOOK_AGAIN_S)
        # Not an error where nobody is known yet: asked again, the next one would hand over once more.
        return admin_pb2.TransferControllerResponse(controller=-1 if leader is None else leader.key.node_id)

    async def update_feature_level(
        self, request: admin_pb2.UpdateFeatureLevelRequest
    ) -> admin_pb2.UpdateFeatureLevelResponse:
        status = self._quorum.status
        voters = status.voters
        others = [voter for voter in voters if voter.key != status.key]
        images = await asyncio.gather(
            *(
                self._ask(each.address, _DESCRIBE_IMAGE, controller_pb2.DescribeImageRequest())
                for each in others
            )
        )
        levels = [
            SupportedLevels(f"voter {voter.key.node_id}", image.feature_level_min, image.feature_level_max)
            for voter, image in zip(others, images, strict=True)
        ]

        def decide(image: MetadataImage, _offset: int) -> Decision[admin_pb2.UpdateFeatureLevelResponse]:
            if self._quorum.status.voters != voters:
                # Whoever has joined was not asked, and would have to stop at a record that it cannot read.
                raise UnsupportedFeatureLevel(
                    "the voters changed while they were asked what they run on; ask again",
                    feature_level=image.feature_level,
                )
            return update_feature_level(image, request, voters=levels)

        return await self._active.change(decide)


def _state(progress: FollowerProgress) -> str:
    if progress.state is ProgressState.DISTRUSTED:
        return "refused"
    if not progress.is_voter or progress.state is ProgressState.SNAPSHOT:
        return "catching up"
    return "follower" if progress.is_counted else "recovering"
