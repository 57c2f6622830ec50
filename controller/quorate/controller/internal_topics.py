"""The topic in which consumer groups keep their state: how it is made, and how it gets all of its copies.

It is made when somebody first asks for a group, which may be a moment after the first broker of many has
registered, or years into the life of a cluster of one. So the number of copies is not decided once:

- It is made with as many as there are brokers to take them, up to offsets.topic.replication.factor; but not
  with fewer than MinISR while as many brokers are registered, for then the others are only away for a moment,
  and what is committed meanwhile would hang on too few disks.
- The controller then adds copies whenever there are brokers that could take them, until the number is
  reached. Nobody has to remember a topic that he never made.

Leaders are spread anew as copies are added: a topic that was made when there was one broker would otherwise
be coordinated by that one for ever.

The number of its partitions never changes: it decides where a group's state is. Neither does what becomes of
old records: by age or size they would go although nothing newer says what they say.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

from quorate.controller.brokers import require_broker_epoch
from quorate.controller.decision import Decision
from quorate.controller.elections import Elections
from quorate.controller.placement import BrokerLoads, can_take_replicas, rack_of
from quorate.controller.reassignment import is_reassigning, start_move
from quorate.controller.topics import make_topic
from quorate.core.config import GroupConfig
from quorate.core.config.topic import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from quorate.core.ids import BrokerId
from quorate.core.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC
from quorate.errors import InvalidConfig, NotEnoughReplicas
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage, Recovery, TopicImage
from quorate.metadata.topic_settings import BUILT_IN
from quorate.v1 import admin_pb2
from quorate.v1.controller_pb2 import CreateOffsetsTopicRequest, CreateOffsetsTopicResponse

__all__ = ["check_configs_of_internal", "create_offsets_topic", "grow_offsets_topic"]

#: All that a decision changes about members is one batch: room for a thousand, with many topics each.
_MAX_MESSAGE_BYTES: Final = 8 << 20
_CLEANUP_POLICY: Final = "cleanup.policy"


def create_offsets_topic(
    image: MetadataImage,
    request: CreateOffsetsTopicRequest,
    *,
    config: GroupConfig,
    next_offset: int,
    rng: random.Random,
) -> Decision[CreateOffsetsTopicResponse]:
    """Nothing to do where it exists: any number of brokers may ask at once."""
    require_broker_epoch(image, request.broker_id, request.broker_epoch)
    existing = image.topic_ids.get(OFFSETS_TOPIC)
    if existing is not None:
        return Decision((), CreateOffsetsTopicResponse(topic_id=existing))
    wanted = admin_pb2.CreateTopicRequest(
        name=OFFSETS_TOPIC,
        topic_id=request.topic_id,
        partition_count=config.offsets_topic_num_partitions,
        replication_factor=_first_replication_factor(image, config.offsets_topic_replication_factor),
        configs={
            _CLEANUP_POLICY: "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
            "max.message.bytes": str(_MAX_MESSAGE_BYTES),
        },
    )
    made = make_topic(image, wanted, next_offset=next_offset, default_partition_count=1, rng=rng)
    return Decision(made.records, CreateOffsetsTopicResponse(topic_id=request.topic_id), made.events)


def _first_replication_factor(image: MetadataImage, wanted: int) -> int:
    available = sum(can_take_replicas(broker) for broker in image.brokers.values())
    min_isr = int(image.cluster_configs.get(MIN_INSYNC_REPLICAS, BUILT_IN[MIN_INSYNC_REPLICAS]))
    needed = max(1, min(wanted, min_isr, len(image.brokers)))
    if available < needed:
        raise NotEnoughReplicas(
            f"{OFFSETS_TOPIC} has to begin with {needed} copies, and {available} brokers can take one",
            replication_factor=needed,
            brokers=available,
            registered_brokers=len(image.brokers),
        )
    return min(wanted, available)


def grow_offsets_topic(image: MetadataImage, *, replication_factor: int) -> Decision[None]:
    """Add copies where some are missing and a broker can take one."""
    topic = image.topic_named(OFFSETS_TOPIC)
    if topic is None:
        return Decision((), None)
    elections = Elections(image)
    growth = _Growth(image, topic)
    for partition in topic.partitions:
        target = growth.target_for(partition, replication_factor)
        if target is not None:
            start_move(elections, image, partition, target)
    return Decision(tuple(elections.records), None, tuple(elections.events))


def check_configs_of_internal(topic: TopicImage | None, changes: dict[str, str | None]) -> None:
    """``changes``: settings of the topic that somebody wants to change.

    The cluster's ``unclean.leader.election.enable`` is not refused: it does not hold for these
    (``quorate.metadata.topic_settings``).
    """
    if topic is None or topic.name not in INTERNAL_TOPICS:
        return
    for key, value in changes.items():
        forgets = key == _CLEANUP_POLICY or (key == UNCLEAN_LEADER_ELECTION_ENABLE and value == "true")
        if forgets:
            raise InvalidConfig(
                f"{key}: topic {topic.name} is the system's own, and stays as it is; groups would forget how "
                "far they have come",
                key=key,
                topic=topic.name,
            )


class _Growth:
    """Where copies can be added, with what the brokers hold once they are."""

    def __init__(self, image: MetadataImage, topic: TopicImage) -> None:
        self._image = image
        self._candidates = [
            broker.broker_id for _, broker in sorted(image.brokers.items()) if can_take_replicas(broker)
        ]
        self._in_topic = BrokerLoads.of(topic.partitions).replicas
        self._total = BrokerLoads.of_image(image).replicas
        self._preferred: Counter[BrokerId] = Counter(each.replicas[0] for each in topic.partitions)

    def target_for(self, partition: PartitionImage, replication_factor: int) -> tuple[BrokerId, ...] | None:
        """All replicas that it is to have, the preferred leader first. None: nothing can be added."""
        if (
            is_reassigning(partition)
            or partition.leader == NO_LEADER
            or partition.recovery is Recovery.RECOVERING
        ):
            return None
        replicas = list(partition.replicas)
        while len(replicas) < replication_factor:
            free = [each for each in self._candidates if each not in replicas]
            if not free:
                break
            replicas.append(self._choose(free, replicas))
        if len(replicas) == len(partition.replicas):
            return None
        return self._with_preferred(partition, replicas)

    def _choose(self, free: list[BrokerId], replicas: list[BrokerId]) -> BrokerId:
        """In a rack with fewest of the partition's; then who has least of the topic, then least of all."""
        brokers = self._image.brokers
        racks = Counter(rack_of(brokers[each]) for each in replicas)
        chosen = min(
            free,
            key=lambda each: (racks[rack_of(brokers[each])], self._in_topic[each], self._total[each], each),
        )
        self._in_topic[chosen] += 1
        self._total[chosen] += 1
        return chosen

    def _with_preferred(self, partition: PartitionImage, replicas: list[BrokerId]) -> tuple[BrokerId, ...]:
        before = partition.replicas[0]
        self._preferred[before] -= 1
        leader = min(replicas, key=lambda each: (self._preferred[each], each != before, each))
        self._preferred[leader] += 1
        return (leader, *(each for each in replicas if each != leader))
