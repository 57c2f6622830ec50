"""Clients that change and read metadata through whichever voter, and write down what they are told."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Sequence
from typing import Final

from quorate.chaos.quorum_drills.fake_brokers import BrokerSession
from quorate.chaos.quorum_drills.metadata_ledger import REGISTER, MetadataLedger, TopicEntry, register_value
from quorate.chaos.quorum_drills.voters import DrillVoters
from quorate.errors import NotController, QuorateError, UnknownTopicOrPartition
from quorate.v1 import admin_pb2, controller_pb2

__all__ = ["MetadataLoad"]

#: after a refusal, so that a quorum without a leader is not asked a thousand times a second
_PAUSE_S: Final = 0.02
#: between two operations of a client: on a small machine, load without any rest is a fault of its own
_REST_S: Final = 0.02
#: writes into a topic before its client makes another one
_WRITES_PER_TOPIC: Final = 20


class MetadataLoad:
    """``clients`` of them, from ``start`` to ``stop``."""

    def __init__(
        self,
        voters: DrillVoters,
        ledger: MetadataLedger,
        brokers: Sequence[BrokerSession],
        *,
        clients: int,
        seed: int,
    ) -> None:
        self._voters = voters
        self._ledger = ledger
        self._brokers = brokers
        self._seed = seed
        self._clients = clients
        self._tasks: list[asyncio.Task[None]] = []
        self._acknowledgement = asyncio.Condition()
        self._last_acknowledged_at = 0.0
        self.longest_gap_s = 0.0

    def start(self) -> None:
        self._last_acknowledged_at = time.monotonic()
        self._tasks = [
            asyncio.create_task(self._run(number), name=f"client-{number}") for number in range(self._clients)
        ]

    async def stop(self) -> None:
        """Each client finishes what it has begun: what is not answered by then is unknown for good."""
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks)

    async def acknowledged(self, count: int = 1, *, within_s: float) -> bool:
        """Whether ``count`` changes that were begun after this call were acknowledged in time."""
        # Others may have been on their way before, one of each client.
        wanted = self._ledger.acknowledged + self._clients + count
        try:
            async with asyncio.timeout(within_s), self._acknowledgement:
                await self._acknowledgement.wait_for(lambda: self._ledger.acknowledged >= wanted)
        except TimeoutError:
            return False
        return True

    async def read_at(self, voter: str, *, timeout_s: float) -> bool:
        """Read some topic at this very voter; whether it gave an answer, which is then checked."""
        entries = list(self._ledger.topics.values())
        return await self._read(random.choice(entries), voter, is_there=True, timeout_s=timeout_s)

    # --- one client -----------------------------------------------------------------------------------

    async def _run(self, number: int) -> None:
        rng = random.Random(f"{self._seed}/{number}")
        names = (f"drill-{number}-{count}" for count in itertools.count())
        entry = None
        while self._tasks:
            before = self._ledger.acknowledged
            if not self._voters.running:
                await asyncio.sleep(_PAUSE_S)
                continue
            voter = rng.choice(self._voters.running)
            if entry is None or not entry.is_open or entry.written >= _WRITES_PER_TOPIC:
                entry = await self._create(next(names), voter)
            elif rng.random() < 0.5:
                await self._write(entry, voter)
            elif rng.random() < 0.3:
                await self._allocate(rng)
            else:
                await self._read(rng.choice(list(self._ledger.topics.values())), voter)
            if self._ledger.acknowledged > before:
                await self._note_acknowledgement()
            await asyncio.sleep(_REST_S)

    async def _create(self, name: str, voter: str) -> TopicEntry:
        entry = self._ledger.creating(name)
        request = admin_pb2.CreateTopicRequest(name=name, partition_count=2, replication_factor=2)
        try:
            answer = await self._voters.administer(voter, "CreateTopic", request)
        except QuorateError as error:
            if error.outcome_unknown:
                self._ledger.outcome_unknown(entry)
            else:
                self._refused(error, f"creating {name}")
                self._ledger.creation_refused(entry)
            await asyncio.sleep(_PAUSE_S)
        else:
            self._ledger.created(entry, answer.topic.topic_id)
        return entry

    async def _write(self, entry: TopicEntry, voter: str) -> None:
        value = self._ledger.writing(entry)
        change = admin_pb2.ConfigChange(name=REGISTER, value=str(value))
        look = admin_pb2.AlterConfigsRequest(topic=entry.name, validate_only=True)
        try:
            seen = await self._voters.administer(voter, "AlterConfigs", look)
            request = admin_pb2.AlterConfigsRequest(
                topic=entry.name,
                topic_id=seen.topic_id,
                config_epoch=seen.config_epoch,
                changes=[change],
            )
            await self._voters.administer(voter, "AlterConfigs", request)
        except QuorateError as error:
            if error.outcome_unknown:
                self._ledger.outcome_unknown(entry)
            else:
                self._refused(error, f"writing {value} to {entry.name}")
                self._ledger.write_refused(entry, value)
            await asyncio.sleep(_PAUSE_S)
        else:
            self._ledger.wrote(entry, value)

    async def _allocate(self, rng: random.Random) -> None:
        broker = rng.choice(self._brokers)
        request = controller_pb2.AllocateProducerIdsRequest(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch
        )
        # Not passed on by others: whoever is not the active controller says so, and has done nothing.
        for voter in rng.sample(self._voters.running, len(self._voters.running)):
            try:
                answer = await self._voters.control(voter, "AllocateProducerIds", request)
            except NotController:
                continue
            except QuorateError as error:
                if error.outcome_unknown:
                    self._ledger.block_unknown()
                else:
                    self._refused(error, "asking for producer ids")
                    self._ledger.block_refused()
            else:
                self._ledger.got_block(answer.first_producer_id, answer.count)
            return
        await asyncio.sleep(_PAUSE_S)

    async def _read(
        self, entry: TopicEntry, voter: str, *, is_there: bool = False, timeout_s: float = 2.0
    ) -> bool:
        # What had to be seen when the read began: not what others write meanwhile.
        least = entry.least if entry.must_exist else None
        ask = self._voters.administer_there if is_there else self._voters.administer
        request = admin_pb2.DescribeTopicRequest(name=entry.name)
        value: int | None
        try:
            answer = await ask(voter, "DescribeTopic", request, timeout_s=timeout_s)
        except UnknownTopicOrPartition:
            value = None
        except QuorateError as error:
            self._refused(error, f"reading {entry.name}")
            await asyncio.sleep(_PAUSE_S)
            return False
        else:
            topic_settings = {
                each.name: each.value
                for each in answer.topic.configs
                if each.source == admin_pb2.CONFIG_SOURCE_TOPIC
            }
            value = register_value(topic_settings)
        self._ledger.read(entry, value, least_before=least, where=voter)
        return True

    def _refused(self, error: QuorateError, what: str) -> None:
        """Faults make a quorum say "not now"; what is wrong with the request itself would be a bug."""
        if not error.retriable:
            self._ledger.findings.append(f"{what}: refused: {error.code}: {error.message}")

    async def _note_acknowledgement(self) -> None:
        now = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last_acknowledged_at)
        self._last_acknowledged_at = now
        async with self._acknowledgement:
            self._acknowledgement.notify_all()
