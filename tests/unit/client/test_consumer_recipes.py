"""The recipes of docs/consumers.md, as they stand there: each is run, interrupted, and run again."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.client.background import BackgroundLoop
from quorate.errors import InvalidRequest
from tests.unit.client.test_group_sync import LocalGroups

PAGE = Path(__file__).parents[3] / "docs" / "consumers.md"
#: more than are ever processed
RECORDS = 1000


class PowerCut(Exception):
    """The application is interrupted, at any record."""


def recipes() -> dict[str, list[str]]:
    """Python of each section of the page, by its heading."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"^#+ ", PAGE.read_text(), flags=re.MULTILINE):
        heading, _, text = section.partition("\n")
        blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        if blocks:
            found[heading] = blocks
    return found


@pytest.fixture
def cluster() -> Iterator[LocalGroups]:
    background = BackgroundLoop.acquire()
    local = LocalGroups()
    server = background.call(local.start())
    del local.topics["t"]
    for partition in local.add_topic("orders", partitions=2).partitions:
        partition.leader, partition.isr = 1, [1]
        partition.fill(RECORDS)
    try:
        yield local
    finally:
        background.call(server.stop(0))
        background.release()


class World:
    """What a recipe takes for granted."""

    def __init__(self, cluster: LocalGroups, code: str) -> None:
        self._cluster = cluster
        self._code = code
        self._left = 0
        self.processed: Counter[tuple[int, int]] = Counter()

    def run_interrupted(self) -> None:
        """A few times, each time until so many records were processed, and one more is being processed."""
        for self._left in (7, 1, 0, 30):
            names: dict[str, Any] = {}
            exec(compile(recipes()["Recipes"][0], str(PAGE), "exec"), names)
            stand_ins = {
                "BOOTSTRAP": self._cluster.addresses[1],
                "process": self.process,
                "process_slowly": self.process_slowly,
            }
            assert stand_ins.keys() <= names.keys(), "whoever copies a recipe has all that it needs"
            names |= stand_ins
            with pytest.raises((PowerCut, BaseExceptionGroup)):
                self._run(names)
            if "connection" in names:
                names["connection"].close()

    def _run(self, names: dict[str, Any]) -> None:
        exec(compile(self._code, str(PAGE), "exec"), names)

    def process(self, record: Any) -> None:
        if self._left == 0:
            raise PowerCut
        self._left -= 1
        self.processed[record.partition, record.offset] += 1

    async def process_slowly(self, record: Any) -> None:
        await asyncio.sleep(0)
        self.process(record)

    def check_none_is_skipped(self) -> None:
        for number in range(2):
            offsets = sorted(offset for partition, offset in self.processed if partition == number)
            assert offsets == list(range(len(offsets)))
        assert sum(self.processed.values()) == 38


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_recipe_is_run_here() -> None:
    assert {heading: len(blocks) for heading, blocks in recipes().items()} == {
        "Recipes": 1,
        "At least once": 2,
        "At most once": 1,
        "Exactly-once effects in a database": 1,
        "Offsets in one's own database": 1,
        "Long work on one record": 1,
    }


@pytest.mark.parametrize(
    ("heading", "number"), [("At least once", 0), ("At least once", 1), ("Long work on one record", 0)]
)
def test_at_least_once_skips_none(cluster: LocalGroups, heading: str, number: int) -> None:
    world = World(cluster, recipes()[heading][number])
    world.run_interrupted()
    world.check_none_is_skipped()


def test_at_most_once_repeats_none(cluster: LocalGroups) -> None:
    [code] = recipes()["At most once"]
    world = World(cluster, code)
    world.run_interrupted()
    assert set(world.processed.values()) == {1}


@pytest.mark.parametrize("heading", ["Exactly-once effects in a database", "Offsets in one's own database"])
def test_exactly_once_needs_no_commit(cluster: LocalGroups, heading: str) -> None:
    """Every commit is refused, so that everything is delivered again."""
    cluster.group_errors["CommitOffsets"] = deque([InvalidRequest("not today")] * 10_000)
    [code] = recipes()[heading]
    world = World(cluster, code)
    world.run_interrupted()
    world.check_none_is_skipped()
    assert set(world.processed.values()) == {1}
