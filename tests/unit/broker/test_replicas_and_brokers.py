"""Who may be in an ISR is a matter of brokers: a leader knows those of now, whenever it began (rule 25)."""

from __future__ import annotations

import asyncio

import pytest
from immutables import Map

from quorate.broker.directory.deletions import LogDeletions
from quorate.broker.replica.partition import Partition
from quorate.broker.replicas import Replicas
from quorate.broker.replication.fetchers import ReplicaFetchers
from quorate.chaos.models.follower.replicas import TOPIC_ID, brokers_of, image
from quorate.chaos.models.log.log_harness import SMALL_CONFIG, batch, make_context
from quorate.chaos.models.replica_set.stepped_clock import SteppedClock
from quorate.chaos.sim.disk import SimDisk
from quorate.core.config import NodeConfig
from quorate.core.ids import (
    NO_LEADER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicName,
)
from quorate.errors import StaleBrokerEpoch
from quorate.metadata.changes import changes_between
from quorate.metadata.image import NO_LEADER, MetadataImage, TopicImage
from quorate.storage import LogDirectory, PartitionKey, StartKind

KEY = PartitionKey(TopicName("t"), PartitionId(0), TOPIC_ID)


def metadata(*, leader: int, leader_epoch: int, broker_epochs: dict[int, int]) -> MetadataImage:
    partition = image(leader=leader, leader_epoch=leader_epoch)
    topic = TopicImage(TOPIC_ID, KEY.topic, Map(), (partition,))
    return MetadataImage(brokers=brokers_of(broker_epochs), topics=Map({TOPIC_ID: topic}))


NOBODY_LEADS = metadata(leader=NO_LEADER, leader_epoch=1, broker_epochs={1: 10, 2: 11, 3: 12})
ELECTED = metadata(leader=1, leader_epoch=2, broker_epochs={1: 10, 2: 11, 3: 12})
REGISTERED = metadata(leader=1, leader_epoch=2, broker_epochs={1: 10, 2: 11, 3: 13})


async def test_leader_that_waited_for_a_cut_knows_who_was_registered_meanwhile() -> None:
    clock = SteppedClock()
    logs = await LogDirectory.open(make_context(SimDisk()), "/data", start=StartKind.CLEAN)
    log = await logs.create(KEY, SMALL_CONFIG)
    log.become_leader(LeaderEpoch(1))
    log.append_as_leader(batch(b"to be cut"), leader_epoch=LeaderEpoch(1))
    replicas = Replicas(
        NodeConfig(node_id=BrokerId(1), data_dir="/data"),
        clock=clock,
        logs=logs,
        fetchers=_nobody_fetches(),
        deletions=LogDeletions(logs, clock=clock, delay_s=0, on_deleted=lambda _: None),
        on_isr_wish=lambda _: None,
        on_failure=lambda *_: None,
    )
    running = asyncio.create_task(replicas.run())
    replicas.apply(NOBODY_LEADS, None)
    await _turns()
    replica = replicas.get(TOPIC_ID, KEY.partition)
    assert isinstance(replica, Partition)
    cut = asyncio.create_task(log.truncate_to(Offset(0), is_complete=True))
    await asyncio.sleep(0)
    replicas.apply(ELECTED, changes_between(NOBODY_LEADS, ELECTED))
    assert replica.leadership is None, "it leads while its log is being cut"
    replicas.apply(REGISTERED, changes_between(ELECTED, REGISTERED))
    await cut
    replica.begin_waiting_leadership()
    leadership = replica.require_leadership(2)
    with pytest.raises(StaleBrokerEpoch):
        leadership.follower_at(BrokerId(3), BrokerEpoch(12), Offset(0), NO_LEADER_EPOCH, Offset(0))
    running.cancel()
    await asyncio.wait([running])


def _nobody_fetches() -> ReplicaFetchers:
    return None  # type: ignore[return-value]  # it follows nobody


async def _turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)
