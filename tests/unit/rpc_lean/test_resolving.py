"""A name that the resolver is slow to know is the trouble of those who look for it, and of nobody else."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop
from google.protobuf.wrappers_pb2 import BytesValue

from quorate.errors import Unavailable
from quorate.rpc.lean import resolving
from quorate.rpc.lean.client_connection import _numeric_host
from quorate.rpc.lean.resolving import look_up, looked_up
from quorate.rpc.lean.transport import LeanOptions, LeanTransport
from tests.unit.rpc_lean.peers import served
from tests.unit.seams.echo_service import ECHO

AMPLE_S = 30.0
#: more than any event loop has threads for
MANY = 100


class Resolver:
    """It knows nothing of `gone`, and does not say so until it may; all else is this machine."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked: Counter[str] = Counter()
        self._ask = socket.getaddrinfo
        self._changed = threading.Condition()

    async def was_asked(self, times: int) -> None:
        def wait() -> None:
            with self._changed:
                assert self._changed.wait_for(lambda: self.asked.total() >= times, AMPLE_S)

        await asyncio.to_thread(wait)

    def getaddrinfo(
        self,
        host: str,
        port: int,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as the system's
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        if flags & socket.AI_NUMERICHOST or host[0].isdigit():
            return self._ask(host, port, family, type, proto, flags)
        with self._changed:
            self.asked[host] += 1
            self._changed.notify_all()
        if host.startswith("gone"):
            assert self.may_answer.wait(AMPLE_S)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if host == "broken":
            raise RuntimeError("the resolver is broken")
        found = ["127.0.0.3", "127.0.0.1"] if host == "two" else ["127.0.0.1"]
        return [each for address in found for each in self._ask(address, port, family, type, proto)]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    made = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)
    yield made
    made.may_answer.set()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_name_that_is_looked_for_in_vain_keeps_nobody_from_finding_another(
    resolver: Resolver, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_find_another(resolver))


async def _find_another(resolver: Resolver) -> None:
    async with served() as (_, _, address):
        port = address.rpartition(":")[2]
        transport = LeanTransport()
        lost = [transport.connect(f"gone-{number}:9092") for number in range(MANY)]
        vain = [asyncio.create_task(each.call(ECHO, BytesValue(), timeout_s=AMPLE_S)) for each in lost]
        await resolver.was_asked(MANY)
        channel = transport.connect(f"here:{port}")
        response = await channel.call(ECHO, BytesValue(value=b"found"), timeout_s=AMPLE_S)
        assert response.value == b"found"
        for task in vain:
            task.cancel()
        for each in (*lost, channel):
            await each.close()


async def test_a_peer_that_is_tried_again_and_again_is_looked_up_once_at_a_time(resolver: Resolver) -> None:
    options = LeanOptions(connect_s_max=0.01, reconnect_backoff_s_max=0.0)
    channels = [LeanTransport(options).connect("gone:9092") for _ in range(5)]
    for _ in range(3):
        for channel in channels:
            with pytest.raises(Unavailable, match="it took too long"):
                await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    assert resolver.asked == {"gone": 1}
    for channel in channels:
        await channel.close()


async def test_a_name_with_several_addresses_is_found_at_the_one_that_is_there(resolver: Resolver) -> None:
    async with served() as (_, _, address):
        channel = LeanTransport().connect(f"two:{address.rpartition(':')[2]}")
        response = await channel.call(ECHO, BytesValue(value=b"found"), timeout_s=AMPLE_S)
        assert response.value == b"found"
        await channel.close()
    assert resolver.asked == {"two": 1}


async def test_a_name_of_which_no_address_is_there_fails_with_the_reason_of_the_last(
    resolver: Resolver,
) -> None:
    async with served() as (_, _, address):
        port = address.rpartition(":")[2]
    channel = LeanTransport().connect(f"two:{port}")
    with pytest.raises(Unavailable, match=rf"cannot connect: .*127\.0\.0\.1.*{port}"):
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    await channel.close()
    assert resolver.asked == {"two": 1}


def test_an_address_that_holds_on_one_interface_only_is_dialled_with_it() -> None:
    ((*_, place),) = look_up("fe80::1%1", 9092).result()
    assert _numeric_host(place) == "fe80::1%1"
    assert look_up(_numeric_host(place), 9092).result()[0][4] == place
    ((*_, place),) = look_up("::1", 9092).result()
    assert _numeric_host(place) == "::1"


async def test_what_is_no_name_is_an_error_of_the_call() -> None:
    channel = LeanTransport().connect(f"{'x' * 64}.example:9092")
    with pytest.raises(Unavailable, match="cannot connect"):
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    await channel.close()


def test_a_resolver_that_breaks_is_asked_again(resolver: Resolver) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the resolver is broken"):
            look_up("broken", 9092).result(AMPLE_S)
    assert resolver.asked == {"broken": 2}


async def test_who_gives_up_takes_the_answer_from_nobody(resolver: Resolver) -> None:
    first, second = (asyncio.create_task(looked_up("gone", 9092)) for _ in range(2))
    await resolver.was_asked(1)
    first.cancel()
    await asyncio.wait([first])
    resolver.may_answer.set()
    with pytest.raises(socket.gaierror, match="Temporary failure"):
        await second
    assert first.cancelled()
    assert resolver.asked == {"gone": 1}


def test_an_answer_is_not_kept(resolver: Resolver) -> None:
    for _ in range(3):
        assert look_up("here", 9092).result(AMPLE_S)[0][4] == ("127.0.0.1", 9092)
    assert resolver.asked == {"here": 3}


def test_an_address_is_no_question_for_the_resolver(resolver: Resolver) -> None:
    assert look_up("127.0.0.2", 9092).done()
    assert look_up("::1", 9092).done()
    assert not resolver.asked


async def test_names_beyond_what_is_looked_up_at_once_are_refused_and_say_so(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "_LOOKUPS_MAX", 2)
    under_way = [look_up(f"gone-{number}", 9092) for number in range(2)]
    channel = LeanTransport().connect("here:9092")
    with pytest.raises(Unavailable, match="2 names are being looked up already, and here would be one more"):
        await channel.call(ECHO, BytesValue(), timeout_s=AMPLE_S)
    await channel.close()
    resolver.may_answer.set()
    for each in under_way:
        assert each.exception(AMPLE_S) is not None
    assert look_up("here", 9092).result(AMPLE_S)


def test_a_thread_that_cannot_be_had_is_an_error_of_whoever_asked(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without:
        without.setattr(threading, "Thread", NoThread)
        with pytest.raises(OSError, match="cannot look here up"):
            look_up("here", 9092).result(AMPLE_S)
    assert look_up("here", 9092).result(AMPLE_S)
    assert resolver.asked == {"here": 1}


def test_a_forked_process_does_not_wait_for_threads_that_it_has_not(resolver: Resolver) -> None:
    under_way = look_up("gone", 9092)
    with warnings.catch_warnings():
        # Newer Pythons warn of the threads that the child will not have, which is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        # Nothing of the test goes on in here.
        os._exit(0 if look_up("gone", 9092) is not under_way else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert look_up("gone", 9092) is under_way
    assert resolver.asked == {"gone": 1}
