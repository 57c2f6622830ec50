"""The clocks of members alone: whatever happens, each is looked at when its time is over, and not before."""

from __future__ import annotations

import random

import pytest

from quorate.broker.groups.member_clocks import MemberClocks, MemberKey, Overdue
from quorate.chaos.sim.clock import Simulation, run_simulation

SESSION_S, GRACE_S = 10.0, 0.5


class Model:
    """What is due when, in the simplest way: looked through from beginning to end."""

    def __init__(self) -> None:
        self.heard: dict[MemberKey, float] = {}
        self.broken: dict[MemberKey, float] = {}
        self.revoke_by: dict[MemberKey, float] = {}
        self.static: set[MemberKey] = set()

    def forget(self, key: MemberKey) -> None:
        for times in (self.heard, self.broken, self.revoke_by):
            times.pop(key, None)
        self.static.discard(key)

    def due(self, key: MemberKey) -> float:
        times = [self.heard[key] + SESSION_S]
        if key in self.broken and key not in self.static:
            times.append(self.broken[key] + GRACE_S)
        if key in self.revoke_by:
            times.append(self.revoke_by[key])
        return min(times)


@pytest.mark.parametrize("seed", range(30))
def test_members_are_overdue_exactly_when_their_time_is_over(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        rng, clock, model = random.Random(seed), simulation.clock, Model()
        removed: list[MemberKey] = []

        def overdue(key: MemberKey, _: Overdue) -> bool:
            assert model.due(key) == pytest.approx(clock.monotonic(), abs=1e-6)
            removed.append(key)
            model.forget(key)
            clocks.forget(key)
            return True

        clocks = MemberClocks(clock, session_timeout_s=SESSION_S, grace_s=GRACE_S, on_overdue=overdue)
        for step in range(400):
            key = MemberKey("g", str(rng.randrange(12)))
            now = clock.monotonic()
            action = rng.choice(["heard", "heard", "broke", "revoke", "revoked", "forget"])
            if key not in clocks:
                is_static = rng.random() < 0.3
                clocks.add(key, is_static=is_static)
                model.heard[key] = now
                if is_static:
                    model.static.add(key)
            elif action == "heard":
                clocks.heard(key, 0)
                model.heard[key] = now
                model.broken.pop(key, None)
            elif action == "broke":
                clocks.broke_off(key)
                model.broken.setdefault(key, now)
            elif action == "revoke":
                within_s = rng.uniform(0.1, 30)
                clocks.must_revoke(key, within_s)
                model.revoke_by[key] = now + within_s
            elif action == "revoked":
                clocks.has_revoked(key)
                model.revoke_by.pop(key, None)
            elif step % 3 == 0:
                clocks.forget(key)
                model.forget(key)
            await clock.sleep(rng.expovariate(4.0))
            overdue_now = [each for each in model.heard if model.due(each) < clock.monotonic() - 1e-6]
            assert overdue_now == [], "nobody is forgotten"
        await clock.sleep(100)
        assert not model.heard
        assert len(removed) > 20
        assert not clocks._heap

    run_simulation(main, seed=seed)


def test_very_many_are_removed_in_many_turns() -> None:
    async def main(simulation: Simulation) -> None:
        clock, removed = simulation.clock, set()

        def overdue(key: MemberKey, _: Overdue) -> bool:
            removed.add(key)
            clocks.forget(key)
            return True

        clocks = MemberClocks(clock, session_timeout_s=SESSION_S, grace_s=GRACE_S, on_overdue=overdue)
        looks = 0
        look = clocks._look

        def count() -> None:
            nonlocal looks
            looks += 1
            look()

        clocks._look = count  # type: ignore[method-assign]  # to see how often it comes
        for number in range(100):
            clocks.add(MemberKey("g", str(number)), is_static=False)
        await clock.sleep(SESSION_S + 0.01)
        assert len(removed) == 100
        assert looks >= 25

    run_simulation(main, seed=1)


def test_calls_do_not_fill_the_heap() -> None:
    async def main(simulation: Simulation) -> None:
        clock = simulation.clock
        clocks = MemberClocks(clock, session_timeout_s=SESSION_S, grace_s=GRACE_S, on_overdue=lambda *_: True)
        key = MemberKey("g", "a")
        clocks.add(key, is_static=False)
        for _ in range(1_000):
            clocks.broke_off(key)
            clocks.heard(key, 0)
            await clock.sleep(0.1)
        assert len(clocks._heap) < 20

    run_simulation(main, seed=1)
