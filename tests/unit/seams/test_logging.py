"""One event, one line: JSON for machines, colours for people, the same pipeline for everyone's logs."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.core.logging import LogLevel, configure_logging, get_logger, number_request


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configuration = structlog.get_config()
    yield
    structlog.configure(**configuration)
    root.handlers[:] = handlers
    root.setLevel(level)


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


async def test_events_of_a_request_have_its_number_and_those_of_others_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(json=True)
    log = get_logger("quorate.test")

    async def serve() -> int:
        number = number_request()
        log.info("asked")
        await asyncio.create_task(asyncio.to_thread(log.info, "passed_on"))
        return number

    first, second = await asyncio.create_task(serve()), await asyncio.create_task(serve())
    log.info("nobody_asked")
    assert first != second
    found = [(event["event"], event.get("request_id")) for event in events(capsys)]
    assert found == [
        ("asked", first),
        ("passed_on", first),
        ("asked", second),
        ("passed_on", second),
        ("nobody_asked", None),
    ]


def test_event_is_one_json_object_with_time_level_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    tp = TopicPartition(TopicName("orders"), PartitionId(3))
    log = get_logger("quorate.broker.partition", node=1).bind(partition=tp)
    log.info("isr_shrunk", leader_epoch=7, removed=[3], note="zwei\nZeilen")
    (event,) = events(capsys)
    assert list(event)[:3] == ["timestamp", "level", "event"]
    moment = datetime.fromisoformat(event.pop("timestamp"))
    assert moment.utcoffset() == timedelta(0)
    assert event == {
        "level": "info",
        "event": "isr_shrunk",
        "logger": "quorate.broker.partition",
        "node": 1,
        "partition": "orders-3",
        "leader_epoch": 7,
        "removed": [3],
        "note": "zwei\nZeilen",
    }


def test_exception_is_text_inside_its_event(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=True)
    log = get_logger("quorate.test")
    try:
        raise OSError(28, "No space left on device")
    except OSError:
        log.exception("append_failed", offset=5)
    (event,) = events(capsys)
    assert (event["event"], event["level"], event["offset"]) == ("append_failed", "error", 5)
    assert event["exception"].startswith("Traceback (most recent call last):\n")
    assert "No space left on device" in event["exception"]


def test_standard_library_logging_takes_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=True)
    logging.getLogger("grpc._channel").warning("connection to %s lost", "127.0.0.1:1")
    try:
        raise KeyError("x")
    except KeyError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    lost, failed = events(capsys)
    assert lost.pop("timestamp") <= failed["timestamp"]
    assert lost == {"level": "warning", "event": "connection to 127.0.0.1:1 lost", "logger": "grpc._channel"}
    assert (failed["level"], failed["logger"]) == ("error", "asyncio")
    assert "KeyError: 'x'" in failed["exception"]


@pytest.mark.parametrize(
    ("level", "expected"),
    [(LogLevel.DEBUG, 4), (LogLevel.INFO, 3), (LogLevel.WARNING, 2), (LogLevel.ERROR, 1)],
)
def test_level_holds_for_both_kinds_of_loggers(
    capsys: pytest.CaptureFixture[str], level: LogLevel, expected: int
) -> None:
    configure_logging(json=True, level=level)
    for log in (get_logger("quorate.test"), logging.getLogger("other")):
        log.debug("one")
        log.info("two")
        log.warning("three")
        log.error("four")
    assert len(events(capsys)) == 2 * expected


def test_fields_that_json_does_not_know_do_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=True)
    get_logger("quorate.test").info("odd", raw=b"\xff", kind=ValueError("x"), event_loop=object)
    (event,) = events(capsys)
    assert event["raw"] == "b'\\xff'"


def test_terminal_gets_colours_and_readable_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    configure_logging()
    get_logger("quorate.test").warning("disk_slow", seconds=3)
    logging.getLogger("asyncio").error("stuck")
    first, second = terminal.getvalue().splitlines()
    assert "\x1b[" in first
    assert "disk_slow" in first
    assert "\x1b[" in second
    assert "stuck" in second


def test_readable_lines_can_be_asked_for_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=False)
    get_logger("quorate.test").warning("disk_slow", seconds=3)
    line = capsys.readouterr().err
    assert "disk_slow" in line
    assert "\x1b[" not in line


def test_traceback_on_a_terminal_tells_no_values(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=False)
    password = "hunter2"
    try:
        raise ValueError(len(password))
    except ValueError:
        get_logger("quorate.test").exception("failed")
    text = capsys.readouterr().err
    assert "ValueError: 7" in text
    assert text.count("hunter2") == 0


def test_library_use_tells_an_exception_once() -> None:
    code = (
        "from quorate.core.logging import get_logger\n"
        "try:\n    raise ValueError('mine')\n"
        "except ValueError:\n    get_logger('x').exception('failed')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("event='failed'\n")
    assert done.stderr.count("ValueError: mine") == 1


def test_library_use_leaves_output_to_the_host_program() -> None:
    program = """
import logging, sys
from quorate.core.logging import get_logger
log = get_logger("quorate.client", node=1)
log.info("quiet")
log.warning("told", name="any field name will do", args=2)
logging.basicConfig(stream=sys.stdout, format="%(name)s|%(levelname)s|%(message)s", level=logging.DEBUG)
log.debug("routed")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "quorate.client|DEBUG|event='routed' node=1\n"
    assert result.stderr.splitlines() == ["event='told' node=1 name='any field name will do' args=2"]


def test_numbers_of_requests_are_those_of_one_process() -> None:
    """Logs of all nodes are searched together, and those of a node from before its last start, too."""
    code = "from quorate.core.logging import number_request as n; print(n(), n(), n())"
    told = [
        [int(number) for number in subprocess.check_output([sys.executable, "-c", code]).split()]
        for _ in range(2)
    ]
    for first, second, third in told:
        assert (second, third) == (first + 1, first + 2)
        assert first < 1 << 53, "some readers of JSON know no larger ones"
    assert not set(told[0]) & set(told[1])


#: logs by both kinds of loggers, goes on, and says how many events were not written
TELLS_WHAT_IT_DOES = """
import logging
from quorate.core.logging import configure_logging, forget_what_was_not_written, get_logger
unwritten = []
configure_logging(json=True, on_unwritten=lambda: unwritten.append(1))
get_logger("quorate.test").warning("told", text="x" * 9_000)
logging.getLogger("asyncio").error("told, too")
print(len(unwritten))
forget_what_was_not_written()
"""


def test_event_that_the_disk_has_no_room_for_is_counted_and_ends_nobody() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", TELLS_WHAT_IT_DOES], stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert (done.returncode, done.stdout) == (0, b"2\n")


def test_event_that_nobody_reads_any_more_is_counted_and_ends_nobody() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", TELLS_WHAT_IT_DOES], stdout=subprocess.PIPE, stderr=writer, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stdout) == (0, b"2\n")


def test_events_that_are_written_are_not_counted_as_unwritten() -> None:
    done = subprocess.run([sys.executable, "-c", TELLS_WHAT_IT_DOES], capture_output=True, check=True)
    assert done.stdout == b"0\n"
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["told", "told, too"]
