"""A member of a group by itself: what it says that it holds, whatever it is answered."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quorate.client.consumer.group.member import Changes, Hold, Member
from quorate.client.groups.partitions import GroupPartition, partitions_from, partitions_to
from quorate.core.ids import PartitionId, TopicId, TopicName
from quorate.v1 import group_pb2

PARTITIONS = [
    GroupPartition(TopicId(f"id-{topic}"), TopicName(topic), PartitionId(number))
    for topic in "tu"
    for number in range(3)
]
SUBSCRIPTION = group_pb2.GroupSubscription(topics=["t", "u"])

some_partitions = st.lists(st.sampled_from(PARTITIONS), unique=True)


def member() -> Member:
    names = itertools.count()
    return Member("g", SUBSCRIPTION, lambda: f"member-{next(names)}")


def answer(epoch: int, *assignment: GroupPartition) -> group_pb2.GroupHeartbeatResponse:
    return group_pb2.GroupHeartbeatResponse(member_epoch=epoch, assignment=partitions_to(assignment))


def hear(one: Member, response: group_pb2.GroupHeartbeatResponse, *, asked_in: int | None = None) -> Changes:
    """The answer to a call that was made just now, unless a test says in which epoch."""
    asked_in = one.epoch if asked_in is None else asked_in
    return one.answered(response, asked_in=asked_in, subscription_version=one.subscription_version)


def joined(*assignment: GroupPartition) -> Member:
    made = member()
    made.join()
    hear(made, answer(1, *assignment))
    made.began(assignment)
    made.shown(assignment)
    return made


def owned(of: Member) -> set[GroupPartition]:
    return set(partitions_from(of.request(max_wait_ms=0).owned))


def test_partitions_keep_their_names_on_the_wire() -> None:
    assert partitions_from(partitions_to(PARTITIONS)) == sorted(PARTITIONS)


def test_a_topic_that_the_coordinator_cannot_name_any_more_is_known_by_its_id() -> None:
    one = joined(*PARTITIONS[:2])
    nameless = [group_pb2.TopicPartitions(topic_id="id-t", partitions=[0, 1])]
    gone = group_pb2.TopicPartitions(topic_id="id-nobody-knows", partitions=[0])
    response = group_pb2.GroupHeartbeatResponse(member_epoch=2, assignment=[*nameless, gone])
    changes = hear(one, response)
    assert one.held(Hold.ACTIVE) == PARTITIONS[:2]
    assert (changes.given, changes.revoking) == ([], [])


def test_what_the_application_was_told_of_is_owned_until_it_has_come_back() -> None:
    one = joined(*PARTITIONS[:2])
    changes = hear(one, answer(1, PARTITIONS[0]))
    assert changes.revoking == [PARTITIONS[1]]
    assert owned(one) == set(PARTITIONS[:2])
    said = one.say
    one.given_up(changes.revoking)
    assert owned(one) == {PARTITIONS[0]}
    assert one.say > said


def test_what_the_application_never_heard_of_is_given_up_at_once() -> None:
    one = member()
    one.join()
    hear(one, answer(1, *PARTITIONS[:2]))
    one.began(PARTITIONS[:1])
    said = one.say
    changes = hear(one, answer(2))
    assert changes.withdrawn == PARTITIONS[:2]
    assert owned(one) == set()
    assert one.say > said


def test_within_one_epoch_what_a_member_holds_only_becomes_less() -> None:
    """An answer of before comes after the one that took the partition away, and it was given up meanwhile."""
    one = joined(*PARTITIONS[:2])
    hear(one, answer(5, *PARTITIONS[:2]))
    one.given_up(hear(one, answer(5, PARTITIONS[0])).revoking)
    changes = hear(one, answer(5, *PARTITIONS[:2]))
    assert changes.given == []
    assert not changes.is_news
    assert owned(one) == {PARTITIONS[0]}


def test_what_is_to_be_given_up_is_given_up_whatever_an_earlier_answer_of_the_epoch_says() -> None:
    one = joined(PARTITIONS[0])
    hear(one, answer(1))
    hear(one, answer(1, PARTITIONS[0]))
    assert one.held(Hold.REVOKING) == [PARTITIONS[0]]


def test_what_was_given_up_comes_back_with_a_higher_epoch_as_something_else() -> None:
    one = joined(PARTITIONS[0])
    before = one.tenure_of(PARTITIONS[0])
    one.given_up(hear(one, answer(1)).revoking)
    assert one.tenure_of(PARTITIONS[0]) is None
    assert hear(one, answer(2, PARTITIONS[0])).given == [PARTITIONS[0]]
    assert one.tenure_of(PARTITIONS[0]) not in (None, before)


def test_a_group_that_has_forgotten_its_epochs_does_not_make_an_old_tenure_good_again() -> None:
    one = joined(PARTITIONS[0])
    before = one.tenure_of(PARTITIONS[0])
    one.leave()
    one.join()
    hear(one, answer(1, PARTITIONS[0]))
    assert one.tenure_of(PARTITIONS[0]) != before


def test_the_answer_to_a_join_counts_only_for_one_that_has_not_joined() -> None:
    """It was removed, and an old call of its own, delivered late, has made it a member again: a new one."""
    one = joined(PARTITIONS[0])
    changes = hear(one, answer(8, *PARTITIONS[1:3]), asked_in=0)
    assert (one.epoch, owned(one)) == (1, {PARTITIONS[0]})
    assert changes.is_news, "what has become of it has to be asked, and at once"


def test_an_answer_that_was_overtaken_changes_nothing() -> None:
    one = joined(PARTITIONS[0])
    hear(one, answer(5, PARTITIONS[0]))
    changes = hear(one, answer(4))
    assert not changes.is_news
    assert one.epoch == 5
    assert one.held(Hold.ACTIVE) == [PARTITIONS[0]]


def test_a_subscription_is_told_until_it_is_known() -> None:
    one = member()
    one.join()
    before = one.subscription_version
    assert one.request(max_wait_ms=0).HasField("subscription")
    one.subscribe(group_pb2.GroupSubscription(topics=["v"]))
    one.answered(answer(1), asked_in=0, subscription_version=before)
    assert one.request(max_wait_ms=0).subscription.topics == ["v"]
    hear(one, answer(2))
    assert not one.request(max_wait_ms=0).HasField("subscription")


def test_each_call_has_a_higher_number_also_in_the_next_life() -> None:
    one = joined(*PARTITIONS[:1])
    numbers = [one.request(max_wait_ms=0).call_number for _ in range(3)]
    farewell, _ = one.leave()
    assert farewell is not None
    one.join()
    numbers += [farewell.call_number, one.request(max_wait_ms=0).call_number]
    assert numbers == list(range(1, 6))


def test_a_join_names_the_last_departure_that_is_known_and_no_other_call_does() -> None:
    one = member()
    one.join()
    assert one.request(max_wait_ms=0).departure_epoch == 0
    assert one.request(max_wait_ms=0).HasField("departure_epoch")
    one.departure_epoch = 7
    assert one.request(max_wait_ms=0).departure_epoch == 7
    hear(one, answer(8))
    assert not one.request(max_wait_ms=0).HasField("departure_epoch")
    one.leave()
    one.join()
    assert one.request(max_wait_ms=0).departure_epoch == 7


def test_whoever_was_removed_comes_back_as_somebody_else_who_holds_nothing() -> None:
    one = joined(*PARTITIONS[:2])
    identity, name = one.identity, one.member_id
    assert identity is not None
    farewell, lost = one.leave()
    one.join()
    assert farewell is not None
    assert (farewell.member_id, farewell.member_epoch) == (name, -1)
    assert lost == PARTITIONS[:2]
    assert not one.is_current(identity)
    request = one.request(max_wait_ms=0)
    assert request.member_id != name
    assert (request.member_epoch, list(request.owned)) == (0, [])
    assert request.HasField("subscription")
    assert one.identity is None


class AnyMember(RuleBasedStateMachine):
    """Whatever the coordinator answers and however late the application comes."""

    def __init__(self) -> None:
        super().__init__()
        self.member = member()
        self.member.join()
        self.epoch = 0
        #: what the application was told of, and has not given up
        self.shown: set[GroupPartition] = set()
        self.names: set[str] = set()

    @rule(assignment=some_partitions, step=st.integers(0, 1))
    def answer(self, assignment: list[GroupPartition], step: int) -> None:
        held = set(self.member.held(Hold.NEW, Hold.READY, Hold.ACTIVE))
        revoking = set(self.member.held(Hold.REVOKING))
        step = step or not self.epoch
        self.epoch += step
        changes = hear(self.member, answer(self.epoch, *assignment))
        assert {*changes.revoking, *changes.withdrawn} == held - set(assignment)
        assert set(changes.revoking) == self.shown - set(assignment) - revoking
        assert set(changes.given) == (set(assignment) - held - revoking if step else set())
        assert set(self.member.held(Hold.REVOKING)) == revoking | set(changes.revoking)
        expected = (held & set(assignment)) | set(changes.given)
        assert set(self.member.held(Hold.NEW, Hold.READY, Hold.ACTIVE)) == expected

    @rule(assignment=some_partitions)
    def late_welcome(self, assignment: list[GroupPartition]) -> None:
        if self.epoch:
            before = owned(self.member)
            hear(self.member, answer(self.epoch + 1, *assignment), asked_in=0)
            assert (self.member.epoch, owned(self.member)) == (self.epoch, before)

    @rule()
    def begin(self) -> None:
        self.member.began(self.member.held(Hold.NEW))

    @rule()
    def poll(self) -> None:
        revoking = self.member.held(Hold.REVOKING)
        said = self.member.say
        if revoking:
            self.member.given_up(revoking)
            assert self.member.say > said
        self.shown -= set(revoking)
        ready = self.member.held(Hold.READY)
        self.member.shown(ready)
        self.shown |= set(ready)

    @rule()
    def be_removed(self) -> None:
        _, lost = self.member.leave()
        assert set(lost) == self.shown
        self.member.join()
        self.shown, self.epoch = set(), 0
        assert self.member.member_id not in self.names
        self.names.add(self.member.member_id)

    @invariant()
    def everything_that_is_held_is_said(self) -> None:
        assert owned(self.member) == set(self.member.held())
        assert self.shown <= owned(self.member)


TestAnyMember = AnyMember.TestCase
TestAnyMember.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
