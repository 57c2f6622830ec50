"""What the driver has to know to plan: which partitions there are, and where they begin and end.

A topic may be deleted at any moment, also between two questions that belong together. Whoever asks for a
leader of it would wait until the time is up, which is minutes: so while a question is under way it is watched
whether its topics are still known, and where one is not, it begins anew with which there are. Brokers that
deny a topic are believed once they have for a while (`ClusterView.topic`). What that means for the query is
its own to say: a topic that is gone is left out here, and refused only where a new query names it.

A broker that is cut off from the quorum goes on answering what it knew. A process that has just started knows
of no newer answer, so before its first plan it asks all brokers, and so does each new query: one alone could
leave out partitions without a word. What even then is not found, and was read before, is looked for once more
(`not_known_yet`): topics never shrink, so a partition is gone only if its topic is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Final, cast

from quorate.client.listed_offsets import LeaderQuestion, OffsetAt, list_offsets, questions_by_leader
from quorate.client.topology import TopicView
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.logging import get_logger
from quorate.core.transport import method_of
from quorate.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from quorate.pipeline.source.connection import Connection
from quorate.pipeline.source.direct_ends import DirectEnds
from quorate.pipeline.source.errors import TopicRecreated
from quorate.pipeline.source.options import refusal
from quorate.pipeline.source.patterns import compiled
from quorate.pipeline.source.positions import Positions
from quorate.pipeline.source.read_options import EARLIEST, LATEST, Bound, Selection
from quorate.v1 import broker_pb2

__all__ = ["Lookup", "Partitions"]

log = get_logger(__name__)

_GET_METADATA: Final = method_of(
    broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
    "GetMetadata",
    broker_pb2.GetMetadataRequest,
    broker_pb2.GetMetadataResponse,
)
#: How soon new partitions and topics are noticed. An idle query asks 80 times a second: not each time anew.
_METADATA_AGE_S: Final = 1.0
#: how soon a question is given up whose topic has gone
_GONE_AFTER_S: Final = 0.25

#: each with the id of its topic
Partitions = Mapping[TopicPartition, str]


class Lookup:
    def __init__(self, connection: Connection, selection: Selection, *, timeout_s: float) -> None:
        self._connection = connection
        self._selection = selection
        self._timeout_s = timeout_s
        self._matching: tuple[str, ...] = ()
        self._matched_at = self._refreshed_at = -_METADATA_AGE_S
        #: all brokers were asked, by this query
        self._has_asked_all = False
        self._direct = DirectEnds(kept_s=_METADATA_AGE_S, rng=connection.rng)
        #: of which the last ordinary question about ends was
        self._asked: Partitions = {}

    def partitions(self, *, is_new_query: bool) -> dict[TopicPartition, str]:
        """All that are to be read: as of now for a new query, otherwise as of a moment ago.

        The process of an earlier query may be this one's, and what it knew may be long out of date.
        """
        return self._connection.run(self._partitions(is_new_query=is_new_query))

    def offsets(self, partitions: Partitions, at: OffsetAt) -> dict[TopicPartition, int | None]:
        """Of each; None: no record is as late as the time that was asked for."""
        if not partitions:
            return {}
        return self._connection.run(self._offsets(partitions, at))

    def beginnings(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """The earliest offset of each; those of topics that are gone by now are left out."""
        if not partitions:
            return {}
        return self._connection.run(self._beginnings(partitions))

    def not_known_yet(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Of those that were read before and are not found: which only a newer answer will have.

        That is, their topic is there, with the id that is returned. The rest is gone, or not read any more.
        """
        chosen = [each for each in partitions if self.is_chosen(each)]
        return self._connection.run(self._not_known_yet(chosen)) if chosen else {}

    def ends(self, *, is_new_query: bool) -> Positions:
        """Where all that is to be read ends: the leaders' word, given for this question.

        What is gone has no end. Topics that are named and not there were refused when the query was new.
        """
        ends = None if is_new_query else self._direct.ask()
        if ends is None:
            self._asked, ends, questions = self._connection.run(self._ends(is_new_query=is_new_query))
            self._direct.keep(questions)
        return Positions.of(ends, self._asked)

    def resolve_start_of_stream(
        self, partitions: Partitions, bound: Bound, *, late_timestamp: str, fail_on_data_loss: bool
    ) -> dict[TopicPartition, int]:
        """As `resolve`; partitions that have come since the option was written begin at their beginning.

        Spark asks for the start of a query anew until a batch is done. To refuse it then, because its topic
        has grown, would keep a query from starting that is right.
        """
        named = bound.offsets if bound.timestamps_ms is None else bound.timestamps_ms
        came_later = {} if named is None else _numbered_above(partitions, named)
        rest = {each: topic_id for each, topic_id in partitions.items() if each not in came_later}
        return self._found(came_later, "earliest") | self.resolve(
            rest, bound, late_timestamp=late_timestamp, fail_on_data_loss=fail_on_data_loss
        )

    def resolve(
        self, partitions: Partitions, bound: Bound, *, late_timestamp: str, fail_on_data_loss: bool
    ) -> dict[TopicPartition, int]:
        """Where the bound lies in each partition; never behind its end, where nothing could be read."""
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
        ends = self._found(partitions, "latest")
        beyond = sorted(each for each, offset in offsets.items() if offset > ends[each])
        if beyond:
            first = beyond[0]
            what = f"{first} ends at {ends[first]}, before the offset {offsets[first]}"
            if fail_on_data_loss:
                raise refusal(bound.name, f"{what}. With failOnDataLoss=false its end is taken instead")
            log.warning("data_lost", partitions=[str(each) for each in beyond], what=what)
        return {each: min(offset, ends[each]) for each, offset in offsets.items()}

    def _at_times(
        self, partitions: Partitions, times: Mapping[TopicPartition, int], name: str, late_timestamp: str
    ) -> dict[TopicPartition, int]:
        # Asked for before: what is written between two questions may be late enough, and is not skipped.
        ends = self._found(partitions, "latest") if late_timestamp == "latest" else {}
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
        return found | {each: ends[each] for each in late}

    def _found(self, partitions: Partitions, at: OffsetAt) -> dict[TopicPartition, int]:
        return {each: cast("int", offset) for each, offset in self.offsets(partitions, at).items()}

    # -- on the connection's loop

    async def _ends(
        self, *, is_new_query: bool
    ) -> tuple[Partitions, dict[TopicPartition, int], list[LeaderQuestion]]:
        """With what they are of, and what their leaders may be asked again."""
        found, offsets = await self._of_what_is_there(is_new_query=is_new_query)
        # Without a wait since the ids were compared: it is asked about these very topics.
        try:
            questions = questions_by_leader(self._connection.cluster, found, "latest")
        except NotLeaderOrFollower:
            questions = []
        return found, cast("dict[TopicPartition, int]", offsets), questions

    async def _of_what_is_there(
        self, *, is_new_query: bool
    ) -> tuple[dict[TopicPartition, str], dict[TopicPartition, int | None]]:
        deadline = time.monotonic() + self._timeout_s
        while True:
            found = await self._partitions(is_new_query=is_new_query, leaves_out_what_is_gone=True)
            try:
                return found, await self._offsets(found, "latest") if found else {}
            except UnknownTopicOrPartition as error:
                if not error.retriable or time.monotonic() >= deadline:
                    raise

    async def _beginnings(self, partitions: Partitions) -> dict[TopicPartition, int]:
        wanted = dict(partitions)
        deadline = time.monotonic() + self._timeout_s
        while wanted:
            try:
                return cast("dict[TopicPartition, int]", await self._offsets(wanted, "earliest"))
            except UnknownTopicOrPartition as error:
                if not error.retriable or time.monotonic() >= deadline:
                    raise
            there = {each.name for each in await self._topics({each.topic for each in wanted})}
            wanted = {each: topic_id for each, topic_id in wanted.items() if each.topic in there}
        return {}

    async def _partitions(
        self, *, is_new_query: bool, leaves_out_what_is_gone: bool = False
    ) -> dict[TopicPartition, str]:
        selection = self._selection
        asks_all = is_new_query or not self._has_asked_all
        names = sorted(
            selection.assigned
            or selection.topics
            or await self._matches(selection.pattern or "", asks_all=asks_all)
        )
        if asks_all:
            await self._connection.cluster.refreshed_by_all(names)
            self._has_asked_all = True
        else:
            self._refresh_what_is_old()
        topics = await self._topics(names)
        missing = sorted(set(names) - {each.name for each in topics})
        if missing and selection.pattern is None and not leaves_out_what_is_gone:
            raise UnknownTopicOrPartition(
                f"there is no topic {missing[0]}, as far as the brokers know", topic=missing[0]
            )
        self._matching = tuple(name for name in self._matching if name not in missing)
        found: dict[TopicPartition, str] = {}
        for topic in topics:
            for number in self._numbers_of(topic):
                found[TopicPartition(topic.name, PartitionId(number))] = topic.topic_id
        return found

    def is_chosen(self, partition: TopicPartition) -> bool:
        selection = self._selection
        if selection.assigned is not None:
            return partition.partition in selection.assigned.get(partition.topic, ())
        if selection.topics is not None:
            return partition.topic in selection.topics
        return compiled(selection.pattern or "").fullmatch(partition.topic) is not None

    async def _not_known_yet(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        topics = await self._topics({each.topic for each in partitions})
        ids = {each.name: each.topic_id for each in topics}
        if self._selection.pattern is not None:
            # Whoever said which topics match did not know of these.
            self._matching = tuple(sorted({*self._matching, *ids}))
        return {each: ids[each.topic] for each in partitions if each.topic in ids}

    async def _topics(self, names: Iterable[str]) -> list[TopicView]:
        """Of those that are there."""
        found = await asyncio.gather(*map(self._topic, names))
        return [each for each in found if each is not None]

    async def _topic(self, name: str) -> TopicView | None:
        try:
            return await self._connection.cluster.topic(name, timeout_s=self._timeout_s)
        except UnknownTopicOrPartition:
            return None

    def _numbers_of(self, topic: TopicView) -> Iterable[int]:
        count = len(topic.partitions)
        if self._selection.assigned is None:
            return range(count)
        assigned = self._selection.assigned[topic.name]
        for number in assigned:
            if not 0 <= number < count:
                raise refusal("assign", f"{topic.name} has no partition {number}, only {count}")
        return assigned

    async def _matches(self, pattern: str, *, asks_all: bool) -> tuple[str, ...]:
        now = time.monotonic()
        if asks_all or now - self._matched_at >= _METADATA_AGE_S:
            matcher = compiled(pattern)
            cluster = self._connection.cluster
            request = broker_pb2.GetMetadataRequest(all_topics=True)
            answers = await cluster.ask_all(_GET_METADATA, request) if asks_all else []
            if not answers:
                answers = [await cluster.call(_GET_METADATA, request, timeout_s=self._timeout_s)]
            names = {topic.name for answer in answers for topic in answer.topics}
            # As Kafka: a pattern is not meant for the topics that the cluster keeps for itself.
            matching = {n for n in names if not n.startswith("__") and matcher.fullmatch(n)}
            # Who has answered may have started a moment ago and know too little: what was there before is
            # gone once all of them deny it.
            self._matching = tuple(sorted(matching.union(self._matching)))
            self._matched_at = now
        return self._matching

    def _refresh_what_is_old(self) -> None:
        now = time.monotonic()
        if now - self._refreshed_at >= _METADATA_AGE_S:
            self._refreshed_at = now
            # Nobody waits for it: what it brings is seen by the next question.
            self._connection.cluster.needs_refresh()

    async def _offsets(self, partitions: Partitions, at: OffsetAt) -> dict[TopicPartition, int | None]:
        asking = asyncio.ensure_future(
            list_offsets(
                self._connection.cluster,
                list(partitions),
                at,
                clock=self._connection.clock,
                rng=self._connection.rng,
                timeout_s=self._timeout_s,
            )
        )
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=_GONE_AFTER_S)
                self._check_ids(partitions)
            return {each: found.offset for each, found in asking.result().items()}
        finally:
            asking.cancel()
            # Also so that nobody misses how it ended.
            await asyncio.gather(asking, return_exceptions=True)

    def _check_ids(self, partitions: Partitions) -> None:
        """Offsets were asked for with the ids that are known now: those are to be the ids of the plan."""
        for each, topic_id in partitions.items():
            topic = self._connection.cluster.known_topic(each.topic)
            if topic is None:
                raise UnknownTopicOrPartition(f"topic {each.topic} was deleted", topic=each.topic)
            if topic.topic_id != topic_id:
                raise TopicRecreated.of(each.topic, expected_id=topic_id, found_id=topic.topic_id)


def _numbered_above(partitions: Partitions, named: Iterable[tuple[str, int]]) -> dict[TopicPartition, str]:
    """Those with a number above all that are named of their topic."""
    last: dict[str, int] = {}
    for topic, number in named:
        last[topic] = max(number, last.get(topic, number))
    return {
        each: topic_id
        for each, topic_id in partitions.items()
        if each.topic in last and each.partition > last[each.topic]
    }


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
