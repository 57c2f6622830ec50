"""What has the wrong type is refused at the call, by its name, and not by a TypeError from inside."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from quorate.chaos.models.producer.fake_broker import FakeCluster, simulate
from quorate.client import Admin, AsyncConsumer, AsyncProducer, Consumer, OffsetAndMetadata, Producer
from quorate.client.groups.offsets import offset_given
from quorate.errors import (
    ClientError,
    InvalidConfig,
    InvalidPattern,
    InvalidRecord,
    InvalidRequest,
    InvalidTopic,
)

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize("kind", [Producer, AsyncProducer, Consumer, AsyncConsumer, Admin])
@pytest.mark.parametrize("bootstrap", [123, None, b"127.0.0.1:1", ["127.0.0.1:1", 5], "\udcff:1"])
def test_bootstrap_is_text_or_a_list_of_text(kind: Any, bootstrap: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"^bootstrap is .*(expected HOST:PORT|no UTF-8)"):
        kind(bootstrap)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger_ms", "5"),
        ("linger_ms", float("nan")),
        ("batch_bytes", 1000.5),
        ("max_in_flight", True),
        ("delivery_timeout_ms", None),
        ("enable_idempotence", "no"),
        ("acks", ["all"]),
        ("compression", ["lz4"]),
        ("value_serializer", "json"),
    ],
)
def test_producer_options_are_refused_by_their_names(name: str, value: Any) -> None:
    with pytest.raises(InvalidConfig, match=f"^{name}") as refused:
        AsyncProducer(NOWHERE, **{name: value})
    assert refused.value.facts["key"] == name


NO_UTF8: Any = "\udcff"
TOO_LARGE: Any = 1 << 31


@pytest.mark.parametrize(
    ("call", "arguments", "kind", "message"),
    [
        ("create_topic", [NO_UTF8], InvalidTopic, "name is .* no UTF-8"),
        ("delete_topic", [NO_UTF8], InvalidTopic, "name is .* no UTF-8"),
        ("describe_topic", [NO_UTF8], InvalidTopic, "name is .* no UTF-8"),
        ("create_partitions", [NO_UTF8, 3], InvalidTopic, "topic is .* no UTF-8"),
        ("alter_config", [NO_UTF8, {}], InvalidTopic, "topic is .* no UTF-8"),
        ("alter_config", ["t", {"retention.ms": NO_UTF8}], InvalidRequest, "retention.ms is .* no UTF-8"),
        ("alter_config", ["t", {NO_UTF8: "1"}], InvalidRequest, "a name in changes is .* no UTF-8"),
        ("list_offsets", [NO_UTF8], InvalidTopic, "topic name"),
        ("add_voter", [TOO_LARGE, "127.0.0.1:1"], InvalidRequest, "node_id is .* 32 bits"),
        ("add_voter", [1, NO_UTF8], InvalidRequest, "address is .* no UTF-8"),
        ("remove_voter", [TOO_LARGE], InvalidRequest, "node_id is .* 32 bits"),
        ("transfer_controller", [TOO_LARGE], InvalidRequest, "node_id is .* 32 bits"),
        ("update_feature_level", [TOO_LARGE], InvalidRequest, "level is .* 32 bits"),
        ("reassign_partitions", [{("t", 0): [TOO_LARGE]}], InvalidRequest, "broker id in moves .* 32 bits"),
        ("reassign_partitions", [{("t", 0): "1,2"}], InvalidRequest, "moves has '1,2' .*broker ids"),
        ("check_broker_restart", [TOO_LARGE], InvalidRequest, "broker_id is .* 32 bits"),
        ("drain_broker", ["1"], InvalidRequest, "broker_id is '1'"),
        ("decommission_broker", [TOO_LARGE], InvalidRequest, "broker_id is .* 32 bits"),
    ],
)
def test_admin_refuses_what_no_request_can_hold(call: str, arguments: Any, kind: Any, message: str) -> None:
    with Admin(NOWHERE) as admin, pytest.raises(kind, match=message):
        getattr(admin, call)(*arguments)


@pytest.mark.parametrize("topics", ["orders", b"orders", 5, [None], [b"orders"]])
def test_topics_of_a_consumer_are_a_list_of_names(topics: Any) -> None:
    with pytest.raises(InvalidRequest, match="topics is"):
        AsyncConsumer(NOWHERE, topics=topics)


@pytest.mark.parametrize("timeout", ["x", None, True, float("nan")])
def test_time_that_a_poll_may_take_is_a_number_of_seconds(timeout: Any) -> None:
    with Consumer(NOWHERE) as consumer, pytest.raises(InvalidRequest, match=r"^timeout is "):
        consumer.poll(timeout=timeout)


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_nearest_name_may_be_one_that_is_no_option(kind: Any) -> None:
    with pytest.raises(TypeError, match="did you mean 'topics'"):
        kind(NOWHERE, topic=["orders"])


@pytest.mark.parametrize("time", ["yesterday", None, 1.5, datetime(2026, 1, 1, tzinfo=UTC), 1 << 63])
def test_time_to_seek_to_is_milliseconds(time: Any) -> None:
    with Consumer(NOWHERE) as consumer:
        consumer.assign([("orders", 0)])
        with pytest.raises(InvalidRequest, match=r"^timestamp_ms is "):
            consumer.seek_to_time(("orders", 0), time)
    waiting = AsyncConsumer(NOWHERE)
    waiting.assign([("orders", 0)])
    with pytest.raises(InvalidRequest, match=r"^timestamp_ms is "):
        waiting.seek_to_time(("orders", 0), time)


def test_record_is_one_that_was_polled() -> None:
    text: Any = "x"
    with pytest.raises(InvalidRequest, match=r"^record is 'x'"):
        AsyncConsumer(NOWHERE).record_id(text)
    with pytest.raises(InvalidRequest, match=r"^record is 'x'"):
        OffsetAndMetadata.after(text)


def test_note_in_the_place_of_an_epoch_is_told_where_it_belongs() -> None:
    note: Any = "a note"
    with pytest.raises(InvalidRequest, match="metadata=") as refused:
        offset_given(OffsetAndMetadata(4, note))
    assert refused.value.facts == {"argument": "leader_epoch"}


@pytest.mark.parametrize("pattern", ["orders-(", "*", "(?=a)b"])
def test_what_is_no_pattern_is_refused_where_it_is_given(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        AsyncConsumer(NOWHERE, group="g", pattern=pattern)
    with pytest.raises(InvalidPattern):
        AsyncConsumer(NOWHERE, group="g").subscribe(pattern=pattern)
    AsyncConsumer(NOWHERE, group="g", pattern=r"\pL+-orders\z")


@pytest.mark.parametrize(
    ("option", "value"), [("group_remote_assignor", "sticky"), ("group", "two\nlines"), ("group", "\x7f")]
)
def test_what_no_coordinator_takes_is_refused_where_it_is_given(option: str, value: str) -> None:
    options: Any = {"group": "g", option: value}
    with pytest.raises(InvalidConfig, match=f"^{option} is ") as refused:
        AsyncConsumer(NOWHERE, **options)
    assert refused.value.facts["key"] == option


def test_mistake_of_the_consumers_own_is_told_in_polls_as_an_error_of_the_client() -> None:
    async def scenario() -> None:
        consumer: Any = AsyncConsumer(NOWHERE, topics=["t"])

        async def fail() -> None:
            raise TypeError("inside")

        consumer._engine._topics.run = fail  # no way in is known
        for _ in range(2):
            with pytest.raises(ClientError, match=r"close it.*TypeError.*inside"):
                await consumer.poll(timeout=1)
        await consumer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "partitions", ["orders", 5, ["orders"], [("orders", "0")], [(None, 0)], [("orders",)]]
)
def test_assigned_partitions_are_pairs_of_a_name_and_a_number(partitions: Any) -> None:
    with pytest.raises(InvalidRequest):
        AsyncConsumer(NOWHERE).assign(partitions)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"topic": None}, InvalidTopic, "topic is None"),
        ({"topic": b"t"}, InvalidTopic, "topic is b't'"),
        ({"topic": ["t"]}, InvalidTopic, r"topic is \['t'\]"),
        ({"partition": "0"}, InvalidRequest, r"partition is '0' \(str\): an int"),
        ({"partition": True}, InvalidRequest, "partition is True"),
        ({"timestamp_ms": "5"}, InvalidRequest, "timestamp_ms is '5'"),
        ({"expected_offset": "5", "partition": 0}, InvalidRequest, "expected_offset is '5'"),
        ({"expected_offset": 1 << 63, "partition": 0}, InvalidRequest, "expected_offset is .* 64 bits"),
        ({"expected_offset": -1, "partition": 0}, InvalidRequest, "expected_offset is -1"),
        ({"headers": 5}, InvalidRecord, "headers is 5"),
        ({"headers": "name"}, InvalidRecord, "headers is 'name'"),
        ({"headers": {"name": 5}}, InvalidRecord, "header value of type int"),
        ({"key": "\ud800"}, InvalidRecord, "a key that has no UTF-8"),
        ({"on_delivery": 5}, InvalidRequest, "on_delivery is 5"),
    ],
)
def test_send_refuses_what_it_cannot_take(arguments: Any, kind: Any, message: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        async with cluster.producer() as producer:
            with pytest.raises(kind, match=message):
                await producer.send(**{"topic": "t", "value": b"x", **arguments})
            assert (await (await producer.send("t", b"good"))).offset == 0

    simulate(scenario)


@pytest.mark.parametrize("name", ["values", "keys", "headers"])
@pytest.mark.parametrize("column", ["abc", b"abc", {"a": b"b"}, 5])
def test_columns_of_send_many_are_lists_and_not_text(name: str, column: Any) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        async with cluster.producer() as producer:
            with pytest.raises(InvalidRecord, match=f"^{name} is .*a list is expected"):
                await producer.send_many("t", **{"values": [b"a", b"b", b"c"], name: column})

    simulate(scenario)


def test_results_show_themselves() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        cluster.add_topic()
        async with cluster.producer() as producer:
            future = await producer.send("t", b"a", timestamp_ms=5)
            assert repr(future) == "<RecordFuture for t-0, under way>"
            first = "RecordMetadata(topic='t', partition=0, offset=0, timestamp=5)"
            assert repr(await future) == first
            assert repr(future) == f"<RecordFuture: {first}>"
            delivery = await producer.send_many("t", [b"a"] * 7, timestamp_ms=5)
            assert repr(delivery) == "<Delivery of 7 record(s), under way>"
            places = await delivery
            assert repr(places).startswith("[RecordMetadata(topic='t', partition=0, offset=1, timestamp=5), ")
            assert repr(places).endswith("offset=5, timestamp=5), … 2 more]")
            assert repr(delivery) == "<Delivery of 7 record(s), done>"

    simulate(scenario)
