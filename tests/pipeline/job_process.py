"""A job as people run it: `quorate pipeline run …` in a process of its own, that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from tests.pipeline.killing import jvm_of_session, kill_session

__all__ = ["JobProcess", "run_job", "stop_within_a_batch"]

_ROOT: Final = Path(__file__).parent.parent.parent
#: Jobs of tests are short: what a compiler or many tasks would gain is less than they cost.
_SMALL: Final = (
    "spark.sql.shuffle.partitions=2",
    "spark.default.parallelism=2",
    "spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage=false",
)
#: Spark gives a worker ten seconds to start, whatever else the machine has to do; a job can be started again.
_TOO_BUSY: Final = "Python worker failed to connect back"
_STARTS_MAX: Final = 5


class JobProcess:
    """Started in a session of its own, so that Spark's JVM and its workers can be killed with it."""

    def __init__(
        self,
        job: str,
        *options: str,
        bootstrap: str,
        kill_before: str | None = None,
        master: str = "local[2]",
        settings: Sequence[str] = (),
    ) -> None:
        """``kill_before``: see ``tests.pipeline.killing_job``; ``settings``: of Spark's."""
        program = (
            ["quorate.console.main"] if kill_before is None else ["tests.pipeline.killing_job", kill_before]
        )
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", *program, "--bootstrap", bootstrap, "pipeline", "run", job, *options),
                *("--spark-master", master, "--spark-conf", ",".join([*_SMALL, *settings])),
            ],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_for(self, is_awaited: Callable[[str], bool]) -> str:
        """The first line of which that is so.

        An ``AssertionError`` with all that was said if it ends before.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())
            if is_awaited(line):
                return line
        raise AssertionError("\n".join(["it ended before:", *self.lines]))

    def ask_to_stop(self, number: signal.Signals = signal.SIGTERM, *, group: bool = False) -> None:
        if group:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Everything of it, at once."""
        kill_session(self._process.pid)
        self.wait()

    @contextmanager
    def killed_alone(self) -> Iterator[None]:
        """Inside, Spark's JVM has not noticed yet, and does what it was told; then it ends.

        It ends when its input does, which has another end here.
        """
        its_input = os.open(f"/proc/{jvm_of_session(self._process.pid)}/fd/0", os.O_WRONLY)
        try:
            self._process.kill()
            self._process.wait()
            yield
        finally:
            os.close(its_input)

    def wait(self) -> int:
        """Its exit status; minus the signal that has killed it."""
        assert self._process.stdout is not None
        if not self._process.stdout.closed:
            with self._process.stdout as rest:
                self.lines += [line.rstrip() for line in rest]
        return self._process.wait()


def run_job(job: str, *options: str, bootstrap: str, kill_before: str | None = None) -> list[str]:
    """To its end, which is a good one or, with ``kill_before``, that kill; what it said."""
    for _ in range(_STARTS_MAX):
        with JobProcess(job, *options, bootstrap=bootstrap, kill_before=kill_before) as process:
            status = process.wait()
        if not any(_TOO_BUSY in line for line in process.lines):
            break
    assert status == (0 if kill_before is None else -signal.SIGKILL), "\n".join(process.lines)
    return process.lines


def stop_within_a_batch(job: str, *options: str, bootstrap: str) -> JobProcess:
    """With SIGTERM, after the first one: it ends well, and says nothing that would worry anybody."""
    with JobProcess(job, *options, bootstrap=bootstrap) as process:
        process.wait_for(lambda line: "batch" in line)
        process.ask_to_stop()
        assert process.wait() == 0, process.lines
    assert "stopped" in process.lines[-1]
    assert not [line for line in process.lines if "ERROR" in line or "Traceback" in line], process.lines
    return process
