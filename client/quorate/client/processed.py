"""Processing a record once, although it is delivered at least once: it is noted down with its effects.

A group never skips a record, so after a crash it repeats some. Where that would do harm, and the effects of a
record are in a database, the database can keep apart what was processed from what was not. In one
transaction:

    with connection:                                     # SQLite's; of psycopg: connection.transaction()
        if processed.add(consumer.record_id(record)):    # False: it was processed before
            apply(record, connection)
    consumer.commit_async()                              # any time later

Either both are there, the effect and the note of it, or none is. It does not matter when, or whether, the
offset is committed. It also holds against a member that the group has removed and that does not know it yet:
whichever of the two comes second waits for the first one's transaction, and finds the record processed.

A record is named by the id of its topic, its partition and its offset, which no other record ever has. Where
the same event may be *written* twice, by a producer without idempotence or by a pipeline that is run again,
the application has a name of its own for it (an order number): ``add_key``.

Notes of records pile up. Once the group's offset is committed, those below it are not handed out again, and
``forget`` removes them. Who sets an offset back by hand processes again what was forgotten, and only that.

Other databases take the same two statements: implement `ProcessedIds`. Rejected: to keep only the highest
offset of each partition. It is less to store, and wrong as soon as records are not processed in their order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, Protocol

from quorate.client.record_ids import RecordId

__all__ = [
    "AsyncPostgresProcessedIds",
    "PostgresConnection",
    "PostgresProcessedIds",
    "ProcessedIds",
    "SqliteProcessedIds",
]

_CREATE: Final = (
    """CREATE TABLE IF NOT EXISTS quorate_processed_records (
        consumer_group TEXT NOT NULL,
        topic_id TEXT NOT NULL,
        partition_number INTEGER NOT NULL,
        record_offset BIGINT NOT NULL,
        PRIMARY KEY (consumer_group, topic_id, partition_number, record_offset)
    )""",
    """CREATE TABLE IF NOT EXISTS quorate_processed_keys (
        consumer_group TEXT NOT NULL,
        processed_key TEXT NOT NULL,
        PRIMARY KEY (consumer_group, processed_key)
    )""",
)
_ADD: Final = (
    "INSERT INTO quorate_processed_records (consumer_group, topic_id, partition_number, record_offset) "
    "VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_ADD_KEY: Final = (
    "INSERT INTO quorate_processed_keys (consumer_group, processed_key) VALUES (?, ?) ON CONFLICT DO NOTHING"
)
_FORGET: Final = (
    "DELETE FROM quorate_processed_records "
    "WHERE consumer_group = ? AND topic_id = ? AND partition_number = ? AND record_offset < ?"
)


class ProcessedIds(Protocol):
    """What was processed. Every call is part of the transaction that its connection is in."""

    def create_tables(self) -> None:
        """Where there are none; once, before anything else. Commit it."""
        ...

    def add(self, record: RecordId) -> bool:
        """Whether it is new: it counts as processed when the transaction is committed."""
        ...

    def add_key(self, group: str, key: str) -> bool:
        """The same by a name of the application's own."""
        ...

    def forget(self, below: RecordId) -> int:
        """Records of the same partition with lower offsets; returns how many there were."""
        ...


class SqliteProcessedIds:
    """In a SQLite database: pass the connection that the application's effects are written by."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def create_tables(self) -> None:
        """Where there are none; once, before anything else. Commit it."""
        for statement in _CREATE:
            self._connection.execute(statement)

    def add(self, record: RecordId) -> bool:
        """Whether it is new: it counts as processed when the transaction is committed."""
        return self._connection.execute(_ADD, record).rowcount == 1

    def add_key(self, group: str, key: str) -> bool:
        """The same by a name of the application's own, which only the application can forget again."""
        return self._connection.execute(_ADD_KEY, (group, key)).rowcount == 1

    def forget(self, below: RecordId) -> int:
        """Records of the same partition with lower offsets; returns how many there were.

        For what is committed to the group, and cannot come again unless the group is reset.
        """
        return self._connection.execute(_FORGET, below).rowcount


class PostgresConnection(Protocol):
    """What is needed of psycopg's connections (``pip install 'quorate[postgres]'``)."""

    def execute(self, query: Any, params: Any = ..., /) -> Any: ...


class PostgresProcessedIds:
    """In a PostgreSQL database: pass the psycopg connection that the application's effects are written by.

    A second transaction that adds the same record waits until the first is over. Under REPEATABLE READ and
    stricter it then fails with a serialization error, and has to be run again, as always there.
    """

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def create_tables(self) -> None:
        """Where there are none; once, before anything else. Commit it."""
        for statement in _CREATE:
            self._connection.execute(statement)

    def add(self, record: RecordId) -> bool:
        """Whether it is new: it counts as processed when the transaction is committed."""
        return bool(self._execute(_ADD, record).rowcount == 1)

    def add_key(self, group: str, key: str) -> bool:
        """The same by a name of the application's own, which only the application can forget again."""
        return bool(self._execute(_ADD_KEY, (group, key)).rowcount == 1)

    def forget(self, below: RecordId) -> int:
        """Records of the same partition with lower offsets; returns how many there were.

        For what is committed to the group, and cannot come again unless the group is reset.
        """
        return int(self._execute(_FORGET, below).rowcount)

    def _execute(self, statement: str, values: Sequence[str | int]) -> Any:
        return self._connection.execute(_of_psycopg(statement), tuple(values))


class AsyncPostgresProcessedIds:
    """`PostgresProcessedIds` for psycopg's asynchronous connections."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    async def create_tables(self) -> None:
        """Where there are none; once, before anything else. Commit it."""
        for statement in _CREATE:
            await self._connection.execute(statement)

    async def add(self, record: RecordId) -> bool:
        """Whether it is new: it counts as processed when the transaction is committed."""
        return bool((await self._execute(_ADD, record)).rowcount == 1)

    async def add_key(self, group: str, key: str) -> bool:
        """The same by a name of the application's own, which only the application can forget again."""
        return bool((await self._execute(_ADD_KEY, (group, key))).rowcount == 1)

    async def forget(self, below: RecordId) -> int:
        """Records of the same partition with lower offsets; returns how many there were.

        For what is committed to the group, and cannot come again unless the group is reset.
        """
        return int((await self._execute(_FORGET, below)).rowcount)

    async def _execute(self, statement: str, values: Sequence[str | int]) -> Any:
        return await self._connection.execute(_of_psycopg(statement), tuple(values))


def _of_psycopg(statement: str) -> str:
    return statement.replace("?", "%s")
