"""Whole quorums, one behaviour at a time."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence

import pytest

from quorate.chaos.models.quorum.quorum_harness import (
    DIRECTORY,
    PORT,
    HistoryMachine,
    SimQuorum,
    SimVoter,
    simulate,
)
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.errors import (
    ControllerMoved,
    InvalidRequest,
    NotController,
    NotFounded,
    Overloaded,
    QuorumDamaged,
    VoterChangeRefused,
)
from quorate.metadata.raft.entries import Entry, Term
from quorate.metadata.raft.journal_recovery import segment_name
from quorate.metadata.raft.messages import AppendRequest, Envelope, SnapshotRequest
from quorate.metadata.raft.peers import Peers
from quorate.metadata.raft.quorum import Quorum
from quorate.metadata.raft.ready import Role
from quorate.metadata.raft.voters import DirectoryId, NodeId, Voter, VoterKey


def quorum_of(voter: SimVoter) -> Quorum:
    assert voter.quorum is not None
    return voter.quorum


async def started(world: SimQuorum) -> tuple[SimVoter, list[SimVoter]]:
    """The leader, and the others."""
    await world.start()
    leader = await world.leader()
    return leader, [voter for voter in world.voters.values() if voter is not leader]


# --- proposals ------------------------------------------------------------------------------------


def test_single_voter_founds_elects_itself_and_commits() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        assert await world.propose(leader, "x") == 2
        assert leader.machine.commands == {2: "x"}

    simulate(1, scenario)


def test_index_of_a_proposal_is_known_before_it_is_committed() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        quorum = quorum_of(leader)
        proposals = []
        for number in range(300):
            expected = quorum.next_index
            proposals.append(quorum.propose(b"%d" % number, term=quorum.status.term))
            assert proposals[-1].index == expected
        await asyncio.gather(*(proposal.committed() for proposal in proposals))
        assert {p.index: str(n) for n, p in enumerate(proposals)} == leader.machine.commands

    simulate(3, scenario)


def test_proposals_of_one_turn_go_out_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    send = Peers.send

    def spy(peers: Peers, envelope: Envelope) -> None:
        if isinstance(envelope.message, AppendRequest) and envelope.message.entries:
            sent.append(len(envelope.message.entries))
        send(peers, envelope)

    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        await world.settled()
        sent.clear()
        await asyncio.gather(*(world.propose(leader, str(number)) for number in range(100)))
        assert sent == [100, 100]

    monkeypatch.setattr(Peers, "send", spy)
    simulate(3, scenario)


def test_proposal_elsewhere_than_at_the_leader_is_refused_at_once() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, (follower, _) = await started(world)
        term = quorum_of(leader).status.term
        with pytest.raises(NotController):
            quorum_of(follower).propose(b"x", term=term)
        with pytest.raises(NotController):
            quorum_of(leader).propose(b"x", term=Term(term + 1))
        with pytest.raises(NotController):
            await quorum_of(follower).read_barrier()
        with pytest.raises(NotController):
            await quorum_of(follower).remove_voter(quorum_of(leader).key)

    simulate(3, scenario)


def test_outcome_is_unknown_where_leadership_is_lost_before_the_commit() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, others = await started(world)
        world.network.partition([leader.name], [voter.name for voter in others])
        quorum = quorum_of(leader)
        proposal = quorum.propose(b"x", term=quorum.status.term)
        with pytest.raises(ControllerMoved):
            await proposal.committed()
        with pytest.raises(ControllerMoved):
            await proposal.committed()
        assert quorum.status.role is not Role.LEADER

    simulate(3, scenario)


def test_outcome_is_unknown_where_the_process_stops_before_the_commit() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, others = await started(world)
        world.network.partition([leader.name], [voter.name for voter in others])
        quorum = quorum_of(leader)
        proposal = quorum.propose(b"x", term=quorum.status.term)
        barrier = asyncio.create_task(quorum.read_barrier())
        await asyncio.sleep(0.01)
        await leader.kill()
        for answer in (proposal.committed(), barrier):
            with pytest.raises(ControllerMoved):
                await answer

    simulate(3, scenario)


def test_one_caller_that_gives_up_does_not_take_the_answer_from_another() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        quorum = quorum_of(leader)
        proposal = quorum.propose(b"x", term=quorum.status.term)
        impatient = asyncio.create_task(proposal.committed())
        await asyncio.sleep(0)
        impatient.cancel()
        await proposal.committed()

    simulate(3, scenario)


def test_more_than_the_bound_is_refused_before_anything_is_appended() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, others = await started(world)
        world.network.partition([leader.name], [voter.name for voter in others])
        quorum = quorum_of(leader)
        term = quorum.status.term

        def propose_for_ever() -> None:
            while True:
                quorum.propose(b"x", term=term)

        with pytest.raises(Overloaded):
            propose_for_ever()
        last = quorum.next_index
        await asyncio.sleep(0)
        assert quorum.status.last_index == last - 1

    simulate(3, scenario)


# --- reads ----------------------------------------------------------------------------------------


def test_read_barrier_waits_for_what_was_acknowledged() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        index = await world.propose(leader, "x")
        assert await quorum_of(leader).read_barrier() >= index
        assert leader.machine.index >= index

    simulate(3, scenario)


def test_read_barrier_waits_for_a_leader_whose_own_disk_is_behind_the_commit() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        leader.disk.sync_delay_s = 1.0
        quorum = quorum_of(leader)
        proposal = quorum.propose(b"x", term=quorum.status.term)
        await asyncio.sleep(0.5)
        assert quorum.status.commit_index == proposal.index
        assert leader.machine.index < proposal.index
        assert await quorum.read_barrier() == proposal.index
        assert leader.machine.index == proposal.index

    simulate(3, scenario)


def test_leader_that_was_deposed_without_knowing_it_answers_no_read() -> None:
    async def scenario(world: SimQuorum) -> None:
        old, others = await started(world)
        world.network.partition([old.name], [voter.name for voter in others])
        new = await world.leader(other_than=old)
        await world.propose(new, "x")
        with pytest.raises(NotController):
            await quorum_of(old).read_barrier()

    simulate(3, scenario)


def test_node_that_hears_no_leader_says_so() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, others = await started(world)
        await world.settled()
        assert all(quorum_of(voter).heard_leader_within(0.2) for voter in world.voters.values())
        world.network.partition([leader.name], [others[0].name], [others[1].name])
        await asyncio.sleep(3)
        assert not any(quorum_of(voter).heard_leader_within(1.0) for voter in world.voters.values())
        world.network.heal()
        await world.settled()
        assert all(quorum_of(voter).heard_leader_within(0.5) for voter in world.voters.values())

    simulate(3, scenario)


# --- leadership -----------------------------------------------------------------------------------


def test_leader_hands_over_before_it_stops() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        began = world.simulation.loop.time()
        await leader.stop()
        await world.leader()
        assert world.simulation.loop.time() - began < 0.2  # an election would take half a second at least

    simulate(3, scenario)


def test_leadership_goes_where_it_is_sent() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, (target, _) = await started(world)
        await quorum_of(leader).transfer_leadership(target.node_id)
        assert await world.leader() is target
        with pytest.raises(NotController):
            await quorum_of(leader).transfer_leadership(None)
        with pytest.raises(InvalidRequest):
            await quorum_of(target).transfer_leadership(NodeId(9))
        await quorum_of(target).transfer_leadership(target.node_id)

    simulate(3, scenario)


def test_leader_that_finds_no_successor_says_so_and_goes_on() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, others = await started(world)
        await others[0].kill()
        with pytest.raises(VoterChangeRefused):
            await quorum_of(leader).transfer_leadership(others[0].node_id)
        assert await world.leader() is leader

    simulate(3, scenario)


def test_quorum_elects_again_soon_after_its_leader_is_killed() -> None:
    async def scenario(world: SimQuorum) -> None:
        for _ in range(5):
            leader = await world.leader()
            began = world.simulation.loop.time()
            await leader.kill()
            await world.leader()
            assert world.simulation.loop.time() - began < 1.5
            await leader.start()
            await world.settled()

    async def run(world: SimQuorum) -> None:
        await world.start()
        await scenario(world)

    simulate(3, run)


# --- snapshots ------------------------------------------------------------------------------------


def test_journal_is_trimmed_and_a_start_goes_on_from_the_snapshot() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        for number in range(200):
            await world.propose(leader, f"{number}" * 10)
        names = leader.disk.list(DIRECTORY)
        assert len([name for name in names if name.endswith(".snapshot")]) == 2
        assert segment_name(1) not in names
        await leader.kill()
        await leader.start()
        await world.settled()
        assert leader.machine.installs == 1
        assert len(leader.machine.commands) == 200

    simulate(3, scenario, snapshot_bytes=2_000, entries_kept=10)


def test_voter_that_was_away_for_long_gets_a_snapshot() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, (away, _) = await started(world)
        await away.kill()
        for number in range(300):
            await world.propose(leader, f"{number}" * 10)
        term = quorum_of(leader).status.term
        await away.start()
        await world.settled()
        assert away.machine.installs == 1
        assert away.machine.digest == leader.machine.digest
        assert quorum_of(leader).status.term == term
        await away.kill()
        await away.start()
        await world.settled()

    simulate(3, scenario, snapshot_bytes=3_000, entries_kept=10)


def test_snapshot_whose_transfer_breaks_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[SnapshotRequest] = []
    send = Peers.send

    def lossy(peers: Peers, envelope: Envelope) -> None:
        if isinstance(envelope.message, SnapshotRequest):
            requests.append(envelope.message)
            if len(requests) == 1:
                return
        send(peers, envelope)

    async def scenario(world: SimQuorum) -> None:
        leader, (away, _) = await started(world)
        await away.kill()
        for number in range(300):
            await world.propose(leader, f"{number}" * 10)
        await away.start()
        await world.settled()
        assert len(requests) == 2

    monkeypatch.setattr(Peers, "send", lossy)
    simulate(3, scenario, snapshot_bytes=3_000, entries_kept=10)


# --- membership and founding ----------------------------------------------------------------------


def test_wiped_voter_does_not_vote_until_it_was_removed_and_added() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, (victim, other) = await started(world)
        old_key = quorum_of(victim).key
        await world.propose(leader, "x")
        await victim.kill()
        victim.disk.wipe(DIRECTORY)
        await victim.start()
        await asyncio.sleep(3)
        assert quorum_of(victim).status.is_running
        assert quorum_of(victim).status.role is Role.FOLLOWER
        assert victim.machine.index == 0
        new_key = quorum_of(victim).key
        assert new_key != old_key
        # By that its readiness tells it from a voter that hears nobody.
        assert new_key not in quorum_of(victim).status.voters
        # The wiped one makes no majority with the one that is left.
        await other.kill()
        with pytest.raises(ControllerMoved):
            await world.propose(leader, "y")
        await other.start()
        leader = await world.leader()
        await quorum_of(leader).remove_voter(old_key)
        await quorum_of(leader).add_voter(Voter(new_key, f"{victim.name}:{PORT}"))
        await world.settled()
        assert new_key in quorum_of(victim).status.voters
        await other.kill()
        await world.propose(await world.leader(), "z")

    simulate(3, scenario)


def test_added_voter_reaches_those_who_do_not_know_it_and_may_lead() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        newcomer = world.add_machine(4)
        await newcomer.start()
        await asyncio.sleep(1)
        await quorum_of(leader).add_voter(Voter(quorum_of(newcomer).key, f"{newcomer.name}:{PORT}"))
        await quorum_of(leader).transfer_leadership(newcomer.node_id)
        assert await world.leader() is newcomer
        status = quorum_of(leader).status
        await world.propose(newcomer, "x")
        await world.settled()
        assert quorum_of(leader).status.leader == Voter(quorum_of(newcomer).key, f"{newcomer.name}:{PORT}")
        assert len(status.voters) == 4

    simulate(3, scenario)


def test_leader_that_removes_itself_makes_room_for_another() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        await quorum_of(leader).remove_voter(quorum_of(leader).key)
        successor = await world.leader(other_than=leader)
        await world.propose(successor, "x")
        assert len(quorum_of(successor).status.voters) == 2

    simulate(3, scenario)


def test_change_of_voters_that_makes_no_sense_is_refused() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        quorum = quorum_of(leader)
        stranger = VoterKey(NodeId(9), DirectoryId("x" * 22))
        with pytest.raises(VoterChangeRefused):
            await quorum.remove_voter(stranger)
        with pytest.raises(VoterChangeRefused):
            await quorum.add_voter(Voter(quorum.key, "v1:1"))
        with pytest.raises(VoterChangeRefused, match="does not answer"):
            await quorum.add_voter(Voter(stranger, "v9:1"))

    simulate(3, scenario)


def test_quorum_waits_for_all_its_voters_the_first_time_and_says_for_whom() -> None:
    async def scenario(world: SimQuorum) -> None:
        first, second, third = world.voters.values()
        await first.start()
        await second.start()
        await asyncio.sleep(5)
        status = quorum_of(first).status
        assert not status.is_running
        assert "[3]" in status.waiting_for
        with pytest.raises(NotFounded, match=r"\[3\]"):
            quorum_of(first).propose(b"x", term=Term(1))
        await third.start()
        await world.settled()
        assert all(quorum_of(voter).status.is_running for voter in world.voters.values())
        assert len({quorum_of(voter).status.cluster_id for voter in world.voters.values()}) == 1

    simulate(3, scenario)


# --- failures -------------------------------------------------------------------------------------


def test_failed_sync_ends_the_process() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        error = OSError(errno.EIO, "the device is gone")
        leader.disk.fault_hook = fail_nth(1, error, names={"fdatasync"})
        with pytest.raises(ControllerMoved):
            await world.propose(leader, "x")
        assert leader.fatal is not None
        assert "the device is gone" in leader.fatal

    simulate(3, scenario)


def test_state_machine_that_fails_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = HistoryMachine.apply

    def failing(machine: HistoryMachine, entries: Sequence[Entry]) -> None:
        if any(entry.data == b"poison" for entry in entries):
            raise ValueError("cannot apply this")
        apply(machine, entries)

    async def scenario(world: SimQuorum) -> None:
        leader, _ = await started(world)
        with pytest.raises(ControllerMoved):
            await world.propose(leader, "poison")
        assert leader.fatal is not None
        assert "cannot apply this" in leader.fatal

    monkeypatch.setattr(HistoryMachine, "apply", failing)
    simulate(3, scenario)


def test_damaged_voter_does_not_start_and_the_others_go_on() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, (victim, _) = await started(world)
        for number in range(20):
            await world.propose(leader, f"{number}")
        await victim.kill()
        segment = min(name for name in victim.disk.list(DIRECTORY) if name.endswith(".journal"))
        victim.disk.flip_bit(f"{DIRECTORY}/{segment}", 200)
        with pytest.raises(QuorumDamaged, match="journal"):
            await victim.start()
        await world.propose(leader, "x")

    simulate(3, scenario)


def test_voter_with_a_damaged_tail_catches_up_and_counts_again() -> None:
    async def scenario(world: SimQuorum) -> None:
        leader, (victim, other) = await started(world)
        await world.propose(leader, "x")
        await world.settled()
        await victim.kill()
        segment = max(name for name in victim.disk.list(DIRECTORY) if name.endswith(".journal"))
        path = f"{DIRECTORY}/{segment}"
        victim.disk.flip_bit(path, victim.disk.size(path) * 8 - 5)
        await victim.start()
        await asyncio.sleep(1)
        assert not quorum_of(victim).status.is_recovering
        await other.kill()
        await world.propose(leader, "y")

    simulate(3, scenario)
