"""A Spark master and two workers from the pip package, and drivers as processes that can be killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import pyspark

T = TypeVar("T")

_HOST: Final = "127.0.0.1"
_WORKERS: Final = 2
_TIMEOUT_S: Final = 300.0
_POLL_S: Final = 0.1
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_DRIVER: Final = Path(__file__).with_name("driver.py")


class SparkCluster:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_NO_DAEMONIZE": "1",
            # One Python everywhere, by its absolute path.
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        self.master = ""

    def __enter__(self) -> Self:
        try:
            log = self._daemon("master", "master.Master", "--host", _HOST, "--port", "0", "--webui-port", "0")
            self.master = _eventually(lambda: _found(_MASTER, log))
            for number in range(_WORKERS):
                log = self._daemon(
                    f"worker-{number}",
                    "worker.Worker",
                    *("--host", _HOST, "--webui-port", "0", "-c", "1", "-m", "1g"),
                    *("--work-dir", str(self._directory / f"work-{number}"), self.master),
                )
                _eventually(lambda log=log: _found(re.compile("(Successfully registered)"), log))  # type: ignore[misc]
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGKILL)
            process.wait()
        for pid in self.executors():
            os.kill(pid, signal.SIGKILL)

    def driver(self, *arguments: str, **environment: str) -> Driver:
        return Driver(self.master, self._directory, arguments, {**self._environment, **environment})

    def executors(self) -> list[int]:
        """Their process ids; only those of this cluster's own work directories."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    command = (entry / "cmdline").read_bytes().decode(errors="replace")
                    place = os.readlink(entry / "cwd")
                except OSError:
                    continue  # it ended meanwhile
                if _EXECUTOR in command and place.startswith(str(self._directory)):
                    found.append(int(entry.name))
        return found

    def kill_an_executor(self) -> None:
        """Once there is one."""
        os.kill(_eventually(lambda: next(iter(self.executors()), None)), signal.SIGKILL)

    def _daemon(self, name: str, main_class: str, *arguments: str) -> Path:
        log = self._directory / f"{name}.log"
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [str(spark_class), f"org.apache.spark.deploy.{main_class}", *arguments],
                    env=self._environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
        return log


class Driver:
    """A run of driver.py; its whole process group can be killed at once."""

    def __init__(
        self, master: str, directory: Path, arguments: tuple[str, ...], environment: dict[str, str]
    ) -> None:
        self._log = directory / f"driver-{time.monotonic_ns()}.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(_DRIVER), master, *arguments],
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_until_said(self, text: str) -> None:
        _eventually(lambda: text in self._log.read_text(errors="replace") or None)

    def succeed(self) -> None:
        assert self.wait() == 0, self._log.read_text(errors="replace")[-5000:]

    def wait(self) -> int:
        return self._process.wait(_TIMEOUT_S)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _found(pattern: re.Pattern[str], log: Path) -> str | None:
    found = pattern.search(log.read_text(errors="replace"))
    return found[1] if found else None


def _eventually(look: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + _TIMEOUT_S
    while (found := look()) is None:
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(_POLL_S)
    return found
