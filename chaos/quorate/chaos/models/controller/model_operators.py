"""The operators of the controller's model: topics, settings, moves, and the last resort.

They ask for things at the worst moments, and change their mind. What they may not do is listed nowhere:
refusals are the controller's part.
"""

from __future__ import annotations

from quorate.chaos.models.controller.model_brokers import Key
from quorate.chaos.models.controller.model_replication import ReplicationModel
from quorate.chaos.models.controller.small_cluster import based_on
from quorate.controller.alter_configs import alter_configs
from quorate.controller.draining import drain_broker
from quorate.controller.preferred import move_leaders_back
from quorate.controller.reassignment import complete_reassignments, is_reassigning, reassign_partitions
from quorate.controller.recover import ReplicaEnd, recover_partition
from quorate.controller.topics import create_topic, delete_topic
from quorate.core.ids import BrokerId, LeaderEpoch, Offset, TopicName
from quorate.core.topic_names import topic_id_from
from quorate.metadata.image import NO_LEADER
from quorate.v1 import admin_pb2

__all__ = ["TOPICS", "OperatorModel"]

#: name -> durability; the second keeps what it has answered for through any power loss
TOPICS = {"pages": "replicated", "synced": "fsync"}


class OperatorModel(ReplicationModel):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        #: where the partition was to go when its move was called off
        self._called_off: dict[Key, list[BrokerId]] = {}

    def _create(self, name: str) -> None:
        self._last_number += 1
        topic_id = topic_id_from(self._last_number.to_bytes(16, "big"))
        request = admin_pb2.CreateTopicRequest(
            name=name,
            topic_id=topic_id,
            partition_count=1,
            replication_factor=3,
            configs={"durability": TOPICS[name]},
        )
        self._try(
            "created",
            lambda: create_topic(
                self.image,
                request,
                next_offset=self.image.offset + 1,
                default_partition_count=1,
                rng=self.rng,
            ),
        )

    def recreate_topic(self) -> None:
        name = self.rng.choice(sorted(TOPICS))
        if self.image.topic_named(TopicName(name)) is None:
            self._create(name)
        elif self.rng.random() < 0.3:
            self._try(
                "deleted",
                lambda: delete_topic(
                    self.image,
                    admin_pb2.DeleteTopicRequest(topic_id=self.image.topic_ids[TopicName(name)]),
                    now_ms=1,
                ),
            )

    def change_min_isr(self) -> None:
        request = admin_pb2.AlterConfigsRequest(
            topic=self._any_topic(),
            changes=[
                admin_pb2.ConfigChange(name="min.insync.replicas", value=str(self.rng.choice((1, 2, 3))))
            ],
        )
        self._alter_configs("MinISR", request)

    def change_durability(self) -> None:
        """To fsync also for records that are there already, and that nobody has synced (rule 45)."""
        durability = self.rng.choice(("fsync", "fsync", "replicated"))
        if durability == "replicated" and not all(each.is_same_boot for each in self.brokers.values()):
            # What a lost page cache costs is judged when the broker registers: by the setting of that time.
            return
        request = admin_pb2.AlterConfigsRequest(
            topic=self._any_topic(), changes=[admin_pb2.ConfigChange(name="durability", value=durability)]
        )
        self._alter_configs("durability", request)

    def _alter_configs(self, name: str, request: admin_pb2.AlterConfigsRequest) -> None:
        request = based_on(self.image, request)
        self._try(
            name,
            lambda: alter_configs(
                self.image, request, next_offset=self.image.offset + 1, is_heard=lambda _broker_id: True
            ),
        )

    def _any_topic(self) -> str:
        names = sorted(self.image.topic_ids)
        return self.rng.choice(names) if names else "none"

    def _name(self, key: Key) -> admin_pb2.PartitionName:
        return admin_pb2.PartitionName(
            topic=self.image.topics[key.topic_id].name, topic_id=key.topic_id, partition=key.partition
        )

    def reassign(self) -> None:
        keys = self._keys()
        if keys:
            self._reassign(self.rng.choice(keys))

    def _reassign(self, key: Key) -> None:
        partition = self._partition(key)
        target = self.rng.sample(sorted(self.brokers), self.rng.choice((2, 3, 3, 4)))
        if is_reassigning(partition) and self.rng.random() < 0.7:
            self._called_off[key] = [
                each for each in partition.replicas if each not in partition.removing_replicas
            ]
            target = []
        elif key in self._called_off and self.rng.random() < 0.7:
            # A new replica that has been here before, for those who did not notice that it went (rule 7).
            target = self._called_off.pop(key)
        self._move(key, target)

    def _move(self, key: Key, target: list[BrokerId]) -> None:
        """To nowhere: it is called off."""
        if target and not self.invariants.may_move(key, target):
            return
        move = admin_pb2.PartitionMove(partition=self._name(key), replicas=target)
        request = admin_pb2.ReassignPartitionsRequest(moves=[move])
        self._try("reassigned" if target else "cancelled", lambda: reassign_partitions(self.image, request))

    def complete_moves(self) -> None:
        self._try("completed", lambda: complete_reassignments(self.image))

    def drain(self) -> None:
        request = admin_pb2.DrainBrokerRequest(
            broker_id=self.rng.choice(sorted(self.brokers)), cancel=self.rng.random() < 0.6
        )
        self._try("drained", lambda: drain_broker(self.image, request))

    def move_leaders_back(self) -> None:
        self._try("moved back", lambda: move_leaders_back(self.image, moves_max=2))

    def recover(self) -> None:
        offline = [key for key in self._keys() if self._partition(key).leader == NO_LEADER]
        if not offline:
            return
        key = self.rng.choice(offline)
        before, ends = self._partition(key), {}
        for broker_id in before.replicas:
            broker = self.brokers[broker_id]
            if broker.is_running and not broker.is_quarantined(key):
                entries = broker.log(key).entries
                last = entries[-1].leader_epoch if entries else -1
                ends[broker_id] = ReplicaEnd(LeaderEpoch(last), Offset(len(entries)))
        request = admin_pb2.RecoverPartitionRequest(
            partition=self._name(key), accept_missing_replicas=True, leader_epoch=before.leader_epoch
        )
        self.invariants.recovering = key
        response = self._try("recovered", lambda: recover_partition(self.image, request, log_ends=ends))
        self.invariants.recovering = None
        if response is not None:
            leader = self.brokers[BrokerId(response.leader)]
            self.invariants.check_recovery(key, before, leader)
            self.invariants.forgive(key, self._partition(key), leader.log(key).entries)
            if self.rng.random() < 0.7:
                # Away from those that are broken; but what they hold may still be wanted (rule 34).
                self._move(key, [leader.broker_id])
