"""Read barriers (ReadIndex): a read that sees everything that was acknowledged before it was asked for.

A leader may have been deposed without knowing it, so its own word is not enough. It notes its commit index,
asks everybody again, and when a majority has echoed that very round of questions, nobody else can have been
leader when the barrier was asked for: what is committed was known to this leader. A new leader does not
know how far its predecessors had committed; only an entry of its own term tells it, so barriers wait for
that.

One round serves all that wait, as one sync serves many writes: what comes while a round is under way takes
the next one. Rounds also grow with each heartbeat, and the echo of a later round answers an earlier one, so a
lost message delays a barrier and does not lose it.
"""

from __future__ import annotations

from typing import Final

from quorate.metadata.raft.entries import NO_INDEX, Index
from quorate.metadata.raft.ready import Outcome, Refusal
from quorate.metadata.raft.replication import Replication
from quorate.metadata.raft.state import RaftState

__all__ = ["ReadBarriers"]

_LEADERSHIP_LOST: Final = Refusal("leadership was lost")
_OVERLOADED: Final = Refusal("too many reads wait; try again in a moment", Outcome.OVERLOADED)


class ReadBarriers:
    def __init__(self, state: RaftState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        #: not yet asked for
        self._waiting: list[int] = []
        #: asked for in ``_round``, to be read at ``_index``
        self._asked: list[int] = []
        self._round = 0
        self._index = NO_INDEX

    def add(self, request_id: int) -> None:
        if len(self._waiting) + len(self._asked) >= self._state.limits.reads_max:
            self._state.refuse(request_id, _OVERLOADED)
            return
        self._waiting.append(request_id)
        self.advance()

    def advance(self) -> None:
        """A commit or an echo may have come: answer, and ask for those who wait."""
        self._answer_asked()
        if self._waiting and not self._asked and self._may_ask():
            self._ask()
            self._answer_asked()  # the only voter needs nobody's echo

    def end(self) -> None:
        """Leadership is lost. Nothing was done, so nothing is unknown."""
        for request_id in (*self._asked, *self._waiting):
            self._state.refuse(request_id, _LEADERSHIP_LOST)

    def _ask(self) -> None:
        self._asked, self._waiting = self._waiting, []
        self._index = self._read_index()
        self._replication.send_heartbeats()
        self._round = self._replication.round

    def _answer_asked(self) -> None:
        if not self._asked or not self._is_round_confirmed():
            return
        for request_id in self._asked:
            self._state.answer(request_id, self._index)
        self._asked = []

    # --- the rules --------------------------------------------------------------------------------

    def _may_ask(self) -> bool:
        """Only an entry of the own term tells how far the terms before were committed."""
        return self._state.log.commit_index >= self._state.term_start

    def _read_index(self) -> Index:
        return self._state.log.commit_index

    def _is_round_confirmed(self) -> bool:
        return self._replication.quorum_round() >= self._round
