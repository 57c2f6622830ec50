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

__all__ = ["Driver", "SparkCluster", "eventually"]

T = TypeVar("T")

_HOST: Final = "127.0.0.1"
_WORKERS: Final = 2
_TIMEOUT_S: Final = 900.0
_POLL_S: Final = 0.1
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REPEATED: Final = re.compile(r"Starting task (\d+)\.[1-9]\d* in stage")
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_DRIVER: Final = Path(__file__).with_name("driver.py")


class SparkCluster:
    def __init__(self, directory: Path, python: str) -> None:
        """``python``: of all executors, and of what plans for the driver."""
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._drivers: list[Driver] = []
        self._environment = {
            **os.environ,
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_NO_DAEMONIZE": "1",
            # One everywhere, by its absolute path.
            "PYSPARK_PYTHON": python,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        self.master = ""

    def __enter__(self) -> Self:
        try:
            log = self._daemon("master", "master.Master", "--host", _HOST, "--port", "0", "--webui-port", "0")
            self.master = eventually(lambda: _found(_MASTER, log))
            for number in range(_WORKERS):
                log = self._daemon(
                    f"worker-{number}",
                    "worker.Worker",
                    *("--host", _HOST, "--webui-port", "0", "-c", "1", "-m", "1g"),
                    *("--work-dir", str(self._directory / f"work-{number}"), self.master),
                )
                eventually(lambda log=log: _found(re.compile("(Successfully registered)"), log))  # type: ignore[misc]
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for driver in self._drivers:
            driver.kill()
        for process in reversed(self._processes):
            process.send_signal(signal.SIGKILL)
            process.wait()
        for pid, _ in self._executors():
            os.kill(pid, signal.SIGKILL)

    def driver(self, *arguments: str, **environment: str) -> Driver:
        self._drivers.append(
            Driver(self.master, self._directory, arguments, {**self._environment, **environment})
        )
        return self._drivers[-1]

    def kill_an_executor_at_work(self) -> None:
        """As soon as one has a task that it has not finished."""
        os.kill(eventually(self._executor_at_work), signal.SIGKILL)

    def _executor_at_work(self) -> int | None:
        for pid, log in self._executors():
            said = log.read_text(errors="replace") if log.exists() else ""
            if said.count("Running task") > said.count("Finished task"):
                return pid
        return None

    def _executors(self) -> list[tuple[int, Path]]:
        """Process id and log of each; only those of this cluster's own work directories."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    command = (entry / "cmdline").read_bytes().decode(errors="replace")
                    place = os.readlink(entry / "cwd")
                except OSError:
                    continue  # it ended meanwhile
                if _EXECUTOR in command and place.startswith(str(self._directory)):
                    found.append((int(entry.name), Path(place, "stderr")))
        return found

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

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def repeated_tasks(self) -> set[str]:
        """Those that were begun again, because an attempt failed or its executor died."""
        return set(_REPEATED.findall(self.said))

    def succeed(self) -> None:
        assert self.wait() == 0, self.said[-5000:]

    def wait(self) -> int:
        return self._process.wait(_TIMEOUT_S)

    def kill(self) -> None:
        """With its JVM; nothing happens where it has ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _found(pattern: re.Pattern[str], log: Path) -> str | None:
    found = pattern.search(log.read_text(errors="replace"))
    return found[1] if found else None


def eventually(look: Callable[[], T | None]) -> T:
    """What it finds, once it does."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (found := look()) is None:
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(_POLL_S)
    return found
