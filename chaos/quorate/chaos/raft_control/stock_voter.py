"""A voter made of stock pysyncobj, in virtual time and on simulated connections.

Nothing of its logic is replaced. It is given a transport through the argument that it has for that, it is
ticked by hand, which is a documented way to run it, and the two things that its module takes from the
world, the clock and the random numbers, come from the simulation. Its journal and its dump are real files,
written by its own code; a crash is that of a process, so whatever was written is still there after it,
though nothing was ever synced.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from quorate.chaos.raft.register_machine import RegisterMachine
from quorate.chaos.raft.virtual_time import VirtualTime
from quorate.chaos.raft_control.connections import Connections
from quorate.chaos.raft_control.control_voter import OnAcknowledged
from quorate.chaos.raft_control.pysyncobj_package import load_pysyncobj
from quorate.chaos.raft_control.stock_replica import Observer, StockReplica
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Term
from quorate.metadata.raft.voters import NodeId, Voter, Voters

__all__ = ["Files", "StockVoter", "virtual_pysyncobj"]

#: the term of a no-op, if that is what was committed at this index
NoopTerms: TypeAlias = Callable[[Index], Term | None]

#: its default, the longest that its loop sleeps
_TICK_S: Final = 0.05
_SUCCESS: Final = 0


@contextlib.contextmanager
def virtual_pysyncobj(time: VirtualTime, random: random.Random) -> Iterator[None]:
    """Its clock and its random numbers are the simulation's, and it keeps its complaints to itself."""
    module = load_pysyncobj().syncobj
    logger = logging.getLogger("pysyncobj")
    before = module.monotonicTime, module.random, logger.level
    module.monotonicTime = lambda: time.now
    module.random = SimpleNamespace(random=random.random)
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        module.monotonicTime, module.random = before[:2]
        logger.setLevel(before[2])


@dataclass(frozen=True, slots=True)
class Files:
    journal: str
    dump: str


class StockVoter:
    def __init__(
        self,
        voter: Voter,
        voters: Voters,
        *,
        time: VirtualTime,
        connections: Connections,
        observer: Observer,
        files: Files | None,
    ) -> None:
        """Without ``files`` everything is in memory, which is the default of pysyncobj."""
        self._key = voter.key
        self._voters = voters
        self._time = time
        self._connections = connections
        self._observer = observer
        self._files = files
        self._object: Any = None
        #: of the process; whatever was planned for an earlier one is void
        self._life = 0
        #: told to clients during a step, which the observer has yet to see
        self._acknowledged: list[Callable[[], None]] = []

    @property
    def is_up(self) -> bool:
        return self._object is not None

    @property
    def is_leader(self) -> bool:
        return self.is_up and self._replica.is_leader

    @property
    def machine(self) -> RegisterMachine:
        return self._replica.machine

    def may_be_counted(self, index: Index, term: Term) -> bool:
        return (self.is_up or self._files is not None) and self._replica.has_written(index, term)

    def start(self) -> None:
        self._life += 1
        self._transport = _Transport(self._key.node_id, self._connections)
        self._object = self._new_object()
        # Its first tick loads the dump, so only then is it what its disk says.
        self._object.doTick()
        self._replica = StockReplica(self._key, self._voters, self._object, load_pysyncobj().pickle.loads)
        self._observer.started(self._replica)
        self._connections.came_up(self._key.node_id)
        self._tick(self._life)

    def crash(self) -> None:
        """No good-bye: nothing is flushed."""
        self._object.release_files()
        self._object = None
        self._acknowledged.clear()
        self._connections.went_down(self._key.node_id)

    def connected(self, peer: NodeId) -> None:
        self._transport.on_connected(_node(peer))

    def disconnected(self, peer: NodeId) -> None:
        self._transport.on_disconnected(_node(peer))

    def receive_from(self, sender: NodeId, message: object) -> None:
        """A message wakes the loop, so a tick follows."""
        self._transport.on_message(_node(sender), message)
        self._observe()
        self._run_once()

    def propose(self, command: bytes, on_acknowledged: OnAcknowledged) -> None:
        floor = self._observer.checker.floor

        def answered(index: int | None, failure: int) -> None:
            if failure == _SUCCESS:
                assert index is not None
                self._acknowledged.append(lambda: self._observer.acknowledged(command, Index(index), floor))
                on_acknowledged(Index(index))

        self._object.write(command, callback=answered)

    def compact(self) -> None:
        if self.is_up:
            self._object.forceLogCompaction()

    def _tick(self, life: int) -> None:
        if self.is_up and life == self._life:
            self._run_once()
            self._time.after(_TICK_S, self._tick, life)

    def _run_once(self) -> None:
        self._object.doTick()
        self._observe()

    def _observe(self) -> None:
        self._observer.stepped(self._replica)
        for tell in self._acknowledged:
            tell()
        self._acknowledged.clear()

    def _new_object(self) -> Any:
        library = load_pysyncobj()
        files = self._files
        configuration = library.SyncObjConf(
            autoTick=False,
            # A forked child would not live in virtual time.
            useFork=False,
            journalFile=None if files is None else files.journal,
            fullDumpFile=None if files is None else files.dump,
        )
        me = self._key.node_id
        others = [_node(voter.key.node_id) for voter in self._voters if voter.key.node_id != me]
        return _replicated_registers()(
            _node(me), others, configuration, transport=self._transport, noop_terms=self._committed_noop_term
        )

    def _committed_noop_term(self, index: Index) -> Term | None:
        """For those that a dump stands for: it has the state, and the state has no trace of them."""
        ledger = self._observer.checker.ledger
        if index > ledger.last_index or ledger.entries[index - 1].kind is not EntryKind.NOOP:
            return None
        return ledger.term_at(index)


def _node(node_id: NodeId) -> Any:
    """Numbers for ids: sets of them have the same order in every process."""
    return load_pysyncobj().node.Node(int(node_id))


class _Transport:
    """What pysyncobj calls to send, and to be told of what was received."""

    ready = True

    def __init__(self, me: NodeId, connections: Connections) -> None:
        self._me = me
        self._connections = connections

    def setOnMessageReceivedCallback(self, callback: Callable[[Any, object], None]) -> None:  # noqa: N802  its name
        self.on_message = callback

    def setOnNodeConnectedCallback(self, callback: Callable[[Any], None]) -> None:  # noqa: N802  its name
        self.on_connected = callback

    def setOnNodeDisconnectedCallback(self, callback: Callable[[Any], None]) -> None:  # noqa: N802  its name
        self.on_disconnected = callback

    def setOnReadonlyNodeConnectedCallback(self, callback: object) -> None:  # noqa: N802  its name
        """There are none."""

    def setOnReadonlyNodeDisconnectedCallback(self, callback: object) -> None:  # noqa: N802  its name
        """There are none."""

    def setOnUtilityMessageCallback(self, message: str, callback: object) -> None:  # noqa: N802  its name
        """There are none."""

    def send(self, node: Any, message: object) -> bool:
        return self._connections.send(self._me, NodeId(node.id), message)


@functools.cache
def _replicated_registers() -> Any:
    """The class is made when it is needed: an installation without the extra can import this module."""
    library = load_pysyncobj()

    base: Any = library.SyncObj

    class ReplicatedRegisters(base):  # type: ignore[misc]  # the package ships no types
        """The simulator's state machine, replicated by pysyncobj in the way that its users do it."""

        def __init__(self, *arguments: Any, noop_terms: NoopTerms, **named: Any) -> None:
            self._noop_terms = noop_terms
            super().__init__(*arguments, **named)
            # What is assigned after its constructor is what pysyncobj puts into a dump.
            self.machine = RegisterMachine()

        @library.replicated  # type: ignore[untyped-decorator]  # the package ships no types
        def write(self, command: bytes) -> int:
            """Called by pysyncobj when ``command`` is committed. Returns its index."""
            index = Index(self.raftLastApplied + 1)
            log = self._SyncObj__raftLog
            base = log[0][1]
            terms = {index: term for _, index, term in log[: index + 1 - base]}
            # It hides no-ops from its users. The digest has them, so they are put back.
            for missed in range(self.machine.applied_index + 1, index):
                term = terms.get(missed, self._noop_terms(Index(missed)))
                if term is None:
                    self.machine.applied_index = missed  # a command is missing, which the digest will show
                else:
                    self.machine.apply(Entry(Index(missed), Term(term), EntryKind.NOOP, b""))
            self.machine.apply(Entry(index, Term(terms[index]), EntryKind.COMMAND, command))
            return int(index)

        def release_files(self) -> None:
            """As the kernel does for a process that is gone. What it wrote is in the page cache."""
            # Whatever dump was on its way goes with the one that has it open.
            del self._SyncObj__serializer
            journal = self._SyncObj__raftLog
            if isinstance(journal, library.journal.FileJournal):
                file = journal._FileJournal__journalFile  # noqa: SLF001  its own way to close would flush
                file._ResizableFile__mm.close()  # noqa: SLF001  as above
                file._ResizableFile__f.close()  # noqa: SLF001  as above

    return ReplicatedRegisters
