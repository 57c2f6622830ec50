"""Clients of the quorum: they write to registers and read them, and tell the checker what they were told.

A client has one operation under way. What fails, or whose outcome it does not know, it tries again under the
same sequence number, so that it counts once (rule 39). An answer that comes after the client has lost
patience is an answer all the same, and is checked.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Final

from quorate.chaos.raft.cluster import Cluster
from quorate.chaos.raft.conditions import Conditions
from quorate.chaos.raft.counters import Counters
from quorate.chaos.raft.invariants import Checker
from quorate.chaos.raft.node import SimulatedNode
from quorate.chaos.raft.register_machine import RegisterMachine, encode_command
from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.metadata.raft.entries import Index, Term
from quorate.metadata.raft.ready import Answer, Outcome, Propose, ReadBarrier

__all__ = ["Client"]

REGISTERS: Final = 4
_BATCH_SIZES: Final = (1, 1, 2, 6)


class Client:
    def __init__(
        self,
        number: int,
        *,
        cluster: Cluster,
        time: VirtualTime,
        checker: Checker,
        counters: Counters,
        conditions: Conditions,
        random: random.Random,
        request_ids: Iterator[int],
    ) -> None:
        self._number = number
        self._cluster = cluster
        self._time = time
        self._checker = checker
        self._counters = counters
        self._conditions = conditions
        self._random = random
        self._request_ids = request_ids
        self._sequence = 0
        self._attempts = 0
        #: sequence number -> register: to be written, and not known to be
        self._open: dict[int, int] = {}
        #: the operation under way; answers to earlier ones do not move the client any more
        self._operation = 0
        self._is_finishing = False
        self.is_done = False

    def start(self) -> None:
        self._think()

    def finish(self) -> None:
        """Write once more, until it is acknowledged; then stop."""
        self._is_finishing = True
        if not self._open:
            self._open_writes(1)

    # --- one operation after the other ----------------------------------------------------------------

    def _think(self) -> None:
        self._operation += 1
        wait = self._conditions.think_s * (0.2 + 1.6 * self._random.random())
        self._time.after(wait, self._act, self._operation)

    def _act(self, operation: int) -> None:
        if operation != self._operation:
            return
        if self._is_finishing and not self._open:
            self.is_done = True
            return
        is_read = not self._is_finishing and self._random.random() < self._conditions.read_share
        node = self._choose_node(is_read=is_read)
        if node is None:
            self._think()
            return
        self._time.after(self._conditions.request_timeout_s, self._lose_patience, operation)
        if is_read:
            self._read(node)
        else:
            self._write(node)

    def _lose_patience(self, operation: int) -> None:
        if operation == self._operation:
            self._think()

    def _choose_node(self, *, is_read: bool) -> SimulatedNode | None:
        """Any that believes to lead, also one that is wrong about it; now and then just any.

        Of several, reads go to the one that is wrong: it has the most to hide.
        """
        is_wrong = self._random.random() < 0.03
        nodes = self._cluster.running() if is_wrong else self._cluster.leaders()
        if is_read and not is_wrong:
            return min(nodes, key=lambda node: node.term, default=None)
        return self._random.choice(nodes) if nodes else None

    # --- writing --------------------------------------------------------------------------------------

    def _open_writes(self, count: int) -> None:
        for _ in range(count):
            self._sequence += 1
            self._open[self._sequence] = self._random.randrange(REGISTERS)

    def _write(self, node: SimulatedNode) -> None:
        if self._open and not self._is_finishing and self._random.random() < 0.2:
            self._open.clear()  # gives up; it may have been done, or may still be
        if not self._open:
            self._open_writes(self._random.choice(_BATCH_SIZES))
        operation, floor = self._operation, self._checker.floor
        request_ids, payloads, answered = [], [], []
        for sequence, register in self._open.items():
            self._attempts += 1
            payload = encode_command(
                client=self._number, sequence=sequence, attempt=self._attempts, register=register
            )
            request_ids.append(next(self._request_ids))
            payloads.append(payload)
            answered.append(partial(self._on_written, operation, sequence, payload, floor))
        is_mistaken = self._random.random() < 0.02
        term = Term(node.term - is_mistaken)
        node.ask_about(request_ids, Propose(tuple(request_ids), tuple(payloads), term), answered)

    def _on_written(
        self, operation: int, sequence: int, payload: bytes, floor: Index, answer: Answer | None
    ) -> None:
        counters, checker = self._counters, self._checker
        if answer is None or answer.outcome is Outcome.UNKNOWN:
            counters.proposals_unknown += 1
        elif answer.outcome is not Outcome.DONE:
            counters.proposals_refused += 1
            checker.refused(payload)
        else:
            counters.proposals_acknowledged += 1
            checker.acknowledged(payload, answer.index, floor)
            self._open.pop(sequence, None)
            self._look_elsewhere()
        # The answers of a batch need not come together; the last acknowledgement ends it, or any failure.
        is_acknowledged = answer is not None and answer.outcome is Outcome.DONE
        if operation == self._operation and not (is_acknowledged and self._open):
            self._think()

    def _look_elsewhere(self) -> None:
        """Somebody who was told of the write looks for it on a node that also believes to lead."""
        leaders = self._cluster.leaders()
        if len(leaders) > 1:
            self._read(min(leaders, key=lambda node: node.term))

    # --- reading --------------------------------------------------------------------------------------

    def _read(self, node: SimulatedNode) -> None:
        request_id = next(self._request_ids)
        on_answer = partial(self._on_barrier, self._operation, node, self._checker.floor)
        node.ask(request_id, ReadBarrier(request_id), on_answer)

    def _on_barrier(self, operation: int, node: SimulatedNode, floor: Index, answer: Answer | None) -> None:
        if answer is not None and answer.outcome is Outcome.DONE:
            node.when_applied(answer.index, partial(self._on_readable, operation, floor))
        elif operation == self._operation:
            self._think()

    def _on_readable(self, operation: int, floor: Index, machine: RegisterMachine | None) -> None:
        if machine is not None:
            register = self._random.randrange(REGISTERS)
            self._counters.reads_checked += 1
            self._checker.read(register, machine.read(register), Index(machine.applied_index), floor)
        if operation == self._operation:
            self._think()
