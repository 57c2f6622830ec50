"""What was processed is kept with its effects, in one transaction: both or none, and once.

With SQLite, and with a PostgreSQL server that is started for it, where PostgreSQL is installed.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

from quorate.client.processed import (
    AsyncPostgresProcessedIds,
    PostgresProcessedIds,
    ProcessedIds,
    SqliteProcessedIds,
)
from quorate.client.record_ids import RecordId
from tests.unit.client.postgres_server import find_postgres, postgres_server

FIRST = RecordId("g", "A" * 22, 0, 5)


class Database:
    def __init__(self, connect: Callable[[], Any], ids: Callable[[Any], ProcessedIds]) -> None:
        self.connect = connect
        self.ids = ids


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    programs = find_postgres()
    if programs is None:
        pytest.skip("PostgreSQL is not installed here")
    # A socket's path has to be shorter than those that pytest gives.
    with (
        TemporaryDirectory(prefix="quorate-pg-") as directory,
        postgres_server(programs, Path(directory)) as where,
    ):
        yield where


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        made = Database(lambda: sqlite3.connect(tmp_path / "effects.db", timeout=30), SqliteProcessedIds)
    else:
        where = request.getfixturevalue("postgres")
        made = Database(lambda: psycopg.connect(where), PostgresProcessedIds)
    with closing(made.connect()) as connection:
        made.ids(connection).create_tables()
        made.ids(connection).create_tables()
        connection.execute("DROP TABLE IF EXISTS effects")
        connection.execute("CREATE TABLE effects (what TEXT)")
        connection.execute("DELETE FROM quorate_processed_records")
        connection.execute("DELETE FROM quorate_processed_keys")
        connection.commit()
    return made


def effects(database: Database) -> int:
    with closing(database.connect()) as connection:
        found: int = connection.execute("SELECT count(*) FROM effects").fetchone()[0]
        return found


def process(database: Database, connection: Any, record: RecordId) -> bool:
    is_new = database.ids(connection).add(record)
    if is_new:
        connection.execute("INSERT INTO effects VALUES ('x')")
    return is_new


def test_a_record_is_processed_once(database: Database) -> None:
    with closing(database.connect()) as connection:
        assert process(database, connection, FIRST)
        connection.commit()
    with closing(database.connect()) as connection:
        assert not process(database, connection, FIRST)
        connection.commit()
    assert effects(database) == 1


def test_what_was_rolled_back_was_not_processed(database: Database) -> None:
    with closing(database.connect()) as connection:
        assert process(database, connection, FIRST)
        connection.rollback()
        assert process(database, connection, FIRST)
        connection.commit()
    assert effects(database) == 1


@pytest.mark.parametrize(
    "other",
    [
        FIRST._replace(group="h"),
        FIRST._replace(topic_id="B" * 22),
        FIRST._replace(partition=1),
        FIRST._replace(offset=6),
    ],
)
def test_every_part_of_the_name_counts(database: Database, other: RecordId) -> None:
    with closing(database.connect()) as connection:
        assert process(database, connection, FIRST)
        assert process(database, connection, other)
        connection.commit()


def test_names_of_the_application_are_kept_too(database: Database) -> None:
    with closing(database.connect()) as connection:
        ids = database.ids(connection)
        assert ids.add_key("g", "order-4711")
        assert not ids.add_key("g", "order-4711")
        assert ids.add_key("h", "order-4711")
        connection.commit()


def test_what_is_below_a_committed_offset_can_be_forgotten(database: Database) -> None:
    with closing(database.connect()) as connection:
        ids = database.ids(connection)
        for offset in range(10):
            ids.add(FIRST._replace(offset=offset))
            ids.add(FIRST._replace(offset=offset, partition=1))
        assert ids.forget(FIRST._replace(offset=7)) == 7
        assert ids.forget(FIRST._replace(offset=7)) == 0
        assert not ids.add(FIRST._replace(offset=7))
        assert not ids.add(FIRST._replace(offset=0, partition=1))
        connection.commit()


def test_of_two_that_process_a_record_at_once_one_waits_and_finds_it_done(database: Database) -> None:
    """As a member that was removed and does not know it, and the one that reads its partition now."""
    outcomes: list[bool] = []
    with closing(database.connect()) as first:
        assert process(database, first, FIRST)

        def second() -> None:
            with closing(database.connect()) as connection:
                outcomes.append(process(database, connection, FIRST))
                connection.commit()

        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        assert outcomes == [], "it waits for the first one's transaction"
        first.commit()
        thread.join()
    assert outcomes == [False]
    assert effects(database) == 1


def test_asynchronous_connections_of_psycopg_are_taken_as_well(postgres: str) -> None:
    async def scenario() -> None:
        async with await psycopg.AsyncConnection.connect(postgres) as connection:
            ids = AsyncPostgresProcessedIds(connection)
            await ids.create_tables()
            await ids.forget(FIRST._replace(offset=100))
            assert await ids.add(FIRST)
            assert not await ids.add(FIRST)
            assert await ids.forget(FIRST._replace(offset=100)) == 1
            assert await ids.add_key("g", "only here")
            await connection.rollback()

    asyncio.run(scenario())
