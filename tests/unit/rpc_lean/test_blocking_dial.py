"""A socket by a deadline: no step of it begins a time of its own."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from quorate.errors import Unavailable
from quorate.rpc.lean import blocking_dial
from quorate.rpc.lean.blocking_dial import dial


class Network:
    """Addresses of which some are dead: they use up all the time that they are given."""

    def __init__(self, *, alive: set[str]) -> None:
        self.now = 100.0
        self.alive = alive
        self.tried: list[str] = []

    def socket(self, _family: int) -> _Socket:
        return _Socket(self)


class _Socket:
    def __init__(self, network: Network) -> None:
        self._network = network
        self.timeout_s = 0.0
        self.is_closed = False

    def settimeout(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s

    def connect(self, place: tuple[str, int]) -> None:
        self._network.tried.append(place[0])
        if place[0] not in self._network.alive:
            self._network.now += self.timeout_s
            raise TimeoutError("timed out")

    def setsockopt(self, *_: object) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


def network_of(monkeypatch: pytest.MonkeyPatch, addresses: list[str], *, alive: set[str]) -> Network:
    network = Network(alive=alive)

    def getaddrinfo(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, 0, 0, "", (each, port)) for each in addresses]

    monkeypatch.setattr(blocking_dial, "time", SimpleNamespace(monotonic=lambda: network.now))
    monkeypatch.setattr(socket, "socket", network.socket)
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return network


def test_a_name_with_several_dead_addresses_costs_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]
    network = network_of(monkeypatch, dead, alive=set())
    with pytest.raises(Unavailable, match="cannot connect to broker:9092: timed out"):
        dial("broker:9092", deadline=network.now + 1.0)
    assert network.tried == dead
    assert network.now == pytest.approx(101.0)


def test_a_dead_address_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of(monkeypatch, ["10.0.0.1", "10.0.0.2"], alive={"10.0.0.2"})
    assert dial("broker:9092", deadline=network.now + 1.0)
    assert network.now == pytest.approx(100.5)


def test_after_the_deadline_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of(monkeypatch, ["10.0.0.1"], alive={"10.0.0.1"})
    with pytest.raises(Unavailable, match="timed out"):
        dial("10.0.0.1:9092", deadline=network.now)
    assert network.tried == []


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer = threading.Event()

    def getaddrinfo(_host: str, _port: int, *, flags: int, **_: Any) -> list[tuple[Any, ...]]:
        if not flags:
            may_answer.wait()
        raise socket.gaierror("nobody knows it")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    try:
        with pytest.raises(Unavailable, match="nobody has said in time where broker is"):
            dial("broker:9092", deadline=time.monotonic() + 0.01)
    finally:
        may_answer.set()


def test_a_local_name_that_no_resolver_knows_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, **more: Any) -> Any:
        if host.endswith(".localhost"):
            raise socket.gaierror("nobody knows it")
        return ask(host, port, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        made = dial(f"broker.localhost:{port}", deadline=time.monotonic() + 30.0)
        assert made.getpeername()[1] == port
        made.close()
