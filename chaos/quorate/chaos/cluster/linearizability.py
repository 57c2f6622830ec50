"""Could these answers have been given by one thing, doing one operation at a time?

A history of concurrent operations is *linearizable* if each can be given one moment between its call and its
answer so that, taken in the order of those moments, the answers are those of the sequential model. This is
the strongest promise that an object shared by many clients can keep: nobody can tell it from a local one.

An operation whose outcome its caller never learned may have happened at any moment after its call, or never
(rule 19). It has no end, and the search may leave it out.

The search is that of Wing and Gong (1993), with Lowe's memory (2017): at each step, try every operation that
was called before any of the remaining ones was answered; come back when none fits. The same operations done
in another order often lead to the same state; from there the search has been tried, and is not tried again.

Checking this is NP-complete in general. It is quick here because few operations overlap, and because the
model of a log allows few orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

__all__ = ["NEVER", "Operation", "Step", "Stuck", "linearize"]

State = TypeVar("State", bound=Hashable)
Act = TypeVar("Act")

#: later than every event
NEVER: Final = math.inf

#: the state after an act with the answer that it got; None: in that state it would have been another answer
Step = Callable[[State, Act], State | None]


@dataclass(frozen=True, slots=True)
class Operation(Generic[Act]):
    #: what was asked, and what was answered
    act: Act
    #: in the order of all calls and answers: a number for each, so that no two are the same
    called: float
    #: ``NEVER``: the outcome is unknown
    answered: float = NEVER

    @property
    def may_be_left_out(self) -> bool:
        return self.answered == NEVER


class Stuck(AssertionError, Generic[Act]):
    """Not linearizable. ``done``: the longest order that was found; ``left``: what might have come next."""

    def __init__(self, done: Sequence[Operation[Act]], left: Sequence[Operation[Act]]) -> None:
        self.done, self.left = list(done), list(left)
        last = ", ".join(str(each.act) for each in self.done[-3:]) or "the beginning"
        stuck = "; ".join(str(each.act) for each in self.left[:10])
        super().__init__(f"no order explains the answers: after {last}, none of these fits: {stuck}")


class _Choice(Generic[State]):
    """One step of the search: the operations that may come next, and how many of them were tried."""

    __slots__ = ("candidates", "done", "first_left", "state", "tried")

    def __init__(self, state: State, done: int, first_left: int, candidates: list[int]) -> None:
        self.state = state
        #: as bits
        self.done = done
        #: everything before it is done
        self.first_left = first_left
        self.candidates = candidates
        self.tried = 0


def linearize(
    operations: Sequence[Operation[Act]], initial: State, step: Step[State, Act]
) -> list[Operation[Act]]:
    """An order that explains every answer. ``Stuck`` if there is none."""
    ordered = sorted(operations, key=lambda each: each.called)
    needed = sum(1 << index for index, each in enumerate(ordered) if not each.may_be_left_out)
    seen: set[tuple[int, State]] = {(0, initial)}
    path = [_choice(ordered, initial, 0, 0)]
    order: list[int] = []
    longest: list[int] = []
    while path:
        here = path[-1]
        if here.done & needed == needed:
            return [ordered[index] for index in order]
        if here.tried == len(here.candidates):
            path.pop()
            if order:
                order.pop()
            continue
        index = here.candidates[here.tried]
        here.tried += 1
        state = step(here.state, ordered[index].act)
        done = here.done | 1 << index
        if state is None or (done, state) in seen:
            continue
        seen.add((done, state))
        order.append(index)
        path.append(_choice(ordered, state, done, here.first_left))
        if len(order) > len(longest):
            longest = list(order)
    done = sum(1 << index for index in longest)
    left = _choice(ordered, initial, done, 0).candidates
    raise Stuck([ordered[index] for index in longest], [ordered[index] for index in left])


def _choice(ordered: Sequence[Operation[Act]], state: State, done: int, first_left: int) -> _Choice[State]:
    """Whatever was called before any of those that are left was answered may come next."""
    while first_left < len(ordered) and done >> first_left & 1:
        first_left += 1
    candidates = []
    first_answer = NEVER
    for index in range(first_left, len(ordered)):
        operation = ordered[index]
        if operation.called > first_answer:
            break
        if not done >> index & 1:
            candidates.append(index)
            first_answer = min(first_answer, operation.answered)
    # Whoever was answered first most likely came first.
    candidates.sort(key=lambda index: (ordered[index].answered, index))
    return _Choice(state, done, first_left, candidates)
