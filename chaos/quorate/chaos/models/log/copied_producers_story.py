"""Many producers that fill in old data: the times in their batches do not say who may repeat one (rule 50).

Whoever leads saw them write. A replica that has copied the log, or replayed it, knows their batches alone.
"""

from __future__ import annotations

from quorate.chaos.models.log.log_harness import NOW_MS, batch
from quorate.core.ids import Offset, ProducerId, TimestampMs
from quorate.core.records import BatchHeader, parse_header
from quorate.errors import Overloaded
from quorate.storage.producer_state import PRODUCERS_MAX, ProducerStates

__all__ = [
    "many_who_fill_in_old_data_are_remembered_by_their_leader",
    "the_newest_that_were_copied_are_remembered",
]

_DAY_S = 86_400.0
_LONG_AGO = TimestampMs(NOW_MS - 7 * 86_400_000)


def many_who_fill_in_old_data_are_remembered_by_their_leader() -> None:
    """It saw them write, whatever times their records have."""
    states = ProducerStates()
    for number in range(PRODUCERS_MAX):
        states.apply_appended(_first_of(number), Offset(number))
    states.expire(now_s=0.0, wall_ms=NOW_MS, after_s=_DAY_S)
    try:
        states.check(_first_of(PRODUCERS_MAX))
    except Overloaded:
        return
    raise AssertionError("one more is taken, and all of them may still repeat what they have sent")


def the_newest_that_were_copied_are_remembered() -> None:
    """They fill in old data, and wrote a moment ago, elsewhere; as many newcomers come, and stay, too."""
    states = ProducerStates()
    for number in range(PRODUCERS_MAX + 1):
        states.apply(_first_of(number), Offset(number))
    states.expire(now_s=0.0, wall_ms=NOW_MS, after_s=_DAY_S)
    assert states.get(ProducerId(0)) is None, "nobody had to go: then this is no story"
    for number in range(PRODUCERS_MAX + 1, 2 * PRODUCERS_MAX + 1):
        assert states.check(_first_of(number)) is None
        states.apply_appended(_first_of(number), Offset(number))
    states.expire(now_s=60.0, wall_ms=NOW_MS, after_s=_DAY_S)
    for number in (1, PRODUCERS_MAX, 2 * PRODUCERS_MAX):
        found = states.get(ProducerId(number))
        assert found is not None, f"producer {number} is forgotten: what it sends again is written again"


def _first_of(number: int) -> BatchHeader:
    return parse_header(batch(b"v", timestamp=_LONG_AGO, producer=(number, 0, 0)))
