"""The metadata quorum as the rest of a controller sees it: one voter, from its directory to its answers.

``open`` recovers the directory, so that a voter which must not start says so before anybody listens. ``run``
founds the quorum if it is new, then drives the core. ``close`` hands leadership over first: the others then
need not find out by a time-out.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from quorate.core.clock import Clock
from quorate.core.disk import Disk
from quorate.core.logging import get_logger
from quorate.core.transport import Service, Transport
from quorate.errors import InvalidRequest, NotController, NotFounded, VoterChangeRefused
from quorate.metadata.raft.applying import StateMachine
from quorate.metadata.raft.core import FollowerProgress, RaftCore
from quorate.metadata.raft.driver import Driver
from quorate.metadata.raft.entries import NO_INDEX, NO_TERM, Index, Term
from quorate.metadata.raft.founding import IdentifyResponse
from quorate.metadata.raft.founding_driver import FoundingDriver
from quorate.metadata.raft.messages import Envelope
from quorate.metadata.raft.peers import Peers, Sender
from quorate.metadata.raft.quorum_config import QuorumConfig
from quorate.metadata.raft.quorum_directory import QuorumDirectory
from quorate.metadata.raft.quorum_service import quorum_service
from quorate.metadata.raft.ready import Role, Tick
from quorate.metadata.raft.requests import Proposal
from quorate.metadata.raft.voters import NodeId, Voter, VoterKey, Voters

__all__ = ["Quorum", "QuorumStatus", "StateMachine"]

log = get_logger(__name__)

_SEED_BYTES: Final = 16
#: pauses between attempts to connect end well before anybody would stand for election
_REDIALS_PER_ELECTION_TIMEOUT: Final = 4


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """A voter's view of the quorum, for people and for those who look for the leader."""

    cluster_id: str | None
    key: VoterKey
    role: Role
    term: Term
    leader: Voter | None
    commit_index: Index
    applied_index: Index
    last_index: Index
    #: in force, committed or not
    voters: Voters
    committed_voters: Voters
    #: what a leader knows of the others; empty elsewhere
    progress: Mapping[VoterKey, FollowerProgress]
    #: part of its log was damaged: it neither votes nor counts until it has caught up
    is_recovering: bool
    #: it takes part; False: it waits for the other voters, for the first time
    is_running: bool
    #: why it does not, in words
    waiting_for: str


class Quorum:
    """One voter. ``open`` makes one."""

    def __init__(
        self,
        config: QuorumConfig,
        directory: QuorumDirectory,
        state_machine: StateMachine,
        *,
        clock: Clock,
        transport: Transport,
        seed: int,
        on_fatal: Callable[[str], NoReturn],
    ) -> None:
        """For ``open``."""
        self._config = config
        self._directory = directory
        self._state_machine = state_machine
        self._clock = clock
        self._random = random.Random(seed)
        self._on_fatal = on_fatal
        self._founding = FoundingDriver(directory, config.voters, transport=transport, clock=clock)
        self._peers = Peers(
            transport,
            clock,
            Sender(directory.key, directory.identity.incarnation, config.own_address),
            redial_s_max=config.timing.election_timeout_min_s / _REDIALS_PER_ELECTION_TIMEOUT,
        )
        self._driver: Driver | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_closed = False
        #: for the service
        self.readers: dict[asyncio.Task[None], None] = {}

    @classmethod
    async def open(
        cls,
        *,
        config: QuorumConfig,
        clock: Clock,
        disk: Disk,
        transport: Transport,
        random_bytes: Callable[[int], bytes],
        on_fatal: Callable[[str], NoReturn],
        state_machine: StateMachine,
    ) -> Quorum:
        """``QuorumDamaged`` where the directory must not be used; the message says what to do."""
        directory = await QuorumDirectory.open(
            disk,
            config.directory,
            cluster_id=config.cluster_id,
            node_id=config.node_id,
            random_bytes=random_bytes,
            segment_bytes=config.segment_bytes,
        )
        return cls(
            config,
            directory,
            state_machine,
            clock=clock,
            transport=transport,
            seed=int.from_bytes(random_bytes(_SEED_BYTES), "big"),
            on_fatal=on_fatal,
        )

    def services(self) -> Sequence[Service]:
        """To be served before ``run``: voters that found a quorum ask each other."""
        return [quorum_service(self, snapshot_bytes_max=self._config.snapshot_bytes_max)]

    async def run(self) -> None:
        """Until ``close``, or cancelled."""
        assert self._work is None, "a quorum runs once"
        async with asyncio.TaskGroup() as tasks:
            self._work = tasks.create_task(self._run(), name="quorum")

    async def close(self) -> None:
        """Hand leadership over, if that can be done soon; then stop."""
        driver = self._driver
        if driver is not None and driver.core.role is Role.LEADER and len(driver.core.voters) > 1:
            is_handed_over = await driver.transfer_leadership(None)
            log.info("leadership_handed_over" if is_handed_over else "leadership_not_handed_over")
        self._is_closed = True
        for reader in self.readers:
            reader.cancel()
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
        self._directory.close()

    async def _run(self) -> None:
        try:
            await self._founding.run()
        except OSError as error:
            self._on_fatal(f"the quorum's directory cannot be written: {error}")
        self._driver = self._new_driver()
        await self._driver.run()

    def _new_driver(self) -> Driver:
        config = self._config
        core = RaftCore(
            self._directory.key,
            self._directory.take_restored(),
            timing=config.timing,
            limits=config.limits,
            random=self._random,
            now=self._clock.monotonic(),
        )
        return Driver(
            core,
            self._directory,
            self._peers,
            self._state_machine,
            self._clock,
            snapshot_interval_bytes=config.snapshot_interval_bytes,
            transfer_patience_s=config.timing.election_timeout_max_s,
            on_fatal=self._on_fatal,
        )

    # --- for the controller ---------------------------------------------------------------------------

    @property
    def status(self) -> QuorumStatus:
        core = None if self._driver is None else self._driver.core
        return QuorumStatus(
            cluster_id=self._directory.identity.cluster_id,
            key=self.key,
            role=Role.FOLLOWER if core is None else core.role,
            term=NO_TERM if core is None else core.term,
            leader=None if core is None else self._voter(core.leader),
            commit_index=NO_INDEX if core is None else core.commit_index,
            applied_index=NO_INDEX if self._driver is None else self._driver.applier.applied_index,
            last_index=NO_INDEX if core is None else core.last_index,
            voters=Voters(()) if core is None else core.voters,
            committed_voters=Voters(()) if core is None else core.committed_voters,
            progress={} if core is None else core.progress(),
            is_recovering=core is not None and core.is_recovering,
            is_running=core is not None,
            waiting_for=self._founding.waiting_for,
        )

    @property
    def next_index(self) -> Index:
        """The index that the next proposal gets, for as long as this node leads."""
        return self._running.next_index

    def propose(self, command: bytes, *, term: Term) -> Proposal:
        """Append at once. Raises where that cannot be done in ``term``; then nothing was done."""
        return self._running.propose(command, term=term)

    async def read_barrier(self) -> Index:
        """Returns once this node is known to lead still, and has applied all that was acknowledged before."""
        return await self._running.read_barrier()

    def check_leadership(self) -> None:
        """Look at the clock: a leader that was paused for too long resigns before it says anything else."""
        self._running.step(Tick())

    def address_of(self, key: VoterKey) -> str:
        """Empty: not known."""
        return self._peers.address_of(key) or ""

    def heard_leader_within(self, seconds: float) -> bool:
        """Whether this node leads, or has heard from the leader (rule 40)."""
        return self._driver is not None and self._driver.heard_leader_within(seconds)

    async def transfer_leadership(self, to: NodeId | None) -> None:
        """None: to whichever voter has most of the log."""
        driver = self._running
        if driver.core.role is not Role.LEADER:
            raise NotController("this node does not lead the quorum")
        target = None if to is None else driver.core.voters.by_node_id(to)
        if to is not None and target is None:
            raise InvalidRequest(f"node {to} is not a voter", node_id=to)
        if target is not None and target.key == self.key:
            return
        if not await driver.transfer_leadership(None if target is None else target.key):
            raise VoterChangeRefused("no other voter could take over in time; this node still leads")

    async def add_voter(self, voter: Voter) -> None:
        """Returns once the change is committed."""
        await self._running.add_voter(voter)

    async def remove_voter(self, key: VoterKey) -> None:
        """Returns once the change is committed."""
        await self._running.remove_voter(key)

    # --- for the other voters -------------------------------------------------------------------------

    @property
    def key(self) -> VoterKey:
        return self._directory.key

    @property
    def is_running(self) -> bool:
        return self._driver is not None and not self._is_closed

    def identify(self) -> IdentifyResponse:
        return self._founding.identify()

    def greeted_by(self, peer: Sender) -> None:
        self._peers.greeted_by(peer)

    def receive(self, envelope: Envelope) -> None:
        self._running.receive(envelope)

    @property
    def _running(self) -> Driver:
        if self._driver is None:
            raise NotFounded(self._founding.waiting_for or "this controller has not started yet")
        return self._driver

    def _voter(self, key: VoterKey | None) -> Voter | None:
        if key is None:
            return None
        address = self._config.own_address if key == self.key else self._peers.address_of(key)
        return Voter(key, address or "")
