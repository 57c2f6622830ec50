"""A second process with the id of a broker waits until the first one cannot be alive any more (rule 35).

Somebody starts it on another machine, with a directory of its own, while the first one runs, is paused, or is
cut off from the controllers: for less than its session, each time. To register it would take every replica of
that id out of its ISRs, and its disk would count as empty. Once the first one is dead it is welcome.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import newest_image
from quorate.core.config import HostPort

__all__ = ["a_second_process_waits"]

#: of its session, for which the first one is not heard
_SILENT_SHARE: Final = 0.7
#: a session, and somebody who puts its end on record
_TAKEN_OVER_WITHIN_SESSIONS: Final = 3


async def a_second_process_waits(cluster: SimCluster) -> None:
    first = cluster.brokers[0]
    session_s = first.config.broker_session_timeout_ms / 1000
    controllers = [each.name for each in cluster.controllers]
    second = _another_of_the_same_id(cluster, first)
    second.start()
    try:
        await _is_left_alone(cluster, first, 2 * session_s, "runs")
        first.pause()
        await _is_left_alone(cluster, first, _SILENT_SHARE * session_s, "is paused")
        first.resume()
        await cluster.clock.sleep(session_s)
        cluster.network.partition([first.name], controllers)
        await _is_left_alone(cluster, first, _SILENT_SHARE * session_s, "is cut off")
        cluster.network.heal()
        await _is_left_alone(cluster, first, session_s, "runs")
        first.kill()
        await cluster.until(
            lambda: _address(cluster, first) == second.address,
            within_s=_TAKEN_OVER_WITHIN_SESSIONS * session_s,
        )
    finally:
        if second.is_running:
            second.kill()


def _another_of_the_same_id(cluster: SimCluster, first: SimMachine) -> SimMachine:
    name = f"another-{first.name}"
    config = replace(first.config, listeners=(HostPort(name, first.config.listeners[0].port),))
    return SimMachine(cluster.simulation, cluster.network, name, config, on_change=lambda: None)


def _address(cluster: SimCluster, machine: SimMachine) -> str:
    return newest_image(cluster).brokers[machine.config.node_id].address


async def _is_left_alone(cluster: SimCluster, first: SimMachine, seconds: float, what: str) -> None:
    epoch = newest_image(cluster).brokers[first.config.node_id].broker_epoch
    ends_at = cluster.clock.monotonic() + seconds
    while cluster.clock.monotonic() < ends_at:
        await cluster.clock.sleep(0.05)
        broker = newest_image(cluster).brokers[first.config.node_id]
        assert broker.broker_epoch == epoch, f"another process is registered while the first one {what}"
        assert not broker.is_fenced, f"it was fenced while it {what}"
