"""What is done to the cluster, a step at a time, and what has to hold meanwhile.

Each step has clients that write and read from its beginning to its end. Afterwards all replicas have to be in
sync, and everything that was acknowledged in this step and in all before it has to be there.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from deploy.k8s.test.cutting import Scissors
from deploy.k8s.test.dev_overlay import try_dev_overlay
from deploy.k8s.test.errands import Errands
from deploy.k8s.test.images import Images
from deploy.k8s.test.installing import Volumes
from deploy.k8s.test.kubernetes import SETS, Kubernetes, Pod
from deploy.k8s.test.one_at_a_time import one_at_a_time
from deploy.k8s.test.outside import Outside, try_outside
from deploy.k8s.test.zones import try_zones
from deploy.test.commands import CannotTest

__all__ = ["STEPS", "Scene", "Step", "judge"]

_CONTROLLERS, _BROKERS = SETS
_LOOK_S: Final = 0.5
_EVICTION_TIMEOUT_S: Final = 300.0
_CUT_S: Final = 60.0
_DECOMMISSION_S: Final = 120.0
#: and replicas of a partition
_BROKERS_AT_FIRST: Final = 3
_MIN_ISR: Final = 2
#: the default of replica.lag.time.max.ms
_REPLICA_LAG_S: Final = 10.0


@dataclass(slots=True)
class Scene:
    kubernetes: Kubernetes
    errands: Errands
    scissors: Scissors | None
    images: Images
    volumes: Volumes | None
    #: nobody may be without a leader for longer
    failover_s: float
    outside: Outside | None = None
    brokers: int = _BROKERS_AT_FIRST
    #: what the step that runs wants to have told
    remarks: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Of pods, by the name of their set."""
        return {_CONTROLLERS: 3, _BROKERS: self.brokers}

    async def settled(self) -> None:
        await self.kubernetes.ready(self.counts)
        await self.errands.do("whole")


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    what: str
    run: Callable[[Scene], Awaitable[None]]
    #: writers may wait longer than a failover takes: nobody is there who could answer
    is_outage: bool = False
    #: a leader that is there waits for a follower so long before it goes on without it
    patience_s: float = 0.0


# -- the steps


async def compare_racks(scene: Scene) -> None:
    scene.remarks.append(await try_zones(scene.kubernetes, scene.errands))


async def kill_a_leader(scene: Scene) -> None:
    leader = (await scene.errands.do("describe"))["partitions"][0]["leader"]
    victim = await scene.kubernetes.pod(f"{_BROKERS}-{leader}")
    began = time.monotonic()
    await scene.kubernetes.delete_at_once(victim.name)
    await scene.errands.do("acknowledges")
    scene.remarks.append(f"every partition acknowledges {time.monotonic() - began:.1f} s after it")
    await scene.kubernetes.ready({_BROKERS: scene.brokers}, but=[victim.uid])


async def crash_a_leader(scene: Scene) -> None:
    """A pod deleted without grace still hears SIGTERM, and hands over. A process that is killed does not."""
    leader = (await scene.errands.do("describe"))["partitions"][0]["leader"]
    before = await scene.kubernetes.pod(f"{_BROKERS}-{leader}")
    began = time.monotonic()
    await scene.kubernetes.kill_process(before.name)
    await scene.errands.do("acknowledges")
    scene.remarks.append(f"every partition acknowledges {time.monotonic() - began:.1f} s after it")
    await scene.kubernetes.until(
        lambda pods: any(
            pod.uid == before.uid and pod.restarts > before.restarts and pod.is_ready for pod in pods
        ),
        f"{before.name} was not started again in its pod",
    )


async def roll_everything(scene: Scene) -> None:
    async with one_at_a_time(scene.kubernetes, scene.counts):
        await scene.kubernetes.inside("rollout", "restart", *(f"statefulset/{name}" for name in SETS))
        for name in SETS:
            await scene.kubernetes.rolled_out(name)


async def cut_two_apart(scene: Scene) -> None:
    assert scene.scissors is not None
    described = (await scene.errands.do("describe"))["partitions"][0]
    leader = described["leader"]
    follower = next(each for each in described["replicas"] if each != leader)
    pods = [await scene.kubernetes.pod(f"{_BROKERS}-{each}") for each in (leader, follower)]
    async with scene.scissors.apart(*pods):
        await _until_isr(scene, lambda isr: not {leader, follower} <= set(isr))
        await scene.errands.do("acknowledges")
        scene.remarks.append(f"{pods[1].name} left the ISR of {pods[0].name}")


async def evict_against_the_budget(scene: Scene) -> None:
    first, second, *_ = await scene.kubernetes.pods(_BROKERS)
    # The budget may not have counted everybody yet.
    await _evicted(scene, first)
    if await scene.kubernetes.evict(second.name) is None:
        raise CannotTest(f"{first.name} was on its way out, and {second.name} was let go as well")
    refusals = 1 + await _evicted(scene, second)
    found = {pod.name: pod for pod in await scene.kubernetes.pods(_BROKERS)}
    if not found[first.name].is_ready or found[first.name].uid == first.uid:
        raise CannotTest(f"{second.name} was let go before {first.name} was back and in sync")
    scene.remarks.append(f"the second was refused {refusals} time(s), until the first was in sync")
    await scene.kubernetes.ready({_BROKERS: scene.brokers}, but=[first.uid, second.uid])


async def _evicted(scene: Scene, pod: Pod) -> int:
    """Until it is let go; how often it was not."""
    deadline = time.monotonic() + _EVICTION_TIMEOUT_S
    refusals = 0
    while (refused := await scene.kubernetes.evict(pod.name)) is not None:
        refusals += 1
        if time.monotonic() > deadline:
            raise CannotTest(f"{pod.name} is not let go after {_EVICTION_TIMEOUT_S:g} s: {refused}")
        await asyncio.sleep(_LOOK_S)
    return refusals


async def add_a_broker(scene: Scene) -> None:
    scene.brokers += 1
    await scene.kubernetes.inside("scale", f"statefulset/{_BROKERS}", f"--replicas={scene.brokers}")
    await scene.kubernetes.ready({_BROKERS: scene.brokers})
    await scene.errands.quorate("cluster", "rebalance", "--execute")
    partitions = (await scene.errands.do("describe"))["partitions"]
    held = sum(scene.brokers in each["replicas"] for each in partitions)
    if not held:
        raise CannotTest(f"broker {scene.brokers} holds nothing after the rebalancing")
    scene.remarks.append(f"the new broker holds {held} of {len(partitions)} partitions")


async def take_a_broker_away(scene: Scene) -> None:
    """The three steps of README.md; after the last the cluster knows nothing of it, and so misses nobody."""
    if scene.brokers == _BROKERS_AT_FIRST:
        raise CannotTest("there is no broker too many: `scale` adds one, and comes first")
    leaving = scene.brokers
    await _decommissioned(scene, leaving, "empty")
    scene.brokers -= 1
    await scene.kubernetes.inside("scale", f"statefulset/{_BROKERS}", f"--replicas={scene.brokers}")
    name = f"{_BROKERS}-{leaving}"
    await scene.kubernetes.until(lambda pods: all(pod.name != name for pod in pods), f"{name} is still there")
    await _decommissioned(scene, leaving, "forgotten")
    await scene.settled()
    await scene.errands.quorate("cluster", "health")
    scene.remarks.append(f"broker {leaving} is forgotten, and the cluster healthy")


async def _decommissioned(scene: Scene, broker_id: int, wanted: str) -> None:
    """Asked until it comes to that; its status is 0 only at the very end."""
    deadline = time.monotonic() + _DECOMMISSION_S
    while True:
        answer = await scene.errands.quorate(
            "broker", "decommission", str(broker_id), "--output", "json", is_checked=False
        )
        outcome = json.loads(answer)["outcome"] if answer.strip() else "no answer"
        if outcome == wanted:
            return
        if time.monotonic() > deadline:
            raise CannotTest(f"broker {broker_id} is {outcome} after {_DECOMMISSION_S:g} s, not {wanted}")
        await asyncio.sleep(_LOOK_S)


async def upgrade_the_image(scene: Scene) -> None:
    async with one_at_a_time(scene.kubernetes, scene.counts):
        for name in SETS:
            await scene.kubernetes.inside("set", "image", f"statefulset/{name}", f"*={scene.images.next}")
        for name in SETS:
            await scene.kubernetes.rolled_out(name)
    old = [pod.name for pod in await scene.kubernetes.pods() if pod.images != {scene.images.next}]
    if old:
        raise CannotTest(f"still of the old image: {', '.join(old)}")
    await scene.errands.quorate("cluster", "raise-feature-level")


async def delete_all_at_once(scene: Scene) -> None:
    before = await scene.kubernetes.pods()
    began = time.monotonic()
    await scene.kubernetes.delete_at_once(*(pod.name for pod in before))
    await scene.kubernetes.ready(scene.counts, but=[pod.uid for pod in before])
    scene.remarks.append(f"all {len(before)} pods are ready again after {time.monotonic() - began:.1f} s")
    await scene.errands.do("acknowledges")


async def reach_it_from_outside(scene: Scene) -> None:
    assert scene.outside is not None
    scene.remarks.append(await try_outside(scene.kubernetes, scene.errands, scene.outside))


async def run_the_single_node(scene: Scene) -> None:
    scene.remarks.append(await try_dev_overlay(scene.kubernetes, scene.images.first, scene.volumes))


STEPS: Final = (
    Step(
        "racks",
        "compare racks of brokers with zones of machines, given some if there are none",
        compare_racks,
    ),
    Step("kill", "delete the pod of a leader, without grace", kill_a_leader),
    Step("crash", "kill -9 of a leader's process, in its pod", crash_a_leader),
    Step("roll", "restart both sets under load", roll_everything),
    Step("cut", "cut a leader and a follower apart, and heal it", cut_two_apart, patience_s=_REPLICA_LAG_S),
    Step("evict", "evict two brokers against the budget", evict_against_the_budget),
    Step("scale", "a fourth broker, and partitions for it", add_a_broker),
    Step("shrink", "the fourth broker away again, by the three steps of the page", take_a_broker_away),
    Step("upgrade", "another image for both sets, under load", upgrade_the_image),
    Step("all", "delete every pod at once, without grace", delete_all_at_once, is_outage=True),
    Step(
        "outside", "other addresses for brokers, and clients outside that go by them", reach_it_from_outside
    ),
    Step("dev", "the overlay for a single node, beside it", run_the_single_node),
)


# -- what has to hold meanwhile


async def _until_isr(scene: Scene, is_so: Callable[[list[int]], bool]) -> None:
    deadline = time.monotonic() + _CUT_S
    while True:
        isr: list[int] = (await scene.errands.do("describe"))["partitions"][0]["isr"]
        if is_so(isr):
            return
        if time.monotonic() > deadline:
            raise CannotTest(f"after {_CUT_S:g} s the ISR is still {isr}: are they cut apart at all?")
        await asyncio.sleep(_LOOK_S)


def judge(step: Step, scene: Scene, told: dict[str, Any]) -> None:
    """What the clients saw from the first record of the step to its last."""
    allowed_s = scene.failover_s + step.patience_s
    if not step.is_outage and told["longest_wait_s"] > allowed_s:
        raise CannotTest(
            f"a partition acknowledged nothing for {told['longest_wait_s']:.1f} s; {allowed_s:g} s are "
            f"allowed, of which {scene.failover_s:g} s for a failover (--failover)"
        )
    if step.name in ("roll", "upgrade"):
        if told["isr_min"] is None or told["isr_unseen_s"] > allowed_s:
            raise CannotTest(
                f"nobody saw the ISR for {told['isr_unseen_s']:.1f} s: it may have been anything"
            )
        if told["isr_min"] < _MIN_ISR:
            raise CannotTest(f"an ISR had {told['isr_min']} member(s): the roll did not wait for sync")
