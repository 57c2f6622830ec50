"""The single writer: what it decides on, and when its answers leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import NoReturn

import pytest
import structlog

from quorate.chaos.models.replica_set.stepped_clock import SteppedClock
from quorate.controller.active import ActiveController
from quorate.controller.decision import ControllerEvent, Decision
from quorate.errors import ControllerMoved, InvalidRequest, NoController, NotController
from quorate.metadata.delta import advance, apply_batch
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.metadata.raft.entries import Index, Term
from quorate.metadata.raft.ready import Role, SoftState
from quorate.metadata.records import decode_batch
from quorate.v1.metadata_pb2 import CONFIG_RESOURCE_CLUSTER, ConfigRecord, MetadataRecord


class _Proposal:
    def __init__(self, index: Index, command: bytes) -> None:
        self.index = index
        self.command = command
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def committed(self) -> None:
        await asyncio.shield(self.outcome)


class _Quorum:
    """A log whose commits happen when the test says so."""

    def __init__(self) -> None:
        self.image = EMPTY_IMAGE
        self.proposals: list[_Proposal] = []
        self.barriers: list[asyncio.Future[None]] = []
        self.index_shift = 0
        self.begun: list[int] = []
        self.fatal: list[str] = []
        self.clock = SteppedClock()
        self.controller = ActiveController(
            self,
            clock=self.clock,
            on_begin=lambda image: self.begun.append(image.offset),
            on_appended=lambda _image: None,
            on_fatal=self._die,
        )

    @property
    def next_index(self) -> Index:
        last = self.proposals[-1].index if self.proposals else self.image.offset
        return Index(last + 1)

    def propose(self, command: bytes, *, term: Term) -> _Proposal:
        proposal = _Proposal(Index(self.next_index + self.index_shift), command)
        self.proposals.append(proposal)
        return proposal

    async def read_barrier(self) -> Index:
        barrier: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.barriers.append(barrier)
        await barrier
        return Index(self.image.offset)

    def lead(self, term: int, *, term_start: int) -> None:
        state = SoftState(Role.LEADER, Term(term), None, Index(term_start))
        self.controller.leadership_changed(state, self.image)

    def follow(self, term: int) -> None:
        self.controller.leadership_changed(SoftState(Role.FOLLOWER, Term(term), None, Index(0)), self.image)

    def replay_to(self, offset: int) -> None:
        self.image = advance(self.image, offset)
        self.controller.applied(self.image)

    def commit(self, number: int) -> None:
        proposal = self.proposals[number]
        self.image = apply_batch(self.image, decode_batch(proposal.command).records, proposal.index)
        self.controller.applied(self.image)
        proposal.outcome.set_result(None)

    def _die(self, reason: str) -> NoReturn:
        self.fatal.append(reason)
        raise SystemExit(reason)


@pytest.fixture
async def quorum() -> _Quorum:
    quorum = _Quorum()
    quorum.lead(term=1, term_start=1)
    quorum.replay_to(1)
    return quorum


def _setting(key: str) -> MetadataRecord:
    return MetadataRecord(config=ConfigRecord(resource=CONFIG_RESOURCE_CLUSTER, key=key, value="1"))


def _set(key: str) -> Callable[[MetadataImage, int], Decision[str]]:
    def decide(image: MetadataImage, _offset: int) -> Decision[str]:
        if key in image.cluster_configs:
            raise InvalidRequest(f"{key} is set")
        return Decision((_setting(key),), f"set {key}")

    return decide


def _look(image: MetadataImage, _offset: int) -> Decision[list[str]]:
    return Decision((), sorted(image.cluster_configs))


async def _start(work: asyncio.Task[object]) -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not work.done()


async def test_a_new_controller_acts_only_after_replaying_to_the_start_of_its_term() -> None:
    quorum = _Quorum()
    quorum.lead(term=3, term_start=7)
    quorum.replay_to(6)
    with pytest.raises(NoController):
        await quorum.controller.change(_set("a"))
    assert not quorum.controller.is_active
    quorum.replay_to(7)
    assert quorum.controller.is_active
    assert quorum.begun == [7]


async def test_a_follower_refuses_to_decide() -> None:
    quorum = _Quorum()
    quorum.follow(term=1)
    with pytest.raises(NotController):
        await quorum.controller.change(_set("a"))
    assert quorum.proposals == []


async def test_an_answer_leaves_only_after_its_records_are_committed(quorum: _Quorum) -> None:
    answer = asyncio.create_task(quorum.controller.change(_set("a")))
    await _start(answer)
    quorum.commit(0)
    assert await answer == "set a"


async def test_a_decision_sees_what_is_appended_and_not_yet_committed(quorum: _Quorum) -> None:
    first = asyncio.create_task(quorum.controller.change(_set("a")))
    await _start(first)
    second = asyncio.create_task(quorum.controller.change(_set("a")))
    await _start(second)
    assert len(quorum.proposals) == 1
    quorum.commit(0)
    assert await first == "set a"
    await _start(second)
    quorum.barriers[0].set_result(None)
    with pytest.raises(InvalidRequest):
        await second


async def test_an_answer_without_records_waits_for_what_it_rests_on(quorum: _Quorum) -> None:
    change = asyncio.create_task(quorum.controller.change(_set("a")))
    await _start(change)
    look = asyncio.create_task(quorum.controller.change(_look))
    await _start(look)
    quorum.barriers[0].set_result(None)
    await _start(look)
    quorum.commit(0)
    assert await look == ["a"]
    await change


def _refuse(_image: MetadataImage, _offset: int) -> Decision[str]:
    raise InvalidRequest("no")


@pytest.mark.parametrize(
    "ask",
    [
        lambda controller: controller.confirm(),
        lambda controller: controller.change(_look),
        lambda controller: controller.change(_refuse),
    ],
    ids=["a read", "an answer that changes nothing", "a refusal"],
)
async def test_a_late_commit_is_no_proof_that_this_node_still_leads(
    quorum: _Quorum, ask: Callable[[ActiveController], Coroutine[None, None, object]]
) -> None:
    change = asyncio.create_task(quorum.controller.change(_set("a")))
    await _start(change)
    answer = asyncio.create_task(ask(quorum.controller))
    await _start(answer)
    quorum.commit(0)
    assert await change == "set a"
    await _start(answer)
    [barrier] = quorum.barriers
    barrier.set_exception(NotController("deposed"))
    with pytest.raises(NotController):
        await answer


async def test_who_has_just_seen_that_this_node_leads_waits_for_the_commit_alone(quorum: _Quorum) -> None:
    change = asyncio.create_task(quorum.controller.change(_set("a")))
    await _start(change)
    look = asyncio.create_task(quorum.controller.change(_look, is_leadership_sure=True))
    await _start(look)
    quorum.commit(0)
    assert await look == ["a"]
    assert quorum.barriers == []
    await change


async def test_a_refusal_of_a_deposed_controller_does_not_leave(quorum: _Quorum) -> None:
    refusal = asyncio.create_task(quorum.controller.change(_refuse))
    await _start(refusal)
    [barrier] = quorum.barriers
    barrier.set_exception(NotController("deposed"))
    with pytest.raises(NotController):
        await refusal


async def test_losing_leadership_throws_the_uncommitted_image_away(quorum: _Quorum) -> None:
    change = asyncio.create_task(quorum.controller.change(_set("a")))
    await _start(change)
    quorum.follow(term=2)
    quorum.proposals.pop().outcome.set_exception(ControllerMoved("deposed"))
    with pytest.raises(ControllerMoved):
        await change
    assert not quorum.controller.is_active
    quorum.lead(term=3, term_start=2)
    quorum.replay_to(2)
    assert list(quorum.controller.image.cluster_configs) == []


async def test_another_term_begins_another_office_even_without_an_end_in_between(quorum: _Quorum) -> None:
    change = asyncio.create_task(quorum.controller.change(_set("a")))
    await _start(change)
    quorum.proposals.pop().outcome.set_exception(ControllerMoved("deposed"))
    quorum.lead(term=2, term_start=2)
    assert not quorum.controller.is_active
    with pytest.raises(ControllerMoved):
        await change


async def test_records_at_another_offset_than_decided_are_fatal(quorum: _Quorum) -> None:
    quorum.index_shift = 1
    with pytest.raises(SystemExit):
        await quorum.controller.change(_set("a"))
    assert quorum.fatal


async def test_a_log_that_makes_another_image_than_was_decided_is_fatal(quorum: _Quorum) -> None:
    change = asyncio.create_task(quorum.controller.change(_set("a")))
    await _start(change)
    with pytest.raises(SystemExit):
        quorum.controller.applied(advance(quorum.image, quorum.proposals[0].index))
    change.cancel()


def _set_all(*keys: str) -> Callable[[MetadataImage, int], Decision[int]]:
    """One with each piece; the answer is where the last one stands."""

    def decide(image: MetadataImage, offset: int) -> Decision[int]:
        left = [key for key in keys if key not in image.cluster_configs]
        return Decision((_setting(left[0]),), offset, is_complete=len(left) == 1)

    return decide


async def test_a_decision_in_pieces_waits_for_each_and_sees_what_was_decided_in_between(
    quorum: _Quorum,
) -> None:
    change = asyncio.create_task(quorum.controller.change(_set_all("a", "b", "c")))
    await _start(change)
    other = asyncio.create_task(quorum.controller.change(_set("b")))
    await _start(other)
    assert len(quorum.proposals) == 2
    quorum.commit(0)
    quorum.commit(1)
    await _start(change)
    assert [decode_batch(each.command).records[0].config.key for each in quorum.proposals] == ["a", "b", "c"]
    quorum.commit(2)
    assert await change == quorum.proposals[2].index
    await other


async def test_pieces_do_not_go_on_in_another_office(quorum: _Quorum) -> None:
    change = asyncio.create_task(quorum.controller.change(_set_all("a", "b")))
    await _start(change)
    quorum.commit(0)
    quorum.follow(term=2)
    quorum.lead(term=3, term_start=2)
    assert quorum.controller.is_active
    with pytest.raises(ControllerMoved):
        await change
    assert len(quorum.proposals) == 1


async def test_a_refusal_waits_for_a_barrier_even_where_leadership_was_looked_at(
    quorum: _Quorum,
) -> None:
    refusal = asyncio.create_task(quorum.controller.change(_refuse, is_leadership_sure=True))
    await _start(refusal)
    [barrier] = quorum.barriers
    barrier.set_result(None)
    with pytest.raises(InvalidRequest):
        await refusal


async def test_people_are_told_of_a_change_once_it_is_committed_and_not_before(quorum: _Quorum) -> None:
    event = ControllerEvent("something_happened")
    with structlog.testing.capture_logs() as told:
        quorum.controller.change_unattended(
            lambda _image, _offset: Decision((_setting("a"),), None, (event,))
        )
        assert told == []
        quorum.commit(0)
    assert [entry["event"] for entry in told] == ["something_happened"]


async def test_a_commit_is_timed_from_its_decision_whether_or_not_anybody_waits(quorum: _Quorum) -> None:
    quorum.controller.change_unattended(_set("a"))
    quorum.clock.advance(0.2)
    attended = asyncio.create_task(quorum.controller.change(_set("b")))
    await _start(attended)
    quorum.clock.advance(0.5)
    assert quorum.controller.commit_seconds.count == 0
    quorum.commit(0)
    quorum.commit(1)
    await attended
    counted = {sample.suffix: sample.value for sample in quorum.controller.commit_seconds.samples(())}
    assert counted["_count"] == 2
    assert counted["_sum"] == pytest.approx(0.7 + 0.5)


async def test_an_answer_that_changes_nothing_is_no_commit(quorum: _Quorum) -> None:
    look = asyncio.create_task(quorum.controller.change(_look))
    await _start(look)
    quorum.barriers[0].set_result(None)
    await look
    assert quorum.controller.commit_seconds.count == 0


async def test_commits_are_counted_over_offices_and_without_those_of_unknown_outcome(quorum: _Quorum) -> None:
    quorum.controller.change_unattended(_set("a"))
    quorum.commit(0)
    quorum.controller.change_unattended(_set("b"))
    quorum.follow(term=2)
    quorum.proposals.pop()
    quorum.lead(term=3, term_start=3)
    quorum.replay_to(3)
    assert quorum.controller.commit_seconds.count == 1
    quorum.proposals.clear()
    quorum.controller.change_unattended(_set("c"))
    quorum.commit(0)
    assert quorum.controller.commit_seconds.count == 2
