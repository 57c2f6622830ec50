"""The cluster as a client sees it: who leads what, where brokers are, and the channels to them.

Every client object has one. What it knows comes from two sources. GetMetadata, answered by any broker from
its own copy, which may lag behind; and hints: a broker that is asked for what it does not lead names the
leader. Both may arrive late and out of order, so nothing ever goes back: of two statements about a partition
the one with the higher leader epoch holds, and about brokers and topics the one from the higher metadata
offset.

Refreshing is coalesced. However many partitions are in trouble, one request is under way, for all topics in
use, and the next follows after a pause with jitter that grows while nothing new is learned: a dead leader's
clients must not all come down on the brokers that are left. Each refresh asks another broker first, because
the one that answered last may be cut off from the quorum and say the same old thing for ever. Whoever decides
something at once by what a cluster has asks all brokers (``refreshed_by_all``): of a single one nobody knows
whether it is that one.

Nothing here is shared between threads: it belongs to the loop that it runs on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from google.protobuf.message import Message

from quorate.client.not_brokers import NotBrokers, is_unimplemented, look_at_not_brokers
from quorate.client.retrying import retrying
from quorate.client.topology import BrokerView, Leader, PartitionView, TopicView
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock, Timer
from quorate.core.ids import BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName, TopicPartition
from quorate.core.logging import get_logger
from quorate.core.topic_names import check_topic_name
from quorate.core.transport import Channel, Method, Transport, method_of
from quorate.errors import (
    ClientClosed,
    QuorateError,
    RequestTimedOut,
    TransportError,
    Unavailable,
    UnknownTopicOrPartition,
)
from quorate.v1 import broker_pb2

__all__ = ["ClusterView"]

log = get_logger(__name__)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

_BROKER: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
_GET_METADATA: Final = method_of(
    _BROKER, "GetMetadata", broker_pb2.GetMetadataRequest, broker_pb2.GetMetadataResponse
)

#: A broker that takes longer is passed over: it is stopped, overloaded or cut off.
_ATTEMPT_TIMEOUT_S: Final = 1.0
#: All attempts of one refresh together.
_REFRESH_TIMEOUT_S: Final = 5.0
#: For so long it is asked only after all others.
_SILENCE_REMEMBERED_S: Final = 10.0
#: How long brokers may deny a topic or a partition before they are believed: a new one is known everywhere
#: soon.
_DENIAL_S: Final = 2.0
#: Also without any trouble, to learn of new partitions and brokers.
_AGE_S_MAX: Final = 300.0
#: Failovers are shorter; when nobody has answered for so long, that is told.
_UNREACHABLE_AFTER_S: Final = 5.0
#: Who has not asked for longer than that knows nothing about the time in between.
_UNREACHABLE_GAP_S: Final = 15.0
#: Every client of a dead leader asks that often until there is a new one.
_REFRESH_PAUSE_S_MAX: Final = 0.25


class ClusterView:
    def __init__(
        self,
        transport: Transport,
        bootstrap: Sequence[str],
        *,
        clock: Clock,
        rng: random.Random,
        rack: str | None = None,
    ) -> None:
        assert bootstrap
        self._transport = transport
        self._bootstrap = tuple(bootstrap)
        self._clock = clock
        self._rng = rng
        #: the client's own failure domain
        self.rack = rack
        self.cluster_id = ""
        self.brokers: dict[BrokerId, BrokerView] = {}
        #: what brokers and topics are known from
        self._metadata_offset = -1
        self._topics: dict[TopicName, TopicView] = {}
        #: leaders that a hint named, as long as metadata has not caught up with it
        self._hints: dict[TopicPartition, Leader] = {}
        #: in use, and therefore asked for in every refresh; a dict for its order
        self._wanted: dict[TopicName, None] = {}
        self._channels: dict[str, Channel] = {}
        #: when an address last failed to answer
        self._silent_since: dict[str, float] = {}
        self._next_address = rng.randrange(1 << 16)
        self._backoff = Backoff(rng, pause_s_max=_REFRESH_PAUSE_S_MAX)
        #: when brokers began to deny a topic that is wanted
        self._denied_at: dict[TopicName, float] = {}
        #: no refresh begins before
        self._refresh_allowed_at = clock.monotonic()
        self._refreshing: asyncio.Task[None] | None = None
        #: why the address that was asked last did not answer; None: it did
        self._silence: QuorateError | None = None
        #: the first and the last round in which nobody answered; None: somebody has since
        self._unanswered: tuple[float, float] | None = None
        #: who answered in the last round instead of a broker; None once a broker has answered
        self._not_brokers: NotBrokers | None = None
        self._is_silence_told = False
        self._age_timer: Timer | None = None
        self._listeners: list[Callable[[], None]] = []
        self._is_closed = False

    # -- what is known

    async def topic(self, name: str, *, timeout_s: float) -> TopicView:
        """It is kept up to date from now on. ``UnknownTopicOrPartition`` once brokers deny it for a while."""
        topic = check_topic_name(name)
        self._wanted[topic] = None
        deadline = self._clock.monotonic() + timeout_s
        while (found := self._topics.get(topic)) is None:
            # However short the time is, one broker can be asked.
            await self.refreshed(max(deadline - self._clock.monotonic(), _ATTEMPT_TIMEOUT_S))
            if self._not_brokers is not None:
                self._wanted.pop(topic, None)
                raise self.unreachable(topic=topic)
            now = self._clock.monotonic()
            denied_at = self._denied_at.get(topic, now)
            if topic not in self._topics and (now >= deadline or now - denied_at >= _DENIAL_S):
                self._wanted.pop(topic, None)
                raise self._not_found(topic)
        return found

    async def topic_with(self, tp: TopicPartition, *, timeout_s: float) -> TopicView:
        """The topic that has it. ``UnknownTopicOrPartition`` once brokers deny it for a while."""
        deadline = self._clock.monotonic() + timeout_s
        believed_at = min(deadline, self._clock.monotonic() + _DENIAL_S)
        topic = await self.topic(tp.topic, timeout_s=timeout_s)
        while tp.partition >= len(topic.partitions) and self._clock.monotonic() < believed_at:
            await self.refreshed(believed_at - self._clock.monotonic())
            topic = await self.topic(tp.topic, timeout_s=deadline - self._clock.monotonic())
        if not 0 <= tp.partition < len(topic.partitions):
            if tp.partition >= 0 and self._silence is not None:
                raise self.unreachable(topic=tp.topic)
            raise UnknownTopicOrPartition(
                f"{tp.topic} has no partition {tp.partition}: it has {len(topic.partitions)}",
                topic=tp.topic,
                partition=tp.partition,
            )
        return topic

    def known_topic(self, name: str) -> TopicView | None:
        return self._topics.get(TopicName(name))

    def leader_of(self, tp: TopicPartition) -> Leader | None:
        view = self._partition(tp)
        hint = self._hints.get(tp)
        if hint is not None and (view is None or hint.epoch > view.leader_epoch):
            return hint
        if view is None or view.leader is None:
            return None
        broker = self.brokers.get(view.leader)
        return None if broker is None else Leader(view.leader, broker.address, view.leader_epoch)

    def on_update(self, listener: Callable[[], None]) -> None:
        """Called after each refresh, also one that brought nothing new, and after each new hint."""
        self._listeners.append(listener)

    # -- learning

    def needs_refresh(self) -> None:
        """What is known led astray. Returns at once; ``refreshed`` waits, a listener is told."""
        if self._refreshing is None and not self._is_closed:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def refreshed(self, timeout_s: float | None = None) -> None:
        """Until the refresh that is under way, or else a new one, has ended, well or not, or time is over."""
        self.needs_refresh()
        if self._refreshing is None:
            raise ClientClosed("the client was closed")
        # Not cancelled with one of those who wait for it.
        await asyncio.wait([self._refreshing], timeout=timeout_s)

    async def refreshed_by_all(self, names: Iterable[str]) -> None:
        """By every broker that answers, and with these topics, which are kept up to date from now on."""
        self._wanted |= {check_topic_name(name): None for name in names}
        answers = await self.ask_all(_GET_METADATA, self._metadata_request())
        # The newest last: an older one may know a topic that is deleted by now.
        for answer in sorted(answers, key=lambda each: each.metadata_offset):
            self._apply(answer)
        self._tell()

    def apply_hint(self, tp: TopicPartition, error: QuorateError) -> None:
        """A broker that does not lead a partition may have said who does."""
        leader, epoch, address = (
            error.facts.get(key) for key in ("leader", "leader_epoch", "leader_address")
        )
        if not isinstance(leader, int) or not isinstance(epoch, int) or leader < 0:
            return
        if not isinstance(address, str) or not address:
            broker = self.brokers.get(BrokerId(leader))
            if broker is None:
                return
            address = broker.address
        known = self.leader_of(tp)
        view = self._partition(tp)
        if (known is not None and epoch <= known.epoch) or (view is not None and epoch <= view.leader_epoch):
            return
        self._hints[tp] = Leader(BrokerId(leader), address, LeaderEpoch(epoch))
        self._tell()

    def forget(self, name: str) -> None:
        """It is of no interest any more, and is not asked for from now on."""
        topic = TopicName(name)
        self._wanted.pop(topic, None)
        self._topics.pop(topic, None)
        self._denied_at.pop(topic, None)
        self._forget_hints(topic)

    # -- channels and calls

    def addresses(self) -> list[str]:
        """Of every broker that is known, and those that the client began with."""
        known = [broker.address for _, broker in sorted(self.brokers.items())]
        return known + [address for address in self._bootstrap if address not in known]

    def channel(self, address: str) -> Channel:
        found = self._channels.get(address)
        if found is None:
            if self._is_closed:
                raise ClientClosed("the client was closed")
            found = self._channels[address] = self._transport.connect(address)
        return found

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        """Ask any broker, the next one where one fails, until the time is up. For what may be done twice."""

        async def attempt(remaining_s: float) -> Response:
            try:
                return await self._ask_round(method, request, timeout_s=remaining_s)
            except TransportError as error:
                raise self.unreachable() from error

        return await retrying(attempt, clock=self._clock, rng=self._rng, timeout_s=timeout_s)

    async def ask_all(self, method: Method[Request, Response], request: Request) -> list[Response]:
        """Every broker at once; what those answer that do so soon."""

        async def ask(address: str) -> Response | None:
            try:
                return await self.channel(address).call(method, request, timeout_s=_ATTEMPT_TIMEOUT_S)
            except QuorateError as error:
                log.debug("broker_passed_over", address=address, code=error.code, error=error.message)
                return None

        if not self.brokers:
            await self.refreshed()
        answers = await asyncio.gather(*map(ask, self.addresses()))
        return [each for each in answers if each is not None]

    async def close(self) -> None:
        self._is_closed = True
        if self._age_timer is not None:
            self._age_timer.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    # -- how

    def _not_found(self, topic: TopicName) -> QuorateError:
        reason = self._silence
        is_answered = self._metadata_offset >= 0 and self._refreshing is None and reason is None
        if is_answered or topic in self._denied_at:
            return UnknownTopicOrPartition(
                f"there is no topic {topic}, as far as the brokers know", topic=topic
            )
        return self.unreachable(topic=topic)

    def unreachable(self, **facts: str) -> QuorateError:
        """What to say when no broker has answered: who was asked, and why the last one did not."""
        if self._not_brokers is not None:
            return self._not_brokers.error(**facts)
        asked = self._bootstrap if self._metadata_offset < 0 else self.addresses()
        reason = self._silence
        silence = Unavailable(
            f"nobody answers at any of {', '.join(asked)}" + (f": {reason.message}" if reason else ""),
            **facts,
        )
        silence.__cause__ = reason
        return silence

    def _partition(self, tp: TopicPartition) -> PartitionView | None:
        topic = self._topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition]

    async def _refresh(self) -> None:
        try:
            quiet_s = self._clock.monotonic() - self._refresh_allowed_at
            if quiet_s > _REFRESH_PAUSE_S_MAX:
                self._backoff.reset()
            elif quiet_s < 0:
                await self._clock.sleep(-quiet_s)
            await self._refresh_once()
        finally:
            self._refreshing = None
            self._refresh_allowed_at = self._clock.monotonic() + self._backoff.next_s()
        self._watch_age()
        self._tell()

    def _metadata_request(self) -> broker_pb2.GetMetadataRequest:
        return broker_pb2.GetMetadataRequest(
            topics=[broker_pb2.TopicReference(name=name) for name in self._wanted]
        )

    async def _refresh_once(self) -> None:
        request = self._metadata_request()
        try:
            response = await self._ask_round(_GET_METADATA, request, timeout_s=_REFRESH_TIMEOUT_S)
        except QuorateError as error:
            log.debug("metadata_refresh_failed", code=error.code, error=error.message)
            return
        if self._apply(response):
            self._backoff.reset()

    async def _ask_round(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        """Each address once. Those that have no such method are passed over."""
        began = self._clock.monotonic()
        deadline = began + timeout_s
        failure: QuorateError = RequestTimedOut(f"{method.name}: no time left to ask")
        refusals: dict[str, QuorateError] = {}
        for address in self._addresses_in_turn():
            remaining_s = deadline - self._clock.monotonic()
            if remaining_s <= 0:
                break
            try:
                response = await self.channel(address).call(
                    method, request, timeout_s=min(remaining_s, _ATTEMPT_TIMEOUT_S)
                )
            except TransportError as error:
                self._silent_since[address] = self._clock.monotonic()
                self._silence = failure = error
            except QuorateError as error:
                if not is_unimplemented(error):
                    raise
                self._silent_since[address] = self._clock.monotonic()
                refusals[address] = error
            else:
                self._silent_since.pop(address, None)
                self._silence = None
                self._unanswered, self._is_silence_told = None, False
                self._not_brokers = None
                return response
        # Brokers that were known, and are all away, come back: their clients wait for them.
        is_misled = bool(refusals) and self._metadata_offset < 0
        self._not_brokers = await self._look_at(refusals) if is_misled else None
        if self._not_brokers is not None:
            raise self._not_brokers.error() from next(iter(refusals.values()))
        self._nobody_answered(began, failure)
        raise failure

    async def _look_at(self, refusals: Iterable[str]) -> NotBrokers:
        addresses = list(refusals)
        silent = [each for each in self._bootstrap if each not in addresses]
        return await look_at_not_brokers(
            addresses, silent, channel=self.channel, timeout_s=_ATTEMPT_TIMEOUT_S
        )

    def _nobody_answered(self, began: float, failure: QuorateError) -> None:
        """Told once: a program that polls would otherwise wait without a word."""
        now = self._clock.monotonic()
        if self._unanswered is None or began - self._unanswered[1] > _UNREACHABLE_GAP_S:
            self._unanswered = began, now
        self._unanswered = self._unanswered[0], now
        if now - self._unanswered[0] >= _UNREACHABLE_AFTER_S and not self._is_silence_told:
            self._is_silence_told = True
            log.warning(
                "cluster_unreachable",
                addresses=self.addresses(),
                silent_s=round(now - self._unanswered[0], 1),
                code=failure.code,
                error=failure.message,
            )

    def _addresses_in_turn(self) -> list[str]:
        """Another one first each time; those that did not answer of late, last."""
        addresses = self.addresses()
        self._next_address += 1
        start = self._next_address % len(addresses)
        forgiven = self._clock.monotonic() - _SILENCE_REMEMBERED_S
        return sorted(
            addresses[start:] + addresses[:start],
            key=lambda address: self._silent_since.get(address, forgiven) > forgiven,
        )

    def _apply(self, response: broker_pb2.GetMetadataResponse) -> bool:
        """Whether anything is new."""
        if response.cluster_id != self.cluster_id:
            if self.cluster_id:
                log.warning("cluster_replaced", before=self.cluster_id, now=response.cluster_id)
            self._start_anew(response.cluster_id)
        is_newer = response.metadata_offset >= self._metadata_offset
        is_news = False
        if is_newer:
            self._metadata_offset = response.metadata_offset
            brokers = {
                BrokerId(each.broker_id): BrokerView(BrokerId(each.broker_id), each.address, each.rack)
                for each in response.brokers
            }
            is_news = brokers != self.brokers
            self.brokers = brokers
        for topic in response.topics:
            if topic.name in self._wanted:  # not forgotten since it was asked for
                is_news |= self._apply_topic(topic, is_newer=is_newer)
        return is_news

    def _start_anew(self, cluster_id: str) -> None:
        """Epochs and offsets of another cluster say nothing about this one."""
        self.cluster_id = cluster_id
        self._metadata_offset = -1
        self._topics.clear()
        self._hints.clear()

    def _apply_topic(self, topic: broker_pb2.MetadataTopic, *, is_newer: bool) -> bool:
        name = TopicName(topic.name)
        before = self._topics.get(name)
        if topic.HasField("error"):
            if not is_newer:
                return False
            self._denied_at.setdefault(name, self._clock.monotonic())
            return self._topics.pop(name, None) is not None
        if before is not None and before.topic_id != topic.topic_id and not is_newer:
            return False
        self._denied_at.pop(name, None)
        partitions = tuple(_partition_view(each) for each in topic.partitions)
        if before is not None and before.topic_id == topic.topic_id:
            if len(partitions) < len(before.partitions):
                return False
            old_partitions = before.partitions + partitions[len(before.partitions) :]
            partitions = tuple(map(_newer, old_partitions, partitions))
        else:
            self._forget_hints(name)
        view = TopicView(name, TopicId(topic.topic_id), partitions)
        self._topics[name] = view
        return view != before

    def _forget_hints(self, topic: TopicName) -> None:
        for tp in [tp for tp in self._hints if tp.topic == topic]:
            del self._hints[tp]

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def _watch_age(self) -> None:
        if self._age_timer is not None:
            self._age_timer.cancel()
        self._age_timer = self._clock.call_later(_AGE_S_MAX, self.needs_refresh)


def _partition_view(partition: broker_pb2.MetadataPartition) -> PartitionView:
    return PartitionView(
        PartitionId(partition.partition),
        BrokerId(partition.leader) if partition.HasField("leader") else None,
        LeaderEpoch(partition.leader_epoch),
        tuple(map(BrokerId, partition.replicas)),
        tuple(map(BrokerId, partition.isr)),
    )


def _newer(before: PartitionView, now: PartitionView) -> PartitionView:
    return now if now.leader_epoch >= before.leader_epoch else before
