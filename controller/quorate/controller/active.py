"""The active controller: the one place where metadata is decided.

A decision is a pure function of an image, and the image it sees already contains what was decided a moment
ago and is not committed yet; so decisions can be made one after the other without waiting for the quorum in
between. What keeps that safe:

- The image with uncommitted records belongs to one *office*: one term of this node as leader. An office
  begins when all entries up to the start of the term are applied (rule 39), with the committed image, and
  ends with the term. Then its image is thrown away, with all that may never be committed.
- No answer leaves before that on which it rests is committed. For a change these are its own records; for a
  refusal, or an answer that changes nothing, all that was appended before it, and besides this node has to
  prove that it still leads. The commit is no such proof: acknowledgements that come late commit what was
  appended before another controller was elected, and what that one has acknowledged is not in the image.
- Nothing is decided between reading the image and appending the records: ``change`` does not wait there.
- What one batch must not hold is decided in pieces, each on the image as it is by then. The next piece waits
  for the commit of the one before, so that whatever else there is to do gets its turn.
- A refused append was not made, and the image stays as it was. One that was made elsewhere than decided, or
  that the log turns into another image, ends the process: only a new replay can tell what holds (rule 39).

Whoever was waiting when an office ends is told that the outcome is unknown. All changes name the state that
they want, so asking again is safe; what must not be done once more at a later time also names the state that
it is based on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, Protocol, TypeVar

from quorate.controller.decision import ControllerEvent, Decision
from quorate.core.clock import Clock
from quorate.core.instruments import Histogram
from quorate.core.logging import get_logger
from quorate.errors import ControllerMoved, NoController, NotController, QuorateError
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import MetadataImage
from quorate.metadata.raft.entries import Index, Term
from quorate.metadata.raft.ready import Role, SoftState
from quorate.metadata.raft.voters import VoterKey
from quorate.metadata.records import encode_batch

__all__ = ["ActiveController", "MetadataLog", "Proposal"]

log = get_logger(__name__)

Response = TypeVar("Response")


class Proposal(Protocol):
    """An entry that was appended by the leader and is on its way."""

    @property
    def index(self) -> Index: ...

    async def committed(self) -> None:
        """``ControllerMoved`` where leadership was lost before: it may or may not be committed."""
        ...


class MetadataLog(Protocol):
    """What a controller needs of the quorum."""

    @property
    def next_index(self) -> Index:
        """The index that the next proposal gets, for as long as this node leads."""
        ...

    def propose(self, command: bytes, *, term: Term) -> Proposal:
        """Append at once. Raises where this node does not lead in ``term``; then nothing was appended."""
        ...

    async def read_barrier(self) -> Index:
        """Returns once this node is known to lead still, and has applied all that was acknowledged before."""
        ...


class _Expected(NamedTuple):
    """What the log has to make of a change, and what people are to be told then."""

    offset: int
    digest: int
    events: tuple[ControllerEvent, ...]
    #: when it was decided, on the monotonic clock
    decided_s: float


class _Office:
    """One term of this node as the active controller."""

    def __init__(self, term: Term, image: MetadataImage) -> None:
        self.term = term
        #: committed, and beyond that what this office has appended
        self.image = image
        self.last_proposal: Proposal | None = None
        #: appended and not committed yet, in order
        self.expected: deque[_Expected] = deque()


class ActiveController:
    """Whether it *is* active at the moment, ``is_active`` tells."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        *,
        clock: Clock,
        on_begin: Callable[[MetadataImage], None],
        on_appended: Callable[[MetadataImage], None],
        on_fatal: Callable[[str], NoReturn],
        leader_address: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._log = metadata_log
        self._clock = clock
        self._leader_address = leader_address
        self._on_begin = on_begin
        self._on_appended = on_appended
        self._on_fatal = on_fatal
        self._leading: SoftState | None = None
        self._leader: VoterKey | None = None
        self._office: _Office | None = None
        #: how long it took from a decision until its records were committed; of all offices together, for
        #: metrics, and without those whose outcome was not known when their office ended
        self.commit_seconds = Histogram()

    @property
    def is_active(self) -> bool:
        return self._office is not None

    @property
    def image(self) -> MetadataImage:
        """The image that decisions are made on, uncommitted records included."""
        return self._require_office().image

    # --- from the quorum ------------------------------------------------------------------------------

    def leadership_changed(self, state: SoftState, committed: MetadataImage) -> None:
        if self._office is not None and (state.role is not Role.LEADER or state.term != self._office.term):
            self._end_office("leadership was lost")
        self._leading = state if state.role is Role.LEADER else None
        self._leader = state.leader
        self._begin_when_replayed(committed)

    def applied(self, committed: MetadataImage) -> None:
        """After every step of the committed image."""
        if self._office is None:
            self._begin_when_replayed(committed)
            return
        expected = self._office.expected
        while expected and expected[0].offset <= committed.offset:
            offset, digest, events, decided_s = expected.popleft()
            if offset == committed.offset and digest != committed.digest:
                self._on_fatal(f"the log makes another image at offset {offset} than this controller decided")
            self.commit_seconds.observe(self._clock.monotonic() - decided_s)
            _tell(events)

    def _begin_when_replayed(self, committed: MetadataImage) -> None:
        leading = self._leading
        if self._office is not None or leading is None or committed.offset < leading.term_start:
            return
        self._office = _Office(leading.term, committed)
        log.info("controller_active", term=leading.term, metadata_offset=committed.offset)
        self._on_begin(committed)

    def _end_office(self, reason: str) -> None:
        assert self._office is not None
        log.info("controller_inactive", term=self._office.term, reason=reason)
        self._office = None

    # --- decisions ------------------------------------------------------------------------------------

    async def change(
        self, decide: Callable[[MetadataImage, int], Decision[Response]], *, is_leadership_sure: bool = False
    ) -> Response:
        """Decide on (image, offset of the records), and answer once that stands.

        ``is_leadership_sure``: the caller has just seen to it that this node leads.
        """
        office = self._require_office()
        while True:
            try:
                decision = decide(office.image, self._log.next_index)
            except QuorateError:
                await self._settle(office)
                raise
            if decision.is_complete:
                break
            await self._append(office, decision).committed()
            self._require_same(office)
        if decision.records:
            await self._append(office, decision).committed()
        else:
            await self._settle(office, is_leadership_sure=is_leadership_sure)
        return decision.response

    def change_unattended(self, decide: Callable[[MetadataImage, int], Decision[object]]) -> None:
        """As ``change`` for what nobody waits for, in one piece."""
        office = self._require_office()
        decision = decide(office.image, self._log.next_index)
        assert decision.is_complete
        if decision.records:
            self._append(office, decision)

    async def confirm(self) -> MetadataImage:
        """For reads: the image, once everything in it is committed and this node is known to lead still."""
        office = self._require_office()
        image = office.image
        await self._settle(office)
        return image

    def _append(self, office: _Office, decision: Decision[object]) -> Proposal:
        decided_s = self._clock.monotonic()
        expected_index = self._log.next_index
        image = apply_batch(office.image, decision.records, expected_index)
        proposal = self._log.propose(encode_batch(decision.records), term=office.term)
        if proposal.index != expected_index:
            # The records carry offsets (broker epochs), so they are wrong in any other place.
            self._on_fatal(f"appended at {proposal.index} what was decided for {expected_index}")
        office.image = image
        office.last_proposal = proposal
        office.expected.append(_Expected(expected_index, image.digest, decision.events, decided_s))
        self._on_appended(image)
        return proposal

    async def _settle(self, office: _Office, *, is_leadership_sure: bool = False) -> None:
        """Wait until all that the office has appended is committed, and prove that this node still leads."""
        last_proposal = office.last_proposal
        if not is_leadership_sure:
            await self._log.read_barrier()
        if last_proposal is not None:
            # Under way all the time: in all it takes no longer than the slower of the two.
            await last_proposal.committed()

    def _require_office(self) -> _Office:
        if self._office is not None:
            return self._office
        if self._leading is not None:
            raise NoController("this controller was just elected and is not ready yet")
        if self._leader is None:
            raise NotController("this node is not the active controller, and knows of none")
        raise NotController(
            f"this node is not the active controller; that is node {self._leader.node_id}",
            controller=self._leader.node_id,
            controller_address=self._leader_address(),
        )

    def _require_same(self, office: _Office) -> None:
        """Its image is what is decided on, and is worth nothing once it has ended."""
        if self._office is not office:
            raise ControllerMoved("this controller was deposed when only a part of the change was made")


def _tell(events: Sequence[ControllerEvent]) -> None:
    for event in events:
        (log.warning if event.is_warning else log.info)(event.name, **event.fields)
