"""What a plan demands of its topics, with what operators have changed since, whatever a cluster makes of it.

A mistake about MinISR or durability that controller and leader share looks right from inside: both go by the
wrong value. So the observer knows from outside what was asked for, and what was acknowledged. Where more than
one value may be in force the weakest counts: while a change is under way, and for ever if nobody knows what
became of it, or if the network repeats requests.

A leader takes a value with its leader epoch, if not before. So what was acknowledged before an epoch began is
in force in it; in an epoch that had begun, its leader may not have heard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from quorate.chaos.cluster.plan import TopicPlan
from quorate.core.config import Durability
from quorate.core.config.topic import MIN_INSYNC_REPLICAS, TopicConfig
from quorate.core.ids import LeaderEpoch
from quorate.metadata.image import MetadataImage, PartitionImage, TopicImage

__all__ = ["Demands", "PartitionDemands", "min_isr_on_record", "setting_on_record"]

_BUILT_IN: Final = TopicConfig().rendered()


def setting_on_record(image: MetadataImage, topic: TopicImage, key: str) -> str:
    """As the records have it, whatever the product makes of them."""
    return topic.configs.get(key, image.cluster_configs.get(key, _BUILT_IN[key]))


def min_isr_on_record(image: MetadataImage, partition: PartitionImage) -> int:
    """What is in force: never more than there are replicas, without those that are being added."""
    setting = int(setting_on_record(image, image.topics[partition.topic_id], MIN_INSYNC_REPLICAS))
    return min(setting, _settled(partition))


def _settled(partition: PartitionImage) -> int:
    return len(partition.replicas) - len(partition.adding_replicas)


class _MinIsr:
    """Of one topic."""

    def __init__(self, planned: int) -> None:
        self.planned = planned
        self.acknowledged = planned
        #: under way, or of unknown outcome
        self.open: Counter[int] = Counter()
        #: all that anybody wanted, in order
        self.asked: list[int] = []


class Demands:
    """``are_requests_repeated``: then a change may be undone by an earlier one."""

    def __init__(
        self, topics: Sequence[TopicPlan] = (), are_requests_repeated: Callable[[], bool] = lambda: False
    ) -> None:
        self._min_isr = {topic.name: _MinIsr(topic.min_insync_replicas) for topic in topics}
        #: of topics that retention was told to shorten
        self._bytes_kept: dict[str, int] = {}
        self._compacted = {topic.name for topic in topics if topic.is_compacted}
        self._synced = {topic.name for topic in topics if topic.durability is Durability.FSYNC}
        self._are_requests_repeated = are_requests_repeated

    # -- what operators do

    @contextmanager
    def changing_min_isr(self, topic: str, value: int) -> Iterator[None]:
        """If an error ends it, it may be carried out at any time after."""
        known = self._min_isr[topic]
        known.asked.append(value)
        known.open[value] += 1
        yield
        known.open[value] -= 1
        known.acknowledged = value

    def changing_durability(self, topic: str) -> None:
        """Nothing is demanded from here on: when all is synced again, only the cluster knows."""
        self._synced.discard(topic)

    def shortening(self, topic: str, retention_bytes: int) -> None:
        """By size, and by nothing else: no run lasts as long as records are kept."""
        self._bytes_kept[topic] = min(retention_bytes, self._bytes_kept.get(topic, retention_bytes))

    def making_anew(self, topic: str) -> None:
        """Another topic of that name begins as planned."""
        known = self._min_isr[topic]
        known.asked.append(known.planned)
        known.open[known.planned] += 1

    # -- what may be in force

    def is_known(self, topic: str) -> bool:
        return topic in self._min_isr

    def weakest_min_isr(self, topic: str) -> int:
        known = self._min_isr[topic]
        possible = [known.acknowledged, *(value for value, count in known.open.items() if count)]
        if self._are_requests_repeated():
            possible += [known.planned, *known.asked]
        return min(possible)

    def count_asked(self, topic: str) -> int:
        return len(self._min_isr[topic].asked)

    def asked_since(self, topic: str, count: int) -> list[int]:
        return self._min_isr[topic].asked[count:]

    def bytes_kept(self, topic: str) -> int:
        """0 where nobody knows: what is compacted gets smaller by itself."""
        return 0 if topic in self._compacted else self._bytes_kept.get(topic, 0)

    def is_synced(self, topic: str) -> bool:
        """What is acknowledged is on devices, from the first record on."""
        return topic in self._synced


class PartitionDemands:
    """Of one partition, by the leader epoch."""

    def __init__(self, demands: Demands, topic: str) -> None:
        self._demands = demands
        self._topic = topic
        #: when the epoch was seen to begin: the weakest value, and how many had been asked for
        self._begun: dict[LeaderEpoch, tuple[int, int]] = {}
        #: the fewest replicas that counted in it
        self._settled: dict[LeaderEpoch, int] = {}

    def image_changed(self, image: PartitionImage) -> None:
        demands, epoch, settled = self._demands, image.leader_epoch, _settled(image)
        if not demands.is_known(self._topic):
            return
        if epoch not in self._begun:
            self._begun[epoch] = (demands.weakest_min_isr(self._topic), demands.count_asked(self._topic))
        self._settled[epoch] = min(settled, self._settled.get(epoch, settled))

    def min_isr_in(self, epoch: LeaderEpoch) -> int:
        """1 where nobody knows: of a topic that is not in the plan, or an epoch that was not seen."""
        if epoch not in self._begun:
            return 1
        weakest, count = self._begun[epoch]
        values = [weakest, *self._demands.asked_since(self._topic, count), self._settled[epoch]]
        return min(values)

    @property
    def bytes_kept(self) -> int:
        """Retention leaves at least so much."""
        return self._demands.bytes_kept(self._topic)

    def is_synced(self, image: PartitionImage) -> bool:
        """Not after an unclean election, before the metadata says so again."""
        return not image.unclean_leader_epochs and self._demands.is_synced(self._topic)
