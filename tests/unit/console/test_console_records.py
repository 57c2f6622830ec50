"""The parts of produce and consume that need no node."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click
import pytest
from aiokafka.partitioner import murmur2 as reference_murmur2  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.bootstrap import parse_bootstrap
from quorate.client.partitioner import murmur2, partition_for_key
from quorate.console.input_lines import CannotReadInput, read_lines
from quorate.console.offset_choices import OffsetChoice, parse_offset_choice
from quorate.console.producing import parse_line
from quorate.console.record_document import record_document, timestamp_text
from quorate.core.records import Record
from quorate.errors import BatchTooLarge, InvalidConfig, InvalidRecord


async def collect(descriptor: int) -> list[list[bytes]]:
    return [lines async for lines in read_lines(descriptor, line_bytes_max=1 << 20)]


@given(st.binary())
def test_keys_go_where_kafkas_clients_send_them(key: bytes) -> None:
    assert murmur2(key) == reference_murmur2(key) & 0xFFFFFFFF
    assert partition_for_key(key, 7) == (reference_murmur2(key) & 0x7FFFFFFF) % 7


def test_line_is_split_at_the_first_separator() -> None:
    assert parse_line(b"a:b:c", None, 1) == (None, b"a:b:c")
    assert parse_line(b"a:b:c", ":", 1) == (b"a", b"b:c")
    assert parse_line(b":", ":", 1) == (b"", b"")
    assert parse_line("ä→b".encode(), "→", 1) == ("ä".encode(), b"b")


def test_line_without_a_key_is_refused_by_number() -> None:
    with pytest.raises(InvalidRecord, match="line 12"):
        parse_line(b"no key", ":", 12)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"x" * 300_000 + b"\nend", [b"x" * 300_000, b"end"]),
    ],
)
def test_file_is_read_as_lines(tmp_path: Path, content: bytes, lines: list[bytes]) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        chunks = asyncio.run(collect(descriptor))
    finally:
        os.close(descriptor)
    assert [line for chunk in chunks for line in chunk] == lines


async def test_line_from_a_pipe_is_passed_on_before_the_pipe_ends() -> None:
    reader, writer = os.pipe()
    try:
        lines = read_lines(reader, line_bytes_max=100)
        os.write(writer, b"first\nsec")
        assert await anext(lines) == [b"first"]
        os.write(writer, b"ond\nthird")
        assert await anext(lines) == [b"second"]
        os.close(writer)
        assert await anext(lines) == [b"third"]
        with pytest.raises(StopAsyncIteration):
            await anext(lines)
    finally:
        os.close(reader)


async def test_line_that_is_too_long_is_refused_by_number_before_its_end_is_read() -> None:
    reader, writer = os.pipe()
    try:
        lines = read_lines(reader, line_bytes_max=5)
        os.write(writer, b"first\n12345")
        assert await anext(lines) == [b"first"]
        os.write(writer, b"6")
        with pytest.raises(BatchTooLarge, match="line 2 "):
            await anext(lines)
    finally:
        os.close(reader)
        os.close(writer)


async def test_input_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(CannotReadInput):
            await collect(descriptor)
    finally:
        os.close(descriptor)


async def test_waiting_for_a_pipe_can_be_interrupted() -> None:
    reader, writer = os.pipe()
    try:
        waiting = asyncio.create_task(collect(reader))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    finally:
        os.close(reader)
        os.close(writer)


def offset_choice(text: str) -> OffsetChoice:
    return parse_offset_choice(text, words="beginning, end", hint="--from")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("42", OffsetChoice("offset", 42)),
        ("beginning", OffsetChoice("beginning")),
        ("earliest", OffsetChoice("beginning")),
        ("end", OffsetChoice("end")),
        ("latest", OffsetChoice("end")),
        ("2026-01-31T12:00:00.5Z", OffsetChoice("time", 1_769_860_800_500)),
        ("-99999d", OffsetChoice("time", 0)),
    ],
)
def test_place_is_an_offset_an_end_or_a_time(text: str, choice: OffsetChoice) -> None:
    assert offset_choice(text) == choice


def test_time_may_be_so_long_ago() -> None:
    hour, day = offset_choice("-1h"), offset_choice("-1d")
    assert hour.kind == day.kind == "time"
    # The clock goes on between the two.
    assert round((hour.value - day.value) / 3_600_000) == 23


@pytest.mark.parametrize("text", ["-1", "-h", "-1y", "-1h30", "start", "", "2026-13-01", "0001-01-01"])
def test_place_that_is_none_of_these_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.BadParameter):
        offset_choice(text)


def test_bytes_that_are_no_text_are_shown_as_base64() -> None:
    document = record_document(Record(7, 5, None, b"\xff\x00"))
    assert document == {
        "offset": 7,
        "timestamp": 5,
        "key": None,
        "key_encoding": None,
        "value": "/wA=",
        "value_encoding": "base64",
        "headers": [],
    }


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [(-1, "-"), (0, "1970-01-01T00:00:00.000Z"), (1_500, "1970-01-01T00:00:01.500Z"), (2**62, str(2**62))],
)
def test_timestamp_is_shown_as_people_read_it(timestamp_ms: int, text: str) -> None:
    assert timestamp_text(timestamp_ms) == text


def test_bootstrap_is_a_list_of_addresses() -> None:
    assert parse_bootstrap("a:1, [::1]:2") == ["a:1", "[::1]:2"]
    with pytest.raises(InvalidConfig):
        parse_bootstrap("a:1,,b:2")
