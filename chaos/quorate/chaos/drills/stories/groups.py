"""Members of a consumer group that come, go, die and come back too late; and coordinators that die."""

from __future__ import annotations

from typing import Final

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import Layout, story
from quorate.chaos.drills.timeline import EventKind
from quorate.chaos.history.group_delays import GroupDelays, group_delays
from quorate.chaos.live.group_load import GroupProcess, GroupShape
from quorate.chaos.live.waiting import until_so
from quorate.core.ids import TopicPartition

__all__ = ["consumer_crash", "coordinator_kill", "rebalance_storm", "zombie_commit"]

_SHARED: Final = {"shared": {"partitions": 24, "replication_factor": 3}}
_SIX: Final = GroupShape(processes=6)
_FIFTY: Final = GroupShape(processes=5, members_each=10)
#: so that nobody has to wait for the session of a member that stands still as long as at the defaults
_SHORT_SESSION: Final = Layout(
    settings={
        "group.consumer.session.timeout.ms": "4000",
        "group.consumer.heartbeat.interval.ms": "1000",
    }
)
_STORM_S: Final = 10.0
_FLAP_S: Final = 0.2
#: a partition that is not moved is never silent for longer, whoever comes and goes
_UNDISTURBED_S: Final = 1.0

_TAKEN_OVER: Final = "partitions taken over"
_REFUSED: Final = "commits refused to a zombie"
_FLAPS: Final = "members that came or went"


@story(
    "consumer-crash",
    shows="kill -9 of a member of a group: others go on where it had committed",
    topics=_SHARED,
    group=_SIX,
)
async def consumer_crash(drill: Drill) -> None:
    members = drill.members
    victim = drill.random.choice(members.processes)
    since_s = drill.history.now_s()
    with drill.fault("kill -9 of a consumer", victim.name):
        left = _held_in(drill, victim)
        await victim.kill()
        drill.count(_TAKEN_OVER, len(left))
        await members.settles()
        await members.is_served(left)
    _tell_longest(drill, "a crash: the longest until another went on, s", _delays(drill, since_s).moved_s)
    await victim.start(1)
    await members.settles()


@story(
    "coordinator-kill",
    shows="kill -9 of a group's coordinator: no commit is lost, and commits go on with the next one",
    needs=(Ability.KILL,),
    topics=_SHARED,
    group=_SIX,
    signs=(EventKind.ELECTION,),
)
async def coordinator_kill(drill: Drill) -> None:
    members = drill.members
    victim = await _coordinator(drill)
    with drill.fault("kill -9 of a coordinator", victim):
        struck_s = drill.history.now_s()
        await drill.kill(victim)
        await members.commits()
        took_s = drill.history.now_s() - struck_s
        _tell_longest(drill, "a coordinator dies: the longest until all have committed again, s", took_s)
        await drill.acknowledges()
        await drill.start(victim)
    await members.settles()


@story(
    "zombie-commit",
    shows="a member is paused between processing and commit, beyond its session: its commit is refused",
    topics=_SHARED,
    group=_SIX,
    layout=_SHORT_SESSION,
)
async def zombie_commit(drill: Drill) -> None:
    members = drill.members
    zombie = drill.random.choice(members.processes)
    [member] = zombie.members
    with drill.fault("SIGSTOP of a consumer beyond its session", zombie.name):
        zombie.hold(member)
        await members.until("it holds records that it has not committed", lambda: member in zombie.held)
        left = _held_in(drill, zombie)
        zombie.pause()
        try:
            await members.until("others have what it held", lambda: _are_others(drill, left, member))
            await members.is_served(left)
            since_s = drill.history.now_s()
            zombie.go(member)
        finally:
            zombie.resume()
        # One in the name that it had, and one as the client makes it now.
        await members.until("its commits have ended", lambda: len(_ended(drill, member, since_s)) >= 2)
    errors = _ended(drill, member, since_s)
    drill.count(_REFUSED, sum(error is not None for error in errors))
    drill.expect(None not in errors, f"{member} has committed what was another's: {errors}")
    await members.settles()


@story(
    "rebalance-storm",
    shows="50 members flap on 24 partitions: every record is read, and what does not move is not disturbed",
    topics=_SHARED,
    group=_FIFTY,
)
async def rebalance_storm(drill: Drill) -> None:
    members = drill.members
    since_s = drill.history.now_s()
    with drill.fault("members flap", f"{len(members.members)} members"):
        while drill.history.now_s() < since_s + _STORM_S:
            _flap(drill, drill.random.choice(members.processes))
            await drill.rest(_FLAP_S)
        for process in members.processes:
            while len(process.members) < _FIFTY.members_each:
                process.join()
        await members.settles()
    delays = _delays(drill, since_s)
    _tell_longest(drill, "a storm: the longest that a record waited where nothing moved, s", delays.stayed_s)
    _tell_longest(drill, "a storm: the longest until a partition that moved was served, s", delays.moved_s)
    drill.expect(
        delays.stayed_s <= _UNDISTURBED_S,
        f"a record waited for {delays.stayed_s:.2f} s although its partition stayed: {delays.stayed}",
    )


def _flap(drill: Drill, process: GroupProcess) -> None:
    """Somebody of it leaves, crashes, or comes."""
    drill.count(_FLAPS, 1)
    room = _FIFTY.members_each - len(process.members)
    if room and drill.random.random() < room / _FIFTY.members_each + 0.3:
        process.join()
    elif len(process.members) > 1:
        at_work = [member for member in process.members if drill.members.ledger.held_by(member)]
        # Most members are idle: those who are not make the storm.
        member = drill.random.choice(at_work or process.members)
        drill.random.choice((process.leave, process.crash))(member)


def _held_in(drill: Drill, process: GroupProcess) -> list[TopicPartition]:
    return [each for member in process.members for each in drill.members.ledger.held_by(member)]


def _are_others(drill: Drill, partitions: list[TopicPartition], than: str) -> bool:
    owners = drill.members.ledger.owners()
    return all(owners.get(partition, than) != than for partition in partitions)


def _ended(drill: Drill, member: str, since_s: float) -> list[str | None]:
    """How the commits ended that it asked for since then, each call once."""
    found = {
        commit.begun_s: commit.error
        for commit in drill.history.commits
        if commit.assignment.reader == member and commit.begun_s > since_s and commit.ended_s is not None
    }
    return list(found.values())


async def _coordinator(drill: Drill) -> str:
    group = drill.members.ledger.group
    described = await until_so(group, lambda: drill.admin.describe_group(group), lambda _: True)
    return drill.name_of(described.coordinator)


def _delays(drill: Drill, since_s: float) -> GroupDelays:
    return group_delays(drill.history, drill.members.ledger.group, since_s=since_s)


def _tell_longest(drill: Drill, what: str, seconds: float) -> None:
    drill.figures[what] = f"{max(seconds, float(drill.figures.get(what, 0))):.2f}"
