"""The observer's invariants of the metadata: each is found broken where it is, and only there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from immutables import Map

from quorate.chaos.invariants.metadata_watch import MetadataWatch
from quorate.controller.partition_change import change_record
from quorate.core.config.topic import MIN_INSYNC_REPLICAS
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicId, TopicName
from quorate.metadata.delta import apply_batch
from quorate.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Term
from quorate.metadata.records import config_record, encode_batch
from quorate.v1.metadata_pb2 import MetadataRecord
from tests.simulation.ghost_world import ALL, broken, partition_image

TOPIC = TopicId("id")


@pytest.fixture
def watch() -> MetadataWatch:
    return MetadataWatch(Counter())


def image_of(
    offset: int,
    partition: PartitionImage | None = None,
    broker: BrokerImage | None = None,
    *,
    min_isr: int = 2,
) -> MetadataImage:
    topics: Map[TopicId, TopicImage] = Map()
    if partition is not None:
        configs = Map({"min.insync.replicas": str(min_isr)})
        topics = topics.set(TOPIC, TopicImage(TOPIC, TopicName("t"), configs, (partition,)))
    # All are registered, and nobody again unless a test says so.
    brokers = Map({BrokerId(each): broker_image(1, "a", each) for each in ALL})
    if broker is not None:
        brokers = brokers.set(broker.broker_id, broker)
    return MetadataImage(offset=offset, digest=offset, topics=topics, brokers=brokers)


def broker_image(epoch: int, incarnation: str, broker_id: int = 1) -> BrokerImage:
    return BrokerImage(
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(epoch),
        incarnation_id=incarnation,
        directory_id="d",
        address="b1:9092",
        rack="",
        feature_level_min=1,
        feature_level_max=1,
        is_fenced=False,
        is_shutting_down=False,
        is_draining=False,
    )


def see(watch: MetadataWatch, *images: MetadataImage) -> None:
    for image in images:
        before = watch.saw_image("c1#1", image)
        if before is not None:
            list(watch.changed_partitions(before))


# -- the quorum


def test_a_term_has_one_leader(watch: MetadataWatch) -> None:
    watch.saw_leader("c1#1", Term(1))
    watch.saw_leader("c1#1", Term(1))
    watch.saw_leader("c2#1", Term(2))
    with broken("one-controller-per-term"):
        watch.saw_leader("c3#1", Term(2))


def test_a_committed_entry_never_changes(watch: MetadataWatch) -> None:
    watch.saw_committed("c1#1", [Entry(Index(1), Term(1), EntryKind.COMMAND, b"a")])
    watch.saw_committed("c2#1", [Entry(Index(1), Term(1), EntryKind.COMMAND, b"a")])
    with broken("committed-metadata"):
        watch.saw_committed("c3#1", [Entry(Index(1), Term(2), EntryKind.COMMAND, b"a")])


def test_all_nodes_make_the_same_image_of_the_same_metadata(watch: MetadataWatch) -> None:
    watch.saw_image("c1#1", image_of(5))
    watch.saw_image("b1#1", image_of(5))
    with broken("committed-metadata"):
        watch.saw_image("b2#1", replace(image_of(5), digest=6))


def test_an_older_image_is_not_news(watch: MetadataWatch) -> None:
    assert watch.saw_image("c1#1", image_of(5)) is not None
    assert watch.saw_image("c2#1", image_of(4)) is None
    assert watch.image.offset == 5


# -- epochs


def test_a_deleted_topic_does_not_come_back(watch: MetadataWatch) -> None:
    see(watch, image_of(1, partition_image()), image_of(2))
    with broken("committed-metadata"):
        see(watch, image_of(3, partition_image()))


def test_a_change_of_a_partition_moves_its_epoch(watch: MetadataWatch) -> None:
    see(watch, image_of(1, partition_image()), image_of(2, partition_image(isr=(1, 2), partition_epoch=1)))
    with broken("epochs"):
        see(watch, image_of(3, partition_image(isr=(1,), partition_epoch=1)))


def test_a_change_of_leader_moves_the_leader_epoch(watch: MetadataWatch) -> None:
    see(watch, image_of(1, partition_image()))
    with broken("epochs"):
        see(watch, image_of(2, partition_image(leader=2, partition_epoch=1)))


def test_a_leader_epoch_never_falls(watch: MetadataWatch) -> None:
    see(watch, image_of(1, partition_image(leader_epoch=3)))
    with broken("epochs"):
        see(watch, image_of(2, partition_image(leader_epoch=2, partition_epoch=1)))


@pytest.mark.parametrize(
    "partition",
    [
        pytest.param(partition_image(isr=(2, 3), leader=1), id="the leader is outside"),
        pytest.param(partition_image(isr=(1, 2), elr=(2,)), id="in both"),
        pytest.param(partition_image(isr=(1, 4)), id="not a replica"),
    ],
)
def test_isr_and_elr_are_apart_and_made_of_replicas(watch: MetadataWatch, partition: PartitionImage) -> None:
    with broken("epochs"):
        see(watch, image_of(1, partition))


def test_a_new_process_has_a_new_broker_epoch(watch: MetadataWatch) -> None:
    see(watch, image_of(1, broker=broker_image(1, "a")), image_of(2, broker=broker_image(2, "b")))
    with broken("epochs"):
        see(watch, image_of(3, broker=broker_image(2, "c")))


def test_a_broker_epoch_never_falls(watch: MetadataWatch) -> None:
    see(watch, image_of(1, broker=broker_image(2, "a")))
    with broken("epochs"):
        see(watch, image_of(2, broker=broker_image(1, "b")))


def test_a_partition_that_keeps_its_epochs_and_everything_else_is_left_alone(watch: MetadataWatch) -> None:
    see(watch, image_of(1, partition_image(leader_epoch=1)), image_of(2, partition_image(leader_epoch=1)))
    assert watch.image.topics[TOPIC].partitions[0].leader_epoch == LeaderEpoch(1)


# -- ISR and ELR together (rules 28 and 29), MinISR 2

WHOLE = partition_image(partition_epoch=1)
WAITED_FOR = partition_image(isr=(1,), elr=(2,), partition_epoch=2)
TOO_FEW = partition_image(isr=(1,), partition_epoch=3)


def test_who_leaves_below_min_isr_is_waited_for_in_the_elr(watch: MetadataWatch) -> None:
    see(watch, image_of(1, replace(WHOLE, isr=WHOLE.isr[:2])), image_of(2, WAITED_FOR))
    assert watch._examined["sizes of ISR and ELR"] == 1


def test_isr_and_elr_together_stay_at_min_isr(watch: MetadataWatch) -> None:
    see(watch, image_of(1, WAITED_FOR))
    with broken("isr-and-elr"):
        see(watch, image_of(2, TOO_FEW))


def test_who_leaves_the_isr_and_is_not_waited_for_is_missed(watch: MetadataWatch) -> None:
    see(watch, image_of(1, WHOLE))
    with broken("isr-and-elr"):
        see(watch, image_of(2, replace(TOO_FEW, partition_epoch=2)))


def test_an_isr_of_min_isr_has_no_elr_beside_it(watch: MetadataWatch) -> None:
    see(watch, image_of(1, WHOLE))
    with broken("isr-and-elr"):
        see(watch, image_of(2, partition_image(isr=(1, 2), elr=(3,), partition_epoch=2)))


def test_a_lossy_start_may_take_both_below_min_isr(watch: MetadataWatch) -> None:
    see(watch, image_of(1, WAITED_FOR), image_of(2, TOO_FEW, broker_image(2, "b", 2)))


def test_the_start_of_another_broker_explains_nothing(watch: MetadataWatch) -> None:
    see(watch, image_of(1, WAITED_FOR))
    with broken("isr-and-elr"):
        see(watch, image_of(2, TOO_FEW, broker_image(2, "b", 3)))


def test_a_start_explains_only_the_change_that_it_comes_with(watch: MetadataWatch) -> None:
    registered = broker_image(2, "b", 2)
    see(watch, image_of(1, WAITED_FOR, registered))
    with broken("isr-and-elr"):
        see(watch, image_of(2, TOO_FEW, registered))


def test_a_damaged_replica_may_take_both_below_min_isr() -> None:
    watch = MetadataWatch(Counter(), lambda broker_id, _: broker_id == 2)
    see(watch, image_of(1, WAITED_FOR), image_of(2, TOO_FEW))


def test_damage_elsewhere_explains_nothing() -> None:
    watch = MetadataWatch(Counter(), lambda broker_id, _: broker_id == 3)
    see(watch, image_of(1, WAITED_FOR))
    with broken("isr-and-elr"):
        see(watch, image_of(2, TOO_FEW))


def test_a_change_of_min_isr_may_leave_both_below_it(watch: MetadataWatch) -> None:
    see(watch, image_of(1, WAITED_FOR, min_isr=3), image_of(2, TOO_FEW, min_isr=2))


def test_a_change_of_min_isr_explains_nothing_that_happens_later(watch: MetadataWatch) -> None:
    wide = partition_image(isr=(1,), elr=(2, 3), partition_epoch=1)
    see(watch, image_of(1, wide, min_isr=2), image_of(2, wide, min_isr=3))
    with broken("isr-and-elr"):
        see(watch, image_of(3, WAITED_FOR, min_isr=3))


def test_an_unclean_election_may_leave_one_alone(watch: MetadataWatch) -> None:
    unclean = partition_image(isr=(3,), leader=3, leader_epoch=1, partition_epoch=3, unclean=(1,))
    see(watch, image_of(1, WAITED_FOR), image_of(2, unclean))


def test_of_several_changes_at_once_nobody_can_tell_who_left_when(watch: MetadataWatch) -> None:
    see(watch, image_of(1, WHOLE), image_of(2, TOO_FEW))


# -- several entries in one image


def see_at_once(watch: MetadataWatch, first: MetadataImage, *batches: list[MetadataRecord]) -> None:
    """A node that had ``first`` has all of these when it is looked at again."""
    entries = [
        Entry(Index(first.offset + number), Term(1), EntryKind.COMMAND, encode_batch(records))
        for number, records in enumerate(batches, start=1)
    ]
    last = first
    for entry, records in zip(entries, batches, strict=True):
        last = apply_batch(last, records, entry.index)
    see(watch, first)
    watch.saw_committed("c1#1", entries)
    see(watch, last)


def test_a_min_isr_that_was_changed_and_changed_back_is_a_reason(watch: MetadataWatch) -> None:
    see_at_once(
        watch,
        image_of(1, WAITED_FOR),
        [config_record(TOPIC, MIN_INSYNC_REPLICAS, "3"), change_record(WAITED_FOR, TOO_FEW)],
        [config_record(TOPIC, MIN_INSYNC_REPLICAS, "2")],
    )
    assert watch.image.offset == 3


def test_who_leaves_without_a_reason_is_missed_whatever_else_is_in_the_image(watch: MetadataWatch) -> None:
    again = replace(TOO_FEW, partition_epoch=4)
    with broken("isr-and-elr"):
        see_at_once(
            watch,
            image_of(1, WAITED_FOR),
            [change_record(WAITED_FOR, TOO_FEW)],
            [change_record(TOO_FEW, again)],
        )


def test_of_entries_that_nobody_has_shown_nothing_is_said(watch: MetadataWatch) -> None:
    see(watch, image_of(1, WAITED_FOR), image_of(3, TOO_FEW))
