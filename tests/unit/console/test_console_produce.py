"""``quorate produce`` on a real producer, against a node in memory."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.console import producing
from quorate.console.main import main
from quorate.errors import BatchTooLarge, QuorateError, RequestTimedOut
from quorate.v1 import broker_pb2
from tests.unit.console.fake_node import FakeNode

LIMIT = 1_000

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    node = FakeNode(partitions=2, max_message_bytes=LIMIT).install(monkeypatch)
    node.refuse = lambda asked: BatchTooLarge("too large") if len(asked.batch) > LIMIT else None
    return node


@pytest.fixture
def produce(tmp_path: Path) -> Callable[..., int]:
    def run(content: bytes, *options: str) -> int:
        path = tmp_path / "lines"
        path.write_bytes(content)
        return main(["produce", "t", "--file", str(path), *options])

    return run


def results(capsys: Capsys) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_lines_are_split_into_batches_below_the_topics_limit(
    node: FakeNode, produce: Callable[..., int], compression: str
) -> None:
    lines = [b"%d:" % number + bytes(range(11, 211)) for number in range(50)]
    assert produce(b"\n".join(lines), "--partition", "0", "--compression", compression) == 0
    assert node.values() == lines
    assert len(node.produced) > 1


def test_each_line_has_its_result_in_the_order_of_the_lines(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys
) -> None:
    assert produce(b"a:1\nb:2\na:3\n", "--key-separator", ":", "--output", "json") == 0
    told = results(capsys)
    assert [each["line"] for each in told] == [1, 2, 3]
    assert told[0] == {"line": 1, "topic": "t", "partition": told[2]["partition"], "offset": 0, "error": None}
    assert told[2]["offset"] > told[0]["offset"]


def test_single_line_above_the_limit_is_refused_by_number_after_those_before_it(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys
) -> None:
    assert produce(b"a\nb\n" + b"x" * (LIMIT - 10) + b"\nc\n", "--partition", "0") == 1
    assert node.values()[:2] == [b"a", b"b"]
    summary, error, _ = capsys.readouterr().err.splitlines()
    assert summary.startswith("3 record(s) acknowledged (lines 1..2, and some after them)")
    assert error.startswith("error: MESSAGE_TOO_LARGE: line 3: ")


def test_line_that_can_be_no_record_is_not_read_to_its_end(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys
) -> None:
    assert produce(b"a\nb\n" + b"x" * (1 << 20), "--partition", "0") == 1
    assert node.values() == [b"a", b"b"]
    summary, error, _ = capsys.readouterr().err.splitlines()
    assert summary == "2 record(s) acknowledged (lines 1..2)"
    assert error.startswith("error: MESSAGE_TOO_LARGE: line 3 ")


def test_long_line_that_compresses_well_is_legal(node: FakeNode, produce: Callable[..., int]) -> None:
    assert produce(b"x" * 100 * LIMIT, "--compression", "gzip") == 0
    assert node.values() == [b"x" * 100 * LIMIT]


def test_lines_before_one_without_a_key_are_written(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys
) -> None:
    assert produce(b"k:a\nk:b\nnone\nk:c\n", "--key-separator", ":", "--quiet") == 1
    assert node.values() == [b"a", b"b"]
    summary, error, _ = capsys.readouterr().err.splitlines()
    assert summary == "2 record(s) acknowledged (lines 1..2)"
    assert error.startswith("error: INVALID_RECORD: line 3 has no key")


def test_lines_of_other_partitions_are_told_beside_one_that_fails(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys
) -> None:
    node.refuse = lambda asked: BatchTooLarge("no") if asked.partition == 0 else None
    lines = [f"{key}:{key}" for key in range(20)]
    assert produce("\n".join(lines).encode(), "--key-separator", ":", "--output", "json") == 1
    told = results(capsys)
    assert len(told) == 20
    assert {each["partition"] for each in told if each["error"]} == {0}
    assert {each["partition"] for each in told if not each["error"]} == {1}
    [error] = {json.dumps(each["error"]) for each in told if each["error"]}
    told_error = json.loads(error)
    assert told_error.keys() == {"code", "message", "outcome_unknown"}
    assert (told_error["code"], told_error["outcome_unknown"]) == ("MESSAGE_TOO_LARGE", False)


def test_record_that_may_be_written_is_called_so(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys
) -> None:
    node.refuse = lambda _asked: RequestTimedOut("no answer")
    assert produce(b"a\nb\n", "--timeout", "0.2", "--output", "json") == 1
    printed = capsys.readouterr()
    errors = [json.loads(line)["error"] for line in printed.out.splitlines()]
    assert [error["outcome_unknown"] for error in errors] == [True, True]
    summary, error = printed.err.splitlines()
    assert summary == "0 record(s) acknowledged; 2 more may be in the log"
    told = json.loads(error)["error"]
    assert told.keys() == {"code", "message", "retriable", "what_to_do"}
    assert told["code"] == "DELIVERY_TIMED_OUT"
    assert told["message"].startswith("line 1: ")


def test_line_that_is_no_record_has_its_document_too(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys
) -> None:
    assert produce(b"k:a\nnone\n", "--key-separator", ":", "--output", "json") == 1
    first, second = results(capsys)
    assert (first["line"], first["error"]) == (1, None)
    assert (second["line"], second["offset"]) == (2, None)
    assert second["error"]["code"] == "INVALID_RECORD"
    assert second["error"]["outcome_unknown"] is False


def test_long_wait_for_acknowledgements_is_told_once(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producing, "_PATIENCE_S", 0.01)
    node.refuse = lambda _asked: RequestTimedOut("no answer")
    assert produce(b"a\nb\n", "--timeout", "0.3") == 1
    assert capsys.readouterr().err.count("still trying") == 1


def test_interrupted_lines_that_may_be_written_are_counted(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_asked: object) -> QuorateError:
        node.refuse = lambda _asked: RequestTimedOut("no answer")
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        return RequestTimedOut("no answer")

    monkeypatch.setattr(producing, "_GRACE_S", 0.01)
    node.refuse = interrupt
    assert produce(b"a\nb\n") == 130
    assert capsys.readouterr().err.rstrip() == "0 record(s) acknowledged; 2 more may be in the log"


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (BrokenPipeError(32, "gone"), 1)])
def test_what_was_acknowledged_is_told_however_it_ends(
    node: FakeNode,
    produce: Callable[..., int],
    capsys: Capsys,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
) -> None:
    def print_nothing(_document: object) -> None:
        raise error

    monkeypatch.setattr(producing, "forget_standard_output", lambda: None)
    monkeypatch.setattr(producing, "print_json_line", print_nothing)
    assert produce(b"a\nb\n", "--output", "json") == status
    assert "2 record(s) acknowledged (lines 1..2)" in capsys.readouterr().err


def test_records_without_acknowledgement_are_not_called_acknowledged(
    node: FakeNode, produce: Callable[..., int], capsys: Capsys
) -> None:
    assert produce(b"a\n", "--acks", "0") == 0
    assert [request.acks for request in node.produced] == [broker_pb2.ACKS_NONE]
    assert capsys.readouterr().err == "1 record(s) sent (lines 1..1) in t\n"


@pytest.mark.parametrize("arguments", [["nope"], ["t", "--partition", "2"]])
def test_topic_or_partition_that_is_not_there_is_refused_at_once(
    node: FakeNode, capsys: Capsys, arguments: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n")
    assert main(["produce", *arguments, "--file", str(path)]) == 1
    assert "error: UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err
