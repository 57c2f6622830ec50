"""Looking at a log offline: every batch is shown, every kind of problem is named, nothing is changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.chaos.models.log.log_harness import (
    NOW_MS,
    LogHarness,
    batch,
    make_context,
    small_config,
    split_batches,
)
from quorate.chaos.sim.disk import SimDisk
from quorate.core.ids import LeaderEpoch, Offset, PartitionId, TopicId, TopicName
from quorate.errors import InvalidRequest, StorageFailed
from quorate.storage import StartKind
from quorate.storage.checkpoint import write_durably
from quorate.storage.file_writes import overwrite
from quorate.storage.index import OffsetIndex, TimeIndex
from quorate.storage.inspect import LogReport, Problem, ProblemKind, dump_segment, verify
from quorate.storage.log_directory import LogDirectory
from quorate.storage.partition_key import PartitionKey


async def log_of() -> LogHarness:
    """Three segments, the last of them active, flushed and checkpointed up to there."""
    harness = LogHarness(small_config(segment_bytes=200))
    await harness.lead(1)
    for n in range(5):
        if n == 3:
            harness.log.become_leader(LeaderEpoch(2))
        harness.append(batch(b"x" * 20, b"y", producer=(7, 0, 2 * n)))
    assert harness.log.segment_count == 3
    await harness.log.checkpoint()
    return harness


def verified(harness: LogHarness) -> LogReport:
    before = harness.disk.snapshot()
    (report,) = verify(harness.disk, harness.directory)
    assert harness.disk.snapshot() == before, "looking changed something"
    return report


def problem_of(harness: LogHarness) -> Problem:
    (problem,) = verified(harness).problems
    return problem


def segment(number: int) -> str:
    return f"{(0, 4, 8)[number]:020d}.log"


async def test_sound_log_has_no_problems() -> None:
    harness = await log_of()
    report = verified(harness)
    assert report == LogReport(
        harness.directory,
        segments=3,
        batches=5,
        records=10,
        size_in_bytes=harness.log.size_in_bytes,
        log_start_offset=0,
        log_end_offset=10,
    )
    assert not report.is_damaged


async def test_log_can_be_verified_in_any_state_of_its_life() -> None:
    harness = LogHarness()
    await harness.open()
    assert verified(harness).problems == []
    harness = await log_of()
    harness.log.become_leader(LeaderEpoch(9))
    assert verified(harness).problems == []
    await harness.log.advance_log_start(Offset(5))
    assert verified(harness).problems == []
    assert verified(harness).log_start_offset == 5
    assert await harness.log.close()
    assert verified(harness).problems == []


async def test_data_directory_is_verified_log_by_log() -> None:
    disk = (await log_of()).disk
    for partition in (0, 1):
        name = f"/data/orders-{partition}.AAAAAAAAAAAAAAAAAAAAAA"
        other = LogHarness(disk=disk, directory=name)
        await other.open()
    assert [report.directory for report in verify(disk, "/data/")] == [
        f"/data/orders-{partition}.AAAAAAAAAAAAAAAAAAAAAA" for partition in (0, 1)
    ]


async def test_path_that_holds_no_log_is_refused() -> None:
    disk = (await log_of()).disk
    disk.make_directory("/elsewhere")
    with pytest.raises(InvalidRequest):
        list(verify(disk, "/elsewhere"))
    with pytest.raises(StorageFailed):
        list(verify(disk, "/nowhere"))
    with pytest.raises(StorageFailed):
        list(dump_segment(disk, "/nowhere/00000000000000000000.log"))


def _flip(name: str, byte: int) -> Callable[[LogHarness], None]:
    return lambda harness: harness.disk.flip_bit(harness.path(name), 8 * byte)


def _remove(name: str) -> Callable[[LogHarness], None]:
    return lambda harness: harness.disk.unlink(harness.path(name))


def _cut(name: str, length: int) -> Callable[[LogHarness], None]:
    return lambda harness: harness.disk.open(harness.path(name)).truncate(
        harness.disk.size(harness.path(name)) - length
    )


def _append(name: str, content: bytes) -> Callable[[LogHarness], None]:
    return lambda harness: harness.disk.open(harness.path(name)).pwrite(
        content, harness.disk.size(harness.path(name))
    )


SIZE = len(batch(b"x" * 20, b"y"))

PROBLEMS = {
    "body of a batch": (_flip(segment(0), SIZE + 70), ProblemKind.DAMAGE, segment(0), SIZE, 2),
    "offset of a batch": (_flip(segment(1), 7), ProblemKind.DAMAGE, segment(1), 0, 4),
    "epoch of a batch": (_flip(segment(1), 15), ProblemKind.DAMAGE, segment(1), 0, 4),
    "length of the last batch": (_flip(segment(2), 11), ProblemKind.DAMAGE, segment(2), 0, 8),
    "sealed segment cut": (_cut(segment(0), 5), ProblemKind.DAMAGE, segment(0), SIZE, 2),
    "sealed segment lost its last batch": (_cut(segment(0), SIZE), ProblemKind.DAMAGE, segment(0), SIZE, 2),
    "first segment gone": (_remove(segment(0)), ProblemKind.DAMAGE, "", 0, 0),
    "last segment gone": (_remove(segment(2)), ProblemKind.DAMAGE, "", 0, 8),
    "unfinished write": (_append(segment(2), bytes(7) + b"\x0a\0"), ProblemKind.TORN, segment(2), SIZE, 10),
    "offset index": (_flip(f"{0:020d}.index", 3), ProblemKind.REBUILDABLE, f"{0:020d}.index", 0, 0),
    "no offset index": (_remove(f"{0:020d}.index"), ProblemKind.REBUILDABLE, f"{0:020d}.index", 0, 0),
    "time index": (_flip(f"{4:020d}.timeindex", 3), ProblemKind.REBUILDABLE, f"{4:020d}.timeindex", 0, 0),
    "no time index": (_remove(f"{0:020d}.timeindex"), ProblemKind.REBUILDABLE, f"{0:020d}.timeindex", 0, 0),
    "producer snapshot": (
        _flip(f"{4:020d}.snapshot", 50),
        ProblemKind.REBUILDABLE,
        f"{4:020d}.snapshot",
        0,
        0,
    ),
    "epochs": (
        _flip("leader-epoch-checkpoint", 50),
        ProblemKind.REBUILDABLE,
        "leader-epoch-checkpoint",
        0,
        0,
    ),
    "checkpoint": (_flip("log-checkpoint", 50), ProblemKind.REBUILDABLE, "log-checkpoint", 0, 0),
}


@pytest.mark.parametrize("name", PROBLEMS)
async def test_each_kind_of_problem_is_named_with_its_place(name: str) -> None:
    change, kind, path, position, offset = PROBLEMS[name]
    harness = await log_of()
    change(harness)
    found = problem_of(harness)
    assert (found.kind, found.position, found.offset) == (kind, position, offset), found
    assert found.path == (harness.path(path) if path else harness.directory)
    assert verified(harness).is_damaged == (kind is ProblemKind.DAMAGE)


def offset_index(*entries: tuple[int, int]) -> bytes:
    index = OffsetIndex()
    for relative_offset, position in entries:
        index.append(relative_offset=relative_offset, position=position)
    return index.to_bytes()


def time_index(*entries: tuple[int, int]) -> bytes:
    index = TimeIndex()
    for timestamp, relative_offset in entries:
        index.maybe_append(timestamp=timestamp, relative_offset=relative_offset)
    return index.to_bytes()


#: files with a good checksum for the first segment: two batches of two records, all of one time
WRONG_INDEXES = {
    "position": (".index", offset_index((1, 0), (3, SIZE + 1)), 3),
    "offset": (".index", offset_index((1, 0), (2, SIZE)), 2),
    "behind the end": (".index", offset_index((1, 0), (5, 2 * SIZE)), 5),
    "time too late": (".timeindex", time_index((NOW_MS + 1, 1)), 1),
    "time too early": (".timeindex", time_index((NOW_MS - 1, 1), (NOW_MS, 3)), 1),
    "time of no batch": (".timeindex", time_index((NOW_MS, 2)), 2),
    "time behind the end": (".timeindex", time_index((NOW_MS, 5)), 5),
    "newest time missing": (".timeindex", time_index(), 3),
}


@pytest.mark.parametrize("name", WRONG_INDEXES)
async def test_index_file_is_compared_with_the_batches(name: str) -> None:
    suffix, content, offset = WRONG_INDEXES[name]
    harness = await log_of()
    overwrite(harness.disk, harness.path(f"{0:020d}{suffix}"), content)
    found = problem_of(harness)
    assert (found.kind, found.offset) == (ProblemKind.REBUILDABLE, offset), found
    assert found.path == harness.path(f"{0:020d}{suffix}")


async def test_index_files_may_skip_batches() -> None:
    harness = await log_of()
    overwrite(harness.disk, harness.path(f"{0:020d}.index"), offset_index((3, SIZE)))
    overwrite(harness.disk, harness.path(f"{0:020d}.timeindex"), time_index((NOW_MS, 3)))
    assert verified(harness).problems == []


async def test_damaged_files_are_reported_each_by_its_own_name() -> None:
    harness = await log_of()
    names = [
        *(f"{base:020d}{suffix}" for base in (0, 4) for suffix in (".index", ".timeindex")),
        *(f"{offset:020d}.snapshot" for offset in (4, 8)),
        "leader-epoch-checkpoint",
        "log-checkpoint",
    ]
    for name in names:
        harness.disk.flip_bit(harness.path(name), 8 * 3)
    found = verified(harness).problems
    assert sorted(problem.path for problem in found) == sorted(map(harness.path, names))
    assert {problem.kind for problem in found} == {ProblemKind.REBUILDABLE}


async def test_last_segments_index_files_count_after_a_clean_stop_alone() -> None:
    harness = await log_of()
    assert await harness.log.close()
    path = harness.path(f"{8:020d}.timeindex")
    overwrite(harness.disk, path, time_index((NOW_MS + 1, 1)))
    assert problem_of(harness).path == path
    await harness.open(StartKind.CLEAN)
    harness.append(batch(b"x"))
    assert verified(harness).problems == []


async def test_own_checkpoints_of_a_data_directory_are_checked() -> None:
    disk = SimDisk()
    directory = await LogDirectory.open(make_context(disk), "/data", start=StartKind.CLEAN)
    key = PartitionKey(TopicName("orders"), PartitionId(0), TopicId("A" * 22))
    await directory.create(key, small_config())
    for name in ("broker-identity", "run-notes", "high-watermarks"):
        await write_durably(disk, f"/data/{name}", {})
    assert await directory.close()
    (report,) = verify(disk, "/data")
    assert report.problems == []
    for name in ("broker-identity", "run-notes", "high-watermarks"):
        disk.flip_bit(f"/data/{name}", 8 * 3)
    own, report = verify(disk, "/data")
    assert report.problems == []
    assert own.directory == "/data"
    assert [(problem.path, problem.kind) for problem in own.problems] == [
        ("/data/broker-identity", ProblemKind.DAMAGE),
        ("/data/run-notes", ProblemKind.REBUILDABLE),
        ("/data/high-watermarks", ProblemKind.REBUILDABLE),
    ]


async def test_what_verify_calls_damage_is_what_a_start_refuses() -> None:
    for name, (change, kind, *_) in PROBLEMS.items():
        harness = await log_of()
        harness.disk.crash()
        # So that the start looks at all of it, as verify does.
        harness.disk.unlink(harness.path("log-checkpoint"))
        if "gone" in name or name == "checkpoint":
            continue
        change(harness)
        await harness.open()
        assert (harness.log.damage is not None) == (kind is ProblemKind.DAMAGE), name


async def test_quarantined_log_is_reported_although_its_files_are_sound_again() -> None:
    harness = await log_of()
    harness.disk.flip_bit(harness.path(segment(2)), 8 * 70)
    await harness.crash()
    harness.disk.flip_bit(harness.path(segment(2)), 8 * 70)
    found = problem_of(harness)
    assert found.kind is ProblemKind.DAMAGE
    assert found.path == harness.path("damage")


async def test_batches_behind_a_damaged_segment_are_still_counted() -> None:
    harness = await log_of()
    harness.disk.flip_bit(harness.path(segment(0)), 8 * 70)
    report = verified(harness)
    assert report.segments == 3
    assert report.batches == 3


# -- dump


async def test_dump_shows_every_batch_and_its_records() -> None:
    harness = await log_of()
    path = harness.path(segment(0))
    content = harness.disk.read_file(path)
    dumps = list(dump_segment(harness.disk, path, with_records=True))
    assert [dump.position for dump in dumps] == [0, SIZE]
    assert len(split_batches(content)) == 2
    for dump, base_offset in zip(dumps, (0, 2), strict=True):
        assert dump.header is not None
        assert (dump.header.base_offset, dump.problem) == (base_offset, None)
        assert [record.value for record in dump.records] == [b"x" * 20, b"y"]
    assert all(dump.records == [] for dump in dump_segment(harness.disk, path))


async def test_dump_goes_on_behind_a_batch_whose_checksum_is_wrong() -> None:
    harness = await log_of()
    harness.disk.flip_bit(harness.path(segment(0)), 8 * 70)
    first, second = dump_segment(harness.disk, harness.path(segment(0)), with_records=True)
    assert first.header is not None
    assert first.problem is not None
    assert first.records == []
    assert second.problem is None


async def test_dump_ends_where_not_even_a_header_makes_sense() -> None:
    harness = await log_of()
    harness.disk.flip_bit(harness.path(segment(0)), 8 * (SIZE + 16))  # the magic byte
    first, second = dump_segment(harness.disk, harness.path(segment(0)))
    assert first.problem is None
    assert second.header is None
    assert second.problem is not None


async def test_dump_of_a_torn_tail_says_that_it_is_torn() -> None:
    harness = await log_of()
    harness.disk.open(harness.path(segment(2))).truncate(SIZE - 1)
    (dump,) = dump_segment(harness.disk, harness.path(segment(2)))
    assert dump.header is not None
    assert dump.problem is not None


async def test_any_bytes_at_all_can_be_dumped() -> None:
    harness = await log_of()
    path = harness.path(segment(2))
    for content in (b"", b"\xff" * 200, bytes(200), batch()[:20], batch() + b"\x7f" * 61):
        harness.disk.open(path).truncate(0)
        harness.disk.open(path).pwrite(content, 0)
        assert len(list(dump_segment(harness.disk, path))) <= 3
