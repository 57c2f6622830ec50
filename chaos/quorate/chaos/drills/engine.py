"""One drill from beginning to end: a cluster, load, the story again and again, the proof, and the report.

The load writes its ledger to a file as it goes, so that what clients were told outlives the drill itself. A
story that fails does not end the drill: whatever it broke is mended, and what the cluster holds is judged in
any case. An interrupt ends it, and still mends: the cluster may be somebody else's.
"""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from quorate.chaos.checks.violation import Violation
from quorate.chaos.drills.agent import ClusterAgent
from quorate.chaos.drills.choices import Choices
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.judgement import judge
from quorate.chaos.drills.options import DrillOptions
from quorate.chaos.drills.progress import Progress, Silence, Status
from quorate.chaos.drills.story import Story
from quorate.chaos.drills.summary import summarise
from quorate.chaos.drills.timeline import EventKind, Timeline
from quorate.chaos.drills.watch import ClusterWatch
from quorate.chaos.history.entries import Acks
from quorate.chaos.history.group_ledger import GroupLedger
from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_file import LedgerFile
from quorate.chaos.live.group_load import GroupLoad
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.file_names import GROUP_LOG_FILE, HISTORY_FILE
from quorate.chaos.report.files import write_report
from quorate.client import AsyncAdmin
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError, StorageFailed

__all__ = ["run_drill"]

_STATUS_S: Final = 0.5
#: A cluster that cannot be mended is a finding; nobody has to wait for it for ever.
_MEND_TIMEOUT_S: Final = 180.0
_PRODUCERS: Final = 2
#: of one of them: shorter than most faults, so that all three outcomes are met
_HASTY_TIMEOUT_MS: Final = 1_500


async def run_drill(
    story: Story, agent: ClusterAgent, options: DrillOptions, progress: Progress | None = None
) -> DrillReport:
    """The story must fit the agent. Returns the report, which has been written to the directory."""
    try:
        os.makedirs(options.directory, exist_ok=True)
        ledger_file = LedgerFile.create(f"{options.directory}/{HISTORY_FILE}")
    except OSError as error:
        await agent.discard()
        what = f"no report can be written to {options.directory}: {error.strerror}"
        raise StorageFailed(what, path=options.directory) from error
    with ledger_file as ledger:
        run = _Run(story, agent, options, progress or Silence(), History(recorder=ledger))
        report = await run.whole()
    write_report(report, options.directory)
    return report


class _Run:
    def __init__(
        self,
        story: Story,
        agent: ClusterAgent,
        options: DrillOptions,
        progress: Progress,
        history: History,
    ) -> None:
        self._story = story
        self._agent = agent
        self._options = options
        self._progress = progress
        self._history = history

    async def whole(self) -> DrillReport:
        began = datetime.now(UTC)
        self._progress.tell(f"{self._story.name}: {_layout(self._agent)}")
        async with (
            self._agent.running(),
            AsyncAdmin(self._agent.bootstrap) as admin,
            self._topics(admin) as topics,
        ):
            drill = await self._drill(admin, topics)
            async with self._watching(drill) as watch:
                await self._under_load(drill)
                self._progress.tell("comparing every replica with what clients were told")
                verdicts = await judge(drill, watch)
            return summarise(drill, self._story, self._options, verdicts, began=began)

    @asynccontextmanager
    async def _topics(self, admin: AsyncAdmin) -> AsyncIterator[dict[str, str]]:
        """Under names that nobody else has: the cluster may be in use."""
        token = uuid.uuid4().hex[:6]
        topics = {called: f"drill-{token}-{called}" for called in self._story.topics}
        for called, arguments in self._story.topics.items():
            await admin.create_topic(topics[called], **arguments)
        try:
            yield topics
        finally:
            for name in () if self._agent.is_temporary else topics.values():
                await admin.delete_topic(name)

    async def _drill(self, admin: AsyncAdmin, topics: dict[str, str]) -> Drill:
        partitions = {
            called: [
                TopicPartition(TopicName(name), PartitionId(each.partition))
                for each in (await admin.describe_topic(name)).partitions
            ]
            for called, name in topics.items()
        }
        promised = [
            each
            for called, of_it in partitions.items()
            for each in of_it
            if called not in self._story.weak_acks
        ]
        loads = [
            self._load(partitions[called], acks=acks, name=f"writer with acks={acks}", producers=1)
            for called, acks in self._story.weak_acks.items()
        ]
        rng = random.Random(f"{self._story.name} {self._options.seed}")
        return Drill(
            agent=self._agent,
            admin=admin,
            load=self._load(
                promised, acks="all", name="writer", producers=_PRODUCERS, hasty_timeout_ms=_HASTY_TIMEOUT_MS
            ),
            other_loads=loads,
            timeline=Timeline(self._history, self._history.now_s()),
            random=rng,
            choices=Choices(self._options.seed, rng),
            pace=self._options.pace,
            topics=topics,
            partitions=promised,
            group=self._group(promised),
            tell=self._progress.tell,
            signs=set(self._story.signs),
        )

    def _group(self, partitions: list[TopicPartition]) -> GroupLoad | None:
        if self._story.group is None:
            return None
        # Named like a topic of this run: nobody else has a group of that name.
        ledger = GroupLedger(self._history, f"{partitions[0].topic}-readers")
        return GroupLoad(
            self._agent.bootstrap,
            partitions,
            ledger,
            self._story.group,
            log_path=f"{self._options.directory}/{GROUP_LOG_FILE}",
        )

    def _load(
        self,
        partitions: list[TopicPartition],
        *,
        acks: Acks,
        name: str,
        producers: int,
        hasty_timeout_ms: int | None = None,
    ) -> LedgerLoad:
        return LedgerLoad(
            self._agent.bootstrap,
            partitions,
            producers=producers,
            acks=acks,
            records_per_s=self._options.records_per_s / producers,
            hasty_timeout_ms=hasty_timeout_ms,
            history=self._history,
            name=name,
        )

    @asynccontextmanager
    async def _watching(self, drill: Drill) -> AsyncIterator[ClusterWatch]:
        watch = ClusterWatch(drill.timeline, frozenset(drill.topics.values()), drill.name_of)
        controllers = (await drill.admin.describe_cluster()).controllers
        async with watch.watching(drill.admin, [each.address for each in controllers]):
            yield watch

    # -- the story

    async def _under_load(self, drill: Drill) -> None:
        telling = asyncio.create_task(self._tell_status(drill))
        try:
            async with AsyncExitStack() as loads:
                if drill.group is not None:
                    # First in, last out: when nobody writes any more its members read to the end.
                    await loads.enter_async_context(drill.group)
                for load in (drill.load, *drill.other_loads):
                    await loads.enter_async_context(load)
                drill.timeline.began_s = self._history.now_s()
                await self._tell_story(drill)
        except Violation as violation:
            # A client saw it before any check could: a reader, for one, that was shown what is gone now.
            drill.violations.append(violation)
            self._progress.tell(f"NOT AS PROMISED: {violation}")
        finally:
            telling.cancel()
            await asyncio.wait([telling])
        drill.timeline.ended_s = self._history.now_s()

    async def _tell_story(self, drill: Drill) -> None:
        end_s = drill.timeline.began_s + self._options.seconds
        try:
            while drill.rounds == 0 or self._history.now_s() < end_s:
                await drill.calm()
                drill.rounds += 1
                await self._story.strike(drill)
                await drill.mend()
                await drill.becomes_whole()
                await drill.rest(drill.pace.quiet_s)
        except (Violation, QuorateError, TimeoutError) as error:
            drill.note_failure(f"round {drill.rounds} ended with {error!r}")
        finally:
            await self._mend(drill)

    async def _mend(self, drill: Drill) -> None:
        try:
            async with asyncio.timeout(_MEND_TIMEOUT_S):
                await drill.mend()
        except (QuorateError, TimeoutError) as error:
            drill.note_failure(f"what was broken could not be mended: {error!r}")

    async def _tell_status(self, drill: Drill) -> None:
        timeline, before = drill.timeline, 0
        while True:
            await asyncio.sleep(_STATUS_S)
            acknowledged = sum(load.acknowledged_count for load in (drill.load, *drill.other_loads))
            self._progress.update(
                Status(
                    elapsed_s=self._history.now_s() - timeline.began_s,
                    total_s=self._options.seconds,
                    acknowledged=acknowledged,
                    acknowledged_per_s=(acknowledged - before) / _STATUS_S,
                    faults=len(self._history.faults),
                    elections=timeline.count(EventKind.ELECTION),
                )
            )
            before = acknowledged


def _layout(agent: ClusterAgent) -> str:
    brokers = [node for node in agent.nodes if node.is_broker]
    controllers = [node for node in agent.nodes if node.is_controller]
    if any(node.is_broker for node in controllers):
        return f"{len(brokers)} nodes ({agent.kind}); {len(controllers)} of them are controllers, too"
    return f"{len(brokers)} brokers and {len(controllers)} controllers ({agent.kind})"
