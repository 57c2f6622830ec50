"""Which process is at the other end of a connection on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Final

__all__ = ["connecting_process"]

#: gRPC connects by sockets of IPv6, also to addresses of IPv4
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _INODE = 1, 2, 9


def connecting_process(from_port: int, to_port: int, candidates: Iterable[int]) -> int | None:
    """Which of these pids has the connection open; both ports are of this machine's loopback."""
    inode = _inode(from_port, to_port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    return next((pid for pid in candidates if wanted in _open_files(pid)), None)


def _inode(from_port: int, to_port: int) -> str | None:
    local, remote = f":{from_port:04X}", f":{to_port:04X}"
    for table in _TABLES:
        with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as file:
            for line in file:
                words = line.split()
                if words[_LOCAL].endswith(local) and words[_REMOTE].endswith(remote):
                    return words[_INODE]
    return None


def _open_files(pid: int) -> set[str]:
    directory = f"/proc/{pid}/fd"
    found = set()
    # The process may end while we look, and close files.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for name in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.add(os.readlink(f"{directory}/{name}"))
    return found
