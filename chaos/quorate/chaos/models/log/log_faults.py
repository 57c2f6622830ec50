"""A busy life of a log, told to a ledger, and the checks of what is left of it after a fault.

The tests of failing disks and of mutants share these: a fault is put somewhere into the life, the
process or the machine dies, the log is opened again, and ``check_survivors`` compares what it holds
with what the ledger says was acknowledged. Every rule that does not hold is an AssertionError.

The ledger keeps two histories, because a truncation that fails may have happened or not:

- ``kept``: batches that must be there; of them, those below ``flushed`` even after a power loss;
- ``possible``: ``kept``, and behind it batches that may be there.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from quorate.chaos.models.log.log_harness import (
    LogHarness,
    ProcessEnded,
    ProducerImage,
    batch,
    epochs_of,
    headers_in,
    producers_of,
    read_all,
    replay,
    small_config,
)
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import patch_header
from quorate.errors import DiskFull, LogDamaged, QuorateError, StorageError
from quorate.storage import LogConfig

__all__ = ["LIFE_CONFIG", "Ledger", "Life", "busy_life", "check_goes_on", "check_survivors", "random_life"]

LIFE_CONFIG: LogConfig = small_config(segment_bytes=300)


@dataclass
class Ledger:
    """What the log said it did."""

    kept: list[bytes] = field(default_factory=list)
    possible: list[bytes] = field(default_factory=list)
    #: handed to the log, which has not answered yet
    in_flight: list[bytes] = field(default_factory=list)
    #: exclusive: everything below was flushed and not truncated since
    flushed: int = 0
    #: the log start is one of these
    log_starts: set[int] = field(default_factory=lambda: {0})
    #: a typed error other than DiskFull was answered, or the process ended itself
    saw_storage_error: bool = False
    _log_starts_before: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return _end_of(self.kept)

    @property
    def at_most(self) -> list[bytes]:
        return self.possible + self.in_flight

    def append(self, stamped: bytes) -> None:
        assert self.kept == self.possible, "an append was accepted behind a truncation that may have failed"
        self.kept.append(stamped)
        self.possible.append(stamped)

    def truncate_began(self, offset: int) -> None:
        self.kept = [each for each in self.kept if _end_of([each]) <= offset]
        self.flushed = min(self.flushed, self.end)
        # Where the log start lies within the first batch to go, it moves back to that batch's start.
        self._log_starts_before = set(self.log_starts)
        self.log_starts |= {min(start, self.end) for start in self.log_starts}

    def truncate_ended(self) -> None:
        self.possible = list(self.kept)
        self.log_starts = {min(start, self.end) for start in self.log_starts}

    def truncate_changed_nothing(self) -> None:
        self.kept = list(self.possible)
        self.log_starts = self._log_starts_before


def _end_of(batches: list[bytes]) -> int:
    if not batches:
        return 0
    header = next(header for _, header in headers_in(batches[-1]))
    return header.last_offset + 1


#: values of a batch, and the idempotent producer that sends it
Content: TypeAlias = tuple[tuple[bytes, ...], int | None]


def _make_batch(content: Content, sequences: dict[int, int]) -> bytes:
    """Also counts the producer's sequence on."""
    values, producer_id = content
    if producer_id is None:
        return batch(*values)
    base_sequence = sequences.get(producer_id, 0)
    sequences[producer_id] = base_sequence + len(values)
    return batch(*values, producer=(producer_id, 0, base_sequence))


def _stamp(sent: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """As it lies in the log."""
    buffer = bytearray(sent)
    patch_header(buffer, 0, base_offset=base_offset, leader_epoch=leader_epoch)
    return bytes(buffer)


class Life:
    """Steps of a log's life; an error of one step is noted, and the next step is tried."""

    def __init__(self, harness: LogHarness, ledger: Ledger) -> None:
        self.harness = harness
        self.ledger = ledger
        self._sequences: dict[int, int] = {}
        self.errors: list[BaseException] = []

    async def attempt(self, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except StorageError as error:
            self.errors.append(error)
            self.ledger.saw_storage_error |= not isinstance(error, DiskFull)
            return False
        except ProcessEnded as error:
            self.errors.append(error)
            self.ledger.saw_storage_error = True
            raise
        return True

    async def open(self) -> None:
        await self.harness.open()

    async def lead(self, leader_epoch: int) -> None:
        async def step() -> None:
            self.harness.log.become_leader(LeaderEpoch(leader_epoch))

        if not await self.attempt(step) and isinstance(self.errors[-1], DiskFull):
            assert await self.attempt(step), f"refused although there is room again: {self.errors[-1]}"

    async def append(self, *values: bytes, producer_id: int | None = None) -> None:
        """As leader."""
        await self._append(lambda: self._append_as_leader((values, producer_id)))

    async def replicate(self, *contents: Content, leader_epoch: int) -> None:
        """As follower, with one call."""
        pending = list(contents)
        await self._append(lambda: self._append_as_follower(pending, leader_epoch))

    async def _append(self, append: Callable[[], None]) -> None:
        """What finds no room is tried once more, and must find some then."""

        async def step() -> None:
            append()

        if not await self.attempt(step) and isinstance(self.errors[-1], DiskFull):
            assert await self.attempt(step), f"refused although there is room again: {self.errors[-1]}"

    def _append_as_leader(self, content: Content) -> None:
        log, sequences = self.harness.log, dict(self._sequences)
        sent, epoch = _make_batch(content, sequences), log.latest_leader_epoch
        stamped = _stamp(sent, self.ledger.end, epoch)
        with self._in_flight([stamped]):
            done = log.append_as_leader(sent, leader_epoch=epoch)
        assert not done.is_duplicate
        assert done.base_offset == self.ledger.end, f"offset {done.base_offset}, due was {self.ledger.end}"
        self.ledger.append(stamped)
        self._sequences = sequences

    def _append_as_follower(self, pending: list[Content], leader_epoch: int) -> None:
        """Removes from ``pending`` what is in the log now: if this fails, that may be a part of it."""
        log, sequences = self.harness.log, dict(self._sequences)
        before, end, stamped = log.log_end_offset, self.ledger.end, list[bytes]()
        for content in pending:
            stamped.append(_stamp(_make_batch(content, sequences), end, leader_epoch))
            end = _end_of(stamped)
        error = None
        try:
            with self._in_flight(stamped):
                log.append_as_follower(b"".join(stamped))
        except QuorateError as refused:
            error = refused
        written = [each for each in stamped if before < _end_of([each]) <= log.log_end_offset]
        for content, each in zip(pending, written, strict=False):
            self.ledger.append(each)
            _make_batch(content, self._sequences)
        del pending[: len(written)]
        if error is not None:
            raise error

    @contextmanager
    def _in_flight(self, stamped: list[bytes]) -> Iterator[None]:
        self.ledger.in_flight = stamped
        try:
            yield
        except QuorateError:
            self.ledger.in_flight = []  # this is an answer too; only a process that dies gives none
            raise
        self.ledger.in_flight = []

    async def flush(self) -> None:
        end = self.ledger.end
        if await self.attempt(self.harness.log.flush):
            self.ledger.flushed = end

    async def checkpoint(self) -> None:
        await self.attempt(self.harness.log.checkpoint)

    async def truncate(self, offset: int) -> None:
        log, before = self.harness.log, read_all(self.harness.log)
        self.ledger.truncate_began(offset)
        if await self.attempt(lambda: log.truncate_to(Offset(offset))):
            self.ledger.truncate_ended()
        elif log._state.write_failure is None and read_all(log) == before:
            self.ledger.truncate_changed_nothing()
        elif log._state.write_failure is None:
            assert read_all(log) == b"".join(self._readable(self.ledger.kept))
            self.ledger.truncate_ended()
        self._recount_sequences()

    def _readable(self, batches: list[bytes]) -> list[bytes]:
        start = self.harness.log.log_start_offset
        return [each for each in batches if _end_of([each]) > start]

    def _recount_sequences(self) -> None:
        producers = replay(b"".join(self.ledger.kept)).producers
        self._sequences = {pid: image.batches[-1][1] + 1 for pid, image in producers.items()}

    async def advance_log_start(self, offset: int) -> None:
        self.ledger.log_starts.add(offset)
        if await self.attempt(lambda: self.harness.log.advance_log_start(Offset(offset))):
            self.ledger.log_starts = {offset}

    async def close(self) -> None:
        if await self.harness.log.close():
            self.ledger.flushed = self.ledger.end

    def check_alive(self) -> None:
        """In the same process: reads go on, and nothing torn or refused is among what they return."""
        log = self.harness.log
        if self.ledger.kept != self.ledger.possible:
            return
        log.validate()
        found = read_all(log)
        expected = b"".join(self._readable(self.ledger.kept))
        assert found == expected, f"{len(found)} bytes are read, {len(expected)} were acknowledged"


async def busy_life(life: Life, *, with_close: bool = True) -> None:
    """Everything a log does, with something in it for every rule; no randomness."""
    await life.open()
    await life.lead(1)
    await life.append(b"a" * 20, producer_id=7)
    await life.append(b"b")
    await life.append(b"c", b"d", producer_id=8)
    await life.append(b"e" * 60, producer_id=7)
    await life.flush()
    life.check_alive()
    await life.replicate(*[((b"%d" % n * 30,), 7) for n in range(5)], leader_epoch=2)
    await life.lead(3)
    await life.append(b"f" * 50, producer_id=8)
    await life.checkpoint()
    life.check_alive()
    await life.append(b"g", b"h", b"i")
    await life.truncate(life.ledger.end - 5)
    life.check_alive()
    await life.lead(4)
    await life.append(b"j" * 20, producer_id=9)
    await life.append(b"k" * 90, producer_id=7)
    await life.flush()
    await life.advance_log_start(6)
    life.check_alive()
    await life.append(b"l" * 70, producer_id=9)
    await life.append(b"m" * 70)
    life.check_alive()
    if with_close:
        await life.close()


async def random_life(life: Life, rng: random.Random, *, steps: int) -> None:
    """Like a busy one, in any order; ends when the process dies."""
    await life.open()
    epoch = 1
    await life.lead(epoch)
    for _ in range(steps):
        choice = rng.random()
        end, start = life.ledger.end, max(life.ledger.log_starts)
        if choice < 0.55:
            count = rng.randint(1, 3)
            values = tuple(bytes([65 + rng.randrange(26)]) * rng.randint(0, 80) for _ in range(count))
            await life.append(*values, producer_id=rng.choice((None, 7, 8)))
        elif choice < 0.7:
            await life.flush()
        elif choice < 0.76:
            await life.checkpoint()
        elif choice < 0.86 and end > start:
            await life.truncate(rng.randint(start, end))
            epoch += 1
            await life.lead(epoch)
        elif choice < 0.92:
            epoch += rng.randint(1, 2)
            await life.lead(epoch)
        elif end > start:
            await life.advance_log_start(rng.randint(start, end))
    life.check_alive()


# -- afterwards


def check_survivors(harness: LogHarness, ledger: Ledger, *, lost_power: bool) -> None:
    """The log was opened again: what is there is what the ledger promises, and no more."""
    log = harness.log
    assert log.damage is None, f"sound bytes are called damaged: {log.damage}"
    log.validate()
    start = int(log.log_start_offset)
    assert start in ledger.log_starts, f"the log starts at {start}, not at one of {ledger.log_starts}"
    try:
        found = read_all(log)
    except LogDamaged as error:
        raise AssertionError("what the start called sound is damaged") from error
    at_most = b"".join(each for each in ledger.at_most if _end_of([each]) > start)
    assert at_most.startswith(found), "the log holds something that nobody appended there"
    must_reach = ledger.flushed if lost_power else ledger.end
    assert log.log_end_offset >= must_reach, (
        f"acknowledged up to {must_reach}, the log ends at {log.log_end_offset}"
    )
    _check_derived_state(harness, ledger, lost_power=lost_power)


def _check_derived_state(harness: LogHarness, ledger: Ledger, *, lost_power: bool) -> None:
    """Epochs and producers are those of the batches, none forgotten and none invented."""
    log = harness.log
    in_files = b"".join(content for _, content in sorted(harness.files(".log").items()))
    first = log._state.segments[0].base_offset
    derived = replay(in_files, log_start_offset=first)
    assert epochs_of(log) == derived.epochs, f"epochs {epochs_of(log)}, the batches say {derived.epochs}"
    ever = [each for each in ledger.at_most if _end_of([each]) <= log.log_end_offset]
    found = producers_of(log)
    assert found.keys() >= derived.producers.keys(), "a producer was forgotten"
    if lost_power:
        _check_producers_in_part(found, derived.producers, first_offset=first, ever=ever)
    else:
        expected = replay(b"".join(ever)).producers
        assert found == expected, f"producers {found}, the batches say {expected}"


def _check_producers_in_part(
    found: dict[int, ProducerImage],
    in_files: dict[int, ProducerImage],
    *,
    first_offset: int,
    ever: list[bytes],
) -> None:
    """Of batches that were deleted, a power loss may take the snapshot that told of them."""
    written = {image.batches[-1] for each in ever for image in replay(each).producers.values()}
    for producer_id, image in found.items():
        assert set(image.batches) <= written, f"producer {producer_id} is {image}, which nobody wrote"
        kept = tuple(batch for batch in image.batches if batch[2] >= first_offset)
        expected = in_files[producer_id].batches if producer_id in in_files else ()
        assert kept == expected, f"producer {producer_id} is {image}, the batches say {expected}"


async def check_goes_on(harness: LogHarness) -> None:
    """A log that survived can be led, appended to, flushed and closed, and gives its files back."""
    log = harness.log
    end = log.log_end_offset
    log.become_leader(LeaderEpoch(log.latest_leader_epoch + 1))
    harness.append(batch(b"afterwards"))
    await log.flush()
    assert log.log_end_offset == end + 1
    assert read_all(log).endswith(b"afterwards\0"), "what was appended last is not read last"
    assert await log.close()
    if harness.disk.open_paths:
        gc.collect()  # handles of earlier lives may hang in reference cycles
    assert harness.disk.open_paths == [], f"still open: {harness.disk.open_paths}"
