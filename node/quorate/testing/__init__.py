"""A real cluster for tests: processes on this machine, no containers.

    from quorate.testing import LocalCluster

    with LocalCluster(brokers=3) as cluster:
        cluster.admin().create_topic("orders", replication_factor=3)
        cluster.producer().send("orders", "first").result()
        cluster.kill(cluster.leader_of("orders"))

In pytest the fixture ``quorate_cluster`` is such a cluster, see `quorate.testing.pytest_plugin`. Names are
imported when they are first used: pytest looks at this package in every run, also where nobody needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quorate.testing.async_cluster import AsyncLocalCluster
    from quorate.testing.sync_cluster import LocalCluster

__all__ = ["AsyncLocalCluster", "LocalCluster"]

_MODULES: Final = {
    "AsyncLocalCluster": "quorate.testing.async_cluster",
    "LocalCluster": "quorate.testing.sync_cluster",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
