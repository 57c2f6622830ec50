"""Group commit by itself: who shares a sync with whom, and what a sync may claim."""

from __future__ import annotations

import asyncio

import pytest

from quorate.core.ids import Offset
from quorate.errors import NotLeaderOrFollower
from quorate.storage.group_commit import GroupCommit


class Device:
    """Syncs end when the test says so."""

    def __init__(self) -> None:
        self.end_offset = Offset(0)
        self.commits = GroupCommit(self.sync, lambda: self.end_offset, synced_offset=Offset(0))
        self.running: list[asyncio.Future[None]] = []
        self.started = 0

    async def sync(self) -> None:
        self.started += 1
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.running.append(done)
        await done

    def append(self, count: int = 1) -> None:
        self.end_offset = Offset(self.end_offset + count)

    def ask(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.commits.wait_for(self.end_offset))

    async def finish(self, error: BaseException | None = None) -> None:
        done = self.running.pop(0)
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
        await settle()


async def settle() -> None:
    """Until nothing moves without the device."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nothing_to_sync_needs_no_sync() -> None:
    device = Device()
    await device.ask()
    assert device.started == 0


async def test_all_that_ask_before_a_sync_begins_share_it() -> None:
    device = Device()
    device.append(3)
    waiting = [device.ask() for _ in range(10)]
    await settle()
    await device.finish()
    assert all(task.done() for task in waiting)
    assert device.started == 1
    assert device.commits.synced_offset == 3


async def test_whoever_asks_while_a_sync_runs_waits_for_the_next_and_shares_that() -> None:
    device = Device()
    device.append()
    first = device.ask()
    await settle()
    late = []
    for _ in range(10):
        device.append()
        late.append(device.ask())
    await settle()
    await device.finish()
    assert first.done()
    assert not any(task.done() for task in late)
    assert device.commits.synced_offset == 1
    await device.finish()
    assert all(task.done() for task in late)
    assert device.started == 2


async def test_who_asks_for_what_is_being_synced_waits_for_that_sync_only() -> None:
    device = Device()
    device.append()
    waiting = [device.ask()]
    await settle()
    waiting.append(asyncio.create_task(device.commits.wait_for(Offset(1))))
    device.append()
    await settle()
    await device.finish()
    assert all(task.done() for task in waiting)
    assert device.started == 1


async def test_caller_that_gives_up_does_not_take_the_sync_from_the_others() -> None:
    device = Device()
    device.append()
    gives_up, stays = device.ask(), device.ask()
    await settle()
    gives_up.cancel()
    await settle()
    await device.finish()
    assert gives_up.cancelled()
    assert stays.done()
    assert stays.exception() is None


async def test_failure_reaches_all_that_wait_and_is_not_repeated() -> None:
    device = Device()
    device.append()
    waiting = [device.ask() for _ in range(3)]
    await settle()
    await device.finish(OSError("device gone"))
    assert [str(task.exception()) for task in waiting] == ["device gone"] * 3
    assert device.started == 1
    assert device.commits.synced_offset == 0


async def test_truncation_while_a_sync_runs_lowers_what_it_may_claim() -> None:
    device = Device()
    device.append(10)
    waiting = device.ask()
    await settle()
    device.end_offset = Offset(4)
    device.commits.lower(Offset(4))
    device.append(3)  # other batches at 4 to 6, which the running sync does not cover
    await device.finish()
    assert device.commits.synced_offset == 4
    assert isinstance(waiting.exception(), NotLeaderOrFollower)


async def test_truncation_takes_back_what_was_claimed() -> None:
    device = Device()
    device.append(10)
    waiting = device.ask()
    await settle()
    await device.finish()
    await waiting
    device.commits.lower(Offset(4))
    assert device.commits.synced_offset == 4
    device.commits.lower(Offset(8))
    assert device.commits.synced_offset == 4


async def test_reset_starts_the_claims_anew_even_upwards() -> None:
    device = Device()
    device.append(10)
    waiting = device.ask()
    await settle()
    device.end_offset = Offset(50)
    device.commits.restart_at(Offset(50))
    await device.finish()
    assert device.commits.synced_offset == 50
    assert waiting.exception() is None


async def test_settling_waits_for_a_sync_under_way_whatever_its_outcome() -> None:
    device = Device()
    await device.commits.settle()
    device.append()
    waiting = device.ask()
    await settle()
    settling = asyncio.create_task(device.commits.settle())
    await settle()
    assert not settling.done()
    await device.finish(OSError("device gone"))
    await settling
    with pytest.raises(OSError, match="device gone"):
        await waiting
