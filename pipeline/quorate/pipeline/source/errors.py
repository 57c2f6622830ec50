"""What the data source refuses, on top of `quorate.errors`: each says what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quorate.core.error_base import QuorateError
from quorate.errors import OffsetOutOfRange, UnknownTopicOrPartition

__all__ = ["DataLost", "TopicRecreated", "at_row", "located", "noting"]


class DataLost(OffsetOutOfRange):
    """Records that were to be read are gone: retention deleted them, or the topic was deleted."""


class TopicRecreated(UnknownTopicOrPartition):
    """There is another topic of the same name: offsets of the old one mean nothing in it."""

    retriable = False

    @classmethod
    def of(cls, topic: str, *, expected_id: str, found_id: str) -> TopicRecreated:
        return cls(
            f"topic {topic} was deleted and made anew: the offsets are of the topic with the id "
            f"{expected_id}, and the one that is there now has the id {found_id}. To read the new one, run a "
            f"batch query again, and start a streaming query with a new checkpointLocation",
            topic=topic,
            expected_id=expected_id,
            found_id=found_id,
        )


def located(error: QuorateError, *, topic: str, partition: int, offset: int | None) -> QuorateError:
    """The same error, saying where; tasks run on other machines, and their message is all that arrives."""
    where = f"{topic}-{partition}" + ("" if offset is None else f" at offset {offset}")
    facts = error.facts | {"topic": topic, "partition": partition, "offset": offset}
    return type(error)(f"{where}: {error.message}", **facts)


def at_row(
    error: QuorateError, *, topic: str | None, partition: int | None, row: int, last_row: int | None = None
) -> QuorateError:
    """The same of a row that is to be written: it has no offset yet, but a number in its task, from 0.

    ``topic`` and ``partition`` are None where they are not known yet: a row names none, or its key was to
    decide. ``last_row`` (inclusive): it is one of so many, and nobody says which.
    """
    facts = error.facts | {"topic": topic, "partition": partition, "row": row}
    where = f"row {row} of the task"
    if last_row is not None and last_row != row:
        facts |= {"last_row": last_row}
        where = f"rows {row} to {last_row} of the task"
    place = "" if topic is None else topic if partition is None else f"{topic}-{partition}"
    message = error.message.removeprefix(f"{place}: ")
    return type(error)(f"{place}, {where}: {message}" if place else f"{where}: {message}", **facts)


@contextmanager
def noting(where: Callable[[], str]) -> Iterator[None]:
    """For what is no error of ours by name: Spark shows its traceback, and the place as a note below it."""
    try:
        yield
    except QuorateError:
        raise  # it says where
    except Exception as error:
        error.add_note(f"while handling {where()}")
        raise
