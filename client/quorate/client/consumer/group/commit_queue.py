"""Commits of one consumer, one after the other.

Two commits that are under way at once may arrive in either order, and the older one, coming last, would take
the group back. So one request is under way at a time. What is committed meanwhile waits and goes together: of
two offsets for a partition the later call's counts. What failed in passing is sent again, after what was
newer has replaced it. An attempt that was given up may still be on its way; requests are numbered, so that a
coordinator that gets it after a later one leaves things as they are.

Of partitions that are assigned by hand there is no member to number anything. A commit names the revision of
the group's offsets that its consumer was told last instead, and is refused where others have committed since.
Then the answer has the next revision, and the commit is tried again with that: of those who commit by hand,
the one that calls last counts. What arrives without its caller waiting for it names an old one.

A commit is in the name of the member as it is when it is *sent* (rule 62): a partition that was taken away
between the call and the attempt is refused here already. So it is if the member has got it back since: others
may have gone further, and a coordinator cannot tell that the offset is from before. Therefore whoever submits
says in which `Tenure` it has read what it commits. `STALE_MEMBER_EPOCH` says that the group has moved on and
the member has not heard of it: it is made to ask, and then the commit is tried again.

How much may wait is bounded by the number of calls that nobody has heard the end of.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.client.consumer.group.member import Identity, Tenure
from quorate.client.groups.committed import fetch_revision
from quorate.client.groups.coordinator import COMMIT_OFFSETS, CoordinatorLink
from quorate.client.groups.offsets import OffsetAndMetadata, offset_to
from quorate.client.groups.partitions import GroupPartition
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.errors import (
    BufferExhausted,
    FencedMemberEpoch,
    InvalidUpdateVersion,
    QuorateError,
    StaleMemberEpoch,
    UnknownMember,
    UnknownServerError,
    copy_of,
)
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import group_pb2

__all__ = ["CommitQueue", "Committer", "Offsets", "Tenures"]

Offsets = Mapping[GroupPartition, OffsetAndMetadata]
#: None: in none that lasts
Tenures = Mapping[GroupPartition, Tenure | None]

#: A coordinator that takes longer is stopped, overloaded or cut off.
_ATTEMPT_TIMEOUT_S: Final = 5.0
_WAITING_MAX: Final = 1000


class Committer(Protocol):
    """In whose name commits are made."""

    def identity(self) -> Identity | None:
        """None: nobody's, and then nothing is held."""
        ...

    def tenure_of(self, partition: GroupPartition) -> Tenure | None:
        """Another one each time that the partition is given. None: it is not held."""
        ...

    def epoch_is_stale(self) -> None:
        """The coordinator has to be asked what has changed."""
        ...

    def membership_lost(self, identity: Identity, error: QuorateError) -> None: ...

    def were_committed(self, offsets: Offsets, tenures: Tenures) -> None:
        """``tenures``: in which they were sent."""
        ...


@dataclass(slots=True)
class _Commit:
    #: those that are not committed yet
    offsets: dict[GroupPartition, OffsetAndMetadata]
    #: in which they were read
    tenures: Tenures
    deadline: float
    done: asyncio.Future[None]
    #: why one of them will never be
    failure: QuorateError | None = None


class CommitQueue:
    """``run`` for as long as the consumer lives."""

    def __init__(
        self,
        link: CoordinatorLink,
        committer: Committer,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._link = link
        self._committer = committer
        self._clock = clock
        self._backoff = Backoff(rng)
        self._waiting: deque[_Commit] = deque()
        #: of the last request, whoever it was in the name of
        self._commit_number = 0
        #: for commits in nobody's name; None: not asked for yet
        self._revision: str | None = None
        self._news = asyncio.Event()

    def submit(self, offsets: Offsets, tenures: Tenures, *, timeout_s: float) -> asyncio.Future[None]:
        """Done when all of them are committed, or one of them cannot be.

        ``tenures``: in which they were read, as of the call and not of a later moment.
        """
        if len(self._waiting) >= _WAITING_MAX:
            raise BufferExhausted(
                f"{_WAITING_MAX} commits wait already: the coordinator does not take them",
                group=self._link.group,
            )
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Looked at here: nobody else may want to know.
        done.add_done_callback(_look_at)
        if not offsets:
            done.set_result(None)
            return done
        commit = _Commit(dict(offsets), tenures, self._clock.monotonic() + timeout_s, done)
        self._drop_what_was_lost(commit)
        if commit.offsets:
            self._waiting.append(commit)
            self._news.set()
        else:
            _settle(commit, {}, again_at=0.0)
        return done

    async def settled(self, partitions: Collection[GroupPartition], *, timeout_s: float) -> None:
        """Until no commit of these waits any more, or the time is over."""
        concerned = [each.done for each in self._waiting if not each.offsets.keys().isdisjoint(partitions)]
        if concerned:
            await asyncio.wait(concerned, timeout=timeout_s)

    async def run(self) -> None:
        while True:
            self._news.clear()
            while self._waiting:
                await self._round()
            await self._news.wait()

    async def _round(self) -> None:
        """All that wait, in one request; those that have to be tried again stay, in their order."""
        commits = [each for each in self._waiting if not each.done.done()]
        for commit in commits:
            self._drop_what_was_lost(commit)
        outcome = await self._commit(commits)
        pause_s = self._backoff.next_s()
        again_at = self._clock.monotonic() + pause_s
        is_settled = [_settle(commit, outcome, again_at) for commit in commits]
        self._waiting = deque(each for each in self._waiting if not each.done.done())
        if all(is_settled):
            self._backoff.reset()
        else:
            await self._clock.sleep(pause_s)

    def _drop_what_was_lost(self, commit: _Commit) -> None:
        for partition in list(commit.offsets):
            tenure = commit.tenures[partition]
            if tenure is None or self._committer.tenure_of(partition) != tenure:
                del commit.offsets[partition]
                commit.failure = _not_held(self._link.group, partition)

    async def _commit(self, commits: list[_Commit]) -> dict[GroupPartition, QuorateError]:
        """Why some of them are not committed."""
        wanted: dict[GroupPartition, OffsetAndMetadata] = {}
        for commit in commits:
            wanted.update(commit.offsets)
        if not wanted:
            return {}
        identity = self._committer.identity()
        assert identity is not None, "what is held is held by somebody"
        tenures = {each: self._committer.tenure_of(each) for each in wanted}
        remaining_s = min(commit.deadline for commit in commits) - self._clock.monotonic()
        timeout_s = min(max(remaining_s, 0.01), _ATTEMPT_TIMEOUT_S)
        try:
            refused = await self._send(identity, wanted, timeout_s)
        except QuorateError as error:
            refused = dict.fromkeys(wanted, error)
        committed = {each: offset for each, offset in wanted.items() if each not in refused}
        if committed:
            self._committer.were_committed(committed, tenures)
        self._tell_refusals(identity, list(refused.values()))
        return refused

    async def _send(
        self, identity: Identity, offsets: Offsets, timeout_s: float
    ) -> dict[GroupPartition, QuorateError]:
        if not identity.member_id and self._revision is None:
            self._revision = await fetch_revision(self._link, offsets, timeout_s=timeout_s)
        self._commit_number += 1
        request = group_pb2.CommitOffsetsRequest(
            group=self._link.group,
            member_id=identity.member_id,
            member_epoch=identity.epoch,
            offsets=[offset_to(partition, offset) for partition, offset in offsets.items()],
            commit_number=self._commit_number if identity.member_id else 0,
            revision=None if identity.member_id else self._revision,
        )
        response = await self._link.call_once(COMMIT_OFFSETS, request, timeout_s=timeout_s)
        if len(response.results) != len(offsets):
            raise UnknownServerError("CommitOffsets: the answer is not about what was committed")
        self._revision = response.revision or None
        return {
            partition: error_from_detail(result.error)
            for partition, result in zip(offsets, response.results, strict=True)
            if result.HasField("error")
        }

    def _tell_refusals(self, identity: Identity, errors: Sequence[QuorateError]) -> None:
        if any(isinstance(each, StaleMemberEpoch) for each in errors):
            self._committer.epoch_is_stale()
        for error in errors:
            if isinstance(error, UnknownMember | FencedMemberEpoch) and identity.member_id:
                self._committer.membership_lost(identity, error)
                return


def _settle(commit: _Commit, refused: Mapping[GroupPartition, QuorateError], again_at: float) -> bool:
    """Whether it is over."""
    if commit.done.done():
        return True  # whoever waited for it has gone
    commit.offsets = {each: offset for each, offset in commit.offsets.items() if each in refused}
    errors = [refused[each] for each in commit.offsets]
    final = [error for error in errors if not _helps_again(error) or again_at >= commit.deadline]
    if commit.failure is not None:
        final.append(commit.failure)
    if final:
        commit.done.set_exception(copy_of(final[0]))
    elif not errors:
        commit.done.set_result(None)
    return commit.done.done()


def _helps_again(error: QuorateError) -> bool:
    """Others were faster: there is a new revision."""
    return error.retriable or isinstance(error, InvalidUpdateVersion)


def _not_held(group: str, partition: GroupPartition) -> QuorateError:
    return FencedMemberEpoch(
        f"{partition} is not this consumer's any more: its offset is not committed",
        group=group,
        topic=partition.topic,
        partition=partition.partition,
    )


def _look_at(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
