"""A log as a plain list of batches: what the real one is compared with.

``LogModel`` is a value. An operation on a log is, to the model, the sequence of states that the log
passes through, from *not begun* to *done*: its ``Stages``. While the operation is under way, and for
ever if the process dies in it or the disk is full, the log may be in any of them and in no other. So
one description of an operation serves all tests:

- it returned: the log is in the last stage;
- it was refused, or the process died: ``adopt`` says in which stage, or that there is none;
- the power failed: ``adopt_after_power_loss``; what was flushed is there, nothing was made up, and
  nothing that was refused or cut off has come back.

A comparison takes in all that a log holds: the bytes of its files, what reads return, the epochs and
the producers, the latter two derived from the model's batches by the tests' own code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from quorate.chaos.models.log.log_harness import ProducerImage, image_of, replay, split_batches
from quorate.core.records import parse_header, patch_header
from quorate.storage import PartitionLog

__all__ = ["LogModel", "Stages", "StoredBatch", "adopt", "adopt_after_power_loss", "stamped"]


class StoredBatch(NamedTuple):
    base_offset: int
    #: exclusive
    next_offset: int
    leader_epoch: int
    content: bytes

    @classmethod
    def of(cls, content: bytes) -> StoredBatch:
        header = parse_header(content)
        return cls(header.base_offset, header.next_offset, header.leader_epoch, content)


def stamped(batch: bytes, *, base_offset: int, leader_epoch: int) -> bytes:
    """The client's batch as a leader stores it."""
    content = bytearray(batch)
    patch_header(content, 0, base_offset=base_offset, leader_epoch=leader_epoch)
    return bytes(content)


class _Observation(NamedTuple):
    """Everything that can be seen of a log."""

    log_start_offset: int
    log_end_offset: int
    files: bytes
    readable: bytes
    epochs: list[tuple[int, int]]
    producers: dict[int, ProducerImage]


@dataclass(frozen=True, slots=True)
class LogModel:
    #: all since the log was empty, also those that retention has deleted: producers remember them
    batches: tuple[StoredBatch, ...] = ()
    #: inclusive: the first offset that may be read
    log_start_offset: int = 0
    #: where the batches that are still in files begin
    first_offset: int = 0
    #: on record for whatever comes next, although no batch has it yet (rule 6)
    noted_epoch: int | None = None
    #: exclusive: what is below survives a power loss
    flushed_offset: int = 0

    # -- what it holds

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.first_offset

    @property
    def in_files(self) -> tuple[StoredBatch, ...]:
        return tuple(batch for batch in self.batches if batch.base_offset >= self.first_offset)

    @property
    def readable(self) -> tuple[StoredBatch, ...]:
        return tuple(batch for batch in self.batches if batch.next_offset > self.log_start_offset)

    @property
    def last_batch_epoch(self) -> int:
        return self.batches[-1].leader_epoch if self.batches else -1

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, first offset) as the log must have them on record."""
        epochs = replay(_join(self.in_files)).epochs
        if self.noted_epoch is not None and self.noted_epoch != (epochs[-1][0] if epochs else -1):
            epochs.append((self.noted_epoch, self.log_end_offset))
        return epochs

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    @property
    def producers(self) -> dict[int, ProducerImage]:
        return replay(_join(self.batches)).producers

    def observation(self) -> _Observation:
        return _Observation(
            self.log_start_offset,
            self.log_end_offset,
            _join(self.in_files),
            _join(self.readable),
            self.epochs,
            self.producers,
        )

    # -- what is done to it

    def append(self, *contents: bytes) -> Stages:
        """Stamped batches, which go to the log in this order, one or several at a time."""
        stages = [self]
        for content in contents:
            batches = (*stages[-1].batches, StoredBatch.of(content))
            stages.append(replace(stages[-1], batches=batches, noted_epoch=None))
        return tuple(stages)

    def lead(self, leader_epoch: int) -> Stages:
        return self, replace(self, noted_epoch=leader_epoch)

    def flush(self) -> Stages:
        return self, replace(self, flushed_offset=self.log_end_offset)

    def truncate(self, offset: int) -> Stages:
        """The newest batches go first, one segment or all of the last ones at a time."""
        keep = sum(batch.next_offset <= offset for batch in self.batches)
        end = self._keep(keep).log_end_offset
        # A log start within a batch that goes is lowered before it goes.
        begun = replace(self, log_start_offset=min(self.log_start_offset, end))
        return self, begun, *(self._keep(count) for count in range(len(self.batches), keep - 1, -1))

    def _keep(self, count: int) -> LogModel:
        shorter = replace(self, batches=self.batches[:count], noted_epoch=None)
        end = shorter.log_end_offset
        return replace(
            shorter,
            flushed_offset=min(self.flushed_offset, end),
            log_start_offset=min(self.log_start_offset, end),
        )

    def raise_log_start(self, offset: int) -> Stages:
        """Which files go with it is the log's affair, as long as what may be read stays."""
        return self, replace(self, log_start_offset=max(self.log_start_offset, offset))

    def reset(self, offset: int) -> Stages:
        return self, LogModel(log_start_offset=offset, first_offset=offset, flushed_offset=offset)

    # -- what a death does to it

    def recovered(self) -> LogModel:
        """An epoch without a batch is forgotten: whoever leads next has a new one."""
        return replace(self, noted_epoch=None)

    def remainders(self) -> Iterator[LogModel]:
        """What a power loss may leave: all that was flushed, and perhaps some of what came after."""
        for count in range(len(self.batches), -1, -1):
            left = replace(self, batches=self.batches[:count])
            end = left.log_end_offset
            if end < self.flushed_offset:
                return
            if end < self.log_start_offset:
                # Not even the batch at the log start is there: the log begins anew, and knows of nobody.
                yield self.reset(self.log_start_offset)[-1]
                return
            yield replace(left, flushed_offset=end)

    def starting_at(self, first_offset: int) -> LogModel:
        """Files before ``first_offset`` are gone."""
        assert self.first_offset <= first_offset
        all_gone = self.first_offset < first_offset == self.log_end_offset
        # The epoch in force outlives its batches.
        noted = self.last_batch_epoch if all_gone and self.noted_epoch is None else self.noted_epoch
        return replace(self, first_offset=first_offset, noted_epoch=noted)


#: the states that a log passes through, from *not begun* to *done*
Stages: TypeAlias = tuple[LogModel, ...]


def _join(batches: Iterable[StoredBatch]) -> bytes:
    return b"".join(batch.content for batch in batches)


def _files_of(log: PartitionLog) -> bytes:
    """All that lies in the segments' files, counted by the log or not."""
    disk = log._state.context.disk
    return b"".join(disk.read_file(segment.path) for segment in log._state.segments)


def _observe(log: PartitionLog) -> _Observation:
    image = image_of(log)
    return _Observation(
        image.log_start_offset,
        image.log_end_offset,
        _files_of(log),
        image.batches,
        image.epochs,
        image.producers,
    )


def _first_offset_of(log: PartitionLog) -> int:
    return log._state.segments[0].base_offset


def adopt(stages: Sequence[LogModel], log: PartitionLog, *, after_crash: bool = False) -> LogModel:
    """The latest stage that the log is in; an assertion fails if it is in none."""
    observed = _observe(log)
    first_offset = _first_offset_of(log)
    for stage in reversed(stages):
        if stage.first_offset <= first_offset <= stage.log_start_offset:
            found = stage.starting_at(first_offset)
            found = found.recovered() if after_crash else found
            if found.observation() == observed:
                return found
    expected = "\n  or ".join(_describe(stage.observation()) for stage in stages)
    raise AssertionError(f"the log is\n     {_describe(observed)}\nand should be\n     {expected}")


def adopt_after_power_loss(stages: Sequence[LogModel], log: PartitionLog) -> LogModel:
    """As ``adopt``, where the log may be what is left of a stage."""
    remainders = [left for stage in stages for left in reversed(list(stage.remainders()))]
    return adopt(remainders, log, after_crash=True)


def _describe(observation: _Observation) -> str:
    def offsets(batches: bytes) -> list[str]:
        stored = (StoredBatch.of(content) for content in split_batches(batches))
        return [f"{batch.base_offset}-{batch.next_offset - 1}@{batch.leader_epoch}" for batch in stored]

    return (
        f"start {observation.log_start_offset}, end {observation.log_end_offset}, "
        f"files {offsets(observation.files)}, readable {offsets(observation.readable)}, "
        f"epochs {observation.epochs}, producers {observation.producers}"
    )
