"""Appending as follower: the leader's bytes and nothing else, or nothing at all."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

import pytest

from quorate.chaos.models.log.log_harness import (
    LogHarness,
    batch,
    epochs_of,
    image_of,
    os_error,
    read_all,
    replay,
    small_config,
    split_batches,
)
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import patch_header
from quorate.errors import CorruptBatch, DiskFull, LogDamaged, QuorateError
from quorate.storage import LogConfig

SEGMENT = small_config(segment_bytes=300)


def stamped(*values: bytes, offset: int, epoch: int, producer: tuple[int, int, int] | None = None) -> bytes:
    """As a leader has it."""
    buffer = bytearray(batch(*values, producer=producer))
    patch_header(buffer, 0, base_offset=offset, leader_epoch=epoch)
    return bytes(buffer)


async def leader_of(config: LogConfig = SEGMENT) -> LogHarness:
    """Twelve batches in four epochs, one of them without batches, and two idempotent producers."""
    harness = LogHarness(config)
    await harness.lead(1)
    for n in range(12):
        if n in (4, 7):
            harness.log.become_leader(LeaderEpoch(n))
            harness.log.become_leader(LeaderEpoch(n + 1))
        values = [b"x" * (5 * n + k) for k in range(n % 3 + 1)]
        producer = (7, 0, 0) if n == 0 else (8, n, 0) if n % 3 == 1 else None
        harness.append(batch(*values, producer=producer))
    return harness


@pytest.mark.parametrize("chunk", [1, 2, 5, 100])
async def test_follower_equals_the_leader_byte_for_byte(chunk: int) -> None:
    leader = await leader_of()
    follower = LogHarness(SEGMENT)
    await follower.open()
    batches = split_batches(read_all(leader.log))
    for start in range(0, len(batches), chunk):
        follower.log.append_as_follower(b"".join(batches[start : start + chunk]))
        follower.log.validate()
    assert image_of(follower.log) == image_of(leader.log)
    assert leader.log.segment_count > 3
    assert await leader.log.close()
    assert await follower.log.close()
    expected, found = leader.files(), follower.files()
    del expected["log-checkpoint"], found["log-checkpoint"]
    assert found == expected


async def test_replication_by_reads_of_any_size_copies_the_log() -> None:
    leader = await leader_of()
    for bytes_max in (1, 100, 250, 10_000):
        follower = LogHarness(SEGMENT)
        log = await follower.open()
        while log.log_end_offset < leader.log.log_end_offset:
            log.append_as_follower(leader.log.read(log.log_end_offset, bytes_max=bytes_max).batches)
        assert image_of(log) == image_of(leader.log)


async def test_follower_with_other_segment_sizes_holds_the_same_batches() -> None:
    leader = await leader_of()
    follower = LogHarness(small_config(segment_bytes=1000))
    await follower.open()
    follower.log.append_as_follower(read_all(leader.log))
    assert image_of(follower.log) == image_of(leader.log)
    assert follower.log.segment_count < leader.log.segment_count


async def test_nothing_is_appended_from_nothing() -> None:
    harness = LogHarness()
    log = await harness.open()
    log.append_as_follower(b"")
    assert log.log_end_offset == 0


def _flip_last_bit(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


_EPOCH_GOES_BACK: Final = "epoch goes back"
#: what a follower of epoch 5 must refuse where the given offset is due
BAD: dict[str, Callable[[int], bytes]] = {
    "gap": lambda due: stamped(b"v", offset=due + 1, epoch=6),
    "overlap": lambda due: stamped(b"v", offset=due - 1, epoch=6),
    _EPOCH_GOES_BACK: lambda due: stamped(b"v", offset=due, epoch=4),
    "bad checksum": lambda due: _flip_last_bit(stamped(b"v", offset=due, epoch=6)),
    "cut off": lambda due: stamped(b"v", offset=due, epoch=6)[:-1],
    "no batch": lambda due: b"nonsense" * 20,
}


@pytest.mark.parametrize(
    ("name", "is_alone"),
    [
        (name, is_alone)
        for name in BAD
        for is_alone in (True, False)
        if (name, is_alone) != (_EPOCH_GOES_BACK, True)
    ],
)
async def test_refused_bytes_leave_log_epochs_and_producers_unchanged(name: str, is_alone: bool) -> None:
    harness = LogHarness()
    log = await harness.open()
    log.append_as_follower(stamped(b"a", b"b", b"c", offset=0, epoch=5, producer=(7, 0, 0)))
    before = image_of(log)
    # The good one brings a new epoch and a new producer, which have to be taken back.
    good = b"" if is_alone else stamped(b"g", offset=3, epoch=6, producer=(9, 0, 0))
    with pytest.raises(CorruptBatch):
        log.append_as_follower(good + BAD[name](3 if is_alone else 4))
    assert image_of(log) == before
    log.append_as_follower(stamped(b"next", offset=3, epoch=5))
    expected = image_of(log)
    await harness.crash()
    assert harness.log.damage is None, harness.log.damage
    assert image_of(harness.log) == expected


async def test_an_epoch_that_the_leader_s_next_batch_cannot_follow_is_damage_here() -> None:
    """The leader looks at what it sends; the epoch of our last batch may have rotted, and nothing noticed."""
    harness = LogHarness()
    log = await harness.open()
    log.append_as_follower(stamped(b"a", offset=0, epoch=3))
    log.append_as_follower(stamped(b"b", b"c", offset=1, epoch=5))
    with pytest.raises(LogDamaged, match="leader epoch is 5, and the leader has epoch 4 behind it"):
        log.append_as_follower(stamped(b"v", offset=3, epoch=4))
    assert log.damage is not None
    assert log.damage.offset == 1
    await harness.crash()
    assert harness.log.damage is not None, "the mark outlives a restart"


@pytest.mark.parametrize("name", ["pwrite", "rename"])
async def test_failed_write_leaves_epochs_as_if_nobody_had_asked(name: str) -> None:
    """What the leader of epoch 6 could not get stored, another leader may have of epoch 5."""
    harness = LogHarness()
    log = await harness.open()
    log.append_as_follower(stamped(b"a", offset=0, epoch=5))
    before = image_of(log)
    # The first pwrite is the epoch checkpoint's.
    number = 2 if name == "pwrite" else 1
    harness.disk.fault_hook = fail_nth(number, os_error(errno.ENOSPC), names={name})
    with pytest.raises(DiskFull):
        log.append_as_follower(stamped(b"b", offset=1, epoch=6, producer=(7, 0, 0)))
    assert image_of(log) == before
    log.append_as_follower(stamped(b"b", offset=1, epoch=5))
    expected = image_of(log)
    await harness.crash()
    assert harness.log.damage is None, harness.log.damage
    assert image_of(harness.log) == expected


async def test_refusal_keeps_an_epoch_that_was_noted_before_without_batches() -> None:
    harness = LogHarness()
    log = await harness.lead(5)
    harness.append(batch())
    log.become_leader(LeaderEpoch(9))
    before = epochs_of(log)
    with pytest.raises(CorruptBatch):
        log.append_as_follower(stamped(b"v", offset=7, epoch=6))
    assert epochs_of(log) == before


async def test_epoch_without_batches_gives_way_to_what_the_leader_has_there() -> None:
    harness = LogHarness()
    log = await harness.lead(5)
    harness.append(batch())
    log.become_leader(LeaderEpoch(9))
    log.append_as_follower(stamped(b"v", offset=1, epoch=6))
    assert epochs_of(log) == [(5, 0), (6, 1)]
    await harness.crash()
    assert image_of(harness.log) == replay(read_all(harness.log))
    assert epochs_of(harness.log) == [(5, 0), (6, 1)]


async def test_what_was_written_before_a_roll_that_fails_stays() -> None:
    leader = await leader_of()
    follower = LogHarness(SEGMENT)
    log = await follower.open()
    follower.disk.fault_hook = fail_nth(2, os_error(errno.ENOSPC), names={"open"})
    with pytest.raises(QuorateError):
        log.append_as_follower(read_all(leader.log))
    written = read_all(log)
    assert read_all(leader.log).startswith(written)
    assert image_of(log) == replay(written)
    while log.log_end_offset < leader.log.log_end_offset:
        log.append_as_follower(leader.log.read(log.log_end_offset, bytes_max=1).batches)
    assert image_of(log) == image_of(leader.log)


async def test_follower_checks_only_that_batches_follow_not_what_producers_may_do() -> None:
    """What the leader's log says is true, also where this replica's snapshot was lost."""
    harness = LogHarness()
    log = await harness.open()
    log.append_as_follower(stamped(b"v", offset=0, epoch=5, producer=(7, 0, 40)))
    log.append_as_follower(stamped(b"v", offset=1, epoch=5, producer=(7, 0, 99)))
    assert image_of(log) == replay(read_all(log))


async def test_follower_may_start_anywhere_after_a_reset() -> None:
    harness = LogHarness()
    log = await harness.open()
    await log.reset_to(Offset(1000))
    log.append_as_follower(stamped(b"v", offset=1000, epoch=3))
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1001)
    await harness.crash()
    assert image_of(harness.log) == replay(read_all(harness.log), log_start_offset=1000)
