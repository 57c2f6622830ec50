"""What ``quorate cluster rebalance`` does once its options are read: look, plan, move if asked to, tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from quorate.console.described_topics import describe_each
from quorate.console.moving.outcome import check_done
from quorate.console.moving.throttling import (
    current_throttle,
    restore_throttle,
    set_throttle,
    telling_what_is_left,
)
from quorate.console.moving.watch import wait_for_moves
from quorate.console.output import print_json, print_table
from quorate.console.planning.quantities import show_bytes
from quorate.console.rebalancing.placement import Broker, Name, Placed, Tally
from quorate.console.rebalancing.planner import Move, plan
from quorate.console.session import Session
from quorate.errors import ReassignmentInProgress
from quorate.v1 import admin_pb2

if TYPE_CHECKING:
    from quorate.client.impatient_admin import ImpatientAdmin

__all__ = ["Rebalance", "RebalanceOptions"]

_NAMES_SHOWN_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class RebalanceOptions:
    execute: bool
    #: only these; none: all
    topics: Sequence[str]
    at_a_time: int
    #: bytes per second, as they were given
    throttle: str | None
    timeout_s: float | None


@dataclass(frozen=True, slots=True)
class _LeftAlone:
    """A move would take a replica away from a partition that lacks one already, or could not end at all."""

    name: Name
    has_leader: bool
    not_in_sync: tuple[int, ...]


@dataclass(slots=True)
class _Found:
    brokers: list[Broker] = field(default_factory=list)
    #: those that are left alone are fixed
    partitions: list[Placed] = field(default_factory=list)
    left_alone: list[_LeftAlone] = field(default_factory=list)


class Rebalance:
    def __init__(self, session: Session, options: RebalanceOptions) -> None:
        self._session = session
        self._options = options

    async def run(self, connection: ImpatientAdmin) -> None:
        found = await self._look(connection)
        moves = plan(found.brokers, found.partitions)
        if self._options.execute and moves:
            await self._execute(connection, moves)
        elif self._options.throttle is not None:
            # Found out now, and not when the plan was read and agreed to.
            await set_throttle(connection, self._options.throttle, validate_only=True)
        self._tell(found, moves)

    # -- looking

    async def _look(self, connection: ImpatientAdmin) -> _Found:
        running = await connection.list_reassignments()
        if running:
            raise ReassignmentInProgress(
                f"{len(running)} move(s) are under way; a plan made now would be wrong when they are done"
            )
        cluster = await connection.describe_cluster()
        found = _Found(
            [
                Broker(
                    each.broker_id,
                    each.rack,
                    takes=not (each.is_fenced or each.is_draining or each.is_shutting_down),
                )
                for each in cluster.brokers
            ]
        )
        for broker in found.brokers:
            if not broker.takes:
                self._session.note(f"broker {broker.id} is fenced or draining: it keeps what it has")
        names = self._options.topics or [each.name for each in await connection.list_topics()]
        for description in await _described(connection, names):
            _sort_in(description, found)
        if found.left_alone:
            self._session.note(_about_left_alone(found.left_alone))
        return found

    # -- doing

    async def _execute(self, connection: ImpatientAdmin, moves: Sequence[Move]) -> None:
        options = self._options
        requests = {move.before.name: _request(move) for move in moves}
        check = admin_pb2.ReassignPartitionsRequest(moves=list(requests.values()), validate_only=True)
        await connection.reassign_partitions(check)
        former = None
        if options.throttle is not None:
            former = await current_throttle(connection)
            await set_throttle(connection, options.throttle)
        with telling_what_is_left(self._session, options.throttle, former=former):
            await self._move(connection, requests)
            if options.throttle is not None:
                await restore_throttle(connection, former)
        await check_done(connection, list(requests.values()))

    async def _move(
        self, connection: ImpatientAdmin, requests: Mapping[Name, admin_pb2.PartitionMove]
    ) -> None:
        """Returns once none of them is under way."""
        options = self._options
        waiting = deque(requests.values())

        async def proceed(running: Collection[tuple[str, int]]) -> int:
            room = min(options.at_a_time - len(running), len(waiting))
            if room > 0:
                some = [waiting.popleft() for _ in range(room)]
                await connection.reassign_partitions(admin_pb2.ReassignPartitionsRequest(moves=some))
                # They are under way, or done already: the next look tells.
                return len(waiting) + len(some)
            return len(waiting)

        await wait_for_moves(
            self._session, connection, set(requests), timeout_s=options.timeout_s, proceed=proceed
        )
        # The controller does so by itself, every now and then; whoever asked for it wants it now.
        names = [each.partition for each in requests.values()]
        await connection.elect_preferred_leaders(admin_pb2.ElectPreferredLeadersRequest(partitions=names))

    # -- telling

    def _tell(self, found: _Found, moves: Sequence[Move]) -> None:
        after = {move.after.name: move.after for move in moves}
        held = Tally.of(found.brokers, found.partitions)
        will_hold = Tally.of(found.brokers, [after.get(each.name, each) for each in found.partitions])
        if self._session.json:
            print_json(self._document(found, moves, held, will_hold))
            return
        rows = [
            [
                broker.id,
                broker.rack or "-",
                _change(held[broker.id].replicas, will_hold[broker.id].replicas),
                _change(held[broker.id].leaders, will_hold[broker.id].leaders),
                _change(_bytes(held[broker.id].size_bytes), _bytes(will_hold[broker.id].size_bytes)),
            ]
            for broker in found.brokers
        ]
        print_table(("BROKER", "RACK", "REPLICAS", "PREFERRED LEADER OF", "BYTES"), rows)
        copied = sum(move.size_bytes for move in moves)
        if not moves:
            others = " of the other partitions" if found.left_alone else ""
            self._session.note(f"nothing to move{others}: it is as even as single moves can make it")
        elif self._options.execute:
            self._session.note(f"{len(moves)} partition(s) rebalanced, {_bytes(copied)} copied")
        else:
            _print_moves(moves)
            self._session.note(
                f"{len(moves)} partition(s) would change, {_bytes(copied)} would be copied; nothing is "
                f"changed{'' if self._options.throttle is None else ' or throttled'} without --execute"
            )

    def _document(
        self, found: _Found, moves: Sequence[Move], held: dict[int, Tally], will_hold: dict[int, Tally]
    ) -> dict[str, Any]:
        """With ``version`` and ``partitions`` it is a plan for ``quorate partition reassign --file``."""
        return {
            "version": 1,
            "is_executed": self._options.execute,
            "copied_bytes": sum(move.size_bytes for move in moves),
            "brokers": [
                {
                    "id": broker.id,
                    "rack": broker.rack or None,
                    "takes_replicas": broker.takes,
                    "before": _tally_document(held[broker.id]),
                    "after": _tally_document(will_hold[broker.id]),
                }
                for broker in found.brokers
            ],
            "partitions": [
                {
                    "topic": move.after.name.topic,
                    "partition": move.after.name.partition,
                    "replicas": list(move.after.replicas),
                    "replicas_before": list(move.before.replicas),
                    "size_bytes": move.before.size_bytes,
                }
                for move in moves
            ],
            "left_alone": [
                each.name._asdict() | {"has_leader": each.has_leader, "not_in_sync": list(each.not_in_sync)}
                for each in found.left_alone
            ],
        }


async def _described(connection: ImpatientAdmin, names: Sequence[str]) -> list[admin_pb2.TopicDescription]:
    if len(names) == 1:
        # That there is no such topic is the answer then.
        return [await connection.describe_topic(names[0])]
    return await describe_each(connection, names)


def _sort_in(description: admin_pb2.TopicDescription, found: _Found) -> None:
    for each in description.partitions:
        name = Name(description.name, each.partition)
        has_leader = each.HasField("leader")
        not_in_sync = tuple(sorted(set(each.replicas) - set(each.isr)))
        is_fixed = not has_leader or bool(not_in_sync)
        if is_fixed:
            found.left_alone.append(_LeftAlone(name, has_leader, not_in_sync))
        found.partitions.append(Placed(name, tuple(each.replicas), each.size_bytes, is_fixed))


def _about_left_alone(partitions: Sequence[_LeftAlone]) -> str:
    away = sorted({broker_id for each in partitions for broker_id in each.not_in_sync})
    leaderless = sum(not each.has_leader for each in partitions)
    reasons = []
    if away:
        reasons.append(f"replicas on broker {', '.join(map(str, away))} are not in sync")
    if leaderless:
        reasons.append(f"{leaderless} of them have no leader")
    names = _listed([each.name for each in partitions])
    return (
        f"{len(partitions)} partition(s) are left out of the plan and stay where they are, as "
        f"{' and '.join(reasons)}: {names}. What to do: `quorate cluster health` says what they wait for; "
        "run this again when all are in sync"
    )


def _request(move: Move) -> admin_pb2.PartitionMove:
    name = admin_pb2.PartitionName(topic=move.after.name.topic, partition=move.after.name.partition)
    return admin_pb2.PartitionMove(partition=name, replicas=move.after.replicas)


def _print_moves(moves: Sequence[Move]) -> None:
    rows = [
        [
            move.before.name.topic,
            move.before.name.partition,
            list(move.before.replicas),
            list(move.after.replicas),
            _bytes(move.size_bytes) if move.added else "-",
        ]
        for move in moves[:_NAMES_SHOWN_MAX]
    ]
    print_table(("TOPIC", "PARTITION", "FROM", "TO", "COPIED"), rows)


def _listed(names: Sequence[Name]) -> str:
    shown = ", ".join(f"{topic}:{partition}" for topic, partition in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _change(before: object, after: object) -> str:
    return f"{before}" if before == after else f"{before} → {after}"


def _bytes(count: int) -> str:
    return show_bytes(Fraction(count))


def _tally_document(tally: Tally) -> dict[str, int]:
    return {
        "replica_count": tally.replicas,
        "preferred_leader_count": tally.leaders,
        "size_bytes": tally.size_bytes,
    }
