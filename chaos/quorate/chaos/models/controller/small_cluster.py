"""A cluster of metadata alone: decisions are applied as soon as they are made."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from quorate.controller.alter_configs import alter_configs
from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.reassignment import reassign_partitions
from quorate.controller.topics import create_topic
from quorate.core.ids import BrokerId, PartitionId, TopicName
from quorate.core.topic_names import topic_id_from
from quorate.metadata.delta import apply_batch
from quorate.metadata.digest import full_digest
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from quorate.metadata.records import cluster_record, feature_level_record
from quorate.v1 import admin_pb2
from quorate.v1.metadata_pb2 import (
    BrokerChangeRecord,
    BrokerList,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
)

__all__ = ["SmallCluster", "assignments", "based_on", "topic_id"]

Response = TypeVar("Response")


def topic_id(number: int) -> str:
    return topic_id_from(number.to_bytes(16, "big"))


def assignments(*replicas: Sequence[int], first: int = 0) -> list[admin_pb2.ReplicaAssignment]:
    return [
        admin_pb2.ReplicaAssignment(partition=number, replicas=each)
        for number, each in enumerate(replicas, start=first)
    ]


def based_on(image: MetadataImage, request: admin_pb2.AlterConfigsRequest) -> admin_pb2.AlterConfigsRequest:
    """The request of somebody who has just seen the settings."""
    topic = image.topic_named(TopicName(request.topic))
    if request.topic:
        request.topic_id = topic_id(0) if topic is None else topic.topic_id
    request.config_epoch = image.cluster_config_epoch if topic is None else topic.config_epoch
    return request


class SmallCluster:
    def __init__(self, brokers: int = 3, *, racks: int = 0, seed: int = 1) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.rng = random.Random(seed)
        self.events: list[ControllerEvent] = []
        self._topics_drawn = 0
        self.put(feature_level_record(1), cluster_record("cluster", 0))
        for number in range(1, brokers + 1):
            self.add_broker(number, rack=f"rack-{number % racks}" if racks else "")

    @property
    def next_offset(self) -> int:
        return self.image.offset + 1

    def put(self, *records: MetadataRecord) -> None:
        self.image = apply_batch(self.image, records, self.next_offset)
        assert self.image.digest == full_digest(self.image)

    def commit(self, decision: Decision[Response]) -> Response:
        if decision.records:
            self.put(*decision.records)
        self.events += decision.events
        return decision.response

    def warnings(self) -> list[str]:
        return [event.name for event in self.events if event.is_warning]

    # --- brokers

    def add_broker(self, broker_id: int, *, rack: str = "", is_fenced: bool = False) -> None:
        registration = RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=f"incarnation-{self.next_offset}",
            directory_id=f"directory-{broker_id}",
            address=f"host-{broker_id}:9092",
            rack=rack,
            feature_level_min=1,
            feature_level_max=1,
        )
        self.put(MetadataRecord(register_broker=registration))
        if not is_fenced:
            self.change_broker(broker_id, is_fenced=False)

    def change_broker(
        self,
        broker_id: int,
        *,
        is_fenced: bool | None = None,
        is_shutting_down: bool | None = None,
        is_draining: bool | None = None,
    ) -> None:
        """The broker's state alone; no election follows."""
        change = BrokerChangeRecord(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[BrokerId(broker_id)].broker_epoch,
            is_fenced=is_fenced,
            is_shutting_down=is_shutting_down,
            is_draining=is_draining,
        )
        self.put(MetadataRecord(broker_change=change))

    # --- topics

    def create(
        self,
        name: str = "t",
        *replicas: Sequence[int],
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        drawn_id: str = "",
        validate_only: bool = False,
    ) -> admin_pb2.TopicDescription:
        self._topics_drawn += 1
        request = admin_pb2.CreateTopicRequest(
            name=name,
            partition_count=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
            topic_id=drawn_id or topic_id_from(self._topics_drawn.to_bytes(16, "little")),
            assignments=assignments(*replicas),
            validate_only=validate_only,
        )
        decision = create_topic(
            self.image,
            request,
            next_offset=self.next_offset,
            default_partition_count=1,
            rng=self.rng,
        )
        return self.commit(decision).topic

    def delete(self, name: str = "t") -> None:
        record = RemoveTopicRecord(topic_id=self.topic(name).topic_id, removed_at_ms=5)
        self.put(MetadataRecord(remove_topic=record))

    def topic(self, name: str = "t") -> TopicImage:
        topic = self.image.topic_named(TopicName(name))
        assert topic is not None
        return topic

    def partition(self, number: int = 0, name: str = "t") -> PartitionImage:
        return self.topic(name).partitions[PartitionId(number)]

    def set_partition(
        self,
        number: int = 0,
        name: str = "t",
        *,
        isr: Sequence[int] | None = None,
        elr: Sequence[int] | None = None,
        leader: int | None = None,
    ) -> None:
        """The partition as somebody else has made it."""
        before = self.partition(number, name)
        change = PartitionChangeRecord(
            topic_id=before.topic_id,
            partition=number,
            partition_epoch=before.partition_epoch + 1,
            isr=None if isr is None else BrokerList(broker_ids=isr),
            elr=None if elr is None else BrokerList(broker_ids=elr),
        )
        if leader is not None:
            change.leader, change.leader_epoch = leader, before.leader_epoch + 1
        self.put(MetadataRecord(partition_change=change))

    def alteration(
        self, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> admin_pb2.AlterConfigsRequest:
        """Of the settings as they are now."""
        return based_on(
            self.image,
            admin_pb2.AlterConfigsRequest(
                topic=name,
                changes=[admin_pb2.ConfigChange(name=key, value=value) for key, value in changes.items()],
                validate_only=validate_only,
            ),
        )

    def configure(
        self, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> dict[str, tuple[str, admin_pb2.ConfigSource]]:
        """An empty name: the cluster. A value of None: back to the default."""
        request = self.alteration(name, changes, validate_only=validate_only)
        decision = alter_configs(
            self.image, request, next_offset=self.next_offset, is_heard=lambda _broker_id: True
        )
        response = self.commit(decision)
        return {entry.name: (entry.value, entry.source) for entry in response.configs}

    def move(self, *replicas: int, partition: int = 0, name: str = "t") -> None:
        """Without replicas: call it off."""
        named = admin_pb2.PartitionName(topic=name, partition=partition)
        request = admin_pb2.ReassignPartitionsRequest(
            moves=[admin_pb2.PartitionMove(partition=named, replicas=replicas)]
        )
        self.commit(reassign_partitions(self.image, request))
