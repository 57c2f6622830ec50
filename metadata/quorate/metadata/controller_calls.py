"""Asking the active controller, whoever that is by now, until it answers or the time is up.

A leader of the quorum dies, another is elected, and for a second or two nobody can answer. That is nothing
to bother a caller with. All requests name the state that they want, so that asking twice does no harm; but an
attempt whose answer was lost may have been carried out, and a later refusal does not undo that. What is
raised in the end says so. A question has no effect that could have been: its last answer stands as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from quorate.core.clock import Clock
from quorate.errors import (
    ControllerMoved,
    NoController,
    NotController,
    Overloaded,
    QuorateError,
    RequestTimedOut,
    Unavailable,
)

__all__ = ["TRANSIENT_ERRORS", "until_answered"]

#: Another attempt, perhaps at another node, may succeed.
TRANSIENT_ERRORS: Final = (
    NotController,
    NoController,
    ControllerMoved,
    Overloaded,
    Unavailable,
    RequestTimedOut,
)

#: an attempt is not begun with less time than this
_ATTEMPT_S_MIN: Final = 0.001

T = TypeVar("T")


async def until_answered(
    name: str,
    attempt: Callable[[float], Awaitable[T]],
    *,
    clock: Clock,
    deadline: float,
    attempt_s_max: float,
    pause_s: Callable[[], float],
    is_repeatable: bool = True,
    has_effect: bool = True,
) -> T:
    """The answer of the first attempt that gets one. ``attempt`` is told how many seconds it has.

    ``deadline`` is monotonic. With ``is_repeatable=False`` an attempt of unknown outcome is the last one.
    ``has_effect=False`` is for those that only ask.
    """
    may_be_done = False
    while True:
        try:
            remaining_s = max(_ATTEMPT_S_MIN, deadline - clock.monotonic())
            return await attempt(min(remaining_s, attempt_s_max))
        except QuorateError as error:
            pause = pause_s()
            is_last = clock.monotonic() + pause >= deadline or (error.outcome_unknown and not is_repeatable)
            if is_last or not isinstance(error, TRANSIENT_ERRORS):
                raise _final(name, error, may_be_done=may_be_done) from error
            may_be_done = may_be_done or (has_effect and error.outcome_unknown)
        await clock.sleep(pause)


def _final(name: str, error: QuorateError, *, may_be_done: bool) -> QuorateError:
    """The last attempt may say that nothing was done; an earlier one may have done it all the same."""
    if error.outcome_unknown or not may_be_done:
        return error
    return ControllerMoved(
        f"{name}: an earlier attempt may have been carried out; asked again, the answer is {error.code}: "
        f"{error.message}"
    )
