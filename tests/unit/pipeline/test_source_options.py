"""Every option is checked, and one that is not understood is refused by its name."""

from __future__ import annotations

import pytest

from quorate.errors import InvalidConfig
from quorate.pipeline.source import read_options as read_module
from quorate.pipeline.source import write_options as write_module
from quorate.pipeline.source.read_options import Selection, read_options
from quorate.pipeline.source.write_options import write_options
from tests.documented import ROOT

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = {**SERVERS, "subscribe": "orders"}


def test_names_of_options_are_the_same_in_any_case() -> None:
    options = read_options({**SERVERS, "SUBSCRIBE": "a, b", "failondataloss": "FALSE"}, is_streaming=False)
    assert options.selection == Selection(topics=("a", "b"))
    assert not options.losses.is_strict


def test_the_servers_may_be_named_without_kafka() -> None:
    options = read_options({"bootstrap.servers": "a:1,b:2", "subscribe": "t"}, is_streaming=False)
    assert options.bootstrap == ("a:1", "b:2")


def test_a_batch_begins_at_the_beginning_and_a_stream_at_the_end() -> None:
    assert read_options(TOPIC, is_streaming=False).starting.fallback == "earliest"
    assert read_options(TOPIC, is_streaming=True).starting.fallback == "latest"


def test_a_timestamp_counts_before_timestamps_and_these_before_offsets() -> None:
    given = {**TOPIC, "startingOffsets": "latest", "startingOffsetsByTimestamp": '{"orders": {"0": 7}}'}
    assert read_options(given, is_streaming=False).starting.timestamps_ms == {("orders", 0): 7}
    given["startingTimestamp"] = "5"
    assert read_options(given, is_streaming=False).starting.timestamp_ms == 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "t"}, "kafka.bootstrap.servers"),
        (SERVERS, "exactly one of subscribe, subscribePattern, assign"),
        ({**TOPIC, "assign": "{}"}, "subscribe and assign"),
        ({**TOPIC, "startingOfset": "earliest"}, "startingOfset.*Did you mean startingOffsets"),
        ({**TOPIC, "maxOffsetsPerTrigger": "10"}, "maxOffsetsPerTrigger: batch reads"),
        ({**TOPIC, "minPartitions": "0"}, "minPartitions: it is '0'"),
        ({**TOPIC, "failOnDataLoss": "maybe"}, "failOnDataLoss: it is 'maybe'; true or false"),
        ({**TOPIC, "dataLossAllowed": "some"}, "dataLossAllowed: it is 'some'; any or retention"),
        ({**TOPIC, "endingOffsets": "earliest"}, "endingOffsets.*latest or JSON"),
        ({**TOPIC, "startingOffsets": "{"}, "startingOffsets.*JSON"),
        ({**TOPIC, "startingOffsets": '{"t": {"0": true}}'}, "startingOffsets.*JSON"),
        ({**TOPIC, "startingOffsets": '{"t": {"0": -3}}'}, "startingOffsets.*at least 0"),
        ({**TOPIC, "endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets.*at least 0"),
        ({**TOPIC, "startingOffsets": ""}, "startingOffsets: it is ''"),
        ({**TOPIC, "startingOffsets": '{"orders": {"-1": 5}}'}, "startingOffsets.*JSON"),
        ({**TOPIC, "startingOffsets": '{"orders": {"0": 9223372036854775808}}'}, "startingOffsets.*JSON"),
        ({**TOPIC, "startingOffsets": '{"a":' * 5_000 + "1" + "}" * 5_000}, "startingOffsets.*JSON"),
        ({**SERVERS, "assign": '{"a":' + "[" * 5_000 + "]" * 5_000 + "}"}, "assign.*JSON"),
        ({**TOPIC, "startingOffsets": '{"no topic": {"0": 5}}'}, "option startingOffsets: .*no topic"),
        ({**TOPIC, "startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "ByTimestamp.*at least 0"),
        ({**TOPIC, "startingTimestamp": "9223372036854775808"}, "startingTimestamp.*64 bits"),
        ({**TOPIC, "kafka.isolation.level": "none"}, "kafka.isolation.level"),
        ({**TOPIC, "kafka.group.id": "g", "groupIdPrefix": "p"}, "groupIdPrefix"),
        ({**SERVERS, "assign": '{"t": []}'}, "assign: it names no partition"),
        ({**SERVERS, "subscribe": " , "}, "subscribe: it names no topic"),
        ({**SERVERS, "subscribe": "no topic"}, "option subscribe: .*no topic"),
        ({**SERVERS, "assign": '{"no topic": [0]}'}, "option assign: .*no topic"),
        ({**SERVERS, "subscribePattern": "orders-(["}, "option subscribePattern.*RE2"),
        ({"kafka.bootstrap.servers": "nowhere", "subscribe": "t"}, "option kafka.bootstrap.servers"),
        ({**TOPIC, "includeHeaders": "maybe"}, "includeHeaders: it is 'maybe'"),
    ],
)
def test_a_batch_read_refuses(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said) as refused:
        read_options(given, is_streaming=False)
    assert len(refused.value.message) < 1_000, "somebody is to read it"


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "erliest", "startingTimestamp": "5"},
        {"startingOffsets": "erliest", "startingOffsetsByTimestamp": '{"orders": {"0": 7}}'},
        {"startingOffsets": '{"orders": {"0": -3}}', "startingTimestamp": "5"},
        {"startingOffsetsByTimestamp": "{", "startingTimestamp": "5"},
    ],
)
def test_an_option_that_does_not_count_is_checked_all_the_same(
    given: dict[str, str], *, is_streaming: bool
) -> None:
    with pytest.raises(InvalidConfig, match=f"option {next(iter(given))}: "):
        read_options({**TOPIC, **given}, is_streaming=is_streaming)


def test_an_end_that_does_not_count_is_checked_all_the_same() -> None:
    with pytest.raises(InvalidConfig, match="option endingOffsets: it is 'earliest'"):
        read_options({**TOPIC, "endingOffsets": "earliest", "endingTimestamp": "5"}, is_streaming=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**TOPIC, "endingOffsets": "latest"}, "endingOffsets: streaming reads"),
        ({**TOPIC, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger"),
        ({**TOPIC, "minOffsetsPerTrigger": "0"}, "minOffsetsPerTrigger: it is '0'; .* from 1 on"),
        ({**TOPIC, "maxOffsetsPerTrigger": "1e6"}, "maxOffsetsPerTrigger: it is '1e6'"),
        ({**TOPIC, "maxOffsetsPerTrigger": "9" * 5_000}, "maxOffsetsPerTrigger: it is '9"),
        ({**TOPIC, "failOnDataLoss": "y" * 5_000}, "failOnDataLoss: it is 'y"),
        ({**TOPIC, "kafka.isolation.level": "r" * 5_000}, "kafka.isolation.level: it is 'r"),
        ({**TOPIC, "maxTriggerDelay": "soon"}, "maxTriggerDelay.*500ms"),
        ({**TOPIC, "maxTriggerDelay": "-1s"}, "maxTriggerDelay.*500ms"),
        ({**TOPIC, "maxTriggerDelay": "1.5m"}, "maxTriggerDelay.*500ms"),
        ({**TOPIC, "maxTriggerDelay": "9" * 400 + "s"}, "maxTriggerDelay.*500ms"),
        ({**TOPIC, "maxTriggerDelay": "9" * 5_000 + "s"}, "maxTriggerDelay.*500ms"),
        ({**TOPIC, "maxTriggerDelays": "5s"}, "maxTriggerDelays: .*Did you mean maxTriggerDelay"),
    ],
)
def test_a_stream_refuses(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said) as refused:
        read_options(given, is_streaming=True)
    assert len(refused.value.message) < 1_000, "somebody is to read it"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("15m", 900), ("1 h", 3600), ("1D", 86400), ("250", 0.25)],
)
def test_durations_are_written_as_in_spark(text: str, seconds: float) -> None:
    assert read_options({**TOPIC, "maxTriggerDelay": text}, is_streaming=True).trigger_delay_s_max == seconds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**SERVERS, "kafka.acks": "1"}, "kafka.acks"),
        ({**SERVERS, "topic": "no topic"}, "topic"),
        ({**SERVERS, "checkpointLocation": "x"}, "checkpointLocation: batch writes"),
        ({**SERVERS, "kafka.compression.type": "zip"}, "kafka.compression.type"),
        ({**SERVERS, "kafka.batch.size": "9", "kafka.buffer.memory": "5"}, "option kafka.buffer.memory"),
        ({**SERVERS, "kafka.delivery.timeout.ms": "1800001"}, "option kafka.delivery.timeout.ms"),
    ],
)
def test_a_write_refuses(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        write_options(given, is_streaming=False)


@pytest.mark.parametrize(
    ("heading", "options"),
    [
        ("Options of reads", read_module._BATCH | read_module._STREAM),
        # The others are Spark's own.
        ("Options and columns of writes", write_module._STREAM - {"checkpointLocation", "queryName"}),
    ],
)
def test_every_option_that_is_taken_is_documented(heading: str, options: frozenset[str]) -> None:
    page = (ROOT / "docs" / "data-source.md").read_text(encoding="utf-8")
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert [name for name in sorted(options) if f"`{name}`" not in section] == []


def test_headers_of_writes_are_decided_by_the_column_and_the_option_is_checked() -> None:
    for given in ("true", "false"):
        write_options({**SERVERS, "includeHeaders": given}, is_streaming=False)
    with pytest.raises(InvalidConfig, match="includeHeaders: it is 'maybe'"):
        write_options({**SERVERS, "includeHeaders": "maybe"}, is_streaming=False)


def test_a_log_is_not_overwritten() -> None:
    with pytest.raises(InvalidConfig, match="append"):
        write_options(SERVERS, is_streaming=False, is_overwriting=True)


def test_nothing_is_waited_for_where_the_options_say_so() -> None:
    options = write_options({**SERVERS, "kafka.max.block.ms": "0"}, is_streaming=False)
    assert options.producer.max_block_ms == 0


@pytest.mark.parametrize(
    ("given", "may_be"),
    [
        ({}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"orders": {"0": 5, "1": -2}}'}, False),
        ({"startingOffsets": '{"orders": {"0": 5, "1": -1}}'}, True),
        ({"startingTimestamp": "5"}, False),
        ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}, True),
    ],
)
def test_a_beginning_that_moves_with_the_end_of_the_log_is_known_as_such(
    given: dict[str, str], *, may_be: bool
) -> None:
    options = read_options({**TOPIC, **given}, is_streaming=True)
    assert options.starting.may_be_latest(late_timestamp=options.late_timestamp) is may_be
