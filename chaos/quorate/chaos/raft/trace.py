"""What happened, for people: kept when a failed seed is run again, or when somebody asks for it."""

from __future__ import annotations

import dataclasses
from typing import Final

from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.metadata.raft.core import RaftCore
from quorate.metadata.raft.entries import Entry, Snapshot
from quorate.metadata.raft.messages import Envelope
from quorate.metadata.raft.ready import Event, Ready, Received
from quorate.metadata.raft.voters import NodeId, VoterKey, Voters

__all__ = ["WORLD", "Trace"]

#: events of the world as a whole: partitions, clients
WORLD: Final = NodeId(0)


class Trace:
    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        #: (moment, node, text)
        self._events: list[tuple[float, NodeId, str]] = []

    def note(self, node_id: NodeId, text: str) -> None:
        self._events.append((self._time.now, node_id, text))

    def step(self, node_id: NodeId, event: Event, ready: Ready, core: RaftCore) -> None:
        state = f"{core.role.value} term={core.term} commit={core.commit_index} last={core.last_index}"
        effects = [
            f"{name}={_brief(value)}"
            for name in ("hard_state", "snapshot", "entries", "answers")
            if (value := getattr(ready, name))
        ]
        effects += [f"-> {_brief(envelope, outgoing=True)}" for envelope in ready.send_now]
        effects += [f"=> {_brief(envelope, outgoing=True)}" for envelope in ready.send_after_persist]
        self.note(node_id, f"{_brief(event)} | {state} | {'; '.join(effects) or '-'}")

    def lines(self) -> list[str]:
        """In the order of time."""
        return [
            f"{when:9.4f}  {'world' if node_id == WORLD else f'node {node_id}':<7} {text}"
            for when, node_id, text in self._events
        ]


def _brief(value: object, *, outgoing: bool = False) -> str:
    """As short as it can be read. ``->`` leaves at once, ``=>`` after the sync."""
    match value:
        case Envelope(sender=sender, to=to, message=message):
            return f"{to if outgoing else sender} {_brief(message)}"
        case Received(envelope=envelope):
            return f"<- {_brief(envelope)}"
        case Entry(index=index, term=term, kind=kind, data=data):
            return f"{index}@{term}:{kind.name.lower()}:{data.decode()[:12]}"
        case Snapshot(id=identity):
            return f"snapshot {identity.index}@{identity.term}"
        case VoterKey():
            return str(value)
        case Voters():
            return "{" + " ".join(str(voter.key) for voter in value) + "}"
        case tuple():
            return "[" + " ".join(_brief(item) for item in value) + "]"
        case _ if dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            inside = ", ".join(f"{field.name}={_brief(getattr(value, field.name))}" for field in fields)
            return f"{type(value).__name__}({inside})"
        case _:
            return str(value)
