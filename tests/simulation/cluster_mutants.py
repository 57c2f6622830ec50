"""Safety rules, switched off one at a time: what a simulated run must find.

Each mutant replaces one small piece of the real code, in the way in which somebody might get it wrong. They
are applied with pytest's monkeypatch, so that each lasts for one test.
"""

from __future__ import annotations

from pytest import MonkeyPatch

from quorate.broker.handlers.produce_in_progress import PartitionAppend, Waiter
from quorate.broker.replica.leadership import Leadership, LogEndsLater
from quorate.core.disk import Bytes
from quorate.core.ids import Offset
from quorate.errors import OffsetNotAvailable
from quorate.storage import Appended, PartitionLog

# -- conditional append


def refuse_before_it_is_committed(patch: MonkeyPatch) -> None:
    """A refusal names the end of the leader's log at once, whether it will stay or not."""
    wait_for = PartitionAppend.wait_for

    def do_not_wait(self: PartitionAppend, waiter: Waiter | None) -> None:
        if self.is_mismatch and waiter is not None:
            waiter.cancel()
        else:
            wait_for(self, waiter)

    patch.setattr(PartitionAppend, "wait_for", do_not_wait)


def refuse_without_a_lease(patch: MonkeyPatch) -> None:
    """A leader refuses although it may have been deposed (rule 37)."""
    refused_at = PartitionAppend.refused_at

    def need_no_lease(self: PartitionAppend, log_end_offset: Offset) -> None:
        refused_at(self, log_end_offset)
        self.needs_lease = False

    patch.setattr(PartitionAppend, "refused_at", need_no_lease)


def look_at_the_condition_before_duplicates(patch: MonkeyPatch) -> None:
    """A retry of what was written finds the log longer than expected: by itself."""

    def find_nothing(_: PartitionLog, batch: Bytes) -> None:
        del batch

    patch.setattr(PartitionLog, "find_duplicate", find_nothing)


def compare_with_the_high_watermark(patch: MonkeyPatch) -> None:
    """Two appends on their way at once have the same expectation, and both fit."""

    def append_if(self: Leadership, batch: Bytes, expected_offset: Offset) -> Appended | LogEndsLater:
        duplicate = self._log.find_duplicate(batch)
        if duplicate is not None:
            return duplicate
        if expected_offset < self.high_watermark:
            return LogEndsLater(self.high_watermark)
        if expected_offset > self.high_watermark:
            raise OffsetNotAvailable("not yet")
        return self.append(batch, acks_all=True)

    patch.setattr(Leadership, "append_if", append_if)
