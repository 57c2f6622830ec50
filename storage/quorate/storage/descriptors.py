"""What lacks a file descriptor, of the process or of the machine, is tried again for some seconds.

The disk was not asked, so nothing has failed; and descriptors that are used up, by connections above all, are
often back a moment later. To wait for ever is another matter: who does that does nothing of what others count
on, and does not say why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from quorate.core.clock import Clock
from quorate.core.disk import lacks_descriptors
from quorate.core.logging import get_logger
from quorate.errors import TooManyOpenFiles

__all__ = ["too_many_open_files", "with_descriptors"]

log = get_logger(__name__)

T = TypeVar("T")

_PAUSE_S: Final = 0.1
#: five seconds: less than anybody waits for a start, more than a moment
_ATTEMPTS_MAX: Final = 50


async def with_descriptors(
    work: Callable[[], Awaitable[T]],
    clock: Clock,
    *,
    doing: str,
    path: str,
    is_given_up: Callable[[], bool] | None = None,
) -> T:
    """``work`` may be repeated if it lacked a descriptor. The last attempt's error is raised."""
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        try:
            return await work()
        except (OSError, TooManyOpenFiles) as error:
            if not attempts_left or not _has_lacked(error) or (is_given_up is not None and is_given_up()):
                raise
            if attempts_left == _ATTEMPTS_MAX - 1:
                # Once: a warning for each attempt of each log would drown the reason.
                log.warning("waiting_for_descriptors", doing=doing, path=path, error=str(error))
        await clock.sleep(_PAUSE_S)
    raise AssertionError("the last attempt returns or raises")


def _has_lacked(error: OSError | TooManyOpenFiles) -> bool:
    return isinstance(error, TooManyOpenFiles) or lacks_descriptors(error)


def too_many_open_files(doing: str, path: str) -> TooManyOpenFiles:
    return TooManyOpenFiles(f"too many open files to {doing} {path}; raise the limit (ulimit -n)", path=path)
