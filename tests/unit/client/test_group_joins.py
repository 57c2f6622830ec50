"""A join where others go: it names the last departure, and the next one may be faster."""

from __future__ import annotations

import asyncio
import random

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.client.consumer.group.heartbeats import Heartbeats
from quorate.client.consumer.group.member import Changes, Identity, Member
from quorate.core.clock import Clock
from quorate.errors import InvalidUpdateVersion, QuorateError
from quorate.v1 import group_pb2

_ROUND_TRIP_S = 0.002


class LinkToAGroup:
    """The coordinator of a group that somebody leaves every so often."""

    group = "g"

    def __init__(self, clock: Clock, *, departs_every_s: float) -> None:
        self._clock = clock
        self._departs_every_s = departs_every_s
        self.asked_at: list[float] = []

    async def call_once(
        self, _: object, request: group_pb2.GroupHeartbeatRequest, *, timeout_s: float
    ) -> group_pb2.GroupHeartbeatResponse:
        del timeout_s
        self.asked_at.append(self._clock.monotonic())
        await self._clock.sleep(_ROUND_TRIP_S / 2)
        departure_epoch = 1 + int(self._clock.monotonic() / self._departs_every_s)
        is_the_last = request.departure_epoch == departure_epoch
        await self._clock.sleep(_ROUND_TRIP_S / 2)
        if not is_the_last:
            raise InvalidUpdateVersion("somebody has gone", departure_epoch=departure_epoch)
        return group_pb2.GroupHeartbeatResponse(member_epoch=departure_epoch + 1)


class NobodyListens:
    def assignment_changed(self, changes: Changes) -> None:
        pass

    def membership_lost(self, identity: Identity, error: QuorateError) -> None:
        raise AssertionError(f"{identity} was not yet a member: {error}")

    def refused(self, error: QuorateError) -> None:
        raise AssertionError(f"a refusal that the application need not hear of: {error}")


async def calls_of_a_join(sim: Simulation, *, departs_every_s: float, tries_for_s: float) -> list[float]:
    """When it asked, until it had joined, or for so long."""
    clock = sim.clock
    link = LinkToAGroup(clock, departs_every_s=departs_every_s)
    member = Member(LinkToAGroup.group, group_pb2.GroupSubscription(topics=["t"]), lambda: "a")
    member.join()
    began = clock.monotonic()
    heartbeats = Heartbeats(member, link, NobodyListens(), clock=clock, rng=random.Random(1))  # type: ignore[arg-type]
    running = asyncio.create_task(heartbeats.run())
    while not member.is_joined and clock.monotonic() - began < tries_for_s:
        await clock.sleep(_ROUND_TRIP_S)
    running.cancel()
    return [asked - began for asked in link.asked_at]


@pytest.mark.parametrize("departs_every_s", [0.005, 0.015, 0.1])
def test_a_member_joins_at_once_where_others_go_very_often(departs_every_s: float) -> None:
    async def scenario(sim: Simulation) -> None:
        asked = await calls_of_a_join(sim, departs_every_s=departs_every_s, tries_for_s=10)
        assert asked[-1] < 0.5, asked

    run_simulation(scenario, seed=1, time_limit_s=60)


def test_where_others_go_faster_than_a_round_trip_the_calls_get_rarer_all_the_same() -> None:
    async def scenario(sim: Simulation) -> None:
        asked = await calls_of_a_join(sim, departs_every_s=_ROUND_TRIP_S / 10, tries_for_s=10)
        assert len(asked) < 40, "two after each pause, and pauses grow"

    run_simulation(scenario, seed=1, time_limit_s=60)
