"""What callers ask of the quorum, and how they learn what became of it."""

from __future__ import annotations

import asyncio

from quorate.errors import (
    ControllerMoved,
    NotController,
    Overloaded,
    QuorateError,
    VoterChangeRefused,
    copy_of,
)
from quorate.metadata.raft.entries import Index
from quorate.metadata.raft.ready import Answer, Outcome, Refusal

__all__ = ["Proposal", "Request", "VoterChange", "error_of"]


def error_of(refusal: Refusal | Answer) -> QuorateError:
    """The error for a proposal or read that the core refuses: nothing was done."""
    if refusal.outcome is Outcome.OVERLOADED:
        return Overloaded(refusal.reason)
    assert refusal.outcome is Outcome.REFUSED
    return NotController(refusal.reason)


class Request:
    """One question to the core. Any number of callers may wait for the answer; each may give up alone."""

    __slots__ = ("_answer",)

    def __init__(self) -> None:
        self._answer: asyncio.Future[Answer | QuorateError] = asyncio.get_running_loop().create_future()

    def settle(self, answer: Answer | QuorateError) -> None:
        # As a result, not as an exception: nobody is obliged to ask what became of a proposal.
        if not self._answer.done():
            self._answer.set_result(answer)

    async def answered(self) -> Index:
        """The index; raises what the outcome calls for."""
        answer = self._answer.result() if self._answer.done() else await asyncio.shield(self._answer)
        if isinstance(answer, QuorateError):
            raise copy_of(answer)
        if answer.outcome is Outcome.DONE:
            return answer.index
        if answer.outcome is Outcome.UNKNOWN:
            raise ControllerMoved(answer.reason, index=answer.index)
        raise self._error_of(answer)

    def _error_of(self, refused: Answer) -> QuorateError:
        return error_of(refused)


class Proposal(Request):
    """A command on its way."""

    __slots__ = ("index",)

    def __init__(self, index: Index) -> None:
        super().__init__()
        #: where the command stands in the log, if it is committed at all
        self.index = index

    async def committed(self) -> None:
        """Raises ``ControllerMoved`` where leadership was lost before: it may or may not be committed."""
        index = await self.answered()
        assert index == self.index, f"proposed as {self.index}, committed as {index}"


class VoterChange(Request):
    """A voter to be added or removed."""

    __slots__ = ()

    def _error_of(self, refused: Answer) -> QuorateError:
        return VoterChangeRefused(refused.reason)
