"""The follower's end of the stream to one leader, for every partition that is followed there.

Answers are taken as they arrive, and what they brought forward is acknowledged before the loop turns; a
partition has no task of its own. Only what waits for the disk gets one, for as long as it takes: a sync
before an acknowledgement, a cut. So neither a slow device under one partition, nor one that has to be cut,
holds up the others.

A partition is in one of these states:

    READY     its position waits in the outbox, or for a connection
    NAMED     the leader knows its position and owes an answer; what comes in another state is stale
    WORKING   a task of its own syncs or shortens its log, and goes on when that is done
    PAUSED    a timer goes on with it
    CUT_ELSEWHERE  a cut that began in an earlier leader epoch is not finished; its task goes on with this one
    FAILED    nothing goes on until metadata changes

A connection that breaks takes all answers that are owed with it, so the next one begins with the positions of
everything that is ready or named. A new leader epoch replaces the whole entry: what was under way in the old
one comes back to an entry that is no longer there, and is dropped (rule 10).
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from quorate.broker.replica.log_trouble import is_log_trouble
from quorate.broker.replica.partition import Partition
from quorate.broker.replication.following import (
    Fail,
    NamePosition,
    Next,
    NoteSuperseded,
    RaiseLogStart,
    ResetTo,
    Sync,
    TruncateTo,
    TryAgain,
    WaitForCut,
    before_naming,
    is_throttled,
    may_be_elected,
    may_refetch,
    must_refetch,
    position_of,
    take_update,
)
from quorate.broker.replication.position_outbox import PositionOutbox
from quorate.broker.replication.throttle import ReplicationThrottle
from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.core.exchange import Exchange, open_exchange
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, ReplicaKey
from quorate.core.logging import get_logger
from quorate.core.transport import Transport, method_of
from quorate.errors import LeadershipError, QuorateError
from quorate.v1 import replica_pb2
from quorate.v1.replica_pb2 import (
    FollowerHello,
    FollowerPosition,
    ReplicateRequest,
    ReplicateResponse,
    ReplicaUpdate,
)

__all__ = ["FollowerContext", "LeaderFetcher", "Work"]

log = get_logger(__name__)

_REPLICATE: Final = method_of(
    replica_pb2.DESCRIPTOR.services_by_name["ReplicaService"],
    "Replicate",
    replica_pb2.ReplicateRequest,
    replica_pb2.ReplicateResponse,
)

_REDIAL_S_MIN: Final = 0.05
_REDIAL_S_MAX: Final = 1.0
#: A leader that learns of its election a little later than its followers answers with an error first.
_RETRY_S_MIN: Final = 0.01
_RETRY_S_MAX: Final = 1.0
#: The rate may be raised while a replica waits for its turn; and looking all the time helps nobody.
_THROTTLED_S_MAX: Final = 1.0
_THROTTLED_S_MIN: Final = 0.01
#: Failures in a row that are more than a passing trouble.
_LOUD_AFTER: Final = 5


Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class FollowerContext:
    """What the streams to all leaders share."""

    transport: Transport
    broker_id: BrokerId
    broker_epoch: Callable[[], BrokerEpoch]
    clock: Clock
    rng: random.Random
    throttle: ReplicationThrottle
    #: run it beside the streams, until it ends
    spawn: Callable[[Work, str], None]
    #: the log was cut, or that failed: whoever waits for it may go on
    cut_finished: Callable[[Partition], None]


class _State(enum.Enum):
    READY = "ready"
    NAMED = "named"
    WORKING = "working"
    PAUSED = "paused"
    CUT_ELSEWHERE = "cut elsewhere"
    FAILED = "failed"


class _Followed:
    """One partition in one leader epoch."""

    __slots__ = ("backoff", "key", "leader_epoch", "may_refetch", "must_refetch", "partition", "state")

    def __init__(
        self,
        key: ReplicaKey,
        partition: Partition,
        rng: random.Random,
        *,
        may_refetch: bool,
        must_refetch: bool,
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self.state = _State.PAUSED
        self.backoff = Backoff(rng, first_s=_RETRY_S_MIN, pause_s_max=_RETRY_S_MAX)
        #: its log is damaged, and may be dropped
        self.may_refetch = may_refetch
        #: its log has to be dropped, although nothing is wrong with it by itself
        self.must_refetch = must_refetch


class LeaderFetcher:
    def __init__(self, context: FollowerContext, leader_id: BrokerId, address: str) -> None:
        self._context = context
        self.leader_id = leader_id
        self.address = address
        #: looked up by plain tuples, which are equal to their keys
        self._followed: dict[tuple[str, int], _Followed] = {}
        #: None: there is no connection, nor one in the making
        self._outbox: PositionOutbox | None = None
        self._exchange: Exchange[ReplicateRequest] | None = None
        #: what has to be said leaves at the end of this turn, or of the answer that is being taken
        self._is_send_due = False
        self._ended: asyncio.Future[QuorateError | None] | None = None
        #: set while it waits before the next attempt to connect
        self._pause: asyncio.Future[None] | None = None
        self._redials = Backoff(context.rng, first_s=_REDIAL_S_MIN, pause_s_max=_REDIAL_S_MAX)

    @property
    def is_idle(self) -> bool:
        return not self._followed

    # -- what is followed here

    def follow(self, key: ReplicaKey, partition: Partition) -> None:
        """In the partition's current leader epoch."""
        before = self._followed.get(key)
        if before is not None and before.leader_epoch == partition.leader_epoch:
            # Decided when the epoch began: what was damaged since then is another matter.
            is_refetch_allowed, is_refetch_due = before.may_refetch, before.must_refetch
        else:
            is_refetch_allowed = may_refetch(partition, self._context.broker_id)
            is_refetch_due = must_refetch(partition, self._context.broker_id)
        followed = self._followed[key] = _Followed(
            key,
            partition,
            self._context.rng,
            may_refetch=is_refetch_allowed,
            must_refetch=is_refetch_due,
        )
        if self._outbox is None:
            # Metadata names it as a leader just now, so it may be there by now.
            self._redials.reset()
            self._dial_now()
        self._resume(followed)

    def unfollow(self, key: ReplicaKey) -> None:
        if self._followed.pop(key, None) is not None and self._outbox is not None:
            self._outbox.stop(key)
            self._send_soon()

    def cut_finished(self, key: ReplicaKey) -> None:
        """One that was not begun by the entry that is here now."""
        followed = self._followed.get(key)
        if followed is not None and followed.state is _State.CUT_ELSEWHERE:
            self._resume(followed)

    def _is_current(self, followed: _Followed) -> bool:
        """Whether it is still followed here, in the same leader epoch (rule 10)."""
        return self._followed.get(followed.key) is followed and followed.partition.is_following(
            followed.leader_epoch
        )

    # -- the stream

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._connected()
            self._pause = asyncio.get_running_loop().create_future()
            timer = self._context.clock.call_later(self._redials.next_s(), self._dial_now)
            try:
                await self._pause
            finally:
                timer.cancel()
                self._pause = None

    def _dial_now(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    async def _connected(self) -> None:
        """Returns when the stream has ended."""
        context = self._context
        hello = FollowerHello(
            broker_id=context.broker_id, broker_epoch=context.broker_epoch(), leader_id=self.leader_id
        )
        self._outbox = PositionOutbox(hello, self._position_to_send)
        for followed in self._followed.values():
            if followed.state in (_State.READY, _State.NAMED):
                self._name(followed)
        channel = context.transport.connect(self.address)
        self._ended = asyncio.get_running_loop().create_future()
        self._is_send_due = False
        exchange = self._exchange = open_exchange(channel, _REPLICATE, self)
        try:
            error = await self._ended
            if error is not None:
                level = log.info if self._redials.failures == 0 else log.debug
                level(
                    "replication_stream_ended",
                    leader=self.leader_id,
                    address=self.address,
                    code=error.code,
                    error=error.message,
                )
        finally:
            self._outbox = self._exchange = None
            await exchange.close()
            await channel.close()

    def on_ready(self) -> None:
        if self._outbox is not None and not self._outbox.is_empty:
            self._send()

    def on_response(self, response: ReplicateResponse) -> None:
        if self._redials.failures:
            self._redials.reset()
        try:
            # One request acknowledges all that this answer has brought.
            self._is_send_due = True
            # As a list: an iteration over protobuf's own ends by an exception, and that costs more.
            for update in response.updates[:]:
                self._take(update)
            self._send()
        except Exception as error:  # noqa: BLE001 - a mistake of ours: it ends ``run``, and with it the broker
            self._is_send_due = False
            if self._ended is not None and not self._ended.done():
                self._ended.set_exception(error)

    def on_end(self, error: QuorateError | None) -> None:
        assert self._ended is not None
        if not self._ended.done():
            self._ended.set_result(error)

    def _send_soon(self) -> None:
        if not self._is_send_due:
            self._is_send_due = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        """As much as the leader takes; the rest when it takes more."""
        self._is_send_due = False
        exchange, outbox = self._exchange, self._outbox
        if exchange is None or outbox is None:
            return
        while not outbox.is_empty and exchange.is_ready:
            request = outbox.next_request()
            if request is not None:
                exchange.send(request, is_last=outbox.is_empty)

    def _position_to_send(self, key: ReplicaKey) -> FollowerPosition | None:
        followed = self._followed.get(key)
        # What was named in an earlier epoch may still wait in the outbox. In this one the log may have to be
        # synced or cut first, and a position is an acknowledgement (rule 16).
        if (
            followed is None
            or followed.state is not _State.READY
            or not followed.partition.is_following(followed.leader_epoch)
        ):
            return None
        followed.state = _State.NAMED
        return position_of(followed.partition, followed.leader_epoch)

    def _take(self, update: ReplicaUpdate) -> None:
        followed = self._followed.get((update.topic_id, update.partition))
        if (
            followed is None
            or followed.state is not _State.NAMED
            or update.leader_epoch != followed.leader_epoch
            or not followed.partition.is_following(followed.leader_epoch)
        ):
            # Of an epoch that is over, or to a question that was taken back (rule 10).
            return
        if is_throttled(followed.partition, self._context.broker_id):
            self._context.throttle.took(len(update.batches))
        what = take_update(followed.partition, update)
        if followed.backoff.failures and not isinstance(what, TryAgain):
            followed.backoff.reset()
        self._proceed(followed, what)

    # -- what comes next

    def _resume(self, followed: _Followed) -> None:
        if self._is_current(followed):
            what = before_naming(
                followed.partition, may_refetch=followed.may_refetch, must_refetch=followed.must_refetch
            )
            self._proceed(followed, what)

    def _proceed(self, followed: _Followed, what: Next) -> None:
        match what:
            case NamePosition():
                self._name_when_allowed(followed)
            case TryAgain(error):
                self._try_again(followed, error)
            case Fail(error):
                self._fail(followed, error)
            case Sync():
                self._work_on(followed, followed.partition.log.flush, "sync-follower")
            case RaiseLogStart(offset):
                raise_log_start = partial(followed.partition.log.advance_log_start, offset)
                self._work_on(followed, raise_log_start, "raise-log-start")
            case NoteSuperseded(below):
                note = partial(followed.partition.log.note_superseded, below)
                self._work_on(followed, note, "note-superseded")
            case TruncateTo() | ResetTo():
                followed.state = _State.WORKING
                self._context.spawn(partial(self._cut, followed, what), "cut-follower")
            case WaitForCut():
                followed.state = _State.CUT_ELSEWHERE

    def _name_when_allowed(self, followed: _Followed) -> None:
        context = self._context
        if is_throttled(followed.partition, context.broker_id):
            wait_s = context.throttle.wait_s()
            if wait_s > 0:
                self._resume_later(followed, min(max(wait_s, _THROTTLED_S_MIN), _THROTTLED_S_MAX))
                return
        self._name(followed)

    def _name(self, followed: _Followed) -> None:
        followed.state = _State.READY
        if self._outbox is not None:
            self._outbox.name(followed.key)
            if not self._is_send_due:
                self._send_soon()

    def _try_again(self, followed: _Followed, error: QuorateError) -> None:
        pause_s = followed.backoff.next_s()
        failures = followed.backoff.failures
        # Right after an election, one side or the other has not heard of it: nothing to talk about.
        is_quiet = isinstance(error, LeadershipError) or failures < _LOUD_AFTER
        (log.debug if is_quiet else log.warning)(
            "replication_held_up",
            partition=str(followed.partition.topic_partition),
            leader=self.leader_id,
            leader_epoch=followed.leader_epoch,
            attempts=failures,
            code=error.code,
            error=error.message,
        )
        self._resume_later(followed, pause_s)

    def _resume_later(self, followed: _Followed, seconds: float) -> None:
        followed.state = _State.PAUSED
        self._context.clock.call_later(seconds, partial(self._resume, followed))

    def _fail(self, followed: _Followed, error: QuorateError) -> None:
        """The partition tells whoever has to know, the controller among them (rules 11 and 44)."""
        followed.state = _State.FAILED
        followed.partition.fail(error)

    # -- what waits for the disk

    def _work_on(self, followed: _Followed, work: Work, name: str) -> None:
        followed.state = _State.WORKING
        self._context.spawn(partial(self._work, followed, work), name)

    async def _work(self, followed: _Followed, work: Work) -> None:
        try:
            await work()
        except QuorateError as error:
            if self._is_current(followed):
                self._proceed(followed, Fail(error) if is_log_trouble(error) else TryAgain(error))
            return
        self._resume(followed)

    async def _cut(self, followed: _Followed, cut: TruncateTo | ResetTo) -> None:
        if not self._is_current(followed):
            # Between the answer and this task's turn. From the next line on appends are refused, and whoever
            # takes over waits until the cut is done.
            return
        partition = followed.partition
        log_end_offset, high_watermark = partition.log.log_end_offset, partition.high_watermark
        try:
            if isinstance(cut, TruncateTo):
                is_complete = may_be_elected(partition, self._context.broker_id)
                await partition.log.truncate_to(cut.offset, is_complete=is_complete)
            else:
                await partition.log.reset_to(cut.offset, compacted=cut.compacted)
        except QuorateError as error:
            if is_log_trouble(error):
                # Whatever part it has by now.
                self._fail(followed, error)
            elif self._is_current(followed):
                self._try_again(followed, error)
        else:
            log.info(
                "log_truncated" if isinstance(cut, TruncateTo) else "log_reset",
                partition=str(partition.topic_partition),
                leader=self.leader_id,
                leader_epoch=followed.leader_epoch,
                to_offset=cut.offset,
                log_end_offset=log_end_offset,
                high_watermark=high_watermark,
            )
            # What is damaged from here on is damaged anew.
            followed.may_refetch = followed.must_refetch = False
        self._context.cut_finished(partition)
        if followed.state is _State.WORKING:
            self._resume(followed)
