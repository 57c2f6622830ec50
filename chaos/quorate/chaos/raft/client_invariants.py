"""What must hold of answers: to clients, and of the state that they are read from."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.chaos.raft.invariants import Invariant, Replica
from quorate.chaos.raft.ledger import Ledger
from quorate.metadata.raft.entries import Entry, EntryKind, Index

__all__ = [
    "AcknowledgedCommandsAreCommitted",
    "AnswersFollowRealTime",
    "CommandsAreCommittedOnce",
    "ReadsSeeTheirIndex",
    "RefusedCommandsStayAway",
    "StateMachinesAgree",
]


class StateMachinesAgree(Invariant):
    """At the same index, every state machine has been through the same entries."""

    def applied(self, replica: Replica, index: Index, digest: int) -> None:
        if index > self.ledger.last_index:
            self.fail(f"{replica.key} applied {index}, committed is {self.ledger.last_index}")
        if digest != self.ledger.digests[index]:
            self.fail(f"{replica.key} has another state at {index} than the others")


class AcknowledgedCommandsAreCommitted(Invariant):
    """At the index that the client was told. That they stay there is what the other invariants are about."""

    def acknowledged(self, payload: bytes, index: Index, floor: Index) -> None:
        if self.ledger.index_of.get(payload) != index:
            self.fail(
                f"{payload!r} was acknowledged at {index}, it is at {self.ledger.index_of.get(payload)}"
            )


class CommandsAreCommittedOnce(Invariant):
    """One attempt stands in the log at most once: nothing proposes it again behind its client's back."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._committed: set[bytes] = set()

    def first_committed(self, replica: Replica, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.kind is not EntryKind.COMMAND:
                continue
            if entry.data in self._committed:
                self.fail(f"{replica.key} committed {entry.data!r} twice")
            self._committed.add(entry.data)


class RefusedCommandsStayAway(Invariant):
    """*Refused* means that nothing was done, and that nothing will be."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._refused: set[bytes] = set()

    def refused(self, payload: bytes) -> None:
        self._refused.add(payload)
        if payload in self.ledger.index_of:
            self.fail(f"{payload!r} was refused, and is committed at {self.ledger.index_of[payload]}")

    def first_committed(self, replica: Replica, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.data in self._refused:
                self.fail(f"{replica.key} committed {entry.data!r}, which was refused")


class AnswersFollowRealTime(Invariant):
    """Whatever begins after an answer was given comes after it in the log.

    With ``ReadsSeeTheirIndex`` this is linearizability: the order of the log is one order of all operations,
    it respects real time, and every read returns what it finds at its place.
    """

    def acknowledged(self, payload: bytes, index: Index, floor: Index) -> None:
        if index <= floor:
            self.fail(f"{payload!r} went to {index}, though {floor} was known before it was proposed")

    def read(self, register: int, value: tuple[int, int] | None, index: Index, floor: Index) -> None:
        if index < floor:
            self.fail(f"a read saw the state of {index}, though {floor} was known before it began")


class ReadsSeeTheirIndex(Invariant):
    def read(self, register: int, value: tuple[int, int] | None, index: Index, floor: Index) -> None:
        expected = self.ledger.value_at(register, index)
        if value != expected:
            self.fail(f"register {register} was read as {value} at {index}, where it is {expected}")
