"""What the promises are worth: the same fault with less asked for."""

from __future__ import annotations

from typing import Final

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import SMALL_SEGMENTS, story
from quorate.chaos.drills.timeline import EventKind
from quorate.core.ids import PartitionId, TopicName, TopicPartition

__all__ = ["acks_contrast"]

_TWO_PARTITIONS: Final = {"partitions": 2, "replication_factor": 3, "configs": SMALL_SEGMENTS}
#: shorter than a session and than a lease: all that happens meanwhile is that nobody copies
_ALONE_S: Final = 0.8


@story(
    "acks-contrast",
    shows="the same kills with acks=0, acks=1 and acks=all, and what each of them loses",
    needs=(Ability.KILL, Ability.PAUSE),
    topics={"none": _TWO_PARTITIONS, "one": _TWO_PARTITIONS, "all": _TWO_PARTITIONS},
    weak_acks={"none": "0", "one": "1"},
    signs=(EventKind.ELECTION,),
)
async def acks_contrast(drill: Drill) -> None:
    # Whoever leads where acks=1 is asked for; by and by that is each of them.
    leader = await drill.leader(TopicPartition(TopicName(drill.topics["one"]), PartitionId(drill.rounds % 2)))
    others = [name for name in drill.brokers if name != leader]
    with drill.fault("followers stand still, then kill -9 of their leader", leader):
        # For a moment nobody but the leader has what is written: acks=1 is told that all is well.
        for name in others:
            await drill.pause(name)
        await drill.rest(_ALONE_S)
        await drill.kill(leader)
        for name in others:
            await drill.resume(name)
        await drill.acknowledges()
        await drill.start(leader)
