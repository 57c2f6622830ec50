"""Many records of one call, as columns: checked, measured, sorted by partition, put into batches.

There is no object for any of the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from quorate.client.arguments import shown
from quorate.client.producer.accumulator import Accumulator, Placed, Run, TopicQueues
from quorate.client.producer.buffer import Ticket
from quorate.client.producer.delivery import Delivery
from quorate.client.producer.options import Serializer
from quorate.client.producer.record_values import HeadersArgument, as_bytes, as_headers
from quorate.core.records import (
    EncodableHeaders,
    are_plain_fields,
    picked,
    record_ends,
    rows_by_partition,
)
from quorate.errors import InvalidRecord, QuorateError
from quorate.v1 import broker_pb2

__all__ = ["Columns", "Placement", "Plan", "columns_of", "plan"]


class Columns(NamedTuple):
    values: list[bytes | None]
    keys: list[bytes | None] | None
    headers: list[EncodableHeaders] | None


class Plan(NamedTuple):
    #: the partition may be None: wherever records without a key go
    runs: list[tuple[int | None, Run]]
    #: which records each run has, by index; None: there is one run with all of them, in order
    indices: list[list[int]] | None


def columns_of(
    values: Iterable[Any],
    keys: Iterable[Any] | None,
    headers: Iterable[HeadersArgument] | None,
    *,
    key_serializer: Serializer | None,
    value_serializer: Serializer | None,
) -> Columns:
    _check_column("values", values)
    if keys is not None:
        _check_column("keys", keys)
    if headers is not None:
        _check_column("headers", headers)
    value_column = _byte_column("value", values, value_serializer)
    key_column = None if keys is None else _byte_column("key", keys, key_serializer)
    header_column = None if headers is None else [as_headers(each) for each in headers]
    for name, column in (("keys", key_column), ("headers", header_column)):
        if column is not None and len(column) != len(value_column):
            raise InvalidRecord(f"{len(column)} {name} for {len(value_column)} values")
    return Columns(value_column, key_column, header_column)


def plan(
    columns: Columns, topic: TopicQueues, partition: int | None, timestamp_ms: int, accumulator: Accumulator
) -> Plan:
    """Where the records go."""
    if partition is not None or (columns.keys is None and not accumulator.has_own_partitioner):
        return Plan([(partition, _run(columns, timestamp_ms))], None)
    if accumulator.has_own_partitioner:
        groups: dict[int, list[int]] = {}
        for row, key in enumerate(columns.keys or [None] * len(columns.values)):
            groups.setdefault(accumulator.partition_for(topic, key), []).append(row)
    else:
        assert columns.keys is not None
        groups = rows_by_partition(columns.keys, topic.partition_count)
    runs = [
        (None if chosen < 0 else chosen, _run(_picked(columns, rows), timestamp_ms))
        for chosen, rows in groups.items()
    ]
    return Plan(runs, list(groups.values()))


class Placement:
    """Puts the records of a plan into batches, as room allows; how to wait for room is the caller's."""

    def __init__(
        self,
        accumulator: Accumulator,
        topic: TopicQueues,
        planned: Plan,
        acks: broker_pb2.Acks,
        expected_offset: int | None,
    ) -> None:
        self._accumulator = accumulator
        self._topic = topic
        self._plan = planned
        self._acks = acks
        self._expected_offset = expected_offset
        self._placed: list[Placed] = []
        #: the run that is being placed, and how many of its records are
        self._current = 0
        self._start = 0

    def place(self, ticket: Ticket | None = None) -> int | None:
        """How much room the next records need, to come back with a ticket for it; None: all are placed."""
        while self._current < len(self._plan.runs):
            partition, run = self._plan.runs[self._current]
            while self._start < len(run.ends):
                found = self._append(partition, run, ticket)
                if found is None:
                    return self._accumulator.run_bytes(run, self._start, self._expected_offset)
                self._placed.append(found)
                self._start += found.records
                ticket = None
            self._next_run()
        return None

    def refuse(self, error: QuorateError) -> None:
        """No room came: the rest of the run is not sent. The next one may fare better."""
        partition, run = self._plan.runs[self._current]
        queue = self._topic.queues[partition or 0]
        self._placed.append(self._accumulator.refused(queue, run, self._start, error))
        self._next_run()

    def delivery(self) -> Delivery:
        return Delivery(self._placed, self._plan.indices)

    def _append(self, partition: int | None, run: Run, ticket: Ticket | None) -> Placed | None:
        try:
            return self._accumulator.append_run(
                self._topic, partition, run, self._start, self._acks, self._expected_offset, ticket
            )
        except BaseException:
            if ticket is not None:
                self._accumulator.leave(ticket)
            raise

    def _next_run(self) -> None:
        self._current += 1
        self._start = 0


def _check_column(name: str, given: object) -> None:
    # Text is a sequence of characters, and a mapping one of its keys: hardly what was meant.
    if isinstance(given, str | bytes | bytearray | memoryview | Mapping) or not isinstance(given, Iterable):
        raise InvalidRecord(f"{name} is {shown(given)}: a list is expected, with one item for each record")


def _byte_column(what: str, column: Iterable[Any], serializer: Serializer | None) -> list[bytes | None]:
    listed = column if type(column) is list else list(column)
    if serializer is None and are_plain_fields(listed):
        return listed
    return [as_bytes(what, each, serializer) for each in listed]


def _picked(columns: Columns, rows: list[int]) -> Columns:
    values, keys, headers = columns
    return Columns(
        picked(values, rows),
        None if keys is None else picked(keys, rows),
        None if headers is None else picked(headers, rows),
    )


def _run(columns: Columns, timestamp_ms: int) -> Run:
    return Run(*columns, timestamp_ms, record_ends(*columns))
