"""The recipes of docs/consumers.md in real processes that die between processing and commit, by kill -9.

A run begins where the group stood, as the coordinator tells it. So what is processed twice and what is lost
can be foretold to the record, and has to be exactly what the recipe promises.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.testing import LocalCluster
from tests.unit.client.test_consumer_recipes import recipes

#: that are written before each life, and how many of them are processed before it ends; None: all
EACH = 15
DEATHS = (7, 1, 12, None)
RECORDS = EACH * len(DEATHS)
TIMEOUT_S = 60

#: What a recipe takes for granted. A line for each record that is processed; after so many of them it dies.
PRELUDE = """
import asyncio, os, signal, sys

BOOTSTRAP, left = sys.argv[1], int(sys.argv[2])


def process(record):
    global left
    if record.value == b"the end":
        sys.exit(0)
    if "connection" in globals() and not IS_EFFECT_A_LINE:
        connection.execute("INSERT INTO effects VALUES (?)", (record.offset,))
    os.write(1, f"{record.offset}\\n".encode())
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


async def process_slowly(record):
    process(record)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1) as cluster:
        yield cluster


class Application:
    """One recipe, on a topic and with a group of its own."""

    def __init__(self, cluster: LocalCluster, heading: str, number: int, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self.topic = f"orders-{heading}-{number}".lower().replace(" ", "-").replace("'", "")
        code = recipes()[heading][number].replace('"orders"', f'"{self.topic}"')
        self.group = f"{self.topic}-readers"
        for name in ("billing", "metrics", "video"):
            code = code.replace(f'group="{name}"', f'group="{self.group}"')
        is_transaction = heading == "Exactly-once effects in a database"
        (directory / "application.py").write_text(
            f"IS_EFFECT_A_LINE = {not is_transaction}\n{PRELUDE}\n{code}\n"
            'if "main" in globals():\n    asyncio.run(main())\n'
        )
        cluster.admin().create_topic(self.topic, partitions=1, replication_factor=1)

    def write(self, *values: str) -> None:
        producer = self._cluster.producer()
        for each in [producer.send(self.topic, value) for value in values]:
            each.result(TIMEOUT_S)

    def committed(self) -> int:
        """Where the next run has to begin."""
        found = self._cluster.admin().list_group_offsets(self.group)
        return next((each.offset for each in found.values() if each is not None), 0)

    def run(self, *, dies_after: int | None) -> list[int]:
        """What it processes."""
        done = subprocess.run(
            [
                sys.executable,
                "application.py",
                self._cluster.bootstrap,
                str(dies_after or -1),
                str(RECORDS - 1),
            ],
            cwd=self._directory,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == (0 if dies_after is None else -signal.SIGKILL), done.stderr
        return [int(line) for line in done.stdout.split()]


def lives(application: Application) -> Iterator[tuple[int, list[int]]]:
    """Where the group stood, and what was processed then."""
    for dies_after in DEATHS:
        application.write(*map(str, range(EACH)))
        if dies_after is None:
            application.write("the end")
        begin = application.committed()
        yield begin, application.run(dies_after=dies_after)


@pytest.mark.parametrize(
    ("heading", "number"), [("At least once", 0), ("At least once", 1), ("Long work on one record", 0)]
)
def test_at_least_once_repeats_what_was_not_committed_and_skips_none(
    cluster: LocalCluster, tmp_path: Path, heading: str, number: int
) -> None:
    application = Application(cluster, heading, number, tmp_path)
    processed: Counter[int] = Counter()
    for begin, found in lives(application):
        assert found == list(range(begin, begin + len(found)))
        assert begin <= len(processed), "what was never processed was committed"
        processed.update(found)
    assert sorted(processed) == list(range(RECORDS))


def test_at_most_once_loses_what_was_committed_and_repeats_none(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    application = Application(cluster, "At most once", 0, tmp_path)
    processed: Counter[int] = Counter()
    for begin, found in lives(application):
        assert found == list(range(begin, begin + len(found)))
        processed.update(found)
    # Whatever it was handed together with the record that it died over is lost, as was said.
    assert set(processed.values()) == {1}
    assert len(processed) == sum(each or EACH for each in DEATHS)


def test_effects_in_a_database_happen_once_whenever_it_dies(cluster: LocalCluster, tmp_path: Path) -> None:
    application = Application(cluster, "Exactly-once effects in a database", 0, tmp_path)
    with sqlite3.connect(tmp_path / "billing.db") as database:
        database.execute("CREATE TABLE effects (record INTEGER)")
    for _ in lives(application):
        pass
    with sqlite3.connect(tmp_path / "billing.db") as database:
        effects = [record for (record,) in database.execute("SELECT record FROM effects ORDER BY record")]
    assert effects == list(range(RECORDS))


def test_offsets_in_ones_own_database_repeat_the_record_that_it_died_over(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    application = Application(cluster, "Offsets in one's own database", 0, tmp_path)
    runs = [found for _, found in lives(application)]
    firsts, lasts = [run[0] for run in runs], [run[-1] for run in runs]
    assert firsts == [0, *lasts[:-1]]
    assert lasts[-1] == RECORDS - 1
