"""A drill by name: what it shows, what it needs, and the story of one round of it.

A story strikes once; the engine tells it again and again until its time is up. It begins with a whole cluster
under load, and whatever it breaks and does not mend itself is mended behind it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from quorate.chaos.drills.agent import Ability, ClusterAgent
from quorate.chaos.drills.timeline import EventKind
from quorate.chaos.history.entries import Acks
from quorate.chaos.live.group_load import GroupShape

if TYPE_CHECKING:
    from quorate.chaos.drills.drill import Drill

__all__ = ["APART", "SMALL_SEGMENTS", "Layout", "Story", "story"]

Strike = Callable[["Drill"], Awaitable[None]]

#: so that faults strike logs of several files
SMALL_SEGMENTS: Final = {"segment.bytes": "256KiB"}

#: Both ways of keeping what was acknowledged: on enough machines, or on enough disks.
_DEFAULT_TOPICS: Final[Mapping[str, Mapping[str, Any]]] = {
    "replicated": {"partitions": 4, "replication_factor": 3, "configs": SMALL_SEGMENTS},
    "synced": {
        "partitions": 2,
        "replication_factor": 3,
        "configs": {**SMALL_SEGMENTS, "durability": "fsync"},
    },
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Of the cluster that a story plays in."""

    brokers: int = 3
    #: brokers of a cluster that is made for it vote, too: whoever dies hurts twice
    is_combined: bool = True
    #: False: the story stops most brokers, or takes a disk that a voter must not lose
    can_be_combined: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.can_be_combined or not self.is_combined

    def misfit(self, agent: ClusterAgent) -> str | None:
        """Why the story cannot play in this cluster; None: it can."""
        brokers = [node for node in agent.nodes if node.is_broker]
        if len(brokers) < self.brokers:
            return f"it needs {self.brokers} brokers, and there are {len(brokers)}"
        if not self.can_be_combined and any(node.is_controller for node in brokers):
            return "it does to brokers what controllers must not suffer: they have to be nodes of their own"
        return None


#: controllers are nodes of their own, because they have to be
APART: Final = Layout(is_combined=False, can_be_combined=False)


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    #: one line, for `quorate drill list`
    shows: str
    strike: Strike
    needs: frozenset[Ability]
    #: what it does if it can
    uses: frozenset[Ability]
    topics: Mapping[str, Mapping[str, Any]]
    layout: Layout
    #: what must have been seen, or the fault was none
    signs: tuple[EventKind, ...]
    #: by topic, where its writers ask for less than acks=all
    weak_acks: Mapping[str, Acks]
    #: it may be told beside others, in `everything`
    is_in_the_mix: bool
    #: a consumer group reads its topics; None: no group does
    group: GroupShape | None

    def misfit(self, agent: ClusterAgent) -> str | None:
        """Why it cannot be told with this agent; None: it can."""
        missing = sorted(self.needs - agent.abilities)
        if missing:
            lacks = f"{agent.kind}: no way to {', or to '.join(missing)}"
            why = agent.what_is_missing_for(missing)
            return f"{lacks}; {why}" if why else lacks
        return self.layout.misfit(agent)


def story(
    name: str,
    *,
    shows: str,
    needs: tuple[Ability, ...] = (),
    uses: Iterable[Ability] = (),
    topics: Mapping[str, Mapping[str, Any]] = _DEFAULT_TOPICS,
    layout: Layout | None = None,
    signs: tuple[EventKind, ...] = (),
    weak_acks: Mapping[str, Acks] | None = None,
    is_in_the_mix: bool = False,
    group: GroupShape | None = None,
) -> Callable[[Strike], Story]:
    """Makes the decorated function the story of that name."""

    def make(strike: Strike) -> Story:
        return Story(
            name=name,
            shows=shows,
            strike=strike,
            needs=frozenset(needs),
            uses=frozenset({*needs, *uses}),
            topics=topics,
            layout=layout or Layout(),
            signs=signs,
            weak_acks=weak_acks or {},
            is_in_the_mix=is_in_the_mix,
            group=group,
        )

    return make
