"""The topics of the cluster, as groups see them: what a subscription means right now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from quorate.broker.groups.records import TopicIdPartition
from quorate.core.ids import TopicId, TopicName
from quorate.core.topic_patterns import compiled_pattern
from quorate.metadata.image import MetadataImage

__all__ = ["TopicCatalog", "check_pattern"]

#: topics of the system itself: whoever wants one has to name it
_INTERNAL_PREFIX: Final = "__"
#: of each kind: clients that want something else all the time must not fill the memory
_ANSWERS_KEPT_MAX: Final = 1_000

Question = TypeVar("Question")
Answer = TypeVar("Answer")


def check_pattern(pattern: str) -> None:
    """Raises InvalidPattern."""
    compiled_pattern(pattern)


class TopicCatalog:
    """What is asked of one image of the metadata. Answers are kept, as many as there is room for."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._matching: dict[str, tuple[TopicName, ...]] = {}
        self._subscribed: dict[tuple[tuple[str, ...], str], tuple[TopicId, ...]] = {}
        self._racks: dict[TopicId, tuple[frozenset[str], ...]] = {}

    def name_of(self, topic_id: TopicId) -> TopicName | None:
        """None: the topic does not exist, or no longer."""
        topic = self.image.topics.get(topic_id)
        return None if topic is None else topic.name

    def names_of(self, partitions: Iterable[TopicIdPartition]) -> dict[TopicId, str]:
        """Of topics that exist."""
        found: dict[TopicId, str] = {}
        for topic_id, _ in partitions:
            if topic_id not in found:
                name = self.name_of(topic_id)
                if name is not None:
                    found[topic_id] = name
        return found

    def partition_count(self, topic_id: TopicId) -> int:
        """0: the topic does not exist."""
        topic = self.image.topics.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def has(self, partition: TopicIdPartition) -> bool:
        return 0 <= partition.partition < self.partition_count(partition.topic_id)

    def subscribed(self, topics: Sequence[str], pattern: str) -> tuple[TopicId, ...]:
        """The topics that exist of those named and those that match; in the order of their names."""
        question = (tuple(topics), pattern)
        answer = self._subscribed.get(question)
        if answer is None:
            names = {TopicName(name) for name in question[0]}
            if pattern:
                names.update(self.matching(pattern))
            ids = (self.image.topic_ids.get(name) for name in sorted(names))
            answer = tuple(each for each in ids if each is not None)
            _keep(self._subscribed, question, answer)
        return answer

    def matching(self, pattern: str) -> tuple[TopicName, ...]:
        """Sorted; topics of the system are not among them."""
        names = self._matching.get(pattern)
        if names is None:
            is_match = compiled_pattern(pattern).fullmatch
            names = tuple(
                name
                for name in sorted(self.image.topic_ids)
                if not name.startswith(_INTERNAL_PREFIX) and is_match(name) is not None
            )
            _keep(self._matching, pattern, names)
        return names

    def racks(self, topic_id: TopicId) -> tuple[frozenset[str], ...]:
        """Where each partition has replicas; brokers whose rack is not known do not count."""
        known = self._racks.get(topic_id)
        if known is None:
            brokers = self.image.brokers
            rack_of = {broker_id: broker.rack for broker_id, broker in brokers.items() if broker.rack}
            known = self._racks[topic_id] = tuple(
                frozenset(rack_of[replica] for replica in partition.replicas if replica in rack_of)
                for partition in self.image.topics[topic_id].partitions
            )
        return known


def _keep(answers: dict[Question, Answer], question: Question, answer: Answer) -> None:
    """In the place of the oldest, if there is no room."""
    if len(answers) >= _ANSWERS_KEPT_MAX:
        del answers[next(iter(answers))]
    answers[question] = answer
