"""The broker's session: heartbeats on one stream to the active controller, and what comes of the answers.

Problem: a broker has to know whether it may serve (rules 36, 37), has to be heard when a replica is damaged
or when it wants to stop, and has to find the next controller when one dies. All of that rides on heartbeats.

Invariants:

- One heartbeat is under way at a time. The next leaves when that one is answered and the interval is over, or
  there is something urgent to say. A controller answers a stream's heartbeats one after the other, so more of
  them under way would renew nothing sooner; and what a heartbeat carried is known to be heard, or not.
- Only an answer on the open stream to the heartbeat that is under way counts. It renews the lease from when
  that heartbeat was *sent*, only if it does not say "fenced", and only once this broker has applied the
  metadata that it names (``Lease.metadata_applied``, which whoever applies metadata calls, too).
- Whatever ends the stream (the controller, the network, silence, our own end) revokes the lease before
  anything else is done.
- So does the wish to stop, before it is uttered. A broker that is alive stays in the ISR of what it led, so
  nothing is committed under the next leader before it knows of that one itself. One that stops leaves the
  ISRs in the same breath: others go on without it while it has yet to hear of that, with a lease that is
  good for seconds. What needs no lease, acks=all above all, it serves until its leaders are moved.

When the stream ends, the next one is opened at once, and after that with growing pauses. Errors that pass
with time never end ``run``: a controller that fails must not take the brokers with it. Others do, above all
STALE_BROKER_EPOCH: another process has registered with our id, or the cluster has forgotten us. Then the
process must stop, and start anew.

Rejected: a lease that outlives a broken stream by its own time. When the stream is gone, the controller no
longer waits for the session's time alone: it dials the broker, and a refused connection fences it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from quorate.broker.controller_link.damage_reports import DamageReports
from quorate.broker.controller_link.lease import Lease
from quorate.broker.controller_link.link import ControllerLink
from quorate.broker.controller_link.registration import Registered
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.ids import LeaderEpoch, ReplicaKey
from quorate.core.logging import get_logger
from quorate.core.silence import next_message
from quorate.core.transport import Channel, method_of
from quorate.errors import QuorateError, TransportError, Unavailable
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import controller_pb2
from quorate.v1.controller_pb2 import BrokerSessionRequest, BrokerSessionResponse

__all__ = ["BrokerSession", "SessionTiming"]

log = get_logger(__name__)

_SESSION: Final = method_of(
    controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
    "BrokerSession",
    BrokerSessionRequest,
    BrokerSessionResponse,
)
#: while something is waited for (to be unfenced, to be let go) heartbeats come this much faster
_IMPATIENCE: Final = 4


@dataclass(frozen=True, slots=True)
class SessionTiming:
    """Seconds."""

    heartbeat_interval_s: float
    #: a heartbeat that is not answered by then has the next controller asked. As long as the lease may hold,
    #: there is nothing to gain by leaving; afterwards there is nothing to lose.
    silence_s_max: float

    @staticmethod
    def of(config: NodeConfig) -> SessionTiming:
        return SessionTiming(config.broker_heartbeat_interval_ms / 1000, config.broker_lease_ms / 1000)


class _Heartbeat(NamedTuple):
    """The one under way."""

    sequence: int
    sent_at: float


class BrokerSession:
    """``metadata_offset``: up to where this broker has applied the metadata (inclusive).

    ``advance_cache_witness``: writes the next number; returns the one that the heartbeat carries (rule 30).
    ``device_witness``: the number that is on the device by now (rule 30).
    """

    def __init__(
        self,
        link: ControllerLink,
        registered: Registered,
        lease: Lease,
        *,
        timing: SessionTiming,
        clock: Clock,
        metadata_offset: Callable[[], int],
        advance_cache_witness: Callable[[], int | None],
        device_witness: Callable[[], int | None],
        is_unusable: Callable[[ReplicaKey], bool],
    ) -> None:
        """``is_unusable``: a replica here neither leads nor follows, because its log or disk has failed."""
        self._link = link
        self._registered = registered
        self._lease = lease
        self._timing = timing
        self._clock = clock
        self._metadata_offset = metadata_offset
        self._advance_cache_witness = advance_cache_witness
        self._device_witness = device_witness
        #: as the controller said last; whether that still holds, the lease tells
        self._is_fenced = True
        self._unfenced = asyncio.Event()
        self._wants_unfence = False
        self._wants_shutdown = False
        #: set to whether it may go; None: nobody has asked
        self._leave: asyncio.Future[bool] | None = None
        self._has_ended = False
        self._damage = DamageReports(is_unusable)
        self._sequence = 0
        self._under_way: _Heartbeat | None = None
        #: the open stream has brought an answer
        self._is_heard = False
        self._last_sent_at = -math.inf
        self._is_urgent = False
        self._wake = asyncio.Event()

    def want_unfence(self) -> None:
        """Recovered, and ready to serve. It stays wanted when the broker is fenced later."""
        self._wants_unfence = True
        self._speak_now()

    async def unfenced(self) -> None:
        """Returns when the broker is not fenced."""
        await self._unfenced.wait()

    def report_damaged(self, replica: ReplicaKey, leader_epoch: LeaderEpoch) -> None:
        """It leaves the ISR, unless that epoch is over, and follows again in the next one (rule 44)."""
        self._damage.add(replica, leader_epoch)
        self._speak_now()

    async def shut_down(self, timeout_s: float) -> bool:
        """Ask to stop, and serve on without the lease. True: leaders are moved and everybody knows (rule 36).

        False: there was no such answer in time, as without a quorum; the broker stops all the same.
        """
        if self._has_ended:
            return False
        if self._leave is None:
            self._leave = asyncio.get_running_loop().create_future()
        # Rule 37: from the next heartbeat on others may lead without its knowing.
        self._lease.revoke()
        self._wants_shutdown = True
        self._speak_now()
        timer = self._clock.call_later(timeout_s, lambda: self._settle_leave(may_go=False))
        try:
            may_go = await asyncio.shield(self._leave)
        finally:
            timer.cancel()
        log.info("controlled_shutdown", granted=may_go, broker_id=self._registered.broker_id)
        return may_go

    async def run(self) -> NoReturn:
        """Until cancelled; raises what must stop the process."""
        backoff = self._link.backoff()
        try:
            while True:
                began_at = self._clock.monotonic()
                channel = self._link.connect()
                error = await self._converse(channel)
                self._note_end(channel, error)
                if not _passes(error):
                    raise error
                self._link.failed(channel.address, error)
                if self._clock.monotonic() - began_at >= self._timing.heartbeat_interval_s:
                    backoff.reset()
                await self._clock.sleep(backoff.next_s())
        finally:
            self._has_ended = True
            self._settle_leave(may_go=False)

    async def _converse(self, channel: Channel) -> QuorateError:
        """One stream; returns why it ended."""
        stream = channel.stream(_SESSION, self._heartbeats(), timeout_s=None)
        silence_s_max = self._timing.heartbeat_interval_s + self._timing.silence_s_max
        try:
            while True:
                self._take(
                    await next_message(
                        stream, silence_s_max=silence_s_max, clock=self._clock, address=channel.address
                    )
                )
        except StopAsyncIteration:
            return Unavailable(f"{channel.address} ended the session", address=channel.address)
        except QuorateError as error:
            return error
        finally:
            # Before anything that waits: the controller may look for other signs of life from now on.
            self._lease.revoke()
            self._under_way = None
            self._damage.unanswered()
            await stream.aclose()
            await channel.close()

    # --- heartbeats -----------------------------------------------------------------------------------

    async def _heartbeats(self) -> AsyncIterator[BrokerSessionRequest]:
        while True:
            yield self._next_heartbeat()
            await self._until_due()

    def _next_heartbeat(self) -> BrokerSessionRequest:
        assert self._under_way is None
        self._sequence += 1
        self._is_urgent = False
        # Rule 37: taken before the message can be on its way.
        self._last_sent_at = self._clock.monotonic()
        self._under_way = _Heartbeat(self._sequence, self._last_sent_at)
        return BrokerSessionRequest(
            broker_id=self._registered.broker_id,
            broker_epoch=self._registered.broker_epoch,
            metadata_offset=self._metadata_offset(),
            wants_unfence=self._wants_unfence,
            wants_shutdown=self._wants_shutdown,
            damaged=self._damage.send(),
            sequence=self._sequence,
            cache_witness=self._advance_cache_witness(),
            device_witness=self._device_witness(),
        )

    async def _until_due(self) -> None:
        while (wait_s := self._due_in_s()) > 0:
            timer = None if math.isinf(wait_s) else self._clock.call_later(wait_s, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                self._wake.clear()
                if timer is not None:
                    timer.cancel()

    def _due_in_s(self) -> float:
        if self._under_way is not None:
            return math.inf
        if self._is_urgent:
            return 0.0
        return self._last_sent_at + self._interval_s() - self._clock.monotonic()

    def _interval_s(self) -> float:
        is_waiting = self._wants_shutdown or (self._wants_unfence and self._is_fenced)
        return self._timing.heartbeat_interval_s / (_IMPATIENCE if is_waiting else 1)

    def _speak_now(self) -> None:
        self._is_urgent = True
        self._wake.set()

    # --- answers --------------------------------------------------------------------------------------

    def _take(self, answer: BrokerSessionResponse) -> None:
        if answer.HasField("error"):
            raise error_from_detail(answer.error)
        heartbeat = self._under_way
        if heartbeat is None or answer.sequence != heartbeat.sequence:
            raise Unavailable(f"an answer to heartbeat {answer.sequence}, which is not under way")
        self._under_way = None
        self._damage.answered()
        self._is_heard = True
        self._wake.set()
        if answer.is_fenced:
            self._lease.revoke()
        elif not self._wants_shutdown:
            self._lease.renew_with_metadata(
                answer.metadata_offset,
                heartbeat.sent_at,
                session_timeout_s=answer.session_timeout_ms / 1000,
            )
            self._lease.metadata_applied(self._metadata_offset())
        self._note_fenced(is_fenced=answer.is_fenced)
        if answer.may_shut_down:
            self._settle_leave(may_go=True)

    def _note_end(self, channel: Channel, error: QuorateError) -> None:
        """People are told when a session is lost, not of every attempt to find the next one."""
        tell = log.warning if self._is_heard else log.debug
        tell("session_lost", controller=channel.address, reason=error.message)
        self._is_heard = False

    def _note_fenced(self, *, is_fenced: bool) -> None:
        if is_fenced == self._is_fenced:
            return
        self._is_fenced = is_fenced
        if is_fenced:
            self._unfenced.clear()
        else:
            self._unfenced.set()
        log.info("broker_fenced" if is_fenced else "broker_unfenced", broker_id=self._registered.broker_id)

    def _settle_leave(self, *, may_go: bool) -> None:
        if self._leave is not None and not self._leave.done():
            self._leave.set_result(may_go)


def _passes(error: QuorateError) -> bool:
    """Also a controller's own failure does: it is for its operators, not for every broker, to fall over."""
    return error.retriable or isinstance(error, TransportError)
