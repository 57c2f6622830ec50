"""What the simulated network can be told to do wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.chaos.sim.network import LinkFaults, SimNetwork
from quorate.chaos.sim.server import SimServer
from quorate.chaos.sim.transport import SimTransport
from quorate.core.transport import Channel
from quorate.errors import CannotListen, RequestTimedOut, Unavailable
from tests.unit.seams.echo_service import CHAT, ECHO, ENDLESS, WAIT, EchoServer, one, text

T = TypeVar("T")

BREAK_AFTER_S = 10.0


@dataclass
class World:
    sim: Simulation
    network: SimNetwork
    echo: EchoServer
    server: SimServer
    channel: Channel

    async def say(self, value: bytes, timeout_s: float = 1.0) -> bytes:
        return (await self.channel.call(ECHO, BytesValue(value=value), timeout_s=timeout_s)).value


def simulate(
    scenario: Callable[[World], Awaitable[T]], *, seed: int = 1, faults: LinkFaults | None = None
) -> T:
    """A client and a server, connected."""

    async def main(sim: Simulation) -> T:
        network = SimNetwork(sim.loop, sim.rng, faults=faults, break_after_s=BREAK_AFTER_S)
        echo = EchoServer()
        server = await SimTransport(network, "server").serve("server:9092", [echo.service])
        channel = SimTransport(network, "client").connect("server:9092")
        return await scenario(World(sim, network, echo, server, channel))

    return run_simulation(main, seed=seed)


async def _race(world: World) -> tuple[list[bytes], float]:
    await asyncio.gather(*(world.say(b"%d" % number) for number in range(20)))
    return world.echo.echoed, world.sim.loop.time()


def test_same_seed_gives_the_same_order_and_times_and_another_seed_another() -> None:
    assert simulate(_race, seed=5) == simulate(_race, seed=5)
    assert simulate(_race, seed=5) != simulate(_race, seed=6)


def test_same_seed_gives_the_same_run_in_another_process() -> None:
    program = """
import asyncio
from tests.unit.seams.test_sim_network import LinkFaults, simulate

async def storm(world):
    world.network.faults = LinkFaults(drop_probability=0.1, duplicate_probability=0.2, delay_s=(0.0, 2.0))
    for number in range(10):
        world.sim.clock.call_later(number, lambda: world.network.partition({"client"}, {"server"}))
        world.sim.clock.call_later(number + 0.5, world.network.heal)
    outcomes = await asyncio.gather(
        *(world.say(b"%d" % number, timeout_s=3.0) for number in range(100)), return_exceptions=True
    )
    print(outcomes, world.echo.echoed, world.sim.loop.time())

simulate(storm, seed=11)
"""
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(runs) == 1
    assert "RequestTimedOut" in runs.pop()


def test_calls_overtake_each_other() -> None:
    order, _ = simulate(_race)
    assert order != sorted(order, key=int)
    assert sorted(order, key=int) == [b"%d" % number for number in range(20)]


def test_frames_of_one_stream_never_overtake_each_other() -> None:
    async def scenario(world: World) -> list[str]:
        async def requests() -> AsyncIterator[StringValue]:
            for number in range(200):
                yield text(str(number))

        return [response.value async for response in world.channel.stream(CHAT, requests(), timeout_s=None)]

    expected = [f"re: {number}" for number in range(200)] + ["bye"]
    for delays in ((0.0, 5.0), (0.001, 0.001), (0.0, 0.0)):
        assert simulate(scenario, faults=LinkFaults(delay_s=delays)) == expected


def test_two_nodes_never_share_a_message() -> None:
    async def scenario(world: World) -> None:
        request = BytesValue(value=b"before")
        call = asyncio.ensure_future(world.channel.call(ECHO, request, timeout_s=1))
        await asyncio.sleep(0)
        request.value = b"after"
        assert (await call).value == b"before"

    simulate(scenario)


def test_partition_makes_calls_time_out_and_heals() -> None:
    async def scenario(world: World) -> None:
        world.network.partition(["client"], ["server", "another"])
        with pytest.raises(RequestTimedOut):
            await world.say(b"lost")
        world.network.heal()
        assert await world.say(b"found") == b"found"

    simulate(scenario)


def test_request_held_up_by_a_partition_arrives_after_its_caller_gave_up() -> None:
    async def scenario(world: World) -> None:
        world.network.block("client", "server")
        with pytest.raises(RequestTimedOut):
            await world.say(b"late")
        assert world.echo.echoed == []
        world.network.heal()
        await world.sim.clock.sleep(1)
        assert world.echo.echoed == [b"late"]

    simulate(scenario)


def test_one_way_block_lets_the_request_through_and_not_its_answer() -> None:
    async def scenario(world: World) -> None:
        world.network.block("server", "client")
        with pytest.raises(RequestTimedOut):
            await world.say(b"done, but who knows")
        assert world.echo.echoed == [b"done, but who knows"]

    simulate(scenario)


def test_connection_breaks_when_a_block_lasts() -> None:
    async def scenario(world: World) -> None:
        stream = world.channel.stream(ENDLESS, one("x"), timeout_s=None)
        await anext(stream)
        world.network.block("server", "client")
        began = world.sim.loop.time()
        with pytest.raises(Unavailable, match="does not answer"):
            await anext(stream)
        assert world.sim.loop.time() - began == pytest.approx(BREAK_AFTER_S)
        assert await world.echo.ended.get() == "endless"

    simulate(scenario)


def test_request_held_up_for_longer_than_its_connection_lives_never_arrives() -> None:
    async def scenario(world: World) -> None:
        world.network.block("client", "server")
        with pytest.raises(Unavailable):
            await world.say(b"never", timeout_s=100)
        world.network.heal()
        assert await world.say(b"anew") == b"anew"
        assert world.echo.echoed == [b"anew"]

    simulate(scenario)


def test_short_blocks_delay_a_stream_and_do_not_break_it() -> None:
    async def scenario(world: World) -> None:
        stream = world.channel.stream(CHAT, one("x"), timeout_s=None)
        for _ in range(3):
            world.network.block("client", "server")
            world.network.block("server", "client")
            world.sim.clock.call_later(BREAK_AFTER_S - 1, world.network.heal)
            await world.sim.clock.sleep(BREAK_AFTER_S)
        assert [response.value async for response in stream] == ["re: x", "bye"]

    simulate(scenario)


def test_lost_request_times_out_and_lost_answer_does_too() -> None:
    async def scenario(world: World) -> None:
        lossy = LinkFaults(drop_probability=1.0)
        world.network.set_faults("client", "server", lossy)
        with pytest.raises(RequestTimedOut):
            await world.say(b"request lost")
        world.network.set_faults("client", "server", None)
        world.network.set_faults("server", "client", lossy)
        with pytest.raises(RequestTimedOut):
            await world.say(b"answer lost")
        assert world.echo.echoed == [b"answer lost"]

    simulate(scenario)


def test_lost_frame_breaks_its_stream_in_the_end() -> None:
    async def scenario(world: World) -> None:
        world.network.set_faults("server", "client", LinkFaults(drop_probability=1.0))
        with pytest.raises(Unavailable, match="does not answer"):
            await anext(world.channel.stream(ENDLESS, one("x"), timeout_s=None))
        assert await world.echo.ended.get() == "endless"

    simulate(scenario)


def test_duplicated_request_is_carried_out_twice_and_answered_once() -> None:
    async def scenario(world: World) -> None:
        world.network.faults = LinkFaults(duplicate_probability=1.0)
        assert await world.say(b"twice") == b"twice"
        await world.sim.clock.sleep(1)
        assert world.echo.echoed == [b"twice", b"twice"]

    simulate(scenario)


def test_broken_connection_is_seen_by_both_sides_at_once() -> None:
    async def scenario(world: World) -> None:
        call = asyncio.ensure_future(world.channel.call(WAIT, text("x"), timeout_s=100))
        await world.echo.waiting.wait()
        world.network.break_connections("server", "client")
        with pytest.raises(Unavailable, match="connection reset"):
            await call
        assert await world.echo.ended.get() == "wait"
        assert world.sim.loop.time() < 1
        assert await world.say(b"anew") == b"anew"

    simulate(scenario)


def test_other_connections_survive_a_break() -> None:
    async def scenario(world: World) -> None:
        call = asyncio.ensure_future(world.say(b"unharmed"))
        await asyncio.sleep(0)
        world.network.break_connections("client", "another")
        world.network.break_all_connections("another")
        assert await call == b"unharmed"

    simulate(scenario)


def test_killed_server_breaks_its_calls_and_refuses_new_ones() -> None:
    async def scenario(world: World) -> None:
        call = asyncio.ensure_future(world.channel.call(WAIT, text("x"), timeout_s=100))
        await world.echo.waiting.wait()
        world.server.kill()
        world.network.break_all_connections("server")
        with pytest.raises(Unavailable):
            await call
        assert await world.echo.ended.get() == "wait"
        with pytest.raises(Unavailable, match="connection refused"):
            await world.say(b"nobody")

    simulate(scenario)


def test_what_a_process_has_sent_arrives_after_its_death_and_then_the_connection_breaks() -> None:
    async def scenario(world: World) -> None:
        world.network.set_faults("client", "server", LinkFaults(delay_s=(1.0, 1.0)))
        world.network.delivered_share = 1.0
        call = asyncio.ensure_future(world.channel.call(WAIT, text("x"), timeout_s=100))
        await world.sim.clock.sleep(0.5)
        world.network.process_died("client")
        with pytest.raises(Unavailable):
            await call
        assert not world.echo.waiting.is_set()
        assert await world.echo.ended.get() == "wait"
        assert world.echo.waiting.is_set()
        assert world.sim.loop.time() >= 1.5
        assert not world.network._connections

    simulate(scenario)


def test_what_a_dead_process_has_sent_waits_at_a_link_that_is_blocked() -> None:
    async def scenario(world: World) -> None:
        world.network.delivered_share = 1.0
        world.network.block("client", "server")
        call = asyncio.ensure_future(world.say(b"late"))
        await world.sim.clock.sleep(0.1)
        world.network.process_died("client")
        with pytest.raises(Unavailable):
            await call
        await world.sim.clock.sleep(2)
        assert world.echo.echoed == []
        world.network.unblock("client", "server")
        await world.sim.clock.sleep(1)
        assert world.echo.echoed == [b"late"]

    simulate(scenario)


@pytest.mark.parametrize("is_power_lost", [True, False])
def test_nothing_comes_of_a_machine_without_power_nor_over_a_connection_that_is_reset(
    is_power_lost: bool,
) -> None:
    async def scenario(world: World) -> None:
        world.network.delivered_share = 1.0 if is_power_lost else 0.0
        call = asyncio.ensure_future(world.say(b"gone"))
        await asyncio.sleep(0)
        (world.network.node_died if is_power_lost else world.network.process_died)("client")
        with pytest.raises(Unavailable):
            await call
        await world.sim.clock.sleep(2 * BREAK_AFTER_S)
        assert world.echo.echoed == []

    simulate(scenario)


def test_a_dead_server_has_its_answer_delivered_and_none_of_what_it_was_asked_since() -> None:
    async def scenario(world: World) -> None:
        world.network.delivered_share = 1.0
        world.network.set_faults("server", "client", LinkFaults(delay_s=(0.5, 0.5)))
        answered = asyncio.ensure_future(world.say(b"answered"))
        await world.sim.clock.sleep(0.1)
        asked = asyncio.ensure_future(world.say(b"never read"))
        await asyncio.sleep(0)
        world.server.kill()
        world.network.process_died("server")
        assert await answered == b"answered"
        with pytest.raises(Unavailable):
            await asked
        assert world.echo.echoed == [b"answered"]

    simulate(scenario)


def test_a_request_may_be_repeated_when_whoever_sent_it_is_dead() -> None:
    async def scenario(world: World) -> None:
        world.network.faults = LinkFaults(duplicate_probability=1.0, repeated_within_s=5.0)
        for number in range(20):
            with contextlib.suppress(RequestTimedOut):
                await world.say(b"%d" % number)
        at_once = len(world.echo.echoed)
        assert world.network.repeats_due
        world.network.process_died("client")
        await world.sim.clock.sleep(5)
        assert not world.network.repeats_due
        assert len(world.echo.echoed) > at_once
        # Of some only the second one has come.
        times = Counter(world.echo.echoed)
        assert len(times) == 20
        assert set(times.values()) == {1, 2}

    simulate(scenario)


def test_a_node_that_is_alive_refuses_whoever_connects_while_a_firewall_rejects() -> None:
    async def scenario(world: World) -> None:
        transport = SimTransport(world.network, "client")
        assert not await transport.is_refused("server:9092", timeout_s=1)
        call = asyncio.ensure_future(world.channel.call(WAIT, text("x"), timeout_s=100))
        await world.echo.waiting.wait()
        world.network.reject("server")
        with pytest.raises(Unavailable, match="connection reset"):
            await call
        assert await transport.is_refused("server:9092", timeout_s=1)
        with pytest.raises(Unavailable, match="connection refused"):
            await world.say(b"nobody")
        assert not await SimTransport(world.network, "server").is_refused("server:9092", timeout_s=1)
        world.network.accept_again("server")
        assert await world.say(b"again") == b"again"

    simulate(scenario)


def test_node_listens_on_its_own_address_only() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(CannotListen, match="this is client"):
            await SimTransport(world.network, "client").serve("server:1", [])

    simulate(scenario)


def test_finished_calls_leave_nothing_behind() -> None:
    async def scenario(world: World) -> None:
        nowhere = SimTransport(world.network, "client").connect("server:1")
        await asyncio.gather(*(world.say(b"x") for _ in range(50)))
        with pytest.raises(RequestTimedOut):
            await world.channel.call(WAIT, text("x"), timeout_s=1)
        with pytest.raises(Unavailable):
            await nowhere.call(ECHO, BytesValue(), timeout_s=1)
        world.network.faults = LinkFaults(drop_probability=0.5, duplicate_probability=0.5)
        await asyncio.gather(*(world.say(b"x") for _ in range(50)), return_exceptions=True)
        await world.sim.clock.sleep(2 * BREAK_AFTER_S)
        assert not world.network._connections

    simulate(scenario)
