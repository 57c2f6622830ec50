"""What a member wants to read, and whom it tells what happens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from quorate.client.arguments import check_topic_argument, shown
from quorate.client.consumer.options import ConsumerOptions
from quorate.core.ids import TopicName, TopicPartition
from quorate.core.topic_patterns import compiled_pattern
from quorate.errors import InvalidRequest
from quorate.v1 import group_pb2

__all__ = ["RebalanceCallback", "RebalanceCallbacks", "Subscription", "subscription_of", "topic_names"]

#: gets the partitions; of an asynchronous consumer it may be a coroutine function
RebalanceCallback: TypeAlias = Callable[[list[TopicPartition]], object]


@dataclass(frozen=True, slots=True)
class RebalanceCallbacks:
    """Each is called inside a poll, or a step of an iteration, of the application's."""

    #: partitions are about to be read; it may seek
    on_assigned: RebalanceCallback | None = None
    #: partitions are about to be given up; what was read of them may be committed
    on_revoked: RebalanceCallback | None = None
    #: partitions are gone, and may be another's already; without it, ``on_revoked`` is called
    on_lost: RebalanceCallback | None = None

    def __post_init__(self) -> None:
        for name in ("on_assigned", "on_revoked", "on_lost"):
            found = getattr(self, name)
            if found is not None and not callable(found):
                raise InvalidRequest(f"{name} is {shown(found)}: a function is expected", argument=name)

    def refuse_coroutines(self) -> None:
        """A thread has no loop to run them on."""
        for name in ("on_assigned", "on_revoked", "on_lost"):
            if inspect.iscoroutinefunction(getattr(self, name)):
                raise InvalidRequest(
                    f"{name} is a coroutine function: AsyncConsumer takes those", argument=name
                )


@dataclass(frozen=True, slots=True)
class Subscription:
    topics: tuple[TopicName, ...] = ()
    #: empty: none
    pattern: str = ""
    callbacks: RebalanceCallbacks = RebalanceCallbacks()

    @property
    def is_empty(self) -> bool:
        return not self.topics and not self.pattern

    def message(self, options: ConsumerOptions, host: str) -> group_pb2.GroupSubscription:
        return group_pb2.GroupSubscription(
            topics=self.topics,
            pattern=self.pattern,
            assignor=options.group_remote_assignor or "",
            instance_id=options.group_instance_id or "",
            rack=options.client_rack or "",
            client_id=options.client_id,
            host=host,
            rebalance_timeout_ms=options.max_poll_interval_ms,
        )


def subscription_of(
    topics: Iterable[str], pattern: str | None, callbacks: RebalanceCallbacks
) -> Subscription:
    """As an application gives it."""
    if not isinstance(pattern, str | None):
        raise InvalidRequest(f"pattern is {pattern!r}: a str is expected", argument="pattern")
    if pattern:
        compiled_pattern(pattern)
    return Subscription(tuple(topic_names(topics)), pattern or "", callbacks)


def topic_names(topics: Iterable[str]) -> list[TopicName]:
    """As they were given, each once; whether there are such topics is found out later."""
    if isinstance(topics, str | bytes) or not isinstance(topics, Iterable):
        raise InvalidRequest(f"topics is {shown(topics)}: a list of names is expected", argument="topics")
    names = list(topics)
    for name in names:
        check_topic_argument(name, "one of topics")
    return [TopicName(name) for name in dict.fromkeys(names)]
