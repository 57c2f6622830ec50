"""How soon a broker that died is found out; in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from quorate.chaos.models.controller.broker_requests import epoch_of
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.controller.active import ActiveController
from quorate.controller.liveness import BrokerLiveness, LivenessSettings
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.core.transport import Transport

ONE = BrokerId(1)
HEARTBEAT_S = 1.0


class Dying:
    """A process at the end of its life: it still listens for a moment after its connections broke."""

    def __init__(self, simulation: Simulation, listens_for_s: float) -> None:
        self._clock = simulation.clock
        self._closed_at = listens_for_s
        self.probes = 0

    async def is_refused(self, _address: str, *, timeout_s: float) -> bool:
        assert timeout_s > 0
        self.probes += 1
        return self._clock.monotonic() >= self._closed_at


class Office:
    """An active controller that only notes when it is asked for a change."""

    is_active = True

    def __init__(self, simulation: Simulation, cluster: SmallCluster) -> None:
        self._clock = simulation.clock
        self.image = cluster.image
        self.changed_at = asyncio.get_running_loop().create_future()

    async def change(self, _decide: object) -> None:
        if not self.changed_at.done():
            self.changed_at.set_result(self._clock.monotonic())


def fenced_after_s(*, listens_for_s: float) -> tuple[float, int]:
    """And the number of probes that it took."""

    async def main(simulation: Simulation) -> tuple[float, int]:
        cluster = SmallCluster(1)
        office, dying = Office(simulation, cluster), Dying(simulation, listens_for_s)
        settings = LivenessSettings(3.0, HEARTBEAT_S, probes=True)
        liveness = BrokerLiveness(
            cast(ActiveController, office),
            settings,
            clock=simulation.clock,
            transport=cast(Transport, cast(Any, dying)),
        )
        liveness.sessions.start_all_afresh(cluster.image, 0.0)
        epoch = BrokerEpoch(epoch_of(cluster, ONE))
        liveness.stream_opened(ONE, epoch)
        running = asyncio.create_task(liveness.run())
        liveness.stream_closed(ONE, epoch)
        fenced_at = await office.changed_at
        running.cancel()
        return fenced_at, dying.probes

    return run_simulation(main, seed=1, time_limit_s=60.0)


def test_a_process_that_still_listens_as_its_connections_break_is_soon_found_gone() -> None:
    fenced_at, _ = fenced_after_s(listens_for_s=0.005)
    assert fenced_at < 0.05


def test_a_broker_that_goes_on_listening_is_probed_ever_less_and_lapses_with_its_session() -> None:
    fenced_at, probes = fenced_after_s(listens_for_s=100.0)
    assert 3.0 <= fenced_at < 3.0 + HEARTBEAT_S
    assert probes < 15
