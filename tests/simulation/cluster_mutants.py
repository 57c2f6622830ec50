"""Safety rules, switched off one at a time: what a simulated run must find.

Each mutant replaces one small piece of the real code, in the way in which somebody might get it wrong. They
are applied with pytest's monkeypatch, so that each lasts for one test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorate.broker.controller_link.lease import Lease
from quorate.broker.directory import broker_directory
from quorate.broker.handlers.produce_in_progress import PartitionAppend, Waiter
from quorate.broker.replica.isr_membership import IsrMembership
from quorate.broker.replica.leadership import Leadership, LogEndsLater
from quorate.broker.replica.partition import Partition
from quorate.broker.replication.following import NAME_POSITION, NamePosition, Next, Sync, TruncateTo
from quorate.broker.replication.leader_fetcher import LeaderFetcher
from quorate.chaos.cluster.checks import Violation
from quorate.core.disk import Bytes
from quorate.core.ids import LeaderEpoch, Offset
from quorate.errors import OffsetNotAvailable
from quorate.storage import Appended, PartitionLog
from quorate.storage.producer_state import ProducerStates


def first_violation(run: Callable[[int], object], *, seeds_max: int) -> Violation | None:
    """Which seed sees what is wrong may change with any change of the code, so several are tried."""
    for seed in range(1, seeds_max + 1):
        try:
            run(seed)
        except Violation as violation:
            return violation
    return None


# -- conditional append


def refuse_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    """A refusal names the end of the leader's log at once, whether it will stay or not."""
    wait_for = PartitionAppend.wait_for

    def do_not_wait(self: PartitionAppend, waiter: Waiter | None) -> None:
        if self.is_mismatch and waiter is not None:
            waiter.cancel()
        else:
            wait_for(self, waiter)

    patch.setattr(PartitionAppend, "wait_for", do_not_wait)


def refuse_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    """A leader refuses although it may have been deposed (rule 37)."""
    refused_at = PartitionAppend.refused_at

    def need_no_lease(self: PartitionAppend, log_end_offset: Offset) -> None:
        refused_at(self, log_end_offset)
        self.needs_lease = False

    patch.setattr(PartitionAppend, "refused_at", need_no_lease)


def keep_the_lease_while_stopping(patch: pytest.MonkeyPatch) -> None:
    """A leader that has asked to stop answers alone for as long as its lease lasts (rule 37)."""
    patch.setattr(Lease, "revoke", lambda _: None)


def look_at_the_condition_before_duplicates(patch: pytest.MonkeyPatch) -> None:
    """A retry of what was written finds the log longer than expected: by itself."""

    def find_nothing(_: PartitionLog, batch: Bytes) -> None:
        del batch

    patch.setattr(PartitionLog, "find_duplicate", find_nothing)


def compare_with_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
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


# -- the whole cluster


def commit_what_the_leader_has(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is the leader's own end (rule 13)."""
    patch.setattr(IsrMembership, "stored_everywhere", lambda _, own_end_offset: own_end_offset)
    patch.setattr(IsrMembership, "is_leader_alone", property(lambda _: True))


def commit_with_too_few(patch: pytest.MonkeyPatch) -> None:
    """The high watermark moves whatever the size of the ISR (rules 14 and 15)."""
    patch.setattr(IsrMembership, "has_enough", property(lambda _: True))


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """A follower names its position when its records are in the page cache, under fsync too (rule 16)."""
    _follow(patch, lambda _, due: NAME_POSITION if isinstance(due, Sync) else due)


def truncate_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """In each leader epoch a follower first drops what it does not know to be committed (rule 8)."""
    cut_in: dict[Partition, LeaderEpoch] = {}

    def cut_first(partition: Partition, due: Next) -> Next:
        is_cut = cut_in.get(partition) == partition.leader_epoch
        if not isinstance(due, NamePosition | Sync) or is_cut:
            return due
        cut_in[partition] = partition.leader_epoch
        is_longer = partition.high_watermark < partition.log.log_end_offset
        return TruncateTo(partition.high_watermark) if is_longer else due

    _follow(patch, cut_first)


def trust_the_log_after_a_loss_of_power(patch: pytest.MonkeyPatch) -> None:
    """Every start counts as one after a mere crash of the process (rule 30)."""
    patch.setattr(broker_directory, "_is_same_boot", lambda *_: True)


def forget_producers(patch: pytest.MonkeyPatch) -> None:
    """A batch that was sent again is written again (rules 49 and 50)."""
    patch.setattr(ProducerStates, "check", lambda *_: None)


def _follow(patch: pytest.MonkeyPatch, change: Callable[[Partition, Next], Next]) -> None:
    """Have a follower do something else than what is due."""
    proceed = LeaderFetcher._proceed

    def proceed_differently(self: LeaderFetcher, followed: Any, due: Next) -> None:
        proceed(self, followed, change(followed.partition, due))

    patch.setattr(LeaderFetcher, "_proceed", proceed_differently)
