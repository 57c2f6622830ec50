"""Changes of the metadata are counted by who is affected, from the images alone."""

from __future__ import annotations

from dataclasses import replace

from immutables import Map

from quorate.core.ids import BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName
from quorate.core.metrics import MetricSource
from quorate.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from quorate.node.metrics.change import ChangeMeter

TOPIC = TopicId("t")
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
LED_BY_ONE = PartitionImage(
    topic_id=TOPIC,
    partition=PartitionId(0),
    replicas=(ONE, TWO, THREE),
    isr=(ONE, TWO, THREE),
    elr=(),
    last_known_elr=(),
    leader=ONE,
    leader_epoch=LeaderEpoch(4),
    partition_epoch=7,
)


def image(*partitions: PartitionImage) -> MetadataImage:
    topic = TopicImage(TOPIC, TopicName("orders"), Map(), partitions)
    return MetadataImage(offset=1, topics=Map({TOPIC: topic}))


def told(source: MetricSource) -> dict[str, float]:
    prefix = "quorate_change_"
    return {
        reading.metric.name.removeprefix(prefix): sample.value
        for reading in source.read()
        for sample in reading.samples
    }


class Watched:
    """A node with both roles; its metadata is what the test says."""

    def __init__(self, newest: MetadataImage | None, *, node_id: BrokerId = ONE) -> None:
        self.newest = newest
        self.meter = ChangeMeter(
            node_id, broker_image=lambda: self.newest, controller_image=lambda: self.newest
        )
        self.meter.tick()

    def becomes(self, *partitions: PartitionImage) -> dict[str, float]:
        self.newest = image(*partitions)
        self.meter.tick()
        return told(self.meter)


def test_what_is_there_at_the_beginning_has_not_changed() -> None:
    watched = Watched(None)
    assert told(watched.meter) == {}
    assert set(watched.becomes(replace(LED_BY_ONE, isr=(ONE,))).values()) == {0}


def test_who_leads_counts_what_leaves_and_joins_its_isr() -> None:
    watched = Watched(image(LED_BY_ONE))
    shrunk = replace(LED_BY_ONE, isr=(ONE,), partition_epoch=8)
    assert watched.becomes(shrunk)["isr_shrinks_total"] == 2
    told = watched.becomes(replace(shrunk, isr=(ONE, TWO), partition_epoch=9))
    assert (told["isr_shrinks_total"], told["isr_expands_total"]) == (2, 1)


def test_others_do_not_count_it_too() -> None:
    watched = Watched(image(LED_BY_ONE), node_id=TWO)
    assert watched.becomes(replace(LED_BY_ONE, isr=(ONE,)))["isr_shrinks_total"] == 0


def test_elections_that_were_not_seen_one_by_one_are_counted_all() -> None:
    watched = Watched(image(LED_BY_ONE))
    told = watched.becomes(replace(LED_BY_ONE, leader=NO_LEADER, leader_epoch=LeaderEpoch(7)))
    assert told["leader_epochs_total"] == 3
    assert told["unclean_elections_total"] == 0


def test_unclean_election_is_counted_once() -> None:
    watched = Watched(image(LED_BY_ONE))
    unclean = replace(LED_BY_ONE, leader_epoch=LeaderEpoch(5), unclean_leader_epochs=(LeaderEpoch(5),))
    assert watched.becomes(unclean)["unclean_elections_total"] == 1
    later = replace(unclean, leader_epoch=LeaderEpoch(6))
    assert watched.becomes(later)["unclean_elections_total"] == 1


def test_new_topic_is_no_change_of_an_isr() -> None:
    watched = Watched(MetadataImage(offset=1))
    assert set(watched.becomes(LED_BY_ONE).values()) == {0}
