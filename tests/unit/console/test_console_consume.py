"""``quorate consume`` on a real consumer, against a node in memory."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from quorate.console import silence
from quorate.console.main import main
from quorate.console.session import Session
from tests.unit.client.fake_log_broker import TIMESTAMP
from tests.unit.console.fake_node import FakeNode

Capture = pytest.CaptureFixture[bytes]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """Two partitions: three records in the first, none in the other."""
    node = FakeNode(partitions=2).install(monkeypatch)
    node.topics["t"].partitions[0].append(b"a", b"b", b"c")
    return node


def consume(capfdbinary: Capture, *options: str) -> list[bytes]:
    assert main(["consume", "t", *options]) == 0
    return capfdbinary.readouterr().out.splitlines()


def test_records_up_to_the_end_are_printed_and_no_more(node: FakeNode, capfdbinary: Capture) -> None:
    assert consume(capfdbinary, "--exit-at-end") == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("start", "values"),
    [
        ("beginning", [b"a", b"b", b"c"]),
        ("1", [b"b", b"c"]),
        ("3", []),
        ("end", []),
        ("2999-01-01", []),
        ("-1h", []),
        ("-36500d", [b"a", b"b", b"c"]),
    ],
)
def test_reading_begins_where_it_is_told_to(
    node: FakeNode, capfdbinary: Capture, start: str, values: list[bytes]
) -> None:
    assert consume(capfdbinary, "--partition", "0", "--from", start, "--exit-at-end") == values


def test_record_is_told_where_output_is_not_utf8(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.topics["t"].partitions[0].append("é".encode())
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    assert main(["consume", "t", "--from", "3", "--partition", "0", "--max", "1", "--output", "json"]) == 0
    assert isinstance(output.buffer, io.BytesIO)
    assert json.loads(output.buffer.getvalue().decode("ascii"))["value"] == "é"


@pytest.mark.parametrize("start", ["beginning", "0", "2000-01-01"])
def test_so_many_records_are_enough(node: FakeNode, capfdbinary: Capture, start: str) -> None:
    assert consume(capfdbinary, "--partition", "0", "--from", start, "--max", "2") == [b"a", b"b"]


def test_record_is_told_with_its_place(node: FakeNode, capfdbinary: Capture) -> None:
    [line] = consume(capfdbinary, "--from", "beginning", "--max", "1", "--output", "json")
    told: dict[str, Any] = json.loads(line)
    assert told["topic"] == "t"
    assert (told["partition"], told["offset"], told["value"]) == (0, 0, "a")
    assert told["leader_epoch"] == 1
    assert told["timestamp"] >= TIMESTAMP


@pytest.mark.parametrize(("start", "status"), [("3", 0), ("4", 1), ("999", 1)])
def test_start_beyond_the_end_is_refused_though_there_is_nothing_to_read(
    node: FakeNode, capsys: pytest.CaptureFixture[str], start: str, status: int
) -> None:
    assert main(["consume", "t", "--partition", "0", "--from", start, "--exit-at-end"]) == status
    assert ("OFFSET_OUT_OF_RANGE" in capsys.readouterr().err) == (status == 1)


def test_start_beyond_the_end_is_refused_by_the_leader(
    node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["consume", "t", "--partition", "0", "--from", "999", "--max", "1"]) == 1
    error, advice = capsys.readouterr().err.splitlines()
    assert error.startswith("error: OFFSET_OUT_OF_RANGE: there is no offset 999: t-0 ")
    assert error.endswith("ends at 3")
    assert "--from" in advice


async def test_silence_of_all_brokers_and_its_end_are_told_once_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "_SILENCE_S", 0.0)
    watch = silence.Silence(Session())
    for fetches in (1, 1, 1, 2, 3):
        watch.look(fetches, has_read=False)
    told, end = capsys.readouterr().err.splitlines()
    assert told.startswith("no broker has answered")
    assert end == "brokers answer again"


async def test_member_that_has_nothing_to_read_hears_it_once_and_nothing_of_brokers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "_SILENCE_S", 0.0)
    watch = silence.Silence(Session())
    assert [watch.has_nothing_to_read() for _ in range(4)] == [False, True, False, False]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [["nope"], ["t", "--partition", "2"]])
def test_topic_or_partition_that_is_not_there_is_told(
    node: FakeNode, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["consume", *arguments]) == 1
    assert "error: UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err
