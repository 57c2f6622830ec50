"""A member of a group, and a steady load, on our own client: in a process of its own.

Usage: PYTHON -m bench.groups.quorate_client COMMAND BOOTSTRAP ARGUMENT...
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.groups.arrivals import Arrived
from bench.groups.member_program import be_member, send_steadily
from quorate.client import Consumer, OffsetAndMetadata, Producer
from quorate.core.records import ConsumerRecord

__all__ = ["COMMITS_SUFFIX"]

#: of the file in which a committer writes when each commit was sent and acknowledged
COMMITS_SUFFIX: Final = ".commits"

_POLL_S: Final = 0.1
_COMMIT_S: Final = 0.1
_VALUE: Final = bytes(100)


class _Member:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        # Without commits whoever takes a partition over begins at its start. Kafka's consumers commit by
        # default, every five seconds; so do ours when they are told to.
        self._consumer = Consumer(bootstrap, topics=[topic], group=group, enable_auto_commit=True)

    def poll(self) -> Sequence[Arrived]:
        return _arrived(self._consumer.poll(timeout=_POLL_S))

    def close(self) -> None:
        self._consumer.close()


class _Committer:
    """Commits what it has read, again and again, and waits for it, as a careful application does."""

    def __init__(self, bootstrap: str, topic: str, group: str, path: str) -> None:
        self._consumer = Consumer(bootstrap, group=group)
        self._consumer.subscribe([topic], on_revoked=lambda _: self._commit())
        self._commits = open(f"{path}{COMMITS_SUFFIX}", "a", buffering=1, encoding="ascii")  # noqa: SIM115
        self._last: dict[tuple[str, int], OffsetAndMetadata] = {}
        self._next_commit_s = 0.0

    def poll(self) -> Sequence[Arrived]:
        # Before the next records are taken: those of the last poll are noted by now.
        if time.monotonic() >= self._next_commit_s:
            self._commit()
        records = self._consumer.poll(timeout=_POLL_S)
        for each in records:
            self._last[each.topic, each.partition] = OffsetAndMetadata.after(each)
        return _arrived(records)

    def _commit(self) -> None:
        if not self._last:
            return
        sent_s = time.monotonic()
        self._consumer.commit(self._last)
        acknowledged_s = time.monotonic()
        self._last.clear()
        self._next_commit_s = sent_s + _COMMIT_S
        self._commits.write(f"{sent_s} {acknowledged_s}\n")

    def close(self) -> None:
        self._consumer.close()


def _arrived(records: Sequence[ConsumerRecord]) -> list[Arrived]:
    return [Arrived(each.partition, each.offset, each.timestamp) for each in records]


def member(bootstrap: str, topic: str, group: str, path: str) -> None:
    be_member(lambda: _Member(bootstrap, topic, group), path)


def committer(bootstrap: str, topic: str, group: str, path: str) -> None:
    be_member(lambda: _Committer(bootstrap, topic, group, path), path)


def load(bootstrap: str, topic: str, partitions: str, interval_ms: str) -> None:
    with Producer(bootstrap) as producer:
        send_steadily(
            lambda partition: _look_at(producer.send(topic, _VALUE, partition=partition)),
            partitions=int(partitions),
            interval_s=float(interval_ms) / 1000,
        )


def _look_at(_: object) -> None:
    """A record that is lost is not missed here."""


_COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "member": member,
    "committer": committer,
    "load": load,
}

if __name__ == "__main__":
    _COMMANDS[sys.argv[1]](*sys.argv[2:])
