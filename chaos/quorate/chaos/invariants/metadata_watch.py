"""The metadata under observation: one history, whose numbers only grow.

The invariants (the names are those of the violations):

- ``committed-metadata``: what is committed at an index is the same for every voter, for ever; the images that
  controllers and brokers make of it are the same; and a topic that was deleted does not come back (rule 42).
- ``one-controller-per-term`` (rule 38).
- ``epochs``: leader epochs, partition epochs and broker epochs only grow, and do so with every change that
  they stand for (rule 2); and a leader is always in its ISR, which is apart from the ELR (rules 28 and 29).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NoReturn

from quorate.chaos.checks.violation import Violation
from quorate.core.ids import ReplicaKey, TopicId
from quorate.metadata.image import EMPTY_IMAGE, NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from quorate.metadata.raft.entries import Entry, Index, Term

__all__ = ["MetadataWatch"]


class MetadataWatch:
    def __init__(self, examined: Counter[str]) -> None:
        self._examined = examined
        #: committed, and the newest that anybody has
        self.image = EMPTY_IMAGE
        self._digests: dict[int, int] = {}
        self._entries: dict[Index, Entry] = {}
        self._controllers: dict[Term, str] = {}
        self._removed: set[TopicId] = set()

    # -- the quorum

    def saw_leader(self, process: str, term: Term) -> None:
        self._examined["controllers"] += 1
        other = self._controllers.setdefault(term, process)
        if other != process:
            self._fail("one-controller-per-term", f"{process} leads in term {term}, in which {other} has led")

    def saw_committed(self, process: str, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._examined["metadata entries"] += 1
            known = self._entries.setdefault(entry.index, entry)
            if known is not entry and known != entry:
                self._fail("committed-metadata", f"{process} has committed {entry}, others {known}")

    # -- images

    def saw_image(self, process: str, image: MetadataImage) -> MetadataImage | None:
        """The one before, if this one is newer than all that were seen."""
        self._examined["images"] += 1
        known = self._digests.setdefault(image.offset, image.digest)
        if known != image.digest:
            self._fail(
                "committed-metadata",
                f"{process} makes {image.digest:x} of the metadata up to {image.offset}, others {known:x}",
            )
        before = self.image
        if image.offset <= before.offset:
            return None
        self.image = image
        self._check_topics(before, image)
        for broker_id in sorted(before.brokers):
            now = image.brokers.get(broker_id)
            if now is not None and now is not before.brokers[broker_id]:
                self._check_broker(before.brokers[broker_id], now)
        return before

    def changed_partitions(self, before: MetadataImage) -> Iterator[tuple[ReplicaKey, PartitionImage]]:
        """In the newest image; checked by the way."""
        for topic_id in sorted(self.image.topics):
            topic, earlier = self.image.topics[topic_id], before.topics.get(topic_id)
            if topic is earlier:
                continue
            for partition in topic.partitions:
                old = before.partition(topic_id, partition.partition)
                if old is not partition:
                    self._check_partition(old, partition)
                    yield ReplicaKey(topic_id, partition.partition), partition

    def _check_topics(self, before: MetadataImage, now: MetadataImage) -> None:
        if before.topics is now.topics:
            return
        self._removed.update(topic_id for topic_id in before.topics if topic_id not in now.topics)
        for topic_id in sorted(self._removed):
            if topic_id in now.topics:
                self._fail("committed-metadata", f"topic {topic_id} was deleted, and is back")

    def _check_broker(self, before: BrokerImage, now: BrokerImage) -> None:
        is_other_process = before.incarnation_id != now.incarnation_id
        if now.broker_epoch < before.broker_epoch + is_other_process:
            self._fail("epochs", f"broker {now.broker_id} went from {before} to {now}")

    def _check_partition(self, before: PartitionImage | None, now: PartitionImage) -> None:
        self._examined["partition changes"] += 1
        if now.leader not in (NO_LEADER, *now.isr):
            self._fail("epochs", f"the leader is not in its ISR: {now}")
        if not set(now.isr).isdisjoint(now.elr) or not {*now.isr, *now.elr} <= set(now.replicas):
            self._fail("epochs", f"ISR and ELR are not apart, or no replicas: {now}")
        if before is None or before == now:
            return
        if now.partition_epoch <= before.partition_epoch:
            self._fail("epochs", f"the partition epoch did not grow: {before}, then {now}")
        if now.leader_epoch < before.leader_epoch + (now.leader != before.leader):
            self._fail("epochs", f"the leader epoch did not grow: {before}, then {now}")

    def _fail(self, check: str, what: str) -> NoReturn:
        raise Violation(f"metadata: {what}", check=check)
