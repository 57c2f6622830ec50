"""A network of packets: every node in a network namespace of its own, and all cables end in this process.

Each namespace has one interface, a TUN device, whose packets are read and written here. A switch in user
space forwards them, and does to them what the links say: it drops, delays and so reorders them. TCP above
sees a real network: connections hang, packets are sent again, time-outs pass.

Rejected: veth pairs and a bridge, with tc netem and iptables. It needs kernel modules that many machines do
not have (netem is one of them), a tree of queues and filters for each direction of each pair, and it leaves
interfaces and rules behind when the drill is killed. Here all of it is held by the descriptors of this
process, and goes with it. The price is that packets pass through Python: enough for a drill, not for a
benchmark.

Needs root, or the capabilities to make namespaces and devices.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import random
import shutil
import socket
import struct
from collections.abc import Iterator
from typing import Final

from quorate.chaos.faults.switch.carrier import Place
from quorate.chaos.faults.switch.links import CLIENTS, Links

__all__ = ["PacketCarrier"]

_CLONE_NEWNET: Final = 0x40000000
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN_WITHOUT_HEADER: Final = 0x0001 | 0x1000
_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_SIOCSIFADDR: Final = 0x8916
_SIOCSIFNETMASK: Final = 0x891C
_SIOCSIFMTU: Final = 0x8922
_IFF_UP: Final = 1

#: Large, so that few packets pass through Python.
_MTU: Final = 32_000
_PACKETS_PER_TURN_MAX: Final = 64
#: 198.18.0.0/15 is set aside for tests of networks: nobody is reached there
_NETWORKS: Final = [f"198.{second}.{third}" for second in (18, 19) for third in range(256)]
_FIRST_NODE: Final = 2
_DESTINATION: Final = slice(16, 20)


class PacketCarrier:
    def __init__(self, links: Links) -> None:
        self._links = links
        self._network = _unused_network()
        #: by the four bytes of its address: name and descriptor of its device
        self._ends: dict[bytes, tuple[str, int]] = {}
        self._namespaces: list[int] = []
        self._launcher = shutil.which("nsenter") or ""

    async def open(self) -> None:
        if not self._launcher:
            raise FileNotFoundError("nsenter")
        # Clients stay in the namespace of the machine, and get a cable there.
        self._attach(CLIENTS, f"{self._network}.1")

    async def admit(self, name: str, address: str, cluster_directory: str) -> Place:  # noqa: ARG002  # Carrier
        host = f"{self._network}.{_FIRST_NODE + len(self._namespaces)}"
        with _new_namespace() as descriptor:
            _set_up("lo")
            self._attach(name, host)
        self._namespaces.append(descriptor)
        port = address.rpartition(":")[2]
        inside = f"--net=/proc/{os.getpid()}/fd/{descriptor}"
        return Place(f"{host}:{port}", None, (self._launcher, inside, "--"))

    async def heal(self) -> None:
        """Nothing waits here: what was dropped, TCP sends again."""

    async def close(self) -> None:
        for _, device in self._ends.values():
            asyncio.get_running_loop().remove_reader(device)
            os.close(device)
        for descriptor in self._namespaces:
            os.close(descriptor)

    def _attach(self, name: str, host: str) -> None:
        """A device in the current namespace."""
        device = _make_device(f"quorate{os.getpid() % 10**7}", host)
        self._ends[socket.inet_aton(host)] = (name, device)
        asyncio.get_running_loop().add_reader(device, self._forward, name, device)

    def _forward(self, source: str, device: int) -> None:
        for _ in range(_PACKETS_PER_TURN_MAX):
            try:
                packet = os.read(device, _MTU + 1)
            except BlockingIOError:
                return
            end = self._ends.get(packet[_DESTINATION])
            if end is None:
                continue
            target, out = end
            if self._links.is_lost(source, target):
                continue
            delay_s = self._links.delay_s(source, target)
            if delay_s:
                asyncio.get_running_loop().call_later(delay_s, _send, out, packet)
            else:
                _send(out, packet)


def _send(device: int, packet: bytes) -> None:
    # A device that takes no more, or is down, is a cable that drops.
    with contextlib.suppress(OSError):
        os.write(device, packet)


@contextlib.contextmanager
def _new_namespace() -> Iterator[int]:
    """Inside, this thread is in it. Its descriptor stays open, and keeps it alive."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.unshare(_CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "no network namespace can be made")
        try:
            yield os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            if libc.setns(home, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "the way back out of a network namespace is lost")
    finally:
        os.close(home)


def _make_device(name: str, host: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN_WITHOUT_HEADER))
        _set_up(name, host)
    except OSError:
        os.close(device)
        raise
    return device


def _set_up(name: str, host: str | None = None) -> None:
    """An interface of the current namespace; with ``host``: as its address, in a network of 254."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        if host is not None:
            fcntl.ioctl(handle, _SIOCSIFMTU, struct.pack("16sI20x", name.encode(), _MTU))
            fcntl.ioctl(handle, _SIOCSIFADDR, _with_address(name, host))
            fcntl.ioctl(handle, _SIOCSIFNETMASK, _with_address(name, "255.255.255.0"))
        answer = fcntl.ioctl(handle, _SIOCGIFFLAGS, struct.pack("16sH22x", name.encode(), 0))
        [flags] = struct.unpack_from("H", answer, 16)
        fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sH22x", name.encode(), flags | _IFF_UP))


def _with_address(name: str, host: str) -> bytes:
    return struct.pack("16sHH4s16x", name.encode(), socket.AF_INET, 0, socket.inet_aton(host))


def _unused_network() -> str:
    """Any, whatever the seed of the faults is: several drills may run at once."""
    with open("/proc/net/route", encoding="ascii") as file:
        routes = [line.split()[1] for line in file.readlines()[1:]]
    used = {socket.inet_ntoa(bytes.fromhex(route)[::-1]).rpartition(".")[0] for route in routes}
    return random.choice([network for network in _NETWORKS if network not in used])
