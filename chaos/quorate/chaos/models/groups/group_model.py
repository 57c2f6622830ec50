"""The coordinator's decisions against members whose calls and answers are lost, late, doubled and overtaken.

A random walk: each step lets a member call, a call or an answer arrive, a member finish what it was told to
give up, commit, leave, die or change its mind; lets the coordinator take somebody for dead who is not; lets
topics come, grow and go; or lets the coordinator start anew from its log, of which any part may have been
compacted.

Since the members really hold partitions, "one owner at any time" is checked and not inferred: whatever a
member reads, the coordinator counts as held by it. Whoever was removed does not count, until it has heard
of it: it may read for a while what is somebody else's, but it commits nothing.

Members may number their calls, and name the last departure that they know of when they join, or do
neither, as the protocol allows. If they do, no call from before one went brings it back, and in the end each
reads what it wanted last.

At the end everything calms down, and all has to be read again within a few calls of each.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from quorate.broker.groups import offset_decisions
from quorate.broker.groups.invariants import validate
from quorate.broker.groups.records import GroupRecord, TopicIdPartition
from quorate.broker.groups.requests import normalized
from quorate.chaos.models.groups.group_world import GROUP, World, compacted, contents, replayed
from quorate.chaos.models.groups.model_member import ModelMember
from quorate.core.ids import TopicName
from quorate.errors import (
    FencedMemberEpoch,
    GroupError,
    InvalidUpdateVersion,
    QuorateError,
    UnknownMember,
)
from quorate.v1.group_pb2 import (
    CommitOffsetsRequest,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    GroupSubscription,
    OffsetToCommit,
)

__all__ = ["GroupModel", "walk"]

_TOPICS: Final = ("east", "north", "south", "west")
_MEMBERS_MAX: Final = 7
_PARTITIONS_MAX: Final = 5
_IN_FLIGHT_MAX: Final = 12
#: calls of each until everything is read again
_ROUNDS_MAX: Final = 6
_RETENTION_MS: Final = 500


class _Call(NamedTuple):
    member: ModelMember
    life: int
    number: int
    request: GroupHeartbeatRequest
    #: departures that there were before it was sent
    departures: int


class _Answer(NamedTuple):
    call: _Call
    said: GroupHeartbeatResponse | QuorateError


class _Commit(NamedTuple):
    member_id: str
    epoch: int
    partition: TopicIdPartition
    offset: int
    #: how often the partition had changed hands when it was sent
    tenure: int
    #: the group had removed the member before it was sent
    is_zombies: bool


def walk(
    seed: int, *, steps: int, member_type: type[ModelMember] = ModelMember, is_ordered: bool = False
) -> Counter[str]:
    """What happened, or an ``AssertionError`` that says how to see it again."""
    model = GroupModel(seed, member_type, is_ordered=is_ordered)
    try:
        for _ in range(steps):
            model.step()
        model.calm_down()
    except AssertionError as error:
        again = f"walk({seed}, steps={steps}, member_type={member_type.__name__}, is_ordered={is_ordered})"
        error.add_note(f"after {model.counts.total()} events of {again}")
        raise
    return model.counts


class GroupModel:
    def __init__(
        self, seed: int, member_type: type[ModelMember] = ModelMember, *, is_ordered: bool = False
    ) -> None:
        """``is_ordered``: members number their calls, and their joins say what they are based on."""
        self._rng = random.Random(seed)
        self._member_type = member_type
        self._is_ordered = is_ordered
        self._world = World(topics={name: self._rng.randint(1, 3) for name in _TOPICS[:2]})
        self._members: list[ModelMember] = []
        self._member_count = 0
        self._calls: list[_Call] = []
        self._answers: list[_Answer] = []
        self._commits: list[_Commit] = []
        #: the group's epoch when it removed a member
        self._removed_in: dict[str, int] = {}
        #: in their order, those of whoever has gone; and for each, the number of its last one
        self._departures = 0
        self._departed: dict[str, int] = {}
        #: by whom, and since when, a partition is held; and how often that has changed
        self._holds: dict[TopicIdPartition, tuple[str, int]] = {}
        self._tenures: Counter[TopicIdPartition] = Counter()
        self._offset = 0
        self._committed: dict[TopicIdPartition, int] = {}
        self.counts: Counter[str] = Counter()
        weights: dict[Callable[[], None], int] = {
            self._arrive: 6,
            self._call: 40,
            self._deliver_call: 45,
            self._deliver_answer: 40,
            self._lose_something: 5,
            self._finish: 25,
            self._send_commit: 12,
            self._deliver_commit: 10,
            self._change_wish: 6,
            self._leave: 3,
            self._step_away: 2,
            self._crash: 2,
            self._end_session: 4,
            self._end_session_of_the_dead: 5,
            self._change_topics: 6,
            self._look_at_topics: 8,
            self._expire: 2,
            self._wait_for_long: 1,
            self._restart: 3,
        }
        self._steps, self._weights = list(weights), list(weights.values())

    def step(self) -> None:
        self._world.now_ms += self._rng.randint(0, 20)
        self._rng.choices(self._steps, self._weights)[0]()
        self._check()

    # -- what holds

    def _check(self) -> None:
        """Whatever a member holds, the coordinator knows that it does."""
        group = self._world.groups.get(GROUP)
        for member in self._members:
            if member.epoch and not self._is_zombie(member):
                known = group.members.get(member.member_id) if group else None
                assert known is not None, f"{member.member_id} is gone, and nobody removed it"
                surplus = sorted(each for each in member.owned if not known.holds(each))
                assert not surplus, f"{member.member_id} holds {surplus[0]}, and the group does not know"
        offsets = {} if group is None else {each: entry.offset for each, entry in group.offsets.items()}
        assert offsets == self._committed

    def _is_zombie(self, member: ModelMember) -> bool:
        """The group has removed it since it was given its epoch."""
        return self._removed_in.get(member.member_id, 0) >= member.epoch or member.is_forgotten

    def _carry_out(self, records: Iterable[GroupRecord], *, who_goes: str = "") -> None:
        before = self._member_ids()
        self._world.carry_out(records)
        group = self._world.groups.get(GROUP)
        for member_id in before - self._member_ids():
            assert member_id == who_goes, f"{member_id} has gone, and nobody removed it"
            assert group is not None
            self._removed_in[member_id] = group.group_epoch
            self._departures += 1
            self._departed[member_id] = self._departures
        holds = {}
        for member in group.members.values() if group else ():
            for partition, since in (*member.assigned.items(), *member.revoking.items()):
                holds[partition] = (member.member_id, since)
        for partition in {*holds, *self._holds}:
            if holds.get(partition) != self._holds.get(partition):
                self._tenures[partition] += 1
        self._holds = holds

    def _member_ids(self) -> set[str]:
        group = self._world.groups.get(GROUP)
        return set(group.members) if group else set()

    # -- members

    def _arrive(self) -> None:
        if len(self._members) >= _MEMBERS_MAX:
            return
        subscription = GroupSubscription(assignor=self._rng.choice(("", "", "uniform", "range")))
        if self._rng.random() < 0.3:
            subscription.instance_id = f"instance-{self._rng.randrange(3)}"
        member = self._new_member(subscription)
        self._wish(member)
        self._members.append(member)
        self._send(member)

    def _new_member(self, subscription: GroupSubscription) -> ModelMember:
        return self._member_type(GROUP, self._new_id(), subscription, is_ordered=self._is_ordered)

    def _new_id(self) -> str:
        self._member_count += 1
        return f"member-{self._member_count:03}"

    def _wish(self, member: ModelMember) -> None:
        pattern = self._rng.choice(("", "", "", ".*st", "[ns].*"))
        member.wish(self._rng.sample(_TOPICS, self._rng.randint(1, 4)), pattern)

    def _call(self) -> None:
        if self._members and len(self._calls) < _IN_FLIGHT_MAX:
            self._send(self._rng.choice(self._members))

    def _send(self, member: ModelMember) -> None:
        request = member.call(self._rng)
        self._calls.append(_Call(member, member.life, member.calls, request, self._departures))

    def _finish(self) -> None:
        busy = [member for member in self._members if member.leaving]
        if busy:
            member = self._rng.choice(busy)
            leaving = sorted(member.leaving)
            member.give_up(self._rng.sample(leaving, self._rng.randint(1, len(leaving))))

    def _change_wish(self) -> None:
        if self._members:
            self._wish(self._rng.choice(self._members))

    def _leave(self) -> None:
        self._go(is_away=False)

    def _step_away(self) -> None:
        self._go(is_away=True)

    def _go(self, *, is_away: bool) -> None:
        candidates = [each for each in self._members if each.epoch and (each.is_static or not is_away)]
        if not candidates:
            return
        member = self._rng.choice(candidates)
        request = member.farewell(is_away=is_away)
        self._calls.append(_Call(member, member.life, 0, request, self._departures))
        self._members.remove(member)
        if is_away:
            self._members.append(self._new_member(member.subscription))

    def _crash(self) -> None:
        if self._members:
            member = self._rng.choice(self._members)
            self._members.remove(member)
            if member.is_static:
                # Its call breaks off with it, and whoever starts it again does so under the same instance id.
                self._world.dead.add(member.member_id)
                self._members.append(self._new_member(member.subscription))

    # -- the network

    def _lose_something(self) -> None:
        for queue in (self._calls, self._answers, self._commits):
            if queue and self._rng.random() < 0.5:
                del queue[self._rng.randrange(len(queue))]

    def _deliver_call(self) -> None:
        if not self._calls:
            return
        # One that is delivered may come a second time, whenever.
        place = self._rng.randrange(len(self._calls))
        call = self._calls[place]
        if self._rng.random() < 0.9:
            del self._calls[place]
        said = self._decide(call)
        if call.number:
            self._answers.append(_Answer(call, said))

    def _decide(self, call: _Call) -> GroupHeartbeatResponse | QuorateError:
        request = call.request
        who_goes = self._who_goes(request)
        before = self._member_ids()
        try:
            decision = self._world.decide(request)
        except (GroupError, InvalidUpdateVersion) as error:
            self.counts[error.code] += 1
            return error
        self._carry_out(decision.records, who_goes=who_goes)
        if self._is_ordered and request.member_id in self._member_ids() - before:
            is_late = call.departures < self._departed.get(request.member_id, 0)
            assert not is_late, f"{request.member_id} has gone, and a call of before brings it back"
        self.counts["changes" if decision.records else "nothing new"] += 1
        return decision.answer

    def _who_goes(self, request: GroupHeartbeatRequest) -> str:
        """Whoever leaves, and a static member that is gone when its successor comes; empty: nobody."""
        if request.member_epoch < 0:
            return request.member_id
        group = self._world.groups.get(GROUP)
        instance_id = request.subscription.instance_id
        for member in group.members.values() if group and instance_id else ():
            is_gone = member.is_away or member.member_id in self._world.dead
            if member.instance_id == instance_id and is_gone and member.member_id != request.member_id:
                return member.member_id
        return ""

    def _deliver_answer(self) -> None:
        if self._answers:
            call, said = self._answers.pop(self._rng.randrange(len(self._answers)))
            self._hear(call, said)

    def _hear(self, call: _Call, said: GroupHeartbeatResponse | QuorateError) -> None:
        member = call.member
        if call.life != member.life:
            return
        if isinstance(said, GroupHeartbeatResponse):
            member.answered = max(member.answered, call.number)
            if call.number == member.calls and call.request.subscription == member.subscription:
                member.has_wish = False
            member.hear(call.request, said)
            self.counts["given up late" if member.leaving else "heard"] += 1
        elif isinstance(said, InvalidUpdateVersion):
            departure_epoch = said.facts["departure_epoch"]
            assert isinstance(departure_epoch, int)
            member.hear_of_departure(departure_epoch)
            if call.number == member.calls:
                self._send(member)
        elif isinstance(said, UnknownMember | FencedMemberEpoch) and call.number > member.answered:
            # Under its old name only where the group has not forgotten its epochs since: a member that slept
            # through that, and then took the same name again, could have a commit of before accepted.
            is_new = self._rng.random() < 0.5 or member.is_forgotten or not member.may_keep_its_name
            member.begin_anew(self._new_id() if is_new else member.member_id)
            self.counts["began anew"] += 1

    # -- commits

    def _send_commit(self) -> None:
        reading = [member for member in self._members if member.owned]
        if reading:
            member = self._rng.choice(reading)
            partition = self._rng.choice(sorted(member.owned))
            self._offset += 1
            tenure = self._tenures[partition]
            zombie = self._is_zombie(member)
            commit = _Commit(member.member_id, member.epoch, partition, self._offset, tenure, zombie)
            self._commits.append(commit)

    def _deliver_commit(self) -> None:
        if not self._commits:
            return
        commit = self._commits.pop(self._rng.randrange(len(self._commits)))
        error = self._commit(commit)
        is_same_tenure = commit.tenure == self._tenures[commit.partition] and not commit.is_zombies
        if error is None:
            assert is_same_tenure, f"{commit} comes from somebody who has lost the partition since"
            # Later ones are further here, as no member goes back.
            assert self._committed.get(commit.partition, -1) < commit.offset, f"{commit} undoes a later one"
            self._committed[commit.partition] = commit.offset
            self.counts["committed"] += 1
        elif self._world.topics.has(commit.partition):
            is_overtaken = self._committed.get(commit.partition, -1) > commit.offset
            assert not is_same_tenure or is_overtaken, f"{commit} is refused: {error.message}"
            self.counts[f"commit: {error.code}"] += 1

    def _commit(self, commit: _Commit) -> QuorateError | None:
        entry = OffsetToCommit(
            topic_id=commit.partition.topic_id, partition=commit.partition.partition, offset=commit.offset
        )
        request = CommitOffsetsRequest(
            group=GROUP,
            member_id=commit.member_id,
            member_epoch=commit.epoch,
            offsets=[entry],
            commit_number=commit.offset,
        )
        world = self._world
        try:
            decision = offset_decisions.commit(
                world.groups, request, topics=world.topics, settings=world.settings, now_ms=world.now_ms
            )
        except GroupError as error:
            return error
        self._carry_out(decision.records)
        return decision.errors[0]

    def _expire(self) -> None:
        group = self._world.groups.get(GROUP)
        if group is None:
            return
        now_ms = self._world.now_ms
        records = offset_decisions.expired_offsets(group, now_ms=now_ms, retention_ms=_RETENTION_MS)
        self.counts["expired"] += bool(records)
        self._forget_offsets(records)
        self._carry_out(records)

    def _wait_for_long(self) -> None:
        """Nothing is under way for longer than that: it has arrived, or never will."""
        self._calls.clear()
        self._answers.clear()
        self._commits.clear()
        self._world.now_ms += 600_000
        self._expire()
        if GROUP not in self._world.groups:
            # Epochs begin anew.
            self._removed_in.clear()
            self._departed.clear()
            for member in self._members:
                member.is_forgotten = member.epoch > 0
            self.counts["gone"] += 1

    def _forget_offsets(self, records: Iterable[GroupRecord]) -> None:
        for key, value in records:
            if key.WhichOneof("about") == "offset" and value is None:
                gone = {
                    each for each in self._committed if each == (key.offset.topic_id, key.offset.partition)
                }
                for partition in gone:
                    del self._committed[partition]

    # -- what the coordinator does by itself

    def _end_session(self) -> None:
        """Of somebody who is merely slow, perhaps."""
        ids = sorted(self._member_ids())
        if ids:
            self._remove(self._rng.choice(ids))

    def _end_session_of_the_dead(self) -> None:
        alive = {member.member_id for member in self._members}
        dead = sorted(self._member_ids() - alive)
        if dead:
            self._remove(self._rng.choice(dead))

    def _remove(self, member_id: str) -> None:
        self._carry_out(self._world.removal(member_id), who_goes=member_id)
        self.counts["removed"] += 1

    def _change_topics(self) -> None:
        name = self._rng.choice(_TOPICS)
        topic = self._world.image.topic_named(TopicName(name))
        if topic is None:
            self._world.create_topic(name, self._rng.randint(1, _PARTITIONS_MAX))
        elif len(topic.partitions) < _PARTITIONS_MAX and self._rng.random() < 0.6:
            self._world.grow_topic(name, len(topic.partitions) + 1)
        else:
            self._world.delete_topic(name)
        self.counts["topics"] += 1

    def _look_at_topics(self) -> None:
        records = self._world.change_of_topics()
        self._forget_offsets(records)
        self._carry_out(records)

    def _restart(self) -> None:
        """A coordinator that reads the log has the state of the one that wrote it."""
        world = self._world
        log = compacted(world.log, self._rng)
        groups = replayed(log)
        assert contents(groups) == contents(world.groups)
        for name in groups:
            validate(groups[name])
        world.groups = groups
        if self._rng.random() < 0.5:
            world.log = log
        self.counts["restarts"] += 1

    # -- the end

    def calm_down(self) -> None:
        """No faults any more: whoever is dead is found out, and everybody calls, and does as it is told."""
        self._calls.clear()
        self._answers.clear()
        self._part_twins()
        self._look_at_topics()
        for _ in range(_ROUNDS_MAX):
            # Also those that a late call has brought back under a name that its member has given up.
            alive = {member.member_id for member in self._members}
            for member_id in sorted(self._member_ids() - alive):
                self._remove(member_id)
            for member in self._members:
                member.give_up(set(member.leaving))
                self._send(member)
                call = self._calls.pop()
                self._hear(call, self._decide(call))
                self._check()
            if self._is_all_read():
                if self._is_ordered:
                    self._check_wishes()
                return
        raise AssertionError(f"after {_ROUNDS_MAX} calls of each it is not calm")

    def _check_wishes(self) -> None:
        """The group knows what each wants by now."""
        for member in self._members:
            known = self._world.group.members[member.member_id].subscription
            wanted = normalized(member.subscription)
            assert known == wanted, f"{member.member_id} wants {wanted}, and the group knows of {known}"

    def _part_twins(self) -> None:
        """Of several with one instance id, only one gets in."""
        known = self._member_ids()
        found: dict[str, ModelMember] = {}
        for member in sorted(self._members, key=lambda member: member.member_id not in known):
            instance_id = member.subscription.instance_id
            if instance_id and found.setdefault(instance_id, member) is not member:
                self._members.remove(member)

    def _is_all_read(self) -> bool:
        group = self._world.groups.get(GROUP)
        if group is None:
            return not self._members
        wanted = {
            partition
            for member in group.members.values()
            for topic_id in self._world.topics.subscribed(member.topic_names, member.subscription.pattern)
            for partition in self._world.partitions_of(topic_id)
        }
        readers = [member for member in self._members if member.member_id in group.members]
        read = [partition for member in readers for partition in member.owned]
        return (
            all(member.is_settled for member in group.members.values())
            and sorted(read) == sorted(wanted)
            and len(readers) == len(group.members) == len(self._members)
        )
