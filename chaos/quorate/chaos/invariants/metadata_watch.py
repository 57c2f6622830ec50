"""The metadata under observation: one history, whose numbers only grow.

The invariants (the names are those of the violations):

- ``committed-metadata``: what is committed at an index is the same for every voter, for ever; the images that
  controllers and brokers make of it are the same; and a topic that was deleted does not come back (rule 42).
- ``one-controller-per-term`` (rule 38).
- ``epochs``: leader epochs, partition epochs and broker epochs only grow, and do so with every change that
  they stand for (rule 2); and a leader is always in its ISR, which is apart from the ELR (rules 28 and 29).
- ``isr-and-elr``: while the ISR is below MinISR, ISR and ELR together are not (rule 28); otherwise there is
  no ELR (rule 29). Three things may take both below: a broker that registers or whose replica is damaged, as
  it may have lost what it had (rules 30 and 44); a change of the MinISR in force, which clears the ELR; and
  an unclean election. Each explains the change that it comes with, and no other: while both are too few, who
  leaves without a reason is a violation, whoever had left before. A node that has several entries at once
  makes one image of them, in which a MinISR that was changed and changed back is as it was. So the images in
  between are made here, from the entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from quorate.chaos.checks.violation import Violation
from quorate.chaos.invariants.demands import min_isr_on_record
from quorate.core.ids import BrokerId, ReplicaKey, TopicId
from quorate.metadata.delta import advance, apply_batch
from quorate.metadata.image import EMPTY_IMAGE, NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Term
from quorate.metadata.records import decode_batch

__all__ = ["MetadataWatch"]


def _nobody(broker_id: BrokerId, key: ReplicaKey) -> bool:  # noqa: ARG001  # a stand-in
    return False


class MetadataWatch:
    """``has_failed``: whether something is wrong with a broker's replica, so that it may have to leave."""

    def __init__(
        self, examined: Counter[str], has_failed: Callable[[BrokerId, ReplicaKey], bool] = _nobody
    ) -> None:
        self._examined = examined
        self._has_failed = has_failed
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
        step = before
        for each in self._steps(before, image):
            self._check_sizes(step, each)
            step = each
        return before

    def _steps(self, before: MetadataImage, image: MetadataImage) -> Iterator[MetadataImage]:
        """The images of all entries from one to the other, if they are known; the last one is ``image``."""
        between = [self._entries.get(Index(each)) for each in range(before.offset + 1, image.offset)]
        step = before
        for entry in between if None not in between else ():
            assert entry is not None
            if entry.kind is EntryKind.COMMAND:
                step = apply_batch(step, decode_batch(entry.data).records, entry.index)
            else:
                step = advance(step, entry.index)
            yield step
        yield image

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

    # -- ISR and ELR together

    def _check_sizes(self, before: MetadataImage, now: MetadataImage) -> None:
        are_settings_new = before.cluster_configs is not now.cluster_configs
        for topic_id in sorted(now.topics):
            topic = now.topics[topic_id]
            if topic is before.topics.get(topic_id) and not are_settings_new:
                continue
            for partition in topic.partitions:
                old = before.partition(topic_id, partition.partition)
                # One that is new has nothing to lose: it may begin with fewer than it shall have.
                if old is not None:
                    self._check_size(before, old, now, partition)

    def _check_size(
        self, before: MetadataImage, old: PartitionImage, now: MetadataImage, new: PartitionImage
    ) -> None:
        self._examined["sizes of ISR and ELR"] += 1
        old_min_isr, min_isr = min_isr_on_record(before, old), min_isr_on_record(now, new)
        if len(new.isr) >= min_isr:
            if new.elr:
                self._fail("isr-and-elr", f"an ELR beside an ISR of MinISR {min_isr}: {new}")
            return
        is_unclean = new.unclean_leader_epochs != old.unclean_leader_epochs
        # Of several changes at once nobody can tell who left in which of them, and under which MinISR.
        is_one_step = now.offset == before.offset + 1 and new.partition_epoch == old.partition_epoch + 1
        if old_min_isr != min_isr or is_unclean or not is_one_step:
            return
        complete = {*new.isr, *new.elr}
        gone = sorted({*old.isr, *old.elr} - complete)
        without_reason = [each for each in gone if not self._may_leave(before, now, new, each)]
        if without_reason and len(complete) < min_isr:
            self._fail("isr-and-elr", f"{without_reason} left, and MinISR is {min_isr}: {old}, then {new}")

    def _may_leave(
        self, before: MetadataImage, now: MetadataImage, partition: PartitionImage, broker_id: BrokerId
    ) -> bool:
        was, registered = before.brokers.get(broker_id), now.brokers.get(broker_id)
        if was is None or registered is None or was.broker_epoch != registered.broker_epoch:
            return True
        return self._has_failed(broker_id, ReplicaKey(partition.topic_id, partition.partition))

    def _fail(self, check: str, what: str) -> NoReturn:
        raise Violation(f"metadata: {what}", check=check)
