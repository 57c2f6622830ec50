"""Keeps the sessions of brokers, and looks after those that have fallen silent.

``sessions`` knows the rules, this file does the waiting and the dialling. A broker keeps one stream of
heartbeats open. While it has none, its own address is dialled again and again: refused means that the process
is gone, and it is fenced now; any other outcome waits for the session time-out. The same goes for brokers
that a new controller has not heard of yet: it may probe, it never infers.

A process that dies closes its connections one after the other, and whoever dials at the first sign may still
find it listening. So the first pauses between probes are short, and grow to the heartbeat interval.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Final

from quorate.controller.active import ActiveController
from quorate.controller.brokers import fence_broker
from quorate.controller.departures import PARTITION_CHANGES_PER_BATCH_MAX
from quorate.controller.sessions import BrokerSessions, LapsedSession
from quorate.core.clock import Clock
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.core.logging import get_logger
from quorate.core.transport import Transport
from quorate.errors import QuorateError
from quorate.metadata.image import BrokerImage

__all__ = ["BrokerLiveness", "LivenessSettings"]

log = get_logger(__name__)

#: a probe that takes longer says nothing, and the next one is due
_PROBE_TIMEOUT_S: Final = 1.0
#: a dying process is gone after a few of them
_FIRST_PROBE_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class LivenessSettings:
    session_timeout_s: float
    heartbeat_interval_s: float
    probes: bool
    partition_changes_per_batch_max: int = PARTITION_CHANGES_PER_BATCH_MAX


class BrokerLiveness:
    def __init__(
        self, active: ActiveController, settings: LivenessSettings, *, clock: Clock, transport: Transport
    ) -> None:
        self._active = active
        self._settings = settings
        self._clock = clock
        self._transport = transport
        self.sessions = BrokerSessions(settings.session_timeout_s)
        #: open heartbeat streams; a broker that connects anew may have two for a moment
        self._streams: Counter[tuple[BrokerId, BrokerEpoch]] = Counter()
        self._probing: set[BrokerId] = set()
        self._fencing: set[LapsedSession] = set()
        self._probe_due: dict[BrokerId, float] = {}
        self._probe_pause_s: dict[BrokerId, float] = {}
        self._wake = asyncio.Event()

    def stream_opened(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        self._streams[broker_id, broker_epoch] += 1

    def stream_closed(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        self._streams[broker_id, broker_epoch] -= 1
        if not self._streams[broker_id, broker_epoch]:
            del self._streams[broker_id, broker_epoch]
            self._probe_due.pop(broker_id, None)
            self._probe_pause_s.pop(broker_id, None)
            self._wake.set()

    async def run(self) -> None:
        """Fence whose session lapses, and probe who is silent; until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                if self._active.is_active:
                    for lapsed in self.sessions.expired(self._clock.monotonic()):
                        if lapsed not in self._fencing:
                            fencing = self._fence(lapsed, "its session has lapsed")
                            tasks.create_task(fencing, name=f"fence-{lapsed.broker_id}")
                    for broker in self._silent_brokers():
                        self._probing.add(broker.broker_id)
                        tasks.create_task(self._probe(broker), name=f"probe-{broker.broker_id}")
                await self._pause()

    async def _fence(self, lapsed: LapsedSession, reason: str) -> None:
        if lapsed in self._fencing:
            return
        log.warning("broker_lost", broker_id=lapsed.broker_id, reason=reason)
        self._fencing.add(lapsed)
        self.sessions.give_up(lapsed.broker_id, lapsed.broker_epoch)
        try:
            await self._active.change(
                lambda image, _offset: fence_broker(
                    image,
                    lapsed.broker_id,
                    broker_epoch=lapsed.broker_epoch,
                    heard=self.sessions.heard_witnesses(lapsed.broker_id),
                    leaving=self.sessions.leaving(),
                    changes_max=self._settings.partition_changes_per_batch_max,
                )
            )
        except QuorateError as error:
            # Too much waits, or leadership is gone. It stays given up, so that it is looked at again.
            log.warning("broker_not_fenced", broker_id=lapsed.broker_id, error=error.message)
        else:
            self.sessions.end(lapsed)
        finally:
            self._fencing.discard(lapsed)

    def _silent_brokers(self) -> list[BrokerImage]:
        if not self._settings.probes:
            return []
        now = self._clock.monotonic()
        return [
            broker
            for _, broker in sorted(self._active.image.brokers.items())
            if not broker.is_fenced
            and broker.broker_id not in self._probing
            and (broker.broker_id, broker.broker_epoch) not in self._streams
            and self._probe_due.get(broker.broker_id, now) <= now
            and self.sessions.wants_probe(broker.broker_id, broker.broker_epoch, now)
        ]

    async def _probe(self, broker: BrokerImage) -> None:
        probed_at = self._clock.monotonic()
        try:
            is_refused = await self._transport.is_refused(broker.address, timeout_s=_PROBE_TIMEOUT_S)
        finally:
            self._probing.discard(broker.broker_id)
            self._plan_next_probe(broker.broker_id)
        if not is_refused or not self._active.is_active:
            return
        lapsed = self.sessions.probe_refused(broker.broker_id, broker.broker_epoch, probed_at=probed_at)
        if lapsed is not None:
            await self._fence(lapsed, f"nobody listens at {broker.address}")

    def _plan_next_probe(self, broker_id: BrokerId) -> None:
        pause_s = min(
            self._probe_pause_s.get(broker_id, _FIRST_PROBE_PAUSE_S), self._settings.heartbeat_interval_s
        )
        self._probe_pause_s[broker_id] = 2 * pause_s
        self._probe_due[broker_id] = self._clock.monotonic() + pause_s
        self._clock.call_later(pause_s, self._wake.set)

    async def _pause(self) -> None:
        """Until something may be due: a quarter of a heartbeat at most, sooner when a stream breaks."""
        timer = self._clock.call_later(self._settings.heartbeat_interval_s / 4, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
            self._wake.clear()
