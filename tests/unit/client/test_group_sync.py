"""The synchronous consumer in a group: callbacks on the thread that polls; over real gRPC."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from quorate.client.background import BackgroundLoop
from quorate.client.consumer import Consumer
from quorate.client.transport import client_transport
from quorate.core.transport import Server
from quorate.errors import ClientClosed, InvalidRequest
from tests.unit.client.fake_coordinator import FakeCoordinator, GroupState
from tests.unit.client.fake_log_broker import FakeBroker

T0: Any = ("t", 0)


class LocalGroups(GroupState):
    """One broker, which coordinates, on the loop that clients share."""

    def __init__(self) -> None:
        super().__init__({})
        self.start_groups()
        self.heartbeat_interval_ms = 300

    async def start(self) -> Server:
        services = [FakeBroker(1, self).service(), FakeCoordinator(1, self).service()]
        server = await client_transport().serve("127.0.0.1:0", services)
        self.addresses[1] = server.address
        self.alive.append(1)
        for partition in self.add_topic(partitions=2).partitions:
            partition.leader, partition.isr = 1, [1]
            partition.fill(100)
        return server

    def consumer(self, **options: Any) -> Consumer:
        return Consumer(self.addresses[1], group="g", **options)


@pytest.fixture
def cluster() -> Iterator[LocalGroups]:
    background = BackgroundLoop.acquire()
    local = LocalGroups()
    server = background.call(local.start())
    try:
        yield local
    finally:
        background.call(server.stop(0))
        background.release()


def read(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while len(found) < count:
        found += [(each.partition, each.offset) for each in consumer.poll(count - len(found), timeout=10)]
    return found


def test_poll_commit_and_close(cluster: LocalGroups) -> None:
    with cluster.consumer(topics=["t"]) as consumer:
        assert len(read(consumer, 150)) == 150
        consumer.commit()
        done = {number: cluster.committed(number) or 0 for number in (0, 1)}
        assert sum(done.values()) == 150
        assert {each: consumer.committed(each) for each in consumer.assignment()} == {
            ("t", number): offset for number, offset in done.items()
        }
    assert cluster.group().members == {}
    with cluster.consumer(topics=["t"]) as consumer:
        rest = read(consumer, 50)
        assert sorted(rest) == [(number, offset) for number in (0, 1) for offset in range(done[number], 100)]


def test_callbacks_are_called_on_the_thread_that_polls_and_may_use_the_consumer(cluster: LocalGroups) -> None:
    heard: list[tuple[str, int]] = []
    with cluster.consumer() as consumer:

        def on_assigned(partitions: list[Any]) -> None:
            heard.append(("assigned", threading.get_ident()))
            for each in partitions:
                consumer.seek(each, 90)

        def on_revoked(_: list[Any]) -> None:
            heard.append(("revoked", threading.get_ident()))
            consumer.commit()

        consumer.subscribe(["t"], on_assigned=on_assigned, on_revoked=on_revoked)
        assert len(read(consumer, 20)) == 20
    me = threading.get_ident()
    assert heard == [("assigned", me), ("revoked", me)]
    assert (cluster.committed(0), cluster.committed(1)) == (100, 100)


def test_two_members_share_and_the_second_goes_on_where_the_first_was(cluster: LocalGroups) -> None:
    with cluster.consumer(topics=["t"], enable_auto_commit=True) as first:
        by_first = read(first, 120)
        stop = threading.Event()

        def go_on() -> None:
            while not stop.is_set():
                by_first.extend((each.partition, each.offset) for each in first.poll(timeout=0.05))

        thread = threading.Thread(target=go_on)
        with cluster.consumer(topics=["t"]) as second:
            thread.start()
            by_second: list[tuple[int, int]] = []
            while not second.assignment() or len(by_first) + len(by_second) < 200:
                by_second += [(each.partition, each.offset) for each in second.poll(timeout=0.05)]
            stop.set()
            thread.join()
            assert len(first.assignment()) == len(second.assignment()) == 1
    assert sorted(by_first + by_second) == [(number, offset) for number in (0, 1) for offset in range(100)]


def test_iteration_with_commits_and_their_callbacks(cluster: LocalGroups) -> None:
    told: list[Any] = []
    with cluster.consumer(topics=["t"]) as consumer:
        for count, record in enumerate(consumer, start=1):
            assert consumer.record_id(record).offset == record.offset
            consumer.commit_async(on_commit=lambda offsets, error: told.append((dict(offsets), error)))
            if count == 50:
                break
    assert (cluster.committed(0) or 0) + (cluster.committed(1) or 0) == 50
    assert len(told) == 50
    assert all(error is None for _, error in told)


def test_an_error_leaves_the_last_records_to_be_read_again(cluster: LocalGroups) -> None:
    def work() -> None:
        with cluster.consumer(topics=["t"], enable_auto_commit=True) as consumer:
            read(consumer, 60)
            assert len(consumer.poll(30, timeout=10)) == 30
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert (cluster.committed(0) or 0) + (cluster.committed(1) or 0) == 60


def test_coroutines_are_refused_and_so_is_polling_in_a_callback(cluster: LocalGroups) -> None:
    async def coroutine(_: list[Any]) -> None: ...

    with cluster.consumer() as consumer:
        with pytest.raises(InvalidRequest, match="on_assigned is a coroutine function"):
            consumer.subscribe(["t"], on_assigned=coroutine)
        consumer.subscribe(["t"], on_assigned=lambda _: consumer.poll())
        with pytest.raises(InvalidRequest, match="must not poll"):
            consumer.poll(timeout=10)
        consumer.subscribe(["t"])
        assert len(read(consumer, 10)) == 10
        consumer.unsubscribe()
        assert consumer.assignment() == []
        assert cluster.group().members == {}
    for use in (consumer.poll, consumer.commit, consumer.unsubscribe, lambda: consumer.committed(T0)):
        with pytest.raises(ClientClosed):
            use()


def test_partitions_assigned_by_hand(cluster: LocalGroups) -> None:
    cluster.commit(0, 97)
    with cluster.consumer() as consumer:
        consumer.assign([T0])
        assert read(consumer, 3) == [(0, 97), (0, 98), (0, 99)]
        consumer.commit()
        assert cluster.committed(0) == 100


def test_a_member_knows_its_name_and_epoch(cluster: LocalGroups) -> None:
    with cluster.consumer(topics=["t"]) as consumer:
        assert consumer.membership() is None, "nobody has polled"
        read(consumer, 1)
        membership = consumer.membership()
        assert membership is not None
        assert membership.group == "g"
        assert membership.member_id
        assert membership.epoch > 0
    with Consumer(cluster.addresses[1]) as alone, pytest.raises(InvalidRequest, match="not in a group"):
        alone.membership()
