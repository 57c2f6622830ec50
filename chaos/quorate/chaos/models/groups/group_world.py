"""A coordinator without a broker around it: groups, the log that they are made of, and topics."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from immutables import Map

from quorate.broker.groups import membership
from quorate.broker.groups.group import Group, Groups
from quorate.broker.groups.invariants import validate
from quorate.broker.groups.membership import Decision
from quorate.broker.groups.records import (
    GroupRecord,
    TopicIdPartition,
    decode_record,
    encode_record,
    partitions_of,
    topic_partitions,
)
from quorate.broker.groups.revisions import Revision
from quorate.broker.groups.settings import GroupSettings
from quorate.broker.groups.topics import TopicCatalog
from quorate.core.config import GroupConfig
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName
from quorate.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from quorate.v1.group_pb2 import GroupHeartbeatRequest, GroupHeartbeatResponse, GroupSubscription

__all__ = ["GROUP", "Log", "World", "assigned", "at", "compacted", "contents", "group_contents", "replayed"]

GROUP: Final = "workers"

#: a place, a key and a value each; places stay, whatever is compacted
Log = list[tuple[Revision, bytes, bytes | None]]


def at(topic: str, *numbers: int) -> frozenset[TopicIdPartition]:
    """Partitions of a topic whose id is that of ``World.create_topic`` for its first life."""
    return frozenset(TopicIdPartition(TopicId(f"{topic}-1"), PartitionId(number)) for number in numbers)


def assigned(response: GroupHeartbeatResponse) -> frozenset[TopicIdPartition]:
    return partitions_of(response.assignment)


def compacted(log: Log, rng: random.Random) -> Log:
    """What a log may look like of which any part was compacted: the latest of each key is always there."""
    latest = {key: place for place, key, _ in log}
    kept: Log = []
    keys_kept: set[bytes] = set()
    for place, key, value in log:
        is_latest = latest[key] == place
        # A tombstone goes too, in the end; what it removed has gone before it.
        if is_latest and value is None and key not in keys_kept and rng.random() < 0.5:
            continue
        if is_latest or rng.random() < 0.3:
            kept.append((place, key, value))
            keys_kept.add(key)
    return kept


def replayed(log: Log) -> Groups:
    groups = Groups()
    for place, key, value in log:
        record = decode_record(key, value)
        assert record is not None
        groups.apply(record, place)
    return groups


def contents(groups: Groups) -> dict[str, Any]:
    """All that is known of them, to be compared."""
    return {name: group_contents(groups[name]) for name in groups}


def group_contents(group: Group) -> tuple[Any, ...]:
    return (
        (group.group_epoch, group.assignment_epoch, group.departure_epoch, group.empty_since_ms),
        dict(group.members),
        dict(group.offsets),
        dict(group.holders),
        dict(group.target_owners),
        group.state,
    )


class World:
    def __init__(self, *, topics: Mapping[str, int] | None = None, **settings: int) -> None:
        self.settings = replace(GroupSettings.of(GroupConfig()), **settings)
        self.groups = Groups()
        self.log: Log = []
        self._records = 0
        self.now_ms = 1_000_000
        #: members whose calls have broken off
        self.dead: set[str] = set()
        self._lives: dict[str, int] = {}
        self.image = MetadataImage()
        for name, count in (topics or {}).items():
            self.create_topic(name, count)

    # -- topics

    @property
    def topics(self) -> TopicCatalog:
        return TopicCatalog(self.image)

    def create_topic(self, name: str, partition_count: int, *, replicas: Iterable[int] = (1,)) -> TopicId:
        self._lives[name] = self._lives.get(name, 0) + 1
        topic_id = TopicId(f"{name}-{self._lives[name]}")
        topic = TopicImage(topic_id, TopicName(name), Map(), _partitions(topic_id, partition_count, replicas))
        self._set_topics(
            self.image.topics.set(topic_id, topic), self.image.topic_ids.set(topic.name, topic_id)
        )
        return topic_id

    def grow_topic(self, name: str, partition_count: int) -> None:
        topic = self.image.topic_named(TopicName(name))
        assert topic is not None
        grown = TopicImage(
            topic.topic_id, topic.name, topic.configs, _partitions(topic.topic_id, partition_count, (1,))
        )
        self._set_topics(self.image.topics.set(topic.topic_id, grown), self.image.topic_ids)

    def delete_topic(self, name: str) -> None:
        topic_id = self.image.topic_ids[TopicName(name)]
        self._set_topics(self.image.topics.delete(topic_id), self.image.topic_ids.delete(TopicName(name)))

    def partitions_of(self, topic_id: TopicId) -> list[TopicIdPartition]:
        count = self.topics.partition_count(topic_id)
        return [TopicIdPartition(topic_id, PartitionId(number)) for number in range(count)]

    def add_broker(self, broker_id: int, rack: str) -> None:
        broker = BrokerImage(
            broker_id=BrokerId(broker_id),
            broker_epoch=BrokerEpoch(1),
            incarnation_id="",
            directory_id="",
            address="",
            rack=rack,
            feature_level_min=1,
            feature_level_max=1,
            is_fenced=False,
            is_shutting_down=False,
            is_draining=False,
        )
        self.image = MetadataImage(
            brokers=self.image.brokers.set(BrokerId(broker_id), broker),
            topics=self.image.topics,
            topic_ids=self.image.topic_ids,
        )

    def _set_topics(self, topics: Map[TopicId, TopicImage], topic_ids: Map[TopicName, TopicId]) -> None:
        self.image = MetadataImage(brokers=self.image.brokers, topics=topics, topic_ids=topic_ids)

    @property
    def revision(self) -> Revision:
        """Of an answer that is made now."""
        return Revision(0, self._records)

    # -- decisions

    @property
    def group(self) -> Group:
        return self.groups[GROUP]

    def decide(self, request: GroupHeartbeatRequest) -> Decision:
        return membership.heartbeat(
            self.groups,
            request,
            topics=self.topics,
            settings=self.settings,
            now_ms=self.now_ms,
            seems_dead=self.dead.__contains__,
        )

    def carry_out(self, records: Iterable[GroupRecord]) -> list[GroupRecord]:
        """Through bytes, as in life."""
        done = list(records)
        for record in done:
            key, value = encode_record(record)
            place = Revision(0, self._records)
            self._records += 1
            self.log.append((place, key, value))
            decoded = decode_record(key, value)
            assert decoded == record
            self.groups.apply(decoded, place)
        for name in self.groups:
            validate(self.groups[name])
        return done

    def heartbeat(
        self,
        member_id: str,
        member_epoch: int = 0,
        *,
        owned: Iterable[TopicIdPartition] = (),
        topics: Iterable[str] | None = None,
        call_number: int = 0,
        departure_epoch: int | None = None,
        **wish: Any,
    ) -> GroupHeartbeatResponse:
        """``topics`` and ``wish`` make up the subscription; none of them: there is none."""
        subscription = GroupSubscription(topics=topics, **wish) if topics is not None or wish else None
        request = GroupHeartbeatRequest(
            group=GROUP,
            member_id=member_id,
            member_epoch=member_epoch,
            owned=topic_partitions(owned),
            subscription=subscription,
            call_number=call_number,
            departure_epoch=departure_epoch,
        )
        decision = self.decide(request)
        self.carry_out(decision.records)
        return decision.answer

    def removal(self, member_id: str) -> list[GroupRecord]:
        return membership.remove_member(self.groups, GROUP, member_id, topics=self.topics, now_ms=self.now_ms)

    def remove(self, member_id: str) -> None:
        self.carry_out(self.removal(member_id))

    def change_of_topics(self) -> list[GroupRecord]:
        return membership.topics_changed(self.groups, GROUP, topics=self.topics, now_ms=self.now_ms)

    def topics_changed(self) -> list[GroupRecord]:
        return self.carry_out(self.change_of_topics())

    def settle(self, *members: str) -> None:
        """These have heard of everything, and do as they are told, until nothing is left to do."""
        for _ in range(10):
            for name in members:
                member = self.group.members[name]
                self.heartbeat(name, member.member_epoch, owned=member.assigned)
            if all(self.group.members[name].is_settled for name in members):
                return
        raise AssertionError("it does not settle")


def _partitions(topic_id: TopicId, count: int, replicas: Iterable[int]) -> tuple[PartitionImage, ...]:
    on = tuple(BrokerId(each) for each in replicas)
    return tuple(
        PartitionImage(topic_id, PartitionId(number), on, on[:1], (), (), on[0], LeaderEpoch(0), 0)
        for number in range(count)
    )
