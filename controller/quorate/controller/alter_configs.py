"""Changing settings of a topic, or of every topic that has none of its own; all changes of a request or none.

Most settings are recorded and that is all. Three reach into partitions:

*min.insync.replicas* (rule 29). The ELR holds replicas that are complete *because* nothing could be committed
without them at the MinISR that was in force. Under another one that reasoning is void, so the ELR of every
partition whose MinISR changes is cleared, in the same batch.

- Where nobody leads, or nobody who has spoken to this controller, the ELR may be all that is left of what
  surely holds the acknowledged records: the ISR is empty, or its last member is away and may come back with
  less than it had. Clearing the ELR would make the partition a case for ``recover``, with possible loss,
  because of a setting. So the change is refused until one of those who are complete has come back.
- Where MinISR grows, a leader that has not heard of it would still commit with fewer replicas, while the
  controller already puts those who leave into the ELR as complete. The leader learns of an ISR in two ways:
  from the metadata, where the new MinISR comes first, and from the answer to its own AlterPartition, which
  may overtake it. Against the second, the partition epoch grows even where nothing else changes: the
  leader's next wish carries the old epoch and is refused until it has read this batch (rule 21).

*durability* (rule 45). From ``replicated`` to ``fsync`` the leader epoch of every partition grows: whoever
follows in the new one knows the new setting, and acknowledges only what it has synced, all before it
included. When every member of the ISR has done so, the leader says it, and from then on the partition is
*synced*: a broker that lost what was in its page cache still counts (rule 30). The other way it is no longer
synced from this moment on. A broker that lost power before, under the stricter setting, would be judged by
the weaker one when it comes back; so the change is refused while one that counts is away, or has not spoken
to this controller yet.

*unclean.leader.election.enable*. Whoever switches it on gives up the promise of the system for that topic,
and it is logged as a warning. Partitions without a leader get one at once: that is what it was switched on
for.

What is acknowledged must hold until somebody changes it again. But a request may arrive twice, or long
after its caller has given it up: "on" after "off", or for the next topic of the name. So a change is one of
settings that somebody has *seen*: it names the topic's id and its config epoch, which grows with every
setting that is written. Under another epoch nothing is changed. It is answered as done where all that it
wants is in force, which it is when it was carried out and its answer lost. Whoever wants what is in force
already, and has seen it, writes it once more: only so is what was asked before, and has not arrived yet,
refused from then on. Comparing values instead of epochs was rejected: off, on and off again is off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from quorate.controller.configs import canonical_configs, config_entries, unclean_election_allowed
from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.elections import Elections, topics_in_order
from quorate.controller.internal_topics import check_configs_of_internal
from quorate.core.config.topic import (
    DURABILITY,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    Durability,
)
from quorate.core.ids import BrokerId
from quorate.errors import InvalidRequest, InvalidUpdateVersion, NotEnoughReplicas
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from quorate.metadata.records import config_record
from quorate.metadata.topic_lookup import find_topic
from quorate.metadata.topic_settings import (
    BUILT_IN,
    durability_of,
    min_insync_replicas,
    replication_factor_of,
    unclean_election_enabled,
)
from quorate.v1 import admin_pb2

__all__ = ["IsHeard", "alter_configs"]

IsHeard: TypeAlias = Callable[[BrokerId], bool]

#: One decision holds up the controller's loop, and a whole second of that costs it its office.
_PARTITIONS_MAX: Final = 10_000

_REACH_INTO_PARTITIONS: Final = frozenset({MIN_INSYNC_REPLICAS, DURABILITY, UNCLEAN_LEADER_ELECTION_ENABLE})


def alter_configs(
    image: MetadataImage,
    request: admin_pb2.AlterConfigsRequest,
    *,
    next_offset: int,
    is_heard: IsHeard,
) -> Decision[admin_pb2.AlterConfigsResponse]:
    """``is_heard``: whether a broker has spoken to this controller; who has not may have lost power."""
    _check_is_named(request)
    topic = find_topic(image, request.topic, request.topic_id) if request.topic else None
    wanted = _wanted(topic, request)
    changes = _changes(image, topic, wanted)
    check_configs_of_internal(topic, changes)
    if not wanted or (not changes and not _is_current(image, topic, request)):
        return Decision((), _response(image, topic))
    _check_is_current(image, topic, request)
    topic_id = None if topic is None else topic.topic_id
    records = [config_record(topic_id, key, value) for key, value in wanted.items()]
    after = apply_batch(image, records, next_offset)
    elections = _settle_partitions(image, after, topic, changes, is_heard)
    topic_after = None if topic_id is None else after.topics[topic_id]
    if request.validate_only:
        # The epoch in force: the change itself has to name it.
        return Decision((), _response(after, topic_after, config_epoch=_config_epoch(image, topic)))
    response = _response(after, topic_after)
    events = _events(topic, changes)
    return Decision((*records, *elections.records), response, (*events, *elections.events))


def _check_is_named(request: admin_pb2.AlterConfigsRequest) -> None:
    if not request.topic and request.topic_id:
        raise InvalidRequest(f"topic id {request.topic_id} is named without the topic's name")
    if not request.changes:
        return
    if request.topic and not request.topic_id:
        raise InvalidRequest(
            f"a change of the settings of {request.topic} names the topic's id, which DescribeTopic tells: a "
            "request that arrives late must not change the next topic of that name",
            topic=request.topic,
        )
    if not request.HasField("config_epoch"):
        raise InvalidRequest(
            "a change of settings names the config epoch that it is based on, which DescribeTopic tells of a "
            "topic and DescribeCluster of the cluster: a request that arrives late must not undo a later one",
            topic=request.topic or None,
        )


def _config_epoch(image: MetadataImage, topic: TopicImage | None) -> int:
    return image.cluster_config_epoch if topic is None else topic.config_epoch


def _is_current(
    image: MetadataImage, topic: TopicImage | None, request: admin_pb2.AlterConfigsRequest
) -> bool:
    return request.config_epoch == _config_epoch(image, topic)


def _check_is_current(
    image: MetadataImage, topic: TopicImage | None, request: admin_pb2.AlterConfigsRequest
) -> None:
    if _is_current(image, topic, request):
        return
    whose = "the cluster" if topic is None else topic.name
    raise InvalidUpdateVersion(
        f"the settings of {whose} have changed: their config epoch is {_config_epoch(image, topic)}, and the "
        f"request is based on {request.config_epoch}. Nothing was changed; look at them, and ask again if it "
        "is still wanted",
        topic=None if topic is None else topic.name,
        config_epoch=_config_epoch(image, topic),
    )


def _response(
    image: MetadataImage, topic: TopicImage | None, *, config_epoch: int | None = None
) -> admin_pb2.AlterConfigsResponse:
    return admin_pb2.AlterConfigsResponse(
        configs=config_entries(image, topic),
        topic_id="" if topic is None else topic.topic_id,
        config_epoch=_config_epoch(image, topic) if config_epoch is None else config_epoch,
    )


def _wanted(topic: TopicImage | None, request: admin_pb2.AlterConfigsRequest) -> dict[str, str | None]:
    """What the request names, sorted by key; None: back to the default."""
    names = [change.name for change in request.changes]
    if len(set(names)) != len(names):
        raise InvalidRequest("a setting is changed twice in one request")
    # Keys that are only reset have to be known too, so they are checked with a value that is always right.
    canonical = canonical_configs(
        {
            change.name: change.value if change.HasField("value") else BUILT_IN.get(change.name, "")
            for change in request.changes
        },
        of_topic=topic is not None,
    )
    resets = {change.name for change in request.changes if not change.HasField("value")}
    return {key: None if key in resets else value for key, value in canonical.items()}


def _changes(
    image: MetadataImage, topic: TopicImage | None, wanted: dict[str, str | None]
) -> dict[str, str | None]:
    """Of that, what is not so already."""
    current = image.cluster_configs if topic is None else topic.configs
    return {key: value for key, value in wanted.items() if value != current.get(key)}


def _settle_partitions(
    before: MetadataImage,
    after: MetadataImage,
    topic: TopicImage | None,
    changes: dict[str, str | None],
    is_heard: IsHeard,
) -> Elections:
    elections = Elections(after)
    if _REACH_INTO_PARTITIONS.isdisjoint(changes):
        return elections
    if topic is not None:
        # As large as it is, it is the smallest that can be changed.
        _settle_topic(elections, before, topic, after, is_heard)
        return elections
    affected = [each for each in topics_in_order(before) if _is_affected(before, each, after)]
    partition_count = sum(len(each.partitions) for each in affected)
    if partition_count > _PARTITIONS_MAX:
        raise InvalidRequest(
            f"{partition_count:,} partitions would change at once, {_PARTITIONS_MAX:,} are possible; "
            "change the topics one by one"
        )
    for each in affected:
        _settle_topic(elections, before, each, after, is_heard)
    return elections


def _is_affected(before: MetadataImage, topic: TopicImage, after: MetadataImage) -> bool:
    topic_after = after.topics[topic.topic_id]
    return (
        min_insync_replicas(before, topic) != min_insync_replicas(after, topic_after)
        or durability_of(before, topic) is not durability_of(after, topic_after)
        or unclean_election_enabled(before, topic) != unclean_election_enabled(after, topic_after)
    )


def _settle_topic(
    elections: Elections,
    before: MetadataImage,
    topic: TopicImage,
    after: MetadataImage,
    is_heard: IsHeard,
) -> None:
    topic_after = after.topics[topic.topic_id]
    old_setting, new_setting = min_insync_replicas(before, topic), min_insync_replicas(after, topic_after)
    was_unclean = unclean_election_enabled(before, topic)
    is_now_unclean = not was_unclean and unclean_election_enabled(after, topic_after)
    durability = durability_of(after, topic_after)
    is_durability_changed = durability is not durability_of(before, topic)
    for partition in topic.partitions:
        replica_count = replication_factor_of(partition)
        old, new = min(old_setting, replica_count), min(new_setting, replica_count)
        is_led = partition.leader != NO_LEADER and is_heard(partition.leader)
        if old != new and partition.elr and not is_led:
            raise _elr_is_needed(topic, partition)
        if is_durability_changed and partition.is_synced:
            _check_all_are_here(after, topic, partition, is_heard)
        changed = partition
        is_elr_void = old != new and bool(partition.elr)
        may_get_leader = is_now_unclean and partition.leader == NO_LEADER
        if is_elr_void or may_get_leader or is_durability_changed:
            changed = elections.change(
                partition,
                clear_elr=old != new,
                is_synced=False if is_durability_changed else None,
                bump_leader_epoch=is_durability_changed and durability is Durability.FSYNC,
            )
        if changed is partition and new > old:
            elections.renew(partition)


def _check_all_are_here(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, is_heard: IsHeard
) -> None:
    members = (*partition.isr, *partition.elr)
    away = [each for each in members if not (image.brokers[each].is_active and is_heard(each))]
    if away:
        raise NotEnoughReplicas(
            f"{topic.name}-{partition.partition}: broker {away[0]} is away. It is known to hold all records, "
            f"because it synced them; with {DURABILITY}={Durability.REPLICATED} it would not be, if it has "
            "lost power meanwhile. Start it first",
            topic=topic.name,
            partition=partition.partition,
            broker_id=away[0],
        )


def _elr_is_needed(topic: TopicImage, partition: PartitionImage) -> NotEnoughReplicas:
    members = ", ".join(map(str, sorted((*partition.isr, *partition.elr))))
    return NotEnoughReplicas(
        f"{topic.name}-{partition.partition} has no leader that is known to be alive, and only the brokers "
        f"{members} are known to hold all of its records; a change of {MIN_INSYNC_REPLICAS} would forget "
        "that. Start one of them first",
        topic=topic.name,
        partition=partition.partition,
    )


def _events(topic: TopicImage | None, changes: dict[str, str | None]) -> list[ControllerEvent]:
    name = None if topic is None else topic.name
    told = {key: "default" if value is None else value for key, value in changes.items()}
    if not told:
        return []
    events = [ControllerEvent("configs_changed", {"topic": name or "(cluster)", "changes": told})]
    if changes.get(UNCLEAN_LEADER_ELECTION_ENABLE) == "true":
        events.append(unclean_election_allowed(name))
    return events
