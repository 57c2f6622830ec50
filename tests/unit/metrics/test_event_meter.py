"""What only the log is told of is counted from its events, whether or not they are written down."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from quorate.core.log_flood import FloodGuard
from quorate.core.logging import LogLevel, configure_logging, get_logger
from quorate.core.metrics import MetricSource
from quorate.node.metrics.event import EventMeter

TOPIC_ID = "kjsC393AC10vORG9EES1KA"
PATH = f"/data/orders.eu-7.{TOPIC_ID}/00000000000000000000.log"


def told(source: MetricSource, name: str) -> dict[tuple[str, ...], float]:
    [reading] = [each for each in source.read() if each.metric.name == f"quorate_event_{name}_total"]
    return {each.labels: each.value for each in reading.samples}


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configuration = structlog.get_config()
    yield
    structlog.configure(**configuration)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def meter() -> EventMeter:
    return EventMeter(FloodGuard(lambda: 0.0))


def test_damage_is_found_and_repaired_once_each(meter: EventMeter) -> None:
    meter.logged("error", {"event": "log_damaged", "path": PATH})
    assert told(meter, "damage_found") == {(): 1}
    for _ in range(2):
        meter.logged("info", {"event": "log_reset", "partition": "orders.eu-7"})
    assert told(meter, "damage_repaired") == {(): 1}


def test_log_that_is_reset_for_another_reason_was_not_damaged(meter: EventMeter) -> None:
    meter.logged("info", {"event": "log_reset", "partition": "orders.eu-7"})
    assert told(meter, "damage_repaired") == {(): 0}


def test_what_alerts_ask_for_is_counted_from_nothing(meter: EventMeter) -> None:
    """A series that begins at 1 has not grown, as far as increase() sees."""
    assert told(meter, "logged")["warning", "disk_full"] == 0
    meter.logged("warning", {"event": "disk_full"})
    assert told(meter, "logged")["warning", "disk_full"] == 1


def test_names_are_bounded(meter: EventMeter) -> None:
    for number in range(10_000):
        meter.logged("info", {"event": f"event_{number}"})
    assert len(told(meter, "logged")) == 500


@pytest.mark.usefixtures("restored_logging")
def test_events_are_counted_that_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    flood = FloodGuard(lambda: 0.0, written_per_window=2)
    meter = EventMeter(flood)
    configure_logging(json=True, level=LogLevel.WARNING, on_event=meter.logged, flood=flood)
    log = get_logger("quorate.test")
    log.debug("nobody_asked")
    log.info("isr_changed", partition="orders-0")
    for number in range(5):
        log.warning("connection_refused", address="here", attempt=number)
    written = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["event"] for each in written] == ["connection_refused"] * 2
    logged = {key: count for key, count in told(meter, "logged").items() if count}
    assert logged == {("info", "isr_changed"): 1, ("warning", "connection_refused"): 5}
    assert told(meter, "suppressed") == {(): 3}


def test_events_that_standard_error_did_not_take_are_counted_from_nothing(meter: EventMeter) -> None:
    assert told(meter, "unwritten") == {(): 0}
    meter.not_written()
    assert told(meter, "unwritten") == {(): 1}
