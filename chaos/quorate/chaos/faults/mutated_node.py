"""A node of a deliberately broken build: ``python -m quorate.chaos.faults.mutated_node <name> <command>``.

Stands before the command of a real node (``LocalCluster.surround``), breaks a rule in its own process, and
becomes the node. Drills and faults that are worth something notice. The name is one of the mutations, or of
those below, which only real processes need.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from typing import Final

from quorate.chaos.sim.patch import Patch
from quorate.core.os_disk import OsFile
from quorate.storage.segment import LOG_SUFFIX

__all__ = ["mutated_launcher"]


def mutated_launcher(name: str) -> Sequence[str]:
    """For ``LocalCluster.surround``."""
    return (sys.executable, "-m", __name__, name)


def _acknowledge_before_sync(patch: Patch) -> None:
    """Records count as synced as soon as they are written; the metadata is synced as ever."""
    sync = OsFile.fdatasync

    async def pretend(self: OsFile) -> None:
        if not self.path.endswith(LOG_SUFFIX):
            await sync(self)

    patch.setattr(OsFile, "fdatasync", pretend)


_OWN: Final[dict[str, Callable[[Patch], None]]] = {"acknowledge-before-sync": _acknowledge_before_sync}


def main() -> None:
    name, python, dash_m, module, *arguments = sys.argv[1:]
    assert (python, dash_m) == (sys.executable, "-m"), "before anything but a node's own command"
    apply = _OWN.get(name)
    if apply is None:
        # Here, because it brings the simulator and all models with it.
        from quorate.chaos.mutations.registry import find_mutation

        apply = find_mutation(name).apply
    apply(Patch())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
