"""The postman between leaderships and the controller."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from quorate.broker.replica.isr_alterations import IsrAlterations
from quorate.chaos.models.replica_set.replica_harness import LAG_S, ReplicaHarness, broker_image, refusal
from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.ids import BrokerId
from quorate.errors import IneligibleReplica, RequestTimedOut
from quorate.v1.controller_pb2 import AlterPartitionRequest, AlterPartitionResponse

Answer = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]


class Post:
    """Three partitions that want broker 3 in their ISR, and a controller that answers as it is told."""

    def __init__(self, simulation: Simulation, answer: Answer, *, partitions: int = 3) -> None:
        self.clock = simulation.clock
        self.requests: list[AlterPartitionRequest] = []
        self.asked_at: list[float] = []
        self._answer = answer
        self.replicas = [
            ReplicaHarness(
                number=number, clock=simulation.clock, on_isr_wish=lambda each: self.alterations.wish(each)
            )
            for number in range(partitions)
        ]
        self.alterations = IsrAlterations(
            self._call,
            clock=simulation.clock,
            rng=random.Random(simulation.seed),
            led=lambda: [replica.partition for replica in self.replicas],
            replica_lag_s=LAG_S,
        )
        self.running = asyncio.create_task(self.alterations.run())

    async def _call(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.requests.append(request)
        self.asked_at.append(self.clock.monotonic())
        return await self._answer(request)

    def wish(self, *numbers: int) -> None:
        for number in numbers:
            replica = self.replicas[number]
            replica.lead(isr=(1, 2))
            replica.fetch(3, 0)

    def isrs(self) -> list[tuple[BrokerId, ...]]:
        return [each.leadership.isr for each in self.replicas]

    async def end(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])


async def grant(request: AlterPartitionRequest) -> AlterPartitionResponse:
    response = AlterPartitionResponse()
    for wish in request.partitions:
        response.partitions.add(
            topic_id=wish.topic_id,
            partition=wish.partition,
            leader=1,
            leader_epoch=wish.leader_epoch,
            partition_epoch=wish.partition_epoch + 1,
            isr=[member.broker_id for member in wish.isr],
        )
    return response


def test_wishes_of_many_partitions_share_a_request() -> None:
    async def main(simulation: Simulation) -> None:
        post = Post(simulation, grant)
        post.wish(0, 1, 2)
        await simulation.clock.sleep(0.01)
        (request,) = post.requests
        assert [wish.partition for wish in request.partitions] == [0, 1, 2]
        assert post.isrs() == [(1, 2, 3)] * 3
        await post.end()

    run_simulation(main, seed=1)


def test_one_request_is_under_way_at_a_time_and_the_next_takes_what_has_gathered() -> None:
    async def main(simulation: Simulation) -> None:
        async def slowly(request: AlterPartitionRequest) -> AlterPartitionResponse:
            await simulation.clock.sleep(1.0)
            return await grant(request)

        post = Post(simulation, slowly)
        post.wish(0)
        await simulation.clock.sleep(0.5)
        post.wish(1, 2)
        await simulation.clock.sleep(0.1)
        assert len(post.requests) == 1
        await simulation.clock.sleep(2.0)
        assert [[wish.partition for wish in each.partitions] for each in post.requests] == [[0], [1, 2]]
        await post.end()

    run_simulation(main, seed=1)


def test_wish_without_an_answer_is_sent_again_unchanged_and_ever_more_slowly() -> None:
    async def main(simulation: Simulation) -> None:
        async def never(request: AlterPartitionRequest) -> AlterPartitionResponse:
            raise RequestTimedOut("a test")

        post = Post(simulation, never, partitions=1)
        post.wish(0)
        await simulation.clock.sleep(8.0)
        assert len({each.SerializeToString(deterministic=True) for each in post.requests}) == 1
        pauses = [later - earlier for earlier, later in zip(post.asked_at, post.asked_at[1:], strict=False)]
        assert 8 <= len(pauses) < 30
        assert max(pauses) <= 1.0
        assert pauses[0] <= 0.05
        await post.end()

    run_simulation(main, seed=1)


def test_refused_wish_is_withdrawn_soon_and_acknowledgements_go_on() -> None:
    async def main(simulation: Simulation) -> None:
        async def refuse(request: AlterPartitionRequest) -> AlterPartitionResponse:
            replica = post.replicas[0]
            if not request.partitions[0].withdraw:
                replica.apply(replica.state(partition_epoch=1, brokers=[broker_image(3, is_fenced=True)]))
                return AlterPartitionResponse(partitions=[refusal(IneligibleReplica("a test"))])
            response = await grant(request)
            response.partitions[0].isr.extend([1, 2])
            return response

        post = Post(simulation, refuse, partitions=1)
        post.wish(0)
        await simulation.clock.sleep(0.1)
        assert [each.partitions[0].withdraw for each in post.requests] == [False, True]
        replica = post.replicas[0]
        replica.append()
        replica.fetch(2, 1)
        assert replica.high_watermark == 1
        await post.end()

    run_simulation(main, seed=1)


def test_wish_that_is_refused_each_time_is_asked_for_ever_more_slowly() -> None:
    """Each withdrawal is granted, and moves the partition epoch on: that is metadata, and no progress."""

    async def main(simulation: Simulation) -> None:
        async def refuse(request: AlterPartitionRequest) -> AlterPartitionResponse:
            if not request.partitions[0].withdraw:
                return AlterPartitionResponse(partitions=[refusal(IneligibleReplica("a test"))])
            response = await grant(request)
            response.partitions[0].isr.extend([1, 2])
            return response

        post = Post(simulation, refuse, partitions=1)
        post.wish(0)
        await simulation.clock.sleep(8.0)
        assert sum(each.partitions[0].withdraw for each in post.requests) >= 2
        assert len(post.requests) < 30
        await post.end()

    run_simulation(main, seed=1)


def test_partition_that_the_answer_leaves_out_is_asked_for_again() -> None:
    async def main(simulation: Simulation) -> None:
        async def forgetful(request: AlterPartitionRequest) -> AlterPartitionResponse:
            response = await grant(request)
            if len(post.requests) == 1:
                del response.partitions[1]
            return response

        post = Post(simulation, forgetful)
        post.wish(0, 1, 2)
        await simulation.clock.sleep(1.0)
        assert [[wish.partition for wish in each.partitions] for each in post.requests] == [[0, 1, 2], [1]]
        assert post.isrs() == [(1, 2, 3)] * 3
        await post.end()

    run_simulation(main, seed=1)


def test_answer_goes_to_the_leadership_that_asked() -> None:
    async def main(simulation: Simulation) -> None:
        async def after_an_election(request: AlterPartitionRequest) -> AlterPartitionResponse:
            post.replicas[0].lead(isr=(1, 2), leader_epoch=1)
            return await grant(request)

        post = Post(simulation, after_an_election, partitions=1)
        post.wish(0)
        await simulation.clock.sleep(0.01)
        assert post.isrs() == [(1, 2)]
        await post.end()

    run_simulation(main, seed=1)


def test_lag_is_looked_at_twice_in_every_lag_time() -> None:
    async def main(simulation: Simulation) -> None:
        post = Post(simulation, grant, partitions=1)
        (replica,) = post.replicas
        replica.lead(isr=(1, 2))
        replica.append()
        await simulation.clock.sleep(LAG_S * 0.9)
        assert post.requests == []
        await simulation.clock.sleep(LAG_S * 0.7)
        assert post.isrs() == [(1,)]
        await post.end()

    run_simulation(main, seed=1)
