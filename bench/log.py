"""The partition log on real files: append, recovery scan, opening many logs, memory of idle ones.

Each figure is a ratio to a bare loop that does the least the job could do, measured in turns within
this run, or a rate that the machine's noise can only lower. Medians of all rounds.

    python -m bench.log
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

from crc32c import crc32c

from bench.figure import Figure, show
from bench.resident_memory import resident_bytes
from quorate.core.clock import SystemClock
from quorate.core.ids import LeaderEpoch, PartitionId, TopicId, TopicName
from quorate.core.os_disk import OsDisk
from quorate.core.records import encode_values
from quorate.storage import (
    LogConfig,
    LogContext,
    LogDirectory,
    OpenFiles,
    PartitionKey,
    PartitionLog,
    StartKind,
)
from quorate.storage.opening import open_state

ROUNDS = 7
EPOCH = LeaderEpoch(1)
APPEND_BYTES = 128 << 20
SCAN_BYTES = 256 << 20
IDLE_LOGS = 2000


def _stop(reason: str) -> NoReturn:
    raise SystemExit(reason)


@contextmanager
def _scratch() -> Iterator[tuple[str, LogContext]]:
    directory = tempfile.mkdtemp(prefix="quorate-bench-")
    disk = OsDisk()
    try:
        yield directory, LogContext(disk, SystemClock(), OpenFiles(disk, files_max=64), _stop)
    finally:
        disk.close()
        shutil.rmtree(directory)


def _batch_of(size: int) -> bytes:
    """A batch of one record and just ``size`` bytes."""
    overhead = len(encode_values([bytes(size)], timestamp_ms=1)) - size
    batch = encode_values([os.urandom(size - overhead)], timestamp_ms=1)
    assert len(batch) == size
    return batch


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# -- append


async def _append_seconds(batch: bytes, count: int) -> float:
    with _scratch() as (directory, context):
        log = await PartitionLog.open(context, LogConfig(), directory, start=StartKind.CLEAN)
        log.become_leader(EPOCH)

        def append() -> None:
            for _ in range(count):
                log.append_as_leader(batch, leader_epoch=EPOCH)

        seconds = _seconds(append)
        await log.abandon()
        return seconds


def _bare_append_seconds(batch: bytes, count: int) -> float:
    with _scratch() as (directory, _):
        descriptor = os.open(f"{directory}/bare", os.O_RDWR | os.O_CREAT)

        def append() -> None:
            position = 0
            for _ in range(count):
                crc32c(batch)
                os.pwrite(descriptor, batch, position)
                position += len(batch)

        seconds = _seconds(append)
        os.close(descriptor)
        return seconds


async def append_figures() -> list[Figure]:
    figures = []
    for size, bar in ((128 << 10, 0.8), (16 << 10, None), (1 << 10, None)):
        batch, count = _batch_of(size), min(APPEND_BYTES // size, 50_000)
        rounds = [
            (_bare_append_seconds(batch, count), await _append_seconds(batch, count)) for _ in range(ROUNDS)
        ]
        ratio = statistics.median(bare / ours for bare, ours in rounds)
        rate = statistics.median(count / ours for _, ours in rounds)
        best = max(count / ours for _, ours in rounds)
        label = f"{size >> 10} KB batches"
        megabytes = f"{rate * size / 1e6:,.0f} MB/s"
        figures.append(
            Figure.against(
                f"append {label} / bare crc32c + pwrite", ratio, "x", bar, f"{ROUNDS} rounds, {megabytes}"
            )
        )
        if size == 1 << 10:
            detail = (
                f"median {rate:,.0f}/s; the bar is for an idle core, so the best of {ROUNDS} rounds counts"
            )
            figures.append(Figure.against(f"append {label}", best, "/s", 100_000, detail))
    return figures


# -- recovery


def _bare_scan(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    running = position = 0
    while chunk := os.pread(descriptor, 1 << 20, position):
        running = crc32c(chunk, running)
        position += len(chunk)
    os.close(descriptor)


async def _scan_seconds(context: LogContext, directory: str) -> float:
    began = time.perf_counter()
    state, _ = await open_state(context, LogConfig(), directory, StartKind.PROCESS_CRASH)
    assert state.damage is None
    return time.perf_counter() - began


async def recovery_figures() -> list[Figure]:
    figures = []
    for size in (128 << 10, 16 << 10, 1 << 10):
        with _scratch() as (directory, context):
            log = await PartitionLog.open(context, LogConfig(), directory, start=StartKind.CLEAN)
            log.become_leader(EPOCH)
            batch = _batch_of(size)
            for _ in range(SCAN_BYTES // size):
                log.append_as_leader(batch, leader_epoch=EPOCH)
            await log.abandon()
            path = f"{directory}/{0:020d}.log"

            rounds = [
                (_seconds(partial(_bare_scan, path)), await _scan_seconds(context, directory))
                for _ in range(ROUNDS)
            ]
        ratio = statistics.median(bare / ours for bare, ours in rounds)
        rate = statistics.median(SCAN_BYTES / ours for _, ours in rounds)
        figures.append(
            Figure.against(
                f"recovery scan, {size >> 10} KB batches / read + crc32c",
                ratio,
                "x",
                0.5,
                f"{ROUNDS} rounds over {SCAN_BYTES >> 20} MiB in the page cache, {rate / 1e9:.1f} GB/s",
            )
        )
    return figures


# -- many idle logs


async def _make_idle_logs(directory: str) -> None:
    with _scratch() as (_, context):
        logs = await LogDirectory.open(context, directory, start=StartKind.CLEAN)
        batch = _batch_of(1 << 10)
        for number in range(IDLE_LOGS):
            key = PartitionKey(TopicName("bench"), PartitionId(number), TopicId("A" * 22))
            log = await logs.create(key, LogConfig())
            log.become_leader(EPOCH)
            for _ in range(10):
                log.append_as_leader(batch, leader_epoch=EPOCH)
        assert await logs.close()


async def _open_idle_logs(directory: str) -> tuple[float, float]:
    """Seconds to open them all, and resident bytes per log; in a process of its own."""
    with _scratch() as (_, context):
        before = resident_bytes(os.getpid())
        began = time.perf_counter()
        logs = await LogDirectory.open(context, directory, start=StartKind.CLEAN)
        await logs.open_logs(lambda _: LogConfig())
        count = len(list(logs))
        seconds = time.perf_counter() - began
        bytes_per_log = (resident_bytes(os.getpid()) - before) / count
        assert count == IDLE_LOGS
        assert await logs.close()
    return seconds, bytes_per_log


def _open_in_fresh_process(directory: str) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.log", "--open", directory]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, bytes_per_log = map(float, printed.split())
    return seconds, bytes_per_log


async def idle_figures() -> list[Figure]:
    with _scratch() as (directory, _):
        await _make_idle_logs(directory)
        rounds = [_open_in_fresh_process(directory) for _ in range(3)]
    seconds = statistics.median(seconds for seconds, _ in rounds)
    bytes_per_log = statistics.median(size for _, size in rounds)
    detail = f"{IDLE_LOGS:,} logs, closed cleanly, median of {len(rounds)} processes"
    return [
        Figure.at_most(f"open {IDLE_LOGS:,} clean logs", seconds, "s", 2.0, detail),
        Figure.at_most("memory per idle open log", bytes_per_log / 1024, "KB", 20.0, detail),
    ]


async def run() -> list[Figure]:
    return [*await append_figures(), *await recovery_figures(), *await idle_figures()]


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--open"]:
        print(*asyncio.run(_open_idle_logs(arguments[1])))
        return
    show("The partition log", asyncio.run(run()))


if __name__ == "__main__":
    main(sys.argv[1:])
