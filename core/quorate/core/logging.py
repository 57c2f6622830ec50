"""Logs: events with fields, never sentences.

``log.info("isr_shrunk", partition=tp, leader_epoch=7, removed=[3])`` is one JSON object per line on a
server, and one readable, coloured line on a terminal. Both go to standard error, so that standard
output belongs to what a command was asked for. What grpc, asyncio and others say through the standard
library's ``logging`` passes through the same pipeline and looks the same.

A program calls ``configure_logging`` once. Where nobody does, because Quorate is a library in somebody
else's process, events go to the standard library's loggers under their names (``quorate.…``), and that
process decides; structlog's own default would print everything on standard output.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from enum import StrEnum
from typing import Any, Final, TextIO, TypeAlias, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from quorate.core.ids import TopicPartition
from quorate.core.log_flood import FloodGuard
from quorate.core.standard_streams import forget_stream

__all__ = [
    "LogLevel",
    "OnEvent",
    "configure_logging",
    "forget_what_was_not_written",
    "get_logger",
    "number_request",
]


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


#: told of the level and the fields of an event
OnEvent: TypeAlias = Callable[[str, Mapping[str, Any]], None]

_LEVELS: Final = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
#: Not one of structlog's: a number is given to every call, and few of them write anything.
_request_number: Final[ContextVar[int | None]] = ContextVar("request_number", default=None)
#: From somewhere of this process's own: logs of all nodes are searched together, and counted from 1 each of
#: them, and each start of one, would have the same numbers. Six bytes: some readers of JSON know none above
#: 2**53.
_request_numbers: Final = itertools.count(int.from_bytes(os.urandom(6), "big"))
#: structlog keeps the field name "logger" for itself until the event is on its way
_LOGGER_KEY: Final = "_logger"


def configure_logging(
    *,
    json: bool | None = None,
    level: LogLevel = LogLevel.INFO,
    on_event: OnEvent | None = None,
    flood: FloodGuard | None = None,
    on_unwritten: Callable[[], None] | None = None,
) -> None:
    """Send every event from ``level`` up to standard error.

    ``json=None`` chooses: colours on a terminal, else JSON lines. ``on_event`` is told the level and the
    fields of every event from info up, whether or not it is written. ``flood`` leaves out what repeats.
    ``on_unwritten`` is told of each event that standard error did not take.
    """
    threshold = logging.getLevelNamesMapping()[level.name]
    as_json = not sys.stderr.isatty() if json is None else json
    common, rendering = _common_steps(), _rendering_steps(as_json=as_json)
    heard = threshold if on_event is None else min(threshold, logging.INFO)
    # Standard error is looked up at each write: a test, or a daemon, may replace it at any time.
    stream = cast(TextIO, _StandardError(on_unwritten))
    structlog.configure(
        processors=[*_choosing_steps(threshold, on_event, flood), *common, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(heard),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *common],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    if flood is not None:
        handler.addFilter(flood.filter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)


def forget_what_was_not_written() -> None:
    """At the end of a process: if nobody takes its last lines, its exit status would not be its own."""
    try:
        sys.stderr.flush()
    except OSError:
        forget_stream(sys.stderr)


def get_logger(name: str, **bound: Any) -> FilteringBoundLogger:
    """``name`` is the module's; ``bound`` goes into each of the logger's events."""
    logger: FilteringBoundLogger = structlog.get_logger(name, **{_LOGGER_KEY: name}, **bound)
    return logger


def number_request() -> int:
    """From here on in this task, and in those that it starts, events are about a request of this number."""
    number = next(_request_numbers)
    _request_number.set(number)
    return number


class _StandardError:
    """A whole event at a time, written or counted: what it raised would end whoever has something to tell."""

    def __init__(self, on_unwritten: Callable[[], None] | None) -> None:
        self._on_unwritten = on_unwritten

    def write(self, text: str) -> int:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            if self._on_unwritten is not None:
                self._on_unwritten()
        return len(text)

    def flush(self) -> None:
        """Each event was, when it was written."""


def _choosing_steps(
    threshold: int, on_event: OnEvent | None, flood: FloodGuard | None
) -> Iterator[Processor]:
    """Who hears of an event, and whether it is written."""

    def tell(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
        level = "error" if method == "exception" else method
        if on_event is not None and _LEVELS[level] >= logging.INFO:
            on_event(level, event)
        if _LEVELS[level] < threshold:
            raise structlog.DropEvent
        return event

    def hold_back(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
        assert flood is not None
        if method == "debug":
            return event
        left_out = flood.admit_event(event, level=method)
        if left_out is None:
            raise structlog.DropEvent
        if left_out:
            event["repeats_left_out"] = left_out
        return event

    if on_event is not None:
        yield tell
    if flood is not None:
        yield hold_back


def _common_steps() -> Sequence[Processor]:
    return (
        structlog.contextvars.merge_contextvars,
        _name_the_request,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _name_the_logger,
        _name_partitions,
    )


def _rendering_steps(*, as_json: bool) -> Sequence[Processor]:
    if not as_json:
        # Not rich's tracebacks, structlog's default: they print the values of local variables.
        return (
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        )
    return (
        structlog.processors.format_exc_info,
        _lead_with_the_event,
        structlog.processors.JSONRenderer(ensure_ascii=False),
    )


def _name_the_request(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    number = _request_number.get()
    if number is not None:
        event.setdefault("request_id", number)
    return event


def _name_the_logger(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    if _LOGGER_KEY in event:
        event["logger"] = event.pop(_LOGGER_KEY)
    return event


def _drop_the_logger(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """The standard library's record has it already."""
    event.pop(_LOGGER_KEY, None)
    return event


def _name_partitions(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """As people write them; a tuple would come out as a JSON array."""
    for key, value in event.items():
        if isinstance(value, TopicPartition):
            event[key] = str(value)
    return event


def _leave_traceback_to_the_library(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Of ``exception``, the standard library's logger of the same name adds it; twice is once too often."""
    if method == "exception":
        event.pop("exc_info", None)
    return event


def _lead_with_the_event(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    leading = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    return {**leading, **event}


if not structlog.is_configured():
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            _drop_the_logger,
            _name_partitions,
            _leave_traceback_to_the_library,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"], drop_missing=True),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
