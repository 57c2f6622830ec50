"""Carries out the fault events of a plan: each begins at its time, also while others last."""

from __future__ import annotations

import asyncio
import random

from quorate.chaos.cluster.faults.catalogue import FAULTS
from quorate.chaos.cluster.plan import FaultEvent
from quorate.chaos.cluster.scene import Scene
from quorate.chaos.cluster.trace import Trace

__all__ = ["Nemesis"]


class Nemesis:
    def __init__(self, scene: Scene, trace: Trace | None) -> None:
        self._scene = scene
        self._trace = trace
        #: what was done, for reports: when it began, which event, and in words
        self.story: list[tuple[float, FaultEvent, str]] = []

    async def run(self) -> None:
        """Until every fault has undone itself."""
        faults = []
        for event in self._scene.plan.events:
            await self._scene.cluster.clock.sleep(event.pause_s)
            faults.append(asyncio.create_task(self._inflict(event), name=f"fault {event.number}"))
        await asyncio.gather(*faults)

    async def _inflict(self, event: FaultEvent) -> None:
        scene = self._scene
        began_s = scene.cluster.clock.monotonic()
        window = scene.history.inflict(event.kind, f"event {event.number}")
        self._note("fault_begins", event, None)
        what = await FAULTS[event.kind](scene, random.Random(event.seed))
        scene.history.heal(window)
        self._note("fault_over", event, what)
        if what is not None:
            self.story.append((began_s, event, what))

    def _note(self, what: str, event: FaultEvent, story: str | None) -> None:
        if self._trace is not None:
            self._trace.note(
                "nemesis", what, {"number": event.number, "kind": event.kind.value, "story": story}
            )
