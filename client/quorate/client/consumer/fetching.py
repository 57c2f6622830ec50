"""Keeps every assigned partition where it belongs: with its leader's fetcher, or on the way there.

A partition is in one place at a time. It is fetched; or its leader is being asked where it starts or whether
its position is still good; or it waits, because there is no leader, or for a pause after trouble to end; or
it rests, because it is paused or has failed. ``_place`` decides by the state of the reader and by what is
known of the cluster, and does so again whenever either has changed. So there are no transitions to get wrong:
failover is a metadata update after which the same function puts the partition elsewhere.

Trouble with a broker, or one that says that it does not lead, has three consequences: metadata is refreshed
(coalesced, by ClusterView), the hint is used if there is one, and the partition pauses, with jitter and
longer each time. A reader that is near a follower goes to the leader for a while.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from quorate.client.cluster import ClusterView
from quorate.client.consumer.broker_fetcher import BrokerFetcher
from quorate.client.consumer.buffer import FetchBuffer
from quorate.client.consumer.lookups import Question, look_up_offsets, validate_positions
from quorate.client.consumer.options import AutoOffsetReset, ConsumerOptions
from quorate.client.consumer.positions import BEGINNING, END, Need, PartitionReader, Start
from quorate.client.consumer.statistics import ConsumerStatistics
from quorate.client.topology import Leader, TopicView
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock, Timer
from quorate.core.logging import get_logger
from quorate.core.transport import Channel
from quorate.errors import (
    LogTruncated,
    OffsetOutOfRange,
    QuorateError,
    StorageError,
    TransportError,
    UnknownTopicOrPartition,
)
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import broker_pb2

__all__ = ["Fetching", "start_for"]

log = get_logger(__name__)

#: After trouble with a nearby follower the leader is read from for so long.
_FOLLOWER_AVOIDED_S: Final = 30.0
#: Trouble that comes after so long without any is a new one, and begins with a short pause.
_CALM_S: Final = 5.0
#: Failovers are shorter; trouble that lasts so long looks like a topic without new records, and is told.
_TROUBLE_TOLD_AFTER_S: Final = 3.0

_Ask = Callable[..., Awaitable[list[tuple[Question, QuorateError]]]]
_ASKS: Final[dict[Need, _Ask]] = {Need.OFFSET: look_up_offsets, Need.VALIDATION: validate_positions}


def start_for(reset: AutoOffsetReset) -> Start | None:
    return {"earliest": BEGINNING, "latest": END, "fail": None}[reset]


class _Route:
    """Where one partition is on its way."""

    __slots__ = ("address", "asked", "backoff", "follower_avoided_until", "held_until")

    def __init__(self, rng: random.Random) -> None:
        self.backoff = Backoff(rng)
        #: of the broker that it is fetched from
        self.address: str | None = None
        #: what its leader is being asked about it
        self.asked: Question | None = None
        self.held_until = 0.0
        self.follower_avoided_until = 0.0


class Fetching:
    """``run`` for as long as the consumer lives; everything else on the same event loop."""

    def __init__(
        self,
        cluster: ClusterView,
        buffer: FetchBuffer,
        options: ConsumerOptions,
        *,
        clock: Clock,
        rng: random.Random,
        statistics: ConsumerStatistics,
    ) -> None:
        self._cluster = cluster
        self._buffer = buffer
        self._options = options
        self._clock = clock
        self._rng = rng
        self._statistics = statistics
        self._routes: dict[PartitionReader, _Route] = {}
        self._fetchers: dict[str, tuple[BrokerFetcher, asyncio.Task[None]]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._wake = asyncio.Event()
        self._timer: Timer | None = None
        self._waiters: list[asyncio.Future[None]] = []
        #: of whichever partitions and brokers, without a calm in between
        self._troubled_since = self._troubled_at = -math.inf
        self._is_trouble_told = False
        cluster.on_update(self._wake.set)

    # -- what the application does

    def add(self, reader: PartitionReader) -> None:
        self._routes[reader] = _Route(self._rng)
        self._wake.set()

    def remove(self, reader: PartitionReader) -> None:
        if reader in self._routes:
            self._displace(reader)
            del self._routes[reader]
        self._buffer.drop(reader)
        self._buffer.withdraw(str(reader))
        self._wake.set()

    def retire(self, reader: PartitionReader) -> None:
        """Fetch no more of it, and hand out no more; its position stays."""
        if reader in self._routes:
            self._displace(reader)
            del self._routes[reader]
        self._buffer.retire(reader)

    def restore(self, reader: PartitionReader) -> None:
        """Fetch it, from where the application stands; also one that was never fetched."""
        self._buffer.restore(reader)
        if reader not in self._routes:
            self.add(reader)

    def changed(self, reader: PartitionReader) -> None:
        """Sought, paused or resumed: any pause that it was in is over."""
        if reader not in self._routes:
            return  # it is not fetched for other reasons
        self._displace(reader)
        self._routes[reader].held_until = 0.0
        self._wake.set()

    async def progress(self, timeout_s: float) -> None:
        """Until positions may have become known, or the time is over."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await waiter

    # -- the loop

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                self._wake.clear()
                self._place_all()
                self._tell_progress()
                await self._wake.wait()

    def _place_all(self) -> None:
        now = self._clock.monotonic()
        questions: dict[tuple[str, Need], list[Question]] = {}
        for reader, route in self._routes.items():
            self._place(reader, route, now, questions)
        for (address, need), asked in questions.items():
            assert self._tasks is not None
            self._tasks.create_task(self._ask(address, need, asked))
        for address in [address for address, (fetcher, _) in self._fetchers.items() if fetcher.is_idle]:
            _, task = self._fetchers.pop(address)
            task.cancel()
        self._wake_when_due(now)

    def _place(
        self,
        reader: PartitionReader,
        route: _Route,
        now: float,
        questions: dict[tuple[str, Need], list[Question]],
    ) -> None:
        leader = self._leader(reader, route, now) if _is_wanted(reader, route, now) else None
        if leader is None:
            self._displace(reader)
            return
        reader.meet_leader(leader.epoch)
        if route.asked is not None and not route.asked.is_stale:
            return
        need = reader.need(lambda: self._buffer.last_epoch(reader))
        if need is Need.FETCH and not reader.is_held_back:
            self._fetch(reader, route, leader, now)
            return
        self._displace(reader)
        if need is Need.FETCH:
            return
        read_epoch = self._buffer.last_epoch(reader) if need is Need.VALIDATION else None
        route.asked = question = Question(reader, reader.generation, leader.epoch, read_epoch)
        questions.setdefault((leader.address, need), []).append(question)

    def _leader(self, reader: PartitionReader, route: _Route, now: float) -> Leader | None:
        """None: it is not known, or the reader has failed."""
        topic = self._cluster.known_topic(reader.topic_partition.topic)
        if reader.topic_id is None:
            if topic is None:
                return None  # whoever assigned it is looking for its topic
            reader.topic_id = topic.topic_id
        if reader.is_of_group and not _is_known(reader, topic):
            self._wait_for_metadata(route, now)
            return None
        if topic is None or topic.topic_id != reader.topic_id:
            reader.replaced_by(None if topic is None else topic.topic_id)
        elif reader.start is None and reader.position is None:
            reader.lacks_position()
        if reader.failure is not None:
            self._tell_failure(reader)
            return None
        assert topic is not None
        if reader.topic_partition.partition >= len(topic.partitions):
            self._buffer.report(str(reader), _no_such_partition(reader, len(topic.partitions)))
            self._wait_for_metadata(route, now)
            return None
        leader = self._cluster.leader_of(reader.topic_partition)
        if leader is None or leader.epoch < reader.leader_epoch:
            self._cluster.needs_refresh()
            return None
        return leader

    def _wait_for_metadata(self, route: _Route, now: float) -> None:
        route.held_until = now + route.backoff.next_s()
        self._cluster.needs_refresh()

    def _wake_when_due(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = [route.held_until for route in self._routes.values() if route.held_until > now]
        if due:
            self._timer = self._clock.call_later(min(due) - now, self._wake.set)

    def _tell_progress(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    # -- fetching

    def _fetch(self, reader: PartitionReader, route: _Route, leader: Leader, now: float) -> None:
        address, is_follower = leader.address, False
        if self._options.client_rack is not None and now >= route.follower_avoided_until:
            nearest = self._nearest_replica(reader, leader)
            if nearest is not None:
                address, is_follower = nearest, True
        if route.address != address:
            self._displace(reader)
        route.address = address
        self._fetcher(address).place(reader, is_follower=is_follower)

    def _nearest_replica(self, reader: PartitionReader, leader: Leader) -> str | None:
        """A follower in the client's rack that is in sync; None: the leader is as near, or none is."""
        topic, partition = reader.topic_partition
        view = self._cluster.known_topic(topic)
        if view is None or partition >= len(view.partitions):
            return None
        brokers = [self._cluster.brokers.get(replica) for replica in view.partitions[partition].isr]
        near = [each for each in brokers if each is not None and each.rack == self._options.client_rack]
        if not near or any(each.broker_id == leader.broker_id for each in near):
            return None
        # Spread over them by partition, and always the same for one.
        return near[partition % len(near)].address

    def _fetcher(self, address: str) -> BrokerFetcher:
        if address not in self._fetchers:
            assert self._tasks is not None
            fetcher = BrokerFetcher(
                address,
                self._cluster,
                self._buffer,
                self._options,
                clock=self._clock,
                rng=self._rng,
                share_bytes=self._share_bytes,
                troubles=self,
                statistics=self._statistics,
            )
            self._fetchers[address] = fetcher, self._tasks.create_task(fetcher.run())
        return self._fetchers[address][0]

    def _share_bytes(self) -> int:
        return self._options.prefetch_bytes // max(1, len(self._fetchers))

    def _displace(self, reader: PartitionReader) -> None:
        route = self._routes[reader]
        if route.address is not None and route.address in self._fetchers:
            self._fetchers[route.address][0].displace(reader)
        route.address = None

    # -- asking leaders about positions

    async def _ask(self, address: str, need: Need, questions: Sequence[Question]) -> None:
        if need is Need.VALIDATION:
            self._statistics.validations += len(questions)
        channel: Channel = self._cluster.channel(address)
        try:
            refused = await _ASKS[need](channel, questions, timeout_s=self._options.request_timeout_ms / 1000)
        except QuorateError as error:
            refused = [(question, error) for question in questions if not question.is_stale]
        else:
            self._statistics.partition_errors += len(refused)
        troubled = {question.reader for question, _ in refused}
        for question in questions:
            route = self._routes.get(question.reader)
            if route is None or route.asked is not question:
                continue
            route.asked = None
            if question.reader not in troubled and question.reader.failure is not None:
                self._tell_failure(question.reader)
        for question, refusal in refused:
            if question.reader in self._routes:
                self._trouble(question.reader, refusal)
        self._wake.set()

    # -- trouble

    def partition_refused(
        self, reader: PartitionReader, result: broker_pb2.FetchPartitionResult, *, is_follower: bool
    ) -> None:
        self._statistics.partition_errors += 1
        error = error_from_detail(result.error)
        if is_follower:
            # Whatever it is, the leader knows better.
            self._avoid_follower(reader)
        elif isinstance(error, OffsetOutOfRange):
            self._out_of_range(reader, error, result)
        else:
            self._trouble(reader, error)

    def broker_failed(self, address: str, error: QuorateError) -> None:
        self._statistics.broker_errors += 1
        log.debug("fetch_stream_failed", address=address, code=error.code, error=error.message)
        self._note_trouble(error, address=address)
        self._cluster.needs_refresh()
        for reader, route in self._routes.items():
            leader = self._cluster.leader_of(reader.topic_partition)
            if route.address == address and (leader is None or leader.address != address):
                self._avoid_follower(reader)

    def _avoid_follower(self, reader: PartitionReader) -> None:
        self._routes[reader].follower_avoided_until = self._clock.monotonic() + _FOLLOWER_AVOIDED_S
        self._displace(reader)
        self._cluster.needs_refresh()
        self._wake.set()

    def _out_of_range(
        self, reader: PartitionReader, error: OffsetOutOfRange, result: broker_pb2.FetchPartitionResult
    ) -> None:
        log_start_offset = result.log_start_offset if result.HasField("log_start_offset") else None
        was_begun, offset = reader.is_begun, reader.fetch_offset
        reset = start_for(self._options.out_of_range_reset)
        if reset is not None and was_begun and not self._buffer.is_drained(reader):
            # What is here was fetched in time: it is handed out before the position moves.
            self._pause(reader)
            return
        if self._buffer.out_of_range(reader, error, log_start_offset, reset) and was_begun:
            self._statistics.resets += 1
            log.warning(
                "position_reset",
                partition=str(reader),
                offset=offset,
                log_start_offset=log_start_offset,
                reset=self._options.out_of_range_reset,
            )
        self.changed(reader)

    def _trouble(self, reader: PartitionReader, error: QuorateError) -> None:
        """A broker refused to read, or to answer, for this partition."""
        is_passing = error.retriable or isinstance(error, StorageError | TransportError)
        if not is_passing:
            reader.failure = error
            self._tell_failure(reader)
            self._displace(reader)
            return
        self._note_trouble(error, partition=str(reader))
        self._cluster.apply_hint(reader.topic_partition, error)
        # A disk that fails, or is damaged, costs its broker the leadership soon.
        if error.refresh_metadata or not error.retriable:
            self._cluster.needs_refresh()
        leader = self._cluster.leader_of(reader.topic_partition)
        if leader is None or leader.epoch <= reader.leader_epoch:
            self._pause(reader)
        else:  # the hint names another leader, who has not been asked yet
            self._displace(reader)
            self._wake.set()

    def _note_trouble(self, error: QuorateError, **where: str) -> None:
        """Told once, however many partitions have it, until there was none for a while."""
        now = self._clock.monotonic()
        if now - self._troubled_at > _CALM_S:
            self._troubled_since, self._is_trouble_told = now, False
        self._troubled_at = now
        if not self._is_trouble_told and now - self._troubled_since >= _TROUBLE_TOLD_AFTER_S:
            self._is_trouble_told = True
            log.warning("reading_held_up", code=error.code, error=error.message, **where)

    def _pause(self, reader: PartitionReader) -> None:
        """Try again later, and later each time."""
        route, now = self._routes[reader], self._clock.monotonic()
        if now - route.held_until > _CALM_S:
            route.backoff.reset()
        route.held_until = now + route.backoff.next_s()
        self._displace(reader)
        self._wake.set()

    def _tell_failure(self, reader: PartitionReader) -> None:
        failure = reader.failure
        assert failure is not None
        log.warning("partition_failed", partition=str(reader), code=failure.code, error=failure.message)
        stop_offset = None
        if isinstance(failure, LogTruncated):
            end_offset = failure.facts.get("end_offset")
            stop_offset = end_offset if isinstance(end_offset, int) else 0
        self._buffer.tell_failure(reader, stop_offset=stop_offset)


def _is_wanted(reader: PartitionReader, route: _Route, now: float) -> bool:
    return reader.failure is None and not reader.is_paused and route.held_until <= now


def _is_known(reader: PartitionReader, topic: TopicView | None) -> bool:
    """Whether metadata has the very topic and partition that a coordinator has given."""
    is_same = topic is not None and topic.topic_id == reader.topic_id
    return topic is not None and is_same and reader.topic_partition.partition < len(topic.partitions)


def _no_such_partition(reader: PartitionReader, count: int) -> UnknownTopicOrPartition:
    topic, partition = reader.topic_partition
    return UnknownTopicOrPartition(
        f"{reader}: the topic has {count} partitions", topic=topic, partition=partition, partition_count=count
    )
