"""A tiny model of partitions that keep their promises, clients of them, and what spoils a history.

Records are appended in the order in which they arrive, and are committed at once on all replicas. Producers
have several records on their way; an outcome comes later than the append, or is never heard. Readers poll,
are restarted, and reach the end. Nothing here knows of the checks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.final_state import CopyOfLog, FinalPartition, FinalState
from quorate.chaos.history.entries import Acks, Assignment, Sent
from quorate.chaos.history.history import History
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import DeliveryTimedOut, NotEnoughReplicas
from tests.unit.chaos_checks.planted import Ticking, consumer_record

__all__ = ["LogWorld", "flagged"]

_PARTITIONS: Final = tuple(TopicPartition(TopicName("t"), PartitionId(number)) for number in range(2))
_PRODUCERS: Final = ("a", "b", "c")
#: the last one is sent with acks=1
_WEAK: Final = "c"
_REPLICAS: Final = ("broker-1", "broker-2", "broker-3")
_POLL_RECORDS_MAX: Final = 5


@dataclass
class _Reader:
    assignment: Assignment
    positions: dict[TopicPartition, int]


@dataclass
class _OnTheirWay:
    """Of one producer to one partition: in order, as an idempotent producer's are."""

    to_append: list[Sent] = field(default_factory=list)
    to_acknowledge: list[tuple[Sent, Offset]] = field(default_factory=list)


class LogWorld:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.clock = Ticking()
        self.history = History(self.clock)
        self.logs: dict[TopicPartition, list[bytes]] = {partition: [] for partition in _PARTITIONS}
        self._ways = {
            (producer, partition): _OnTheirWay() for producer in _PRODUCERS for partition in _PARTITIONS
        }
        self._readers = [self._assign(f"reader-{number}", dict.fromkeys(_PARTITIONS, 0)) for number in (0, 1)]

    def live(self, steps: int) -> None:
        actions = (self._send, self._append, self._append, self._answer, self._answer, self._poll, self._look)
        for _ in range(steps):
            self.rng.choice(actions)()
            if self.rng.random() < 0.02:
                self._restart_reader()
        while any(way.to_append or way.to_acknowledge for way in self._ways.values()):
            self._append()
            self._answer()
        self._read_everything()

    # -- producers

    def _send(self) -> None:
        producer, partition = self.rng.choice(list(self._ways))
        acks: Acks = "1" if producer == _WEAK else "all"
        sent = self.history.begin(producer, partition, acks=acks)
        self._ways[producer, partition].to_append.append(sent)

    def _append(self) -> None:
        ways = [way for way in self._ways.values() if way.to_append]
        if not ways:
            return
        way = self.rng.choice(ways)
        sent = way.to_append.pop(0)
        fate = self.rng.random()
        if fate < 0.1:
            self.history.fail(sent, NotEnoughReplicas("refused"))
        elif fate < 0.15:
            self.history.fail(sent, DeliveryTimedOut("lost on the way there"))
        else:
            log = self.logs[sent.partition]
            log.append(sent.value)
            way.to_acknowledge.append((sent, Offset(len(log) - 1)))

    def _answer(self) -> None:
        ways = [way for way in self._ways.values() if way.to_acknowledge]
        if not ways:
            return
        sent, offset = self.rng.choice(ways).to_acknowledge.pop(0)
        fate = self.rng.random()
        if fate < 0.1:
            self.history.fail(sent, DeliveryTimedOut("lost on the way back"))
        elif fate > 0.05:
            self.history.acknowledge(sent, offset)

    # -- readers

    def _assign(self, name: str, positions: dict[TopicPartition, int]) -> _Reader:
        starts = {partition: Offset(offset) for partition, offset in positions.items()}
        return _Reader(self.history.assign(name, starts), positions)

    def _poll(self) -> None:
        self._poll_with(self.rng.choice(self._readers), self.rng.randint(1, _POLL_RECORDS_MAX))

    def _poll_with(self, reader: _Reader, records_max: int) -> None:
        polled = []
        for partition, position in reader.positions.items():
            values = self.logs[partition][position : position + records_max]
            polled += [
                consumer_record(partition, position + number, value) for number, value in enumerate(values)
            ]
            reader.positions[partition] += len(values)
        self.history.polled(reader.assignment, polled)

    def _restart_reader(self) -> None:
        number = self.rng.randrange(len(self._readers))
        before = self._readers[number]
        positions = before.positions if self.rng.random() < 0.5 else dict.fromkeys(_PARTITIONS, 0)
        self._readers[number] = self._assign(before.assignment.reader, dict(positions))

    def _read_everything(self) -> None:
        reader = self._assign("last reader", dict.fromkeys(_PARTITIONS, 0))
        while any(reader.positions[partition] < len(log) for partition, log in self.logs.items()):
            self._poll_with(reader, 3 * _POLL_RECORDS_MAX)
        self.history.caught_up(reader.assignment)

    def _look(self) -> None:
        partition = self.rng.choice(_PARTITIONS)
        end = Offset(len(self.logs[partition]))
        self.history.saw_watermark(partition, end, begun_s=self.clock(), log_start_offset=Offset(0))

    # -- in the end

    def final_state(self) -> FinalState:
        return FinalState({partition: self._final(log) for partition, log in self.logs.items()})

    def _final(self, log: list[bytes]) -> FinalPartition:
        records = {Offset(offset): value for offset, value in enumerate(log)}
        copies = {name: CopyOfLog(records) for name in _REPLICAS}
        return FinalPartition(Offset(len(log)), records, copies)


def flagged(history: History, final: FinalState) -> set[str]:
    return {verdict.check for verdict in check_all(history, final) if not verdict.passed}
