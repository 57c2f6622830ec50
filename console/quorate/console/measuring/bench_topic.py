"""The topic that a measurement writes to or reads from.

One that the user named is used as it is, and keeps the records. Without a name there is one for this
measurement alone, and it goes afterwards, so that a look at a cluster's speed leaves nothing behind.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from quorate.console.connecting import with_connection
from quorate.console.session import Session
from quorate.errors import BatchTooLarge, QuorateError
from quorate.v1 import admin_pb2

__all__ = ["BenchTopic", "TopicOptions", "bench_topic"]


@dataclass(frozen=True)
class TopicOptions:
    #: None: one for this measurement alone
    name: str | None
    #: of such a one; None: the cluster's defaults
    partitions: int | None = None
    replication_factor: int | None = None


@dataclass(frozen=True)
class BenchTopic:
    name: str
    partition_count: int


@contextmanager
def bench_topic(
    session: Session, options: TopicOptions, *, value_bytes: int | None = None
) -> Iterator[BenchTopic]:
    """``value_bytes``: of the values that will be written; what the topic will not take is refused now."""
    if options.name is not None:
        found = _describe(session, options.name)
        _check_size(found, value_bytes)
        yield _topic(found)
        return
    with _terminated_as_by_ctrl_c():
        created = _create(session, options)
        try:
            _check_size(created, value_bytes)
            yield _topic(created)
        finally:
            _delete(session, created)


@contextmanager
def _terminated_as_by_ctrl_c() -> Iterator[None]:
    """Whoever ends us otherwise must not leave the topic behind either."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_size(topic: admin_pb2.TopicDescription, value_bytes: int | None) -> None:
    limits = [int(each.value) for each in topic.configs if each.name == "max.message.bytes"]
    if value_bytes is not None and limits and value_bytes > limits[0]:
        raise BatchTooLarge(
            f"{topic.name} takes no values of {value_bytes} bytes: its max.message.bytes is {limits[0]}"
        )


def _describe(session: Session, name: str) -> admin_pb2.TopicDescription:
    return with_connection(session.bootstrap, lambda connection: connection.describe_topic(name))


def _topic(description: admin_pb2.TopicDescription) -> BenchTopic:
    return BenchTopic(description.name, len(description.partitions))


def _create(session: Session, options: TopicOptions) -> admin_pb2.TopicDescription:
    request = admin_pb2.CreateTopicRequest(
        name=f"quorate-bench-{secrets.token_hex(4)}",
        partition_count=options.partitions,
        replication_factor=options.replication_factor,
    )
    return with_connection(session.bootstrap, lambda connection: connection.create_topic(request))


def _delete(session: Session, topic: admin_pb2.TopicDescription) -> None:
    """What was measured is worth more than a tidy end: a failure is told, and no more."""
    try:
        with_connection(session.bootstrap, lambda connection: connection.delete_topic(topic.topic_id))
    except QuorateError as error:
        session.note(f"the topic {topic.name} is left behind: {error.code}: {error.message}")
