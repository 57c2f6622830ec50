"""The pytest plugin: a fixture with a real cluster, for whoever installs quorate.

    def test_orders(quorate_cluster):
        with quorate_cluster.producer() as producer:
            producer.send("orders", "first").result()

The cluster is made when the first test asks for it, and serves the whole session (with pytest-xdist: that of
each worker). So tests give their topics names of their own, and whoever kills a node ends with
``quorate_cluster.heal()``.

What it is made of, in pytest's configuration file::

    quorate_brokers = 3
    quorate_controllers = 3       # processes of their own; left out: the brokers are controllers as well
    quorate_settings =            # keys of every node's configuration, one per line
        default.replication.factor=3

pytest imports this in every run, so it imports nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from quorate.testing import LocalCluster

__all__ = ["pytest_addoption", "quorate_cluster"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("quorate_brokers", "brokers of the fixture quorate_cluster (default 3)", default="3")
    parser.addini(
        "quorate_controllers",
        "its controllers, apart from the brokers (default: the brokers are)",
        default="",
    )
    parser.addini("quorate_settings", "settings of its nodes, KEY=VALUE each", type="linelist", default=[])


@pytest.fixture(scope="session")
def quorate_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A cluster of real processes, for the whole session; see `quorate.testing.LocalCluster`."""
    from quorate.testing import LocalCluster

    config = request.config
    controllers = config.getini("quorate_controllers")
    settings = dict(_setting(text) for text in config.getini("quorate_settings"))
    with LocalCluster(
        _count("quorate_brokers", config.getini("quorate_brokers")),
        controllers=_count("quorate_controllers", controllers) if controllers else None,
        settings=settings,
    ) as cluster:
        yield cluster


def _count(key: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"{key} = {text!r} is not a number from 1 on")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise pytest.UsageError(f"quorate_settings: {text!r} is not KEY=VALUE")
    return key.strip(), value.strip()
