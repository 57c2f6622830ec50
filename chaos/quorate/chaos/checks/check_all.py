"""Every check, over one run.

The order is that of a report: what was lost first. A run that breaks several promises is named after the
first of them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

from quorate.chaos.checks import (
    aborted_read,
    damage,
    duplicate,
    elections,
    epochs,
    groups,
    inconsistent_offsets,
    last_word,
    liveness,
    lost_write,
    phantom,
    poll_order,
    real_time_order,
    replicas_differ,
    retention,
    send_order,
    silent_loss,
    unseen,
    vacuity,
    watermarks,
    weak_acks,
)
from quorate.chaos.checks.case import Case
from quorate.chaos.checks.final_state import FinalState
from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.history.history import History

__all__ = ["CHECKS", "Check", "check_all"]

Check = Callable[[Case], Verdict]

CHECKS: Final[tuple[Check, ...]] = (
    lost_write.check,
    inconsistent_offsets.check,
    last_word.check,
    replicas_differ.check,
    unseen.check,
    duplicate.check,
    phantom.check,
    aborted_read.check,
    *poll_order.CHECKS,
    *groups.CHECKS,
    silent_loss.check,
    send_order.check,
    real_time_order.check,
    watermarks.check,
    *epochs.CHECKS,
    elections.check,
    retention.check,
    damage.check,
    liveness.check,
    weak_acks.check,
    vacuity.check,
)


def check_all(history: History, final: FinalState) -> list[Verdict]:
    """One verdict of each check, whatever the others say."""
    # Nothing here makes cycles, and passes over millions of entries would cost as much as the checks do.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        case = Case(history, final)
        return [check(case) for check in CHECKS]
    finally:
        if was_enabled:
            gc.enable()
