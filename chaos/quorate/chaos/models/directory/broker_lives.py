"""A broker's directory through many lives, with the controller's own judgement of each start.

``BrokerLives`` starts processes on one simulated machine, lets them acknowledge records in two logs, one of a
``replicated`` and one of an ``fsync`` topic, and ends them in every way there is. After each registration it
holds the controller's verdict against what is really there: a replica that counts has every record that it
has acknowledged (rule 30). It also asks for the opposite: as long as only processes died, nothing is given
up; and nobody is told that its directory is an older one unless that is so.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable
from typing import Final

from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.chaos.models.log.log_harness import (
    HastyClock,
    ProcessEnded,
    batch,
    make_context,
    small_config,
)
from quorate.chaos.sim.disk import DiskSnapshot, SimDisk
from quorate.chaos.sim.disk_faults import FaultHook, Operation, ProcessDied
from quorate.controller.previous_run import StartKind, judge_start
from quorate.controller.witnesses import HeardWitnesses, with_heard_witnesses
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName
from quorate.metadata.image import BrokerImage
from quorate.storage import LogContext, PartitionKey, PartitionLog
from quorate.v1.controller_pb2 import RegisterBrokerRequest

__all__ = ["CLUSTER", "FSYNC", "NODE", "PATH", "REPLICATED", "BrokerLives", "die_at", "has_died", "open_in"]

PATH: Final = "/data"
NODE: Final = BrokerId(4)
CLUSTER: Final = "the-cluster"
REPLICATED: Final = PartitionKey(TopicName("replicated"), PartitionId(0), TopicId("R" * 22))
FSYNC: Final = PartitionKey(TopicName("fsync"), PartitionId(0), TopicId("F" * 22))
_CONFIG: Final = small_config(segment_bytes=100_000)
_KEEPS_ALL: Final = (StartKind.CLEAN, StartKind.PROCESS_CRASH)


def die_at(number: int, *, written: int = 0) -> FaultHook:
    """The process dies at its n-th operation from now, and does nothing more."""
    seen = 0

    def hook(operation: Operation) -> None:
        nonlocal seen
        seen += 1
        if seen >= number:
            raise ProcessDied(written=written if seen == number else 0)

    return hook


async def has_died(work: Awaitable[object]) -> bool:
    """Whether the process died over it: alone, or in one of several tasks."""
    try:
        await work
    except (ProcessDied, ProcessEnded):
        return True
    except BaseExceptionGroup as group:
        if group.subgroup((ProcessDied, ProcessEnded)) is None:
            raise
        return True
    return False


async def open_in(disk: SimDisk, context: LogContext | None = None, *, seed: int = 0) -> BrokerDirectory:
    return await BrokerDirectory.open(
        context or make_context(disk),
        PATH,
        node_id=NODE,
        cluster_id=None,
        random_bytes=random.Random(seed).randbytes,
    )


class BrokerLives:
    def __init__(self, seed: int = 0, *, hears_witness: bool = True) -> None:
        """``hears_witness`` False: each time a new controller, which has heard no number (rule 30)."""
        self._hears_witness = hears_witness
        self.rng = random.Random(seed)
        self.disk = SimDisk()
        self.context = make_context(self.disk, HastyClock())
        self.directory: BrokerDirectory | None = None
        self.registered: BrokerImage | None = None
        #: of the last registration
        self.verdict: StartKind | None = None
        #: how many records each log's replica has acknowledged, while it counts
        self.acknowledged = {REPLICATED: 0, FSYNC: 0}
        #: more than a process has ended since the last run that the controller heard of
        self.is_harmed = False
        #: the directory was wiped or put back from a copy since then
        self.is_replaced = False
        self._epochs = itertools.count(100)

    # -- a start

    async def start(self) -> None:
        """From nothing to an epoch that is noted. Checks the verdict on the way."""
        self.context = make_context(self.disk, HastyClock())
        directory = await open_in(self.disk, self.context, seed=self.rng.randrange(1 << 32))
        await directory.recover_logs(lambda _: _CONFIG)
        incarnation_id = self.rng.randbytes(4).hex()
        await directory.note_incarnation(incarnation_id)
        epoch = self.register(directory, incarnation_id)
        await directory.note_epoch(epoch, CLUSTER)
        self.directory = directory
        self.is_harmed = self.is_replaced = False
        for key in (REPLICATED, FSYNC):
            log = directory.logs.get(key) or await directory.logs.create(key, _CONFIG)
            if log.damage is not None:
                await log.reset_to(log.log_start_offset)
            log.become_leader(LeaderEpoch(epoch))
            # It has caught up, and counts from here on.
            self.acknowledged[key] = log.log_end_offset

    def register(self, directory: BrokerDirectory, incarnation_id: str) -> BrokerEpoch:
        request = RegisterBrokerRequest(
            broker_id=NODE,
            incarnation_id=incarnation_id,
            directory_id=directory.directory_id,
            previous_run=directory.previous_run(),
            damaged=directory.damaged(),
        )
        run = request.previous_run
        has_witness = self._hears_witness and run.HasField("cache_witness")
        before, epoch = self.registered, BrokerEpoch(next(self._epochs))
        self.verdict = judge_start(before, request)
        self.registered = BrokerImage(
            NODE,
            epoch,
            incarnation_id,
            directory.directory_id,
            "here",
            "",
            1,
            1,
            is_fenced=True,
            is_shutting_down=False,
            is_draining=False,
            cache_witness=run.cache_witness if has_witness else None,
            device_witness=run.device_witness if self._hears_witness else 0,
        )
        if before is not None:
            self._check_accusation(before, request)
            self._check_verdict(directory, {name.topic_id for name in request.damaged})
        return epoch

    def _check_accusation(self, before: BrokerImage, request: RegisterBrokerRequest) -> None:
        run = request.previous_run
        is_last_run = run.broker_epoch == before.broker_epoch
        is_of_last_run = is_last_run or before.incarnation_id in run.unnoted_incarnation_ids
        if request.directory_id == before.directory_id and is_of_last_run and not self.is_replaced:
            assert self.verdict is not StartKind.UNKNOWN_DIRECTORY, (
                f"the directory is the one that it was, with {run.device_witness} of {before.device_witness}"
            )

    def _check_verdict(self, directory: BrokerDirectory, damaged: set[str]) -> None:
        verdict = self.verdict
        assert verdict is not None
        if not self.is_harmed:
            assert verdict in _KEEPS_ALL, f"only processes died, and the start is judged {verdict}"
            assert not damaged, f"only processes died, and {damaged} are called damaged"
        counts = {
            REPLICATED: verdict in _KEEPS_ALL,
            FSYNC: verdict is not StartKind.UNKNOWN_DIRECTORY,
        }
        for key, does_count in counts.items():
            if not does_count or key.topic_id in damaged:
                self.acknowledged[key] = 0
                continue
            log = directory.logs.get(key)
            end = 0 if log is None else log.log_end_offset
            promised = self.acknowledged[key]
            assert end >= promised, f"{verdict}: {key.topic} counts, and has {end} of {promised} records"

    # -- a run

    @property
    def running(self) -> BrokerDirectory:
        assert self.directory is not None
        return self.directory

    def log(self, key: PartitionKey) -> PartitionLog:
        log = self.running.logs.get(key)
        assert log is not None
        return log

    def beat(self) -> None:
        """A heartbeat, which the controller hears."""
        heard = HeardWitnesses(self.running.advance_cache_witness(), self.running.device_witness)
        assert self.registered is not None
        if self._hears_witness:
            self.registered = with_heard_witnesses(self.registered, heard)

    async def tell_of_device(self) -> None:
        """As the broker does now and then: the next number of its device witness, and a heartbeat with it."""
        await self.running.advance_device_witness()
        self.beat()

    async def acknowledge(self, count: int) -> None:
        """Records in both logs, each acknowledged as its topic's durability says. Heartbeats come first."""
        for _ in range(count):
            self.beat()
            for key in (REPLICATED, FSYNC):
                log = self.log(key)
                log.append_as_leader(batch(self.rng.randbytes(30)), leader_epoch=log.latest_leader_epoch)
                if key is FSYNC:
                    await log.flush()
                self.acknowledged[key] = log.log_end_offset

    # -- its end

    async def stop(self) -> bool:
        return await self.running.close()

    def crash(self) -> None:
        self.disk.fault_hook = None
        self.disk.crash()
        self.directory = None

    def lose_power(self, *, loses_all: bool = False) -> None:
        self.disk.fault_hook = None
        self.disk.power_loss(None if loses_all else self.rng)
        self.directory = None
        self.is_harmed = True

    def put_back(self, copy: DiskSnapshot) -> None:
        """An old copy of the directory, in the place of what is there."""
        self.disk.restore(copy, PATH)
        self.is_harmed = self.is_replaced = True

    def wipe(self) -> None:
        self.disk.wipe(PATH)
        self.is_harmed = self.is_replaced = True

    def lose_page_cache(self) -> None:
        """The volume went and came back. The machine has not been restarted, and every id is the same."""
        self.disk.fault_hook = None
        self.disk.lose_page_cache()
        self.directory = None
        self.is_harmed = True
