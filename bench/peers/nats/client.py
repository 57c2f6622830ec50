"""A drill's clients, and a lone sender, on nats-py.

Usage: PYTHON -m bench.peers.nats.client COMMAND SERVERS ARGUMENT...

PYTHON is an interpreter that has nats-py. A stream stands for a partition, and a message's sequence number,
which begins at 1, for its offset, which begins at 0.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import nats  # type: ignore[import-not-found]  # in an environment of its own
from nats.errors import Error  # type: ignore[import-not-found]
from nats.js.api import (  # type: ignore[import-not-found]
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    StorageType,
)

from bench.peers.client_lines import acknowledged, failed, read, say

__all__: list[str] = []

_REPLICAS: Final = 3
_TIMEOUT_S: Final = 60.0
_RETRY_S: Final = 0.2
_FETCH_MESSAGES: Final = 500
_FETCH_S: Final = 1.0


async def create_topic(servers: str, topic: str, partitions: str) -> None:
    connection = await _connect(servers)
    async with asyncio.timeout(_TIMEOUT_S):
        for number in range(int(partitions)):
            await _create_stream(connection.jetstream(), topic, number)
    say({})
    await connection.close()


async def _create_stream(context: Any, topic: str, number: int) -> None:
    """Servers that have just started have not all met yet: again until it works."""
    while True:
        try:
            await context.add_stream(
                name=_stream(topic, number),
                subjects=[_subject(topic, number)],
                storage=StorageType.FILE,
                num_replicas=_REPLICAS,
            )
        except Error as error:
            print(f"stream {number}: {error}", file=sys.stderr)
            await asyncio.sleep(_RETRY_S)
        else:
            return


async def look(servers: str, topic: str, partitions: str) -> None:
    """Of each partition, its first and next offset, and whether all of its replicas are current."""
    connection = await _connect(servers)
    found = []
    for number in range(int(partitions)):
        info = await connection.jetstream().stream_info(_stream(topic, number))
        followers = info.cluster.replicas or []
        is_whole = info.cluster.leader is not None and len(followers) == _REPLICAS - 1
        is_whole = is_whole and all(each.current and not each.offline for each in followers)
        # An empty stream has a first sequence number of 0 or 1.
        start = max(info.state.first_seq, 1) - 1
        found.append({"start": start, "end": info.state.last_seq, "is_whole": is_whole})
    say({"partitions": found})
    await connection.close()


async def send(servers: str) -> None:
    """Each record once, as the library does; it waits for the acknowledgement for 5 s."""
    connection = await _connect(servers)
    context = connection.jetstream()
    # The first request makes the connection's own subscription for answers, and others would overtake it.
    await context.account_info()
    publishing: set[asyncio.Task[None]] = set()
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        task = asyncio.create_task(_publish(context, *json.loads(line)))
        publishing.add(task)
        task.add_done_callback(publishing.discard)
    await asyncio.gather(*publishing)
    await connection.close()


async def send_alone(servers: str, topic: str, records: str, value_bytes: str, warm_up_records: str) -> None:
    """One message at a time, each acknowledged before the next."""
    connection = await _connect(servers)
    context = connection.jetstream()
    value = bytes(int(value_bytes))
    latencies_ms = []
    for number in range(int(warm_up_records) + int(records)):
        began = time.perf_counter()
        await context.publish(_subject(topic, 0), value)
        if number >= int(warm_up_records):
            latencies_ms.append((time.perf_counter() - began) * 1e3)
    say({"latencies_ms": latencies_ms})
    await connection.close()


async def _publish(context: Any, number: int, topic: str, partition: int, value: str) -> None:
    try:
        answer = await context.publish(_subject(topic, partition), value.encode("latin-1"))
    except Error as error:
        failed(number, error)
    else:
        acknowledged(number, answer.seq - 1)


async def read_from(servers: str, starts: str) -> None:
    connection = await _connect(servers)
    async with asyncio.TaskGroup() as group:
        for topic, number, start in json.loads(starts):
            group.create_task(_read_partition(connection.jetstream(), topic, number, start))


async def _read_partition(context: Any, topic: str, number: int, due: int) -> None:
    """In order, for ever: a consumer that skips, repeats or is gone is replaced by another one.

    So do the library's own ordered consumers. What the stream itself lacks is passed on as it is.
    """
    while True:
        try:
            subscription = await context.pull_subscribe(
                _subject(topic, number), stream=_stream(topic, number), config=_begin_at(due)
            )
            due = await _consume(subscription, topic, number, due)
        except (Error, TimeoutError) as error:
            print(f"reading partition {number}: {error!r}", file=sys.stderr)
            await asyncio.sleep(_RETRY_S)


async def _consume(subscription: Any, topic: str, number: int, due: int) -> int:
    """Until this consumer is of no use any more. Returns the next offset."""
    count = 0
    while True:
        try:
            messages = await subscription.fetch(_FETCH_MESSAGES, timeout=_FETCH_S)
        except (Error, TimeoutError):
            # Nothing new, or nobody there to ask: a new consumer knows.
            return due
        in_order = []
        for message in messages:
            count += 1
            if message.metadata.sequence.consumer != count:
                break
            in_order.append((topic, number, message.metadata.sequence.stream - 1, message.data))
        if in_order:
            read(in_order)
            due = in_order[-1][2] + 1
        if len(in_order) < len(messages):
            return due


def _begin_at(offset: int) -> Any:
    return ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=offset + 1, ack_policy=AckPolicy.NONE
    )


def _stream(topic: str, number: int) -> str:
    return f"{topic}-{number}"


def _subject(topic: str, number: int) -> str:
    return f"{topic}.{number}"


async def _connect(servers: str) -> Any:
    """It comes back for as long as it takes."""
    return await nats.connect(servers.split(","), max_reconnect_attempts=-1)


_COMMANDS: Final[Mapping[str, Callable[..., Coroutine[Any, Any, None]]]] = {
    "create-topic": create_topic,
    "look": look,
    "send": send,
    "send-alone": send_alone,
    "read": read_from,
}

if __name__ == "__main__":
    asyncio.run(_COMMANDS[sys.argv[1]](*sys.argv[2:]))
