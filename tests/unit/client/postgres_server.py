"""A PostgreSQL server of the tests' own: no password, no network, gone with them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any, Final

__all__ = ["find_postgres", "postgres_server"]

_START_S: Final = 60
#: it refuses to run as root
_NOBODY: Final = "nobody"


def find_postgres() -> str | None:
    """The folder of its programs; None: it is not installed."""
    found = shutil.which("initdb") or max(glob("/usr/lib/postgresql/*/bin/initdb"), default=None)
    return None if found is None else os.path.dirname(os.path.realpath(found))


@contextmanager
def postgres_server(programs: str, directory: Path) -> Iterator[str]:
    """Runs inside; yields what psycopg connects with. ``directory`` is empty, and its path short."""
    as_whom: dict[str, Any] = {}
    if os.geteuid() == 0:
        shutil.chown(directory, _NOBODY)
        as_whom = {"user": _NOBODY, "group": "nogroup", "extra_groups": []}
    data = f"{directory}/data"
    log = directory / "server.log"
    with log.open("wb") as output:
        subprocess.run(
            [f"{programs}/initdb", "-D", data, "-U", "quorate", "-A", "trust", "--no-sync"],
            check=True,
            stdout=output,
            stderr=output,
            cwd=directory,
            **as_whom,
        )
        server = subprocess.Popen(
            [f"{programs}/postgres", "-D", data, "-k", str(directory), "-c", "listen_addresses=", "-F"],
            stdout=output,
            stderr=output,
            cwd=directory,
            **as_whom,
        )
    try:
        where = f"host={directory} user=quorate dbname=postgres"
        _wait_until_it_answers(server, where, log)
        yield where
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(_START_S)


def _wait_until_it_answers(server: subprocess.Popen[bytes], where: str, log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + _START_S
    while True:
        try:
            psycopg.connect(where).close()
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return
