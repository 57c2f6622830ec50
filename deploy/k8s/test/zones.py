"""Racks of brokers are the zones of their machines, also where no machine has a zone of its own.

Comparing none with none would say nothing. So machines without a zone are given one for as long as a broker
is restarted and looked at. A label that is there already is never changed, and only one that was set here is
taken away again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from deploy.k8s.test.errands import Errands
from deploy.k8s.test.kubernetes import SETS, ZONE, Kubernetes, Pod
from deploy.test.commands import CannotTest

__all__ = ["a_zone", "try_zones"]

_, _BROKERS = SETS
_OURS: Final = "quorate-k8s-test"
#: it hands over, and before that its hook asks whether it may go
_RESTART_TIMEOUT_S: Final = 300.0


async def try_zones(kubernetes: Kubernetes, errands: Errands) -> str:
    """What there is to tell; in the end every machine has the zone that it had."""
    brokers = await kubernetes.pods(_BROKERS)
    told = [await _compared(kubernetes, errands, brokers)]
    machines = sorted({pod.machine for pod in brokers})
    without = [machine for machine in machines if await kubernetes.zone(machine) is None]
    if without:
        victim = next(pod for pod in reversed(brokers) if pod.machine in without)
        async with AsyncExitStack() as zones:
            for number, machine in enumerate(without):
                await zones.enter_async_context(a_zone(kubernetes, machine, f"{_OURS}-{number}"))
            restarted = await _restarted(kubernetes, victim, len(brokers))
            told.append(f"given one: {await _compared(kubernetes, errands, [restarted])}")
            if await kubernetes.zone(restarted.machine) is None:
                raise CannotTest(f"{victim.name} went to a machine that was not given a zone")
        await _compared(kubernetes, errands, [await _restarted(kubernetes, restarted, len(brokers))])
    return ", ".join(told)


@asynccontextmanager
async def a_zone(kubernetes: Kubernetes, machine: str, name: str) -> AsyncIterator[None]:
    """For a machine that has none. Without `--overwrite`: somebody may have labelled it meanwhile."""
    await kubernetes.call("label", "node", machine, f"{ZONE}={name}")
    try:
        yield
    finally:
        if await kubernetes.zone(machine) == name:
            await kubernetes.call("label", "node", machine, f"{ZONE}-")


async def _restarted(kubernetes: Kubernetes, pod: Pod, count: int) -> Pod:
    await kubernetes.inside("delete", "pod", pod.name, timeout_s=_RESTART_TIMEOUT_S)
    await kubernetes.ready({_BROKERS: count}, but=[pod.uid])
    return await kubernetes.pod(pod.name)


async def _compared(kubernetes: Kubernetes, errands: Errands, brokers: Sequence[Pod]) -> str:
    """Their zones; a broker whose rack is another one fails the step."""
    listed = json.loads(await errands.quorate("broker", "list", "--output", "json"))
    of_everybody = {f"{_BROKERS}-{each['id']}": each["rack"] for each in listed["brokers"]}
    racks = {pod.name: of_everybody.get(pod.name) for pod in brokers}
    zones = {pod.name: await kubernetes.zone(pod.machine) for pod in brokers}
    if racks != zones:
        raise CannotTest(f"the machines of brokers are in the zones {zones}, and their racks are {racks}")
    return f"zones: {', '.join(sorted({zone or 'none' for zone in zones.values()}))}"
