"""What the driver has to know to plan: which partitions there are, and where they begin and end."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import re2

from quorate.client.admin.offsets import OffsetAt, list_offsets
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.transport import method_of
from quorate.errors import InvalidConfig, UnknownTopicOrPartition
from quorate.pipeline.source.connection import Connection
from quorate.pipeline.source.errors import TopicRecreated
from quorate.pipeline.source.options import refusal
from quorate.pipeline.source.read_options import EARLIEST, LATEST, Bound, Selection
from quorate.v1 import broker_pb2

__all__ = ["Lookup", "Partitions"]

_GET_METADATA: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "GetMetadata",
    broker_pb2.GetMetadataRequest,
    broker_pb2.GetMetadataResponse,
)
#: How soon new partitions and topics are noticed. An idle query asks 80 times a second: not each time anew.
_METADATA_AGE_S: Final = 1.0

#: each with the id of its topic
Partitions = Mapping[TopicPartition, str]


class Lookup:
    def __init__(self, connection: Connection, selection: Selection, *, timeout_s: float) -> None:
        self._connection = connection
        self._selection = selection
        self._timeout_s = timeout_s
        self._matching: tuple[str, ...] = ()
        self._matched_at = self._refreshed_at = -_METADATA_AGE_S

    def partitions(self) -> dict[TopicPartition, str]:
        """All that are to be read, as of now or a moment ago."""
        return self._connection.run(self._partitions())

    def offsets(self, partitions: Partitions, at: OffsetAt) -> dict[TopicPartition, int | None]:
        """Of each; None: no record is as late as the time that was asked for."""
        if not partitions:
            return {}
        return self._connection.run(self._offsets(partitions, at))

    def resolve(
        self, partitions: Partitions, bound: Bound, *, late_timestamp: str
    ) -> dict[TopicPartition, int]:
        """Where the bound lies in each partition."""
        if bound.timestamp_ms is not None:
            times = dict.fromkeys(partitions, bound.timestamp_ms)
            return self._at_times(partitions, times, bound.name, late_timestamp)
        if bound.timestamps_ms is not None:
            given = _covering(partitions, bound.timestamps_ms, bound.name)
            return self._at_times(partitions, given, bound.name, late_timestamp)
        if bound.offsets is None:
            return self._found(partitions, bound.fallback)
        offsets = _covering(partitions, bound.offsets, bound.name)
        for stand_in, at in ((EARLIEST, "earliest"), (LATEST, "latest")):
            meant = {each: partitions[each] for each, offset in offsets.items() if offset == stand_in}
            offsets |= self._found(meant, cast("OffsetAt", at))
        return offsets

    def _at_times(
        self, partitions: Partitions, times: Mapping[TopicPartition, int], name: str, late_timestamp: str
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        late: dict[TopicPartition, str] = {}
        for timestamp_ms in sorted(set(times.values())):
            asked = {each: partitions[each] for each, at in times.items() if at == timestamp_ms}
            for each, offset in self.offsets(asked, timestamp_ms).items():
                if offset is None:
                    late[each] = asked[each]
                else:
                    found[each] = offset
        if late and late_timestamp == "error":
            first = min(late)
            raise refusal(
                name,
                f"no record of {first} is as late as {times[first]}; with "
                f"startingOffsetsByTimestampStrategy=latest such partitions begin at their end",
            )
        return found | self._found(late, "latest")

    def _found(self, partitions: Partitions, at: OffsetAt) -> dict[TopicPartition, int]:
        return {each: cast("int", offset) for each, offset in self.offsets(partitions, at).items()}

    # -- on the connection's loop

    async def _partitions(self) -> dict[TopicPartition, str]:
        self._refresh_what_is_old()
        selection = self._selection
        if selection.assigned is not None:
            return await self._assigned(selection.assigned)
        names = selection.topics
        if names is None:
            names = await self._matches(selection.pattern or "")
        found: dict[TopicPartition, str] = {}
        for name in sorted(names):
            topic = await self._connection.cluster.topic(name, timeout_s=self._timeout_s)
            for each in topic.partitions:
                found[TopicPartition(topic.name, each.partition)] = topic.topic_id
        return found

    async def _assigned(self, assigned: Mapping[str, tuple[int, ...]]) -> dict[TopicPartition, str]:
        found: dict[TopicPartition, str] = {}
        for name, numbers in sorted(assigned.items()):
            topic = await self._connection.cluster.topic(name, timeout_s=self._timeout_s)
            for number in numbers:
                if not 0 <= number < len(topic.partitions):
                    raise refusal("assign", f"{name} has no partition {number}, only {len(topic.partitions)}")
                found[TopicPartition(topic.name, PartitionId(number))] = topic.topic_id
        return found

    async def _matches(self, pattern: str) -> tuple[str, ...]:
        now = time.monotonic()
        if now - self._matched_at >= _METADATA_AGE_S:
            compiled = _compiled(pattern)
            request = broker_pb2.GetMetadataRequest(all_topics=True)
            answer = await self._connection.cluster.call(_GET_METADATA, request, timeout_s=self._timeout_s)
            names = [topic.name for topic in answer.topics]
            # As Kafka: a pattern is not meant for the topics that the cluster keeps for itself.
            self._matching = tuple(n for n in names if not n.startswith("__") and compiled.fullmatch(n))
            self._matched_at = now
        return self._matching

    def _refresh_what_is_old(self) -> None:
        now = time.monotonic()
        if now - self._refreshed_at >= _METADATA_AGE_S:
            self._refreshed_at = now
            # Nobody waits for it: what it brings is seen by the next question.
            self._connection.cluster.needs_refresh()

    async def _offsets(self, partitions: Partitions, at: OffsetAt) -> dict[TopicPartition, int | None]:
        listed = await list_offsets(
            self._connection.cluster,
            list(partitions),
            at,
            clock=self._connection.clock,
            rng=self._connection.rng,
            timeout_s=self._timeout_s,
        )
        self._check_ids(partitions)
        return {each: found.offset for each, found in listed.items()}

    def _check_ids(self, partitions: Partitions) -> None:
        """Offsets were asked for with the ids that are known now: those are to be the ids of the plan."""
        for each, topic_id in partitions.items():
            topic = self._connection.cluster.known_topic(each.topic)
            if topic is None:
                raise UnknownTopicOrPartition(f"topic {each.topic} was deleted", topic=each.topic)
            if topic.topic_id != topic_id:
                raise TopicRecreated.of(each.topic, expected_id=topic_id, found_id=topic.topic_id)


def _covering(
    partitions: Partitions, given: Mapping[tuple[str, int], int], name: str
) -> dict[TopicPartition, int]:
    """What was given for each partition; all of them have to be named, and no others."""
    named = {
        TopicPartition(TopicName(topic), PartitionId(number)): at for (topic, number), at in given.items()
    }
    missing, unknown = partitions.keys() - named.keys(), named.keys() - partitions.keys()
    if missing:
        raise refusal(name, f"it says nothing about {_shown(missing)}; name every partition (-2: earliest)")
    if unknown:
        raise refusal(name, f"it names {_shown(unknown)}, which is not read")
    return {each: named[each] for each in partitions}


def _shown(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(each) for each in sorted(partitions))


def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern)
    except (re2.error, re.error) as error:
        raise InvalidConfig(
            f"option subscribePattern: {pattern!r} is no pattern in RE2's syntax: {error}",
            key="subscribePattern",
        ) from None
