"""One partition under observation: what its brokers hold and do, against what was ever committed.

Problem. "No acknowledged write is lost" cannot be seen in any one place: it is a statement about all logs, of
brokers that are down too, and about the elections that metadata allows next. A history of clients tells of a
loss only once an unlucky election has happened. Here the state that *allows* the loss is a violation, in the
step in which it comes about.

The invariants (rule 1; the names are those of the violations):

- ``leader-completeness``: who begins to lead holds all that leaders before it have committed.
- ``candidate-completeness``: every member of ISR and ELR holds all that is committed; on the device, where
  metadata or the plan calls the partition synced (rule 45). ``unclean-exclusion`` where the member had lost
  something before its broker came back (rule 30).
- ``log-matching``: below its high watermark each log is the committed one.
- ``replication-quorum``: who may be elected next is waited for by the leader that commits now (rule 13).
- ``admission``: whom a leader asks to have in the ISR holds all that it has committed (rule 23). By the time
  that the metadata says so it may have caught up: who looks there alone misses most of it.
- ``min-isr-copies``: what becomes committed lies on MinISR brokers at that moment (rules 14 and 15): the
  leader's MinISR, and that of the plan (``Demands``).
- ``no-global-loss``: some broker holds all that is committed.
- ``high-watermark``: it moves back neither for a leader, nor for clients from one leader to the next; and
  nobody but a leader moves it on (rules 13, 17 and 18).
- ``one-leader-per-epoch``, and only the one that metadata names (rule 2).
- ``log-start``: it never moves back, nor beyond the high watermark, and retention by size leaves as much as
  it was told to (rule 48).
- ``deleted-key``: of a compacted topic no copy holds what a tombstone has deleted that is gone from it (rule
  48); what may be missing there at all, ``CompactedLog`` says.
- ``epoch-on-record``: a leader epoch is in the epoch checkpoint before its first batch is in the log (rules 5
  and 6).
- ``recovery-point``: what a log calls synced is on the device, by the device's own account (rule 46). Where
  the other invariants ask what is synced they ask the log, and this is what makes that an answer.

Where an operator has given something up (an unclean election, rule 33), what is committed is cut to what the
new leader has of it. Who still holds what was given up is *left behind*, and so is who still leads in an
earlier epoch: what they say of their own log counts for nothing until they have cut it. As candidates they
are looked at like everybody else.

Rejected: to compare every pair of logs. Each one against the committed log says the same, and costs one
comparison for each new batch and broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from quorate.chaos.checks.final_state import AcceptedLoss
from quorate.chaos.checks.violation import Violation
from quorate.chaos.invariants.compacted_log import CompactedLog
from quorate.chaos.invariants.copies import Batch, CommittedLog, Copy, Loss
from quorate.chaos.invariants.demands import Demands, PartitionDemands
from quorate.core.ids import BrokerId, LeaderEpoch, Offset
from quorate.core.topic_names import OFFSETS_TOPIC
from quorate.metadata.image import PartitionImage

__all__ = ["Leading", "PartitionWatch", "Sighting"]


class Leading(NamedTuple):
    """What a leader goes by."""

    epoch: LeaderEpoch
    #: rule 17: clients are told of the high watermark
    is_high_watermark_known: bool
    #: whom the high watermark waits for
    maximal_isr: frozenset[BrokerId]
    #: the committed ISR is large enough for the high watermark to move (rule 14)
    can_commit: bool
    min_insync_replicas: int


class Sighting(NamedTuple):
    """A replica of a process that runs, at one moment."""

    #: another one with each start of the broker
    process: str
    high_watermark: Offset
    #: the log is being truncated or made anew, or has just been
    is_cut: bool
    #: None: it follows, or does neither
    leading: Leading | None


class PartitionWatch:
    def __init__(
        self,
        name: str,
        examined: Counter[str],
        now_s: Callable[[], float] = lambda: 0.0,
        *,
        compacted: CompactedLog | None = None,
        demands: PartitionDemands | None = None,
    ) -> None:
        """``examined``: counts what was looked at, so that it shows when that was nothing.

        ``compacted``: what is committed, of a topic that is; nothing yet.
        """
        self.name = name
        self.committed = compacted or CommittedLog()
        self.compacted = compacted
        self._demands = demands or PartitionDemands(Demands(), name)
        #: by broker, running or not
        self.copies: dict[BrokerId, Copy] = {}
        #: those that brokers have given up: they count for a leader that was deposed meanwhile
        self._given_back: dict[BrokerId, Copy] = {}
        self._image: PartitionImage | None = None
        self._examined = examined
        #: of brokers that run
        self._seen: dict[BrokerId, Sighting] = {}
        self._leaders: dict[LeaderEpoch, str] = {}
        #: the highest that clients were shown, by leader epoch
        self._shown: dict[LeaderEpoch, Offset] = {}
        self._now_s = now_s
        #: one for each unclean election
        self.losses: list[AcceptedLoss] = []
        #: what was committed, and is not any more
        self._given_up: set[Batch] = set()

    @property
    def is_synced(self) -> bool:
        """What is committed has to be on devices (rule 45): the metadata says so, or has to."""
        image = self._image
        return image is not None and (image.is_synced or self._demands.is_synced(image))

    # -- what has happened

    def image_changed(self, image: PartitionImage) -> None:
        """Committed metadata; the newest that anybody knows."""
        before, self._image = self._image, image
        self._demands.image_changed(image)
        for broker_id in sorted(set(self.copies) - set(image.replicas) - set(self._seen)):
            self._given_back[broker_id] = self.copies.pop(broker_id)
        if before is not None and image.unclean_leader_epochs != before.unclean_leader_epochs:
            self._give_up_what_the_leader_lacks(image.leader)
        for broker_id in self._seen:
            self._check_replication_quorum(broker_id)
        self.settle()

    def _give_up_what_the_leader_lacks(self, leader: BrokerId) -> None:
        """An operator has chosen it, and was told what that means (rule 33)."""
        copy = self.copies.get(leader)
        self._given_up.update(self.committed.cut_to(Offset(0) if copy is None else copy.complete_to))
        self.losses.append(AcceptedLoss(self.committed.end, self._now_s()))
        self._examined["batches given up"] = len(self._given_up)
        self._shown.clear()
        for each in self.copies.values():
            each.complete_to = min(each.complete_to, self.committed.end)

    def saw(self, broker_id: BrokerId, now: Sighting, *, is_first: bool) -> None:
        """The replica has changed somehow; its copy is up to date. ``is_first``: it was not there before."""
        before = None if is_first else self._seen.get(broker_id)
        self._seen[broker_id] = now
        self._compare(broker_id)
        if now.leading is not None and (
            before is None or before.leading is None or _epoch(before) != _epoch(now)
        ):
            self._check_new_leader(broker_id, now.process, now.leading.epoch)
        self._check_high_watermark(broker_id, before, now)
        self._check_admissions(broker_id, before, now)
        self._check_replication_quorum(broker_id)
        self.settle()

    def epoch_began(self, broker_id: BrokerId, batch: Batch, on_record: LeaderEpoch) -> None:
        """``batch``: the first of its epoch. ``on_record``: the newest epoch of the broker's checkpoint."""
        self._examined["epochs begun"] += 1
        if on_record < batch.epoch:
            self._fail(
                "epoch-on-record",
                f"broker {broker_id} has appended {batch}; its checkpoint knows epochs up to {on_record}",
            )

    def log_start_moved(
        self, broker_id: BrokerId, *, before: Offset, now: Offset, high_watermark: Offset
    ) -> None:
        """By retention: a log that is made anew starts where its leader's does."""
        self._examined["log starts moved"] += 1
        if now < before:
            self._fail("log-start", f"broker {broker_id} moved its log start from {before} back to {now}")
        if now > high_watermark:
            self._fail("log-start", f"broker {broker_id} dropped records up to {now}, committed or not")
        if now > self.committed.start:
            self._check_enough_is_left(broker_id, now)
        self.committed.trim(now)

    def _check_enough_is_left(self, broker_id: BrokerId, start: Offset) -> None:
        """By whoever is the first to begin there: a leader has decided it, which holds all that there is."""
        kept = self._demands.bytes_kept
        if not kept:
            return
        self._examined["log starts by size"] += 1
        logs = [self.committed.batches, *(copy.batches.values() for copy in self.copies.values())]
        sizes = {batch.base_offset: batch.size_in_bytes for batches in logs for batch in batches}
        left = sum(size for base, size in sizes.items() if base >= start)
        if left < kept:
            self._fail(
                "log-start",
                f"broker {broker_id} begins at {start} by retention: {left} bytes are left, not {kept}",
            )

    def log_start_found(self, broker_id: BrokerId, *, before: Offset, now: Offset) -> None:
        """By a start: a crash may come when the device knows of a new log start and the process does not.

        What the process held for committed then is not known any more; nobody may drop what was not. Where an
        operator has given something up, it may have been committed when it was dropped.
        """
        if now > before:
            bound = now if self.losses else self.committed.end
            self.log_start_moved(broker_id, before=before, now=now, high_watermark=bound)

    def recovery_point_moved(self, broker_id: BrokerId, *, claimed: Offset, unsynced: Offset) -> None:
        """Both exclusive. ``unsynced``: up to where the disk has everything, or where the log ends."""
        self._examined["recovery points"] += 1
        if claimed > unsynced:
            self._fail(
                "recovery-point",
                f"broker {broker_id} calls everything below {claimed} synced, and the disk nothing from "
                f"{unsynced} on",
            )

    def process_ended(self, broker_id: BrokerId) -> None:
        """What is left is its copy."""
        self._seen.pop(broker_id, None)
        self._compare(broker_id)
        self.settle()

    def replica_left(self, broker_id: BrokerId) -> None:
        """A broker that runs has given it up."""
        self._seen.pop(broker_id, None)
        if broker_id in self.copies:
            self._given_back[broker_id] = self.copies.pop(broker_id)
        self.settle()

    def acknowledged(self, offset: Offset) -> None:
        """A client was told with acks=all that its record stands there."""
        self._examined["acknowledgements"] += 1
        # Of what is given up clients may be told after that.
        if offset >= self.committed.end and not self.losses:
            self._fail("min-isr-copies", f"offset {offset} was acknowledged before it was committed")

    def log_compacted(self) -> None:
        """A broker has finished a pass over its copy."""
        self._examined["logs compacted"] += 1
        if self.name.startswith(OFFSETS_TOPIC):
            self._examined["logs of offsets compacted"] += 1

    def tombstones_removed(self) -> None:
        """A broker begins to."""
        self._examined["tombstones removed"] += 1

    def copy_begun_anew(self) -> None:
        """A broker has dropped what it had, and copies a log that is compacted."""
        self._examined["compacted logs copied anew"] += 1

    # -- what must hold

    def _compare(self, broker_id: BrokerId) -> None:
        self.committed.compare(self.copies[broker_id])
        if self.compacted is not None and self.compacted.resurrected is not None:
            record = self.compacted.resurrected
            self._fail(
                "deleted-key",
                f"broker {broker_id} holds {record}; it was deleted, and the tombstone is gone",
            )

    def settle(self) -> None:
        """Of all brokers together."""
        image, end = self._image, self.committed.end
        if image is None or end == self.committed.start:
            return
        for broker_id in (*image.isr, *image.elr):
            self._check_candidate(broker_id, end)
        if not any(each.complete_to >= end and not each.is_quarantined for each in self.copies.values()):
            self._fail("no-global-loss", f"nobody holds all that is committed, up to {end}")

    def _check_candidate(self, broker_id: BrokerId, end: Offset) -> None:
        copy = self.copies.get(broker_id)
        if copy is not None and copy.is_excused:
            self._examined["candidates excused"] += 1
            return
        self._examined["candidates"] += 1
        if broker_id not in self._seen:
            self._examined["candidates that are down"] += 1
        held = Offset(0)
        if copy is not None:
            held = min(copy.complete_to, copy.durable_end) if self.is_synced else copy.complete_to
        if held < end:
            was_lost = copy is not None and copy.loss is Loss.REPORTED
            check = "unclean-exclusion" if was_lost else "candidate-completeness"
            self._fail(check, f"broker {broker_id} may be elected and holds what is committed only to {held}")
        if copy is not None:
            copy.loss = Loss.NONE

    def _check_new_leader(self, broker_id: BrokerId, process: str, epoch: LeaderEpoch) -> None:
        self._examined["leaderships"] += 1
        other = self._leaders.setdefault(epoch, process)
        if other != process:
            self._fail("one-leader-per-epoch", f"{process} leads in epoch {epoch}, in which {other} has led")
        image = self._image
        if image is None or epoch > image.leader_epoch:
            self._fail("one-leader-per-epoch", f"{process} leads in epoch {epoch}, which is not committed")
        if epoch == image.leader_epoch and image.leader != broker_id:
            self._fail("one-leader-per-epoch", f"{process} leads in epoch {epoch}, not broker {image.leader}")
        copy, due = self.copies[broker_id], self.committed.committed_before(epoch)
        if _lacks(copy, due) and epoch not in image.unclean_leader_epochs:
            self._fail(
                "leader-completeness",
                f"{process} begins to lead in epoch {epoch} and lacks {copy.complete_to}..{due - 1}",
            )

    def _check_high_watermark(self, broker_id: BrokerId, before: Sighting | None, now: Sighting) -> None:
        offset, leading = now.high_watermark, now.leading
        if before is not None and before.process == now.process and offset < before.high_watermark:
            self._check_may_fall(broker_id, before, now)
        if self.losses and self._is_left_behind(broker_id, now):
            return
        if offset > self.committed.end:
            if leading is None:
                self._fail(
                    "high-watermark", f"broker {broker_id} follows, and says that {offset} is committed"
                )
            self._commit(broker_id, offset, leading)
        if _lacks(self.copies[broker_id], min(offset, self.committed.end)):
            self._fail(
                "log-matching", f"broker {broker_id} has another log than is committed, below its {offset}"
            )
        self._examined["logs matched"] += 1
        if leading is not None and leading.is_high_watermark_known:
            self._check_shown(broker_id, offset, leading.epoch)

    def _is_left_behind(self, broker_id: BrokerId, now: Sighting) -> bool:
        """It leads in an epoch before the last unclean one, or has not cut what was given up with it."""
        copy, last = self.copies[broker_id], self.losses[-1]
        if now.leading is None:
            return not self._given_up.isdisjoint(copy.batches.values())
        assert self._image is not None
        if now.leading.epoch >= self._image.unclean_leader_epochs[-1]:
            return False
        # What it commits is lost, and it may go on to say so to clients until it has heard.
        self._given_up.update(copy.between(last.from_offset, now.high_watermark))
        self.losses[-1] = AcceptedLoss(last.from_offset, self._now_s())
        return True

    def _check_may_fall(self, broker_id: BrokerId, before: Sighting, now: Sighting) -> None:
        """A log that was made anew, or cut for an unclean leader, takes it along (rules 11, 12 and 44)."""
        image = self._image
        is_candidate = image is not None and broker_id in (*image.isr, *image.elr)
        is_unclean = image is not None and image.unclean_leader_epochs
        if (before.is_cut or now.is_cut) and not is_candidate:
            return
        if not is_unclean:
            self._fail(
                "high-watermark",
                f"broker {broker_id} moved it from {before.high_watermark} back to {now.high_watermark}",
            )

    def _check_shown(self, broker_id: BrokerId, offset: Offset, epoch: LeaderEpoch) -> None:
        shown = max((each for earlier, each in self._shown.items() if earlier <= epoch), default=Offset(0))
        if offset < shown:
            self._fail(
                "high-watermark",
                f"broker {broker_id} shows clients {offset} in epoch {epoch}; they were shown {shown}",
            )
        self._shown[epoch] = offset

    def _commit(self, broker_id: BrokerId, end: Offset, leading: Leading) -> None:
        copy, committed = self.copies[broker_id], self.committed
        if _lacks(copy, committed.end):
            self._fail(
                "log-matching", f"broker {broker_id} commits up to {end} on another log than is committed"
            )
        fresh = copy.between(committed.end, end)
        if not fresh or fresh[-1].next_offset != end:
            self._fail("high-watermark", f"broker {broker_id} commits up to {end}, where no batch ends")
        needed = max(leading.min_insync_replicas, self._demands.min_isr_in(leading.epoch))
        # What it commits has to be at everybody who may be elected all the same: see ``settle``.
        is_deposed = self._image is not None and leading.epoch < self._image.leader_epoch
        copies = [*self.copies.items(), *(self._given_back.items() if is_deposed else ())]
        for batch in fresh:
            holders = {
                each
                for each, held in copies
                if held.has_held(batch, is_synced=self.is_synced, is_deposed=is_deposed)
            }
            if len(holders) < needed:
                self._fail(
                    "min-isr-copies",
                    f"broker {broker_id} commits {batch.base_offset}..{batch.next_offset - 1}, which only "
                    f"{sorted(holders)} hold; MinISR is {needed}",
                )
        committed.extend(fresh, leading.epoch)
        self._examined["batches committed"] += len(fresh)
        for each in self.copies:
            self._compare(each)

    def _check_admissions(self, broker_id: BrokerId, before: Sighting | None, now: Sighting) -> None:
        image, leading = self._image, now.leading
        if image is None or leading is None or leading.epoch != image.leader_epoch:
            return
        known = {*image.isr}
        if before is not None and before.leading is not None and before.leading.epoch == leading.epoch:
            known |= before.leading.maximal_isr
        for member in sorted(leading.maximal_isr - known):
            copy = self.copies.get(member)
            # Of a broker that has lost something since its last fetch the leader need not have heard: its
            # new broker epoch refuses what is asked for the old one (rule 24).
            if copy is None or copy.is_excused or copy.loss is Loss.REPORTED:
                continue
            self._examined["admissions"] += 1
            if _lacks(copy, now.high_watermark):
                self._fail(
                    "admission",
                    f"broker {broker_id} asks for {member}, which holds what is committed only to "
                    f"{copy.complete_to}",
                )

    def _check_replication_quorum(self, broker_id: BrokerId) -> None:
        image, leading = self._image, self._seen[broker_id].leading
        if image is None or leading is None or leading.epoch != image.leader_epoch:
            return
        self._examined["replication quorums"] += 1
        # A leader that cannot commit need not wait for anybody.
        electable = {*image.isr, *image.elr} if leading.can_commit else set(image.isr)
        if not electable <= leading.maximal_isr:
            self._fail(
                "replication-quorum",
                f"broker {broker_id} leads in epoch {leading.epoch} and waits for "
                f"{sorted(leading.maximal_isr)}; {sorted(electable)} may be elected",
            )

    # -- reports

    def _fail(self, check: str, what: str) -> NoReturn:
        raise Violation(f"{self.name}: {what}\n{self.describe()}", check=check)

    def describe(self) -> str:
        """Who holds and knows what, for whoever has to understand a violation."""
        committed, image = self.committed, self._image
        lines = [f"  committed: {committed.start}..{committed.end}"]
        if image is not None:
            lines.append(
                f"  metadata: leader {image.leader} in epoch {image.leader_epoch}, partition epoch "
                f"{image.partition_epoch}, ISR {list(image.isr)}, ELR {list(image.elr)}, "
                f"replicas {list(image.replicas)}"
            )
        lines += [self._describe_copy(broker_id, copy) for broker_id, copy in sorted(self.copies.items())]
        return "\n".join(lines)

    def _describe_copy(self, broker_id: BrokerId, copy: Copy) -> str:
        seen, missing = self._seen.get(broker_id), self.committed.first_missing(copy)
        facts = [f"log {copy.log_start_offset}..{copy.log_end_offset}, synced to {copy.durable_end}"]
        facts.append("is down" if seen is None else f"high watermark {seen.high_watermark}")
        if seen is not None and seen.leading is not None:
            facts.append(f"leads in epoch {seen.leading.epoch} with {sorted(seen.leading.maximal_isr)}")
        if copy.is_excused:
            is_lost = copy.loss is Loss.UNREPORTED
            facts.append("excused: it has lost something" if is_lost else "excused: it has failed")
        if missing is not None:
            facts.append(f"lacks {missing}, has {copy.batches.get(missing.base_offset)}")
        return f"  broker {broker_id}: {', '.join(facts)}"


def _lacks(copy: Copy, end: Offset) -> bool:
    """Something that is committed before ``end``. Of a rotten one nobody can tell."""
    return copy.complete_to < end and not copy.is_rotten


def _epoch(seen: Sighting) -> LeaderEpoch | None:
    return None if seen.leading is None else seen.leading.epoch
