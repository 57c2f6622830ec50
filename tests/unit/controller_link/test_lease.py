"""For how long a broker may answer alone (rule 37)."""

from __future__ import annotations

import pytest

from quorate.broker.controller_link.lease import Lease
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.errors import BrokerFenced


def _simulate(scenario: object) -> None:
    run_simulation(scenario, seed=1)  # type: ignore[arg-type]  # every scenario here has the same shape


def test_a_lease_runs_from_when_the_heartbeat_was_sent() -> None:
    async def scenario(simulation: Simulation) -> None:
        lease = Lease(simulation.clock, duration_s=2.0)
        sent_at = simulation.clock.monotonic()
        await simulation.clock.sleep(1.5)
        lease.renew(sent_at)
        assert lease.is_valid
        await simulation.clock.sleep(0.499)
        lease.check()
        await simulation.clock.sleep(0.001)
        assert not lease.is_valid
        with pytest.raises(BrokerFenced):
            lease.check()

    _simulate(scenario)


def test_an_answer_that_waited_through_a_pause_renews_nothing() -> None:
    async def scenario(simulation: Simulation) -> None:
        lease = Lease(simulation.clock, duration_s=2.0)
        sent_at = simulation.clock.monotonic()
        await simulation.clock.sleep(60.0)
        lease.renew(sent_at)
        assert not lease.is_valid

    _simulate(scenario)


def test_there_is_no_lease_before_the_first_answer_nor_after_it_was_revoked() -> None:
    async def scenario(simulation: Simulation) -> None:
        lease = Lease(simulation.clock, duration_s=2.0)
        assert not lease.is_valid
        lease.renew(simulation.clock.monotonic())
        lease.revoke()
        assert not lease.is_valid

    _simulate(scenario)


def test_an_answer_renews_a_lease_once_the_metadata_that_it_names_is_applied() -> None:
    async def scenario(simulation: Simulation) -> None:
        lease = Lease(simulation.clock, duration_s=2.0)
        for offset in (5, 8):
            sent_at = simulation.clock.monotonic()
            lease.renew_with_metadata(offset, sent_at, session_timeout_s=9.0)
            await simulation.clock.sleep(1.0)
        assert not lease.is_valid
        # An earlier answer still counts: metadata may always be a little behind.
        lease.metadata_applied(7)
        assert not lease.is_valid, "two seconds after that heartbeat was sent"
        lease.metadata_applied(8)
        assert lease.is_valid
        await simulation.clock.sleep(1.0)
        assert not lease.is_valid

    _simulate(scenario)


def test_a_lease_that_was_revoked_does_not_come_back_with_metadata() -> None:
    async def scenario(simulation: Simulation) -> None:
        lease = Lease(simulation.clock, duration_s=2.0)
        lease.renew_with_metadata(5, simulation.clock.monotonic(), session_timeout_s=9.0)
        lease.revoke()
        lease.metadata_applied(5)
        assert not lease.is_valid

    _simulate(scenario)


def test_an_older_heartbeat_does_not_shorten_a_lease() -> None:
    async def scenario(simulation: Simulation) -> None:
        lease = Lease(simulation.clock, duration_s=2.0)
        older = simulation.clock.monotonic()
        await simulation.clock.sleep(1.0)
        lease.renew(simulation.clock.monotonic())
        lease.renew(older)
        await simulation.clock.sleep(1.5)
        assert lease.is_valid

    _simulate(scenario)


def test_a_lease_ends_well_before_the_session_that_the_controller_grants() -> None:
    """Controllers may be configured with shorter sessions than this broker was told of."""

    async def scenario(simulation: Simulation) -> None:
        lease = Lease(simulation.clock, duration_s=2.0)
        lease.renew(simulation.clock.monotonic(), session_timeout_s=0.9)
        await simulation.clock.sleep(0.601)
        assert not lease.is_valid

    _simulate(scenario)
