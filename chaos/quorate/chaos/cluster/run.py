"""One simulated run of a whole cluster under faults, from a plan to a verdict."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from quorate.chaos.checks import elections, replicas_differ, retention, vacuity
from quorate.chaos.checks.case import Case
from quorate.chaos.checks.check_all import Check, check_all
from quorate.chaos.checks.final_state import FinalState, StoredDamage
from quorate.chaos.checks.verdict import Verdict, raise_violations
from quorate.chaos.checks.violation import Violation
from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.competition import Competition, CompetitionReport
from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.faults.operations import create_topic
from quorate.chaos.cluster.final import assigned_replicas, final_state, read_both_ways
from quorate.chaos.cluster.group_members import GroupMembers
from quorate.chaos.cluster.nemesis import Nemesis
from quorate.chaos.cluster.offset_watch import OffsetWatch
from quorate.chaos.cluster.plan import COMPETED, GROUPED, Plan
from quorate.chaos.cluster.scene import Scene
from quorate.chaos.cluster.signs import SignsInMetadata, expected_signs, signs_of, signs_of_group
from quorate.chaos.cluster.slow_loading import slow_loading
from quorate.chaos.cluster.trace import Trace, counting_events
from quorate.chaos.cluster.view import failed_in_silence, is_whole, what_is_missing
from quorate.chaos.cluster.workload import Workload
from quorate.chaos.history.entries import Outcome
from quorate.chaos.history.group_ledger import GroupLedger
from quorate.chaos.history.history import History
from quorate.chaos.history.partition_images import saw_partition_image
from quorate.chaos.history.watermarks import watch_watermarks
from quorate.chaos.invariants.demands import Demands
from quorate.chaos.invariants.observer import Observer
from quorate.chaos.invariants.rot import has_rotted
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.process import SimProcess
from quorate.core.config import Durability
from quorate.core.config.groups import GroupConfig
from quorate.core.config.topic import TopicConfig
from quorate.core.ids import TopicPartition
from quorate.core.topic_names import INTERNAL_TOPICS
from quorate.errors import QuorateError, ReplicaDiverged
from quorate.metadata.image import PartitionImage

__all__ = ["RunReport", "compete_for_seed", "run_plan", "run_seed"]

#: shorter than the defaults, so that sessions end, replicas lag and files go within a short run
_SETTINGS: Final[Mapping[str, Any]] = {
    "controller_quorum_election_timeout_ms": 300,
    "broker_session_timeout_ms": 1_200,
    "broker_lease_ms": 600,
    "broker_device_witness_interval_ms": 500,
    "replica_lag_time_max_ms": 1_500,
    "controlled_shutdown_timeout_ms": 1_500,
    "log_retention_check_interval_ms": 1_000,
    "file_delete_delay_ms": 500,
    # So little that some reads are of batches in memory, and some of files.
    "log_recent_bytes": 6_000,
    # Of the topic in which groups keep their state; all others have their own.
    "topic_defaults": TopicConfig(segment_ms=700, delete_retention_ms=2_000, min_cleanable_dirty_ratio=0.3),
    "groups": GroupConfig(
        offsets_topic_num_partitions=2, session_timeout_ms=1_200, heartbeat_interval_ms=200
    ),
}
#: where a controller's syncs fail: else there would be no snapshots
_SNAPSHOT_BYTES: Final = 1_024
_SUPERVISOR_S: Final = 0.2
_POLL_S: Final = 0.05
#: a broker tells of a damaged replica at once, and the metadata says so in a moment
_REPAIR_S: Final = 0.5
_REPAIRS_MAX: Final = 10
_HEALED_WITHIN_S: Final = 30.0
#: what a client has sent and given up arrives within this, on a network that is healed
_LATE_S: Final = 0.2
#: in quiet times: a connection over which a frame was lost is silent for 15 s before it breaks
_ACKNOWLEDGED_WITHIN_S: Final = 25.0
_TIME_LIMIT_S: Final = 600.0
#: checks that look at the logs and the metadata alone
_WITHOUT_HISTORY: Final[tuple[Check, ...]] = (replicas_differ.check, elections.check, retention.check)


@dataclass(frozen=True, slots=True)
class RunReport:
    seed: int
    story: tuple[str, ...]
    sent: int
    acknowledged: int
    unknown: int
    read: int
    virtual_s: float
    #: how often something happened in the cluster, by the name of its log event
    counters: Mapping[str, int]
    #: how often each kind of fault was inflicted
    faults: Mapping[str, int]
    competition: CompetitionReport | None
    #: of all that clients were told and saw, and of what was committed
    digest: str


def run_seed(
    seed: int,
    *,
    faults: Sequence[Fault] = (),
    durability: Durability | None = None,
    trace: Trace | None = None,
) -> RunReport:
    """As ``run_plan``. What is not given is drawn from the seed."""
    return run_plan(Plan.draw(seed, kinds=faults, durability=durability), trace=trace)


def compete_for_seed(seed: int, *, faults: Sequence[Fault] = ()) -> CompetitionReport:
    """As ``run_seed``, with nobody there but clients that compete by conditional appends."""
    report = run_plan(Plan.draw(seed, kinds=faults).only_competing()).competition
    assert report is not None
    return report


def run_plan(plan: Plan, *, trace: Trace | None = None) -> RunReport:
    """``Violation`` if a promise was broken; also if the cluster is not whole again in time."""

    async def main(simulation: Simulation) -> RunReport:
        if trace is not None:
            trace.now_s = simulation.loop.time
        try:
            return await _Run(simulation, plan, counts, trace).run()
        finally:
            if trace is not None:
                trace.end()

    with counting_events(trace) as counts, slow_loading(random.Random(f"loading {plan.seed}")):
        return run_simulation(main, seed=plan.seed, time_limit_s=_TIME_LIMIT_S)


class _Run:
    def __init__(self, simulation: Simulation, plan: Plan, counts: Counter[str], trace: Trace | None) -> None:
        self._simulation = simulation
        self._plan = plan
        self._trace = trace
        self._counts = counts
        self._cluster = SimCluster(
            simulation, brokers=plan.brokers, is_combined=plan.is_combined, settings=_settings_of(plan)
        )
        network = self._cluster.network
        demands = Demands(plan.topics, lambda: network.requests_doubled > 0)
        self._observer = Observer(self._cluster, demands)
        self._history = History(simulation.loop.time, recorder=trace)
        self._observer.on_partition = self._saw_partition
        self._signs = SignsInMetadata()
        #: of copies that had rotted unseen in the end, by the files themselves: what is gone is not among it
        self._damages: list[StoredDamage] = []
        self._scene = Scene(self._cluster, plan, self._history, demands, lambda: self._observer.image)
        self._nemesis = Nemesis(self._scene, trace)
        self._workload = Workload(
            self._cluster,
            self._history,
            plan.written_topics,
            self._observer.acknowledged,
        )
        self._group = GroupLedger(self._history, GROUPED)
        self._members = GroupMembers(self._cluster, self._group, GROUPED)
        self._offsets = OffsetWatch(self._cluster, self._history, GROUPED)

    async def run(self) -> RunReport:
        await self._begin()
        clients = self._start_clients()
        beside = [asyncio.create_task(self._watch_watermarks(), name="watermarks")]
        competitors = self._plan.workload.competitors
        competition = Competition(self._cluster, competitors) if competitors else None
        beside.append(asyncio.create_task(self._restart_what_ended(), name="supervisor"))
        members = self._start_members()
        if members:
            beside.append(asyncio.create_task(self._offsets.watch(), name="offsets"))
        await self._nemesis.run()
        await self._until("whole", lambda: is_whole(self._cluster))
        self._workload.end()
        self._members.end()
        await asyncio.gather(*clients, *members)
        if competition is not None:
            await competition.end()
        await self._until("rid of requests that are repeated", lambda: not self._cluster.network.repeats_due)
        await self._cluster.clock.sleep(_LATE_S)
        await self._until_quiet()
        self._check_nobody_has_crashed()
        final = self._final_state()
        await self._read_everything(final)
        await self._finish_group(final)
        for task in beside:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return self._judge(final, competition)

    async def _begin(self) -> None:
        """All nodes run, and all topics are in sync."""
        # After every callback: without a trace there is nothing to be done but to look.
        self._simulation.loop.after_turn = self._observer.look if self._trace is None else self._look
        await self._cluster.start()
        async with self._scene.admin(self._cluster.client_rng()) as admin:
            for topic in self._plan.topics:
                await create_topic(admin, topic)
        await self._until("whole", lambda: is_whole(self._cluster))

    def _start_clients(self) -> list[asyncio.Task[None]]:
        drawn, workload = self._plan.workload, self._workload
        clients = {f"p{number}": workload.produce(f"p{number}") for number in range(drawn.producers)}
        clients |= {
            f"h{number}": workload.produce(f"h{number}", "1") for number in range(drawn.hasty_producers)
        }
        clients |= {f"r{number}": workload.read(f"r{number}") for number in range(drawn.readers)}
        return [asyncio.create_task(client, name=name) for name, client in clients.items()]

    def _start_members(self) -> list[asyncio.Task[None]]:
        return [
            asyncio.create_task(self._members.come_and_go(), name=f"member-{number}")
            for number in range(self._plan.workload.members)
        ]

    async def _finish_group(self, final: FinalState) -> None:
        """One more member gets whatever the others have left."""
        if not self._plan.workload.members:
            return
        records = {name: list(log.records) for name, log in final.partitions.items() if name.topic == GROUPED}
        last = self._members.begin()
        await self._until(
            "read by the group", lambda: self._group.has_handed_out(records), check="group-skipped"
        )
        self._group.has_read_all()
        await last.leave()

    async def _watch_watermarks(self) -> None:
        """As one more client."""
        async with self._scene.admin(self._cluster.client_rng()) as admin, asyncio.TaskGroup() as watches:
            for topic in self._plan.written_topics:
                watches.create_task(watch_watermarks(admin, self._history, topic.name))

    async def _restart_what_ended(self) -> None:
        """As whoever runs nodes does: one that has ended by itself is started again."""
        while True:
            await self._cluster.clock.sleep(_SUPERVISOR_S)
            for machine in self._cluster.machines.values():
                if not machine.is_running and not self._scene.is_held(machine):
                    machine.start()

    def _look(self, process: SimProcess) -> None:
        try:
            self._observer.look(process)
        except Violation:
            # Whatever nodes do while they are taken down is not part of the run.
            assert self._trace is not None
            self._trace.end()
            raise

    def _saw_partition(self, name: TopicPartition, partition: PartitionImage) -> None:
        saw_partition_image(self._history, "quorum", name, partition)
        self._signs.saw(partition)

    # -- until it is whole and quiet

    async def _until(self, what: str, condition: Callable[[], bool], *, check: str = "not-converged") -> None:
        clock = self._cluster.clock
        deadline_s = clock.monotonic() + _HEALED_WITHIN_S
        while not condition():
            self._check_nobody_has_diverged()
            self._check_nobody_has_crashed()
            if clock.monotonic() > deadline_s:
                missing = what_is_missing(self._cluster)
                message = f"not {what} {_HEALED_WITHIN_S:g} s after it was healed"
                if failed_in_silence(self._cluster) is not None:
                    check = "failed-in-silence"
                raise Violation(f"{message}: {missing}" if missing else message, check=check)
            await clock.sleep(_POLL_S)

    def _check_nobody_has_diverged(self) -> None:
        """A replica that was to drop committed records has refused to, and waits for help (rule 11)."""
        for replicas in assigned_replicas(self._cluster).values():
            for _, replica in replicas:
                if isinstance(replica.failure, ReplicaDiverged):
                    raise Violation(replica.failure.message, check="diverged")

    def _check_nobody_has_crashed(self) -> None:
        """A process that ends by itself says why, by an error of its own kind or where it cannot go on."""
        for machine in self._cluster.machines.values():
            for error in machine.crashes:
                raise Violation(f"a process of {machine.name} ended with {error!r}", check="crashed")

    async def _until_quiet(self) -> None:
        """Everything is committed, known to be, and can be read; what has rotted unseen is seen now."""
        for _ in range(_REPAIRS_MAX):
            await self._until("quiet", lambda: is_whole(self._cluster) and self._is_all_committed())
            if not self._find_damage():
                return
            # The cluster is whole until it has heard of the damage.
            await self._cluster.clock.sleep(_REPAIR_S)
        raise Violation("damage is found again and again", check="not-converged")

    def _is_all_committed(self) -> bool:
        for replicas in assigned_replicas(self._cluster).values():
            ends = {
                offset for _, each in replicas for offset in (each.log.log_end_offset, each.high_watermark)
            }
            if len(ends) != 1:
                return False
        return True

    def _find_damage(self) -> bool:
        """As readers would, of every copy."""
        is_damaged = False
        for replicas in assigned_replicas(self._cluster).values():
            for name, replica in replicas:
                is_rotten = has_rotted(self._cluster.machine(name), replica)
                detections = 0
                try:
                    read_both_ways(replica, replica.high_watermark)
                except QuorateError as error:
                    replica.fail(error)
                    is_damaged = True
                    detections = 1
                if is_rotten:
                    where = f"{replica.topic_partition} at {name}"
                    self._damages.append(StoredDamage(where, "its files have rotted", detections))
        return is_damaged

    async def _read_everything(self, final: FinalState) -> None:
        """As a client: whatever the logs hold can be read."""
        starts = {
            name: partition.log_start_offset
            for name, partition in final.partitions.items()
            if _has_history(name.topic)
        }
        ends = {name: final.partitions[name].high_watermark for name in starts}
        reading = asyncio.create_task(self._workload.read_everything("last", starts, ends))
        await self._until("read to the end", reading.done)
        reading.result()

    # -- the verdict

    def _final_state(self) -> FinalState:
        self._counts.update(signs_of(self._cluster, self._signs, self._observer.examined))
        self._counts.update(signs_of_group(self._history, offsets_told=self._offsets.examined))
        found = final_state(
            self._cluster,
            may_delete=self._scene.may_delete,
            losses={
                name: self._observer.losses_of(name)
                for name in assigned_replicas(self._cluster)
                if name.topic in {topic.name for topic in self._plan.topics if topic.may_lose}
            },
            keys=self._workload.keys,
            counters=self._counts,
            expected=expected_signs(event.kind for _, event, _ in self._nemesis.story),
        )
        return replace(
            found,
            damages=tuple(self._damages),
            acknowledged_within_s=_ACKNOWLEDGED_WITHIN_S,
        )

    def _verdicts(self, final: FinalState) -> list[Verdict]:
        """What competitors did has a history of its own: their log is checked for what needs none."""
        verdicts = check_all(self._history, _of_topics(final, _has_history))
        others = Case(History(self._history.now_s), _of_topics(final, lambda topic: not _has_history(topic)))
        verdicts += [check(others) for check in _WITHOUT_HISTORY]
        if not self._plan.workload.producers:
            # Then nothing is acknowledged in the history, and that is all that this one would say.
            verdicts = [each for each in verdicts if each.check != vacuity.NAME]
        return verdicts

    def _judge(self, final: FinalState, competition: Competition | None) -> RunReport:
        verdicts = self._verdicts(final)
        raise_violations(verdicts)
        counters = Counter(self._counts)
        for verdict in verdicts:
            if verdict.check != vacuity.NAME:  # it tells the counters themselves
                counters.update({name: int(figure) for name, figure in verdict.figures.items()})
        report = None
        if competition is not None:
            report = competition.check(final.partitions[competition.partition].records)
        story = [f"{at_s:8.3f} {what}" for at_s, _, what in self._nemesis.story]
        return RunReport(
            seed=self._plan.seed,
            story=tuple(story),
            sent=len(self._history.sent),
            acknowledged=sum(1 for _ in self._history.acknowledged),
            unknown=self._history.outcomes()[Outcome.UNKNOWN],
            read=self._history.read_counts().total(),
            virtual_s=self._simulation.loop.time(),
            counters=dict(sorted(counters.items())),
            faults=dict(sorted(Counter(event.kind.value for _, event, _ in self._nemesis.story).items())),
            competition=report,
            digest=_digest(self._history, final),
        )


def _settings_of(plan: Plan) -> Mapping[str, Any]:
    if not any(event.kind is Fault.FAIL_SYNC_OF_CONTROLLER for event in plan.events):
        return _SETTINGS
    return {**_SETTINGS, "metadata_log_max_record_bytes_between_snapshots": _SNAPSHOT_BYTES}


def _has_history(topic: str) -> bool:
    """Competitors and groups keep their own of what they write."""
    return topic != COMPETED and topic not in INTERNAL_TOPICS


def _of_topics(final: FinalState, are_meant: Callable[[str], bool]) -> FinalState:
    partitions = {name: found for name, found in final.partitions.items() if are_meant(name.topic)}
    return replace(final, partitions=partitions)


def _digest(history: History, final: FinalState) -> str:
    content = hashlib.sha256()
    for sent in history.sent:
        told = (sent.value, sent.outcome.value, sent.offset, sent.error, sent.begun_s, sent.ended_s)
        content.update(repr(told).encode())
    for poll in history.polls:
        content.update(repr((poll.partition, poll.records, poll.at_s)).encode())
    for name, partition in final.partitions.items():
        content.update(repr((name, sorted(partition.records.items()))).encode())
    return content.hexdigest()
