"""Catching up for a reassignment is held to a rate; nothing else is."""

from __future__ import annotations

from quorate.broker.replication.throttle import UNLIMITED, ReplicationThrottle
from quorate.chaos.models.follower.replicas import leader_batch
from quorate.chaos.models.follower.scripted_leader import FollowerHarness, update, with_follower
from quorate.chaos.sim.clock import Simulation, run_simulation


def test_what_was_taken_is_paid_off_at_the_rate() -> None:
    async def main(simulation: Simulation) -> None:
        throttle = ReplicationThrottle(simulation.clock, bytes_per_s=1_000)
        assert throttle.wait_s() == 0
        throttle.took(5_000)
        assert throttle.wait_s() == 5
        await simulation.clock.sleep(2)
        assert throttle.wait_s() == 3
        throttle.set_rate(3_000)
        assert throttle.wait_s() == 1
        await simulation.clock.sleep(100)
        assert throttle.wait_s() == 0
        throttle.took(3_000)
        assert throttle.wait_s() == 1, "an idle time is no credit"
        throttle.set_rate(UNLIMITED)
        throttle.took(1 << 40)
        assert throttle.wait_s() == 0
        throttle.set_rate(1_000)
        assert throttle.wait_s() == 0, "what was free is not charged later"

    run_simulation(main, seed=1)


async def _transfer_time(harness: FollowerHarness, *, adding: tuple[int, ...], isr: tuple[int, ...]) -> float:
    await harness.open()
    leader = harness.follow_leader(2, 1, adding=adding, isr=isr)
    began = harness.clock.monotonic()
    for offset in range(10):
        await leader.position()
        leader.send(update(1, leader_batch(offset, 1, bytes(1_000))))
    await leader.position()
    return harness.clock.monotonic() - began


def test_a_replica_that_is_being_added_keeps_to_the_rate() -> None:
    async def script(harness: FollowerHarness) -> None:
        harness.throttle.set_rate(1_000)
        assert 10 < await _transfer_time(harness, adding=(1,), isr=(2, 3)) < 12

    with_follower(script)


def test_a_replica_in_the_isr_is_never_throttled_nor_is_one_that_only_lags() -> None:
    for adding, isr in (((1,), (1, 2)), ((), (2, 3))):

        async def script(
            harness: FollowerHarness, adding: tuple[int, ...] = adding, isr: tuple[int, ...] = isr
        ) -> None:
            harness.throttle.set_rate(1_000)
            assert await _transfer_time(harness, adding=adding, isr=isr) < 1

        with_follower(script)


def test_a_raised_rate_takes_effect_while_a_replica_waits() -> None:
    async def script(harness: FollowerHarness) -> None:
        harness.throttle.set_rate(1_024)
        await harness.open()
        leader = harness.follow_leader(2, 1, adding=(1,), isr=(2, 3))
        await leader.position()
        leader.send(update(1, leader_batch(0, 1, bytes(90_000))))
        await harness.clock.sleep(3)
        assert not leader.has_position
        harness.throttle.set_rate(UNLIMITED)
        began = harness.clock.monotonic()
        await leader.position()
        assert harness.clock.monotonic() - began < 1.1

    with_follower(script)
