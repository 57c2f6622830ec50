"""A worker as its parent sees it: give it a job, wait for the outcome, end it when it is stuck."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import IO, Final

from quorate.chaos.campaign.job import Job
from quorate.chaos.campaign.outcome import OUT_OF_TIME, WORKER_DIED, Failure, RunOutcome

__all__ = ["WorkerProcess"]

#: a worker ends a run that takes too long itself, and says where it stood; if it does not, it is killed
_GRACE_S: Final = 10.0
#: what runs leave behind in a process adds up
_JOBS_MAX: Final = 200
_MEMORY_BYTES_MAX: Final = 512 << 20
_READ_BYTES: Final = 1 << 16
_REMARKS_LINES: Final = 30


class WorkerProcess:
    """``seconds_max``: of real time, for one job."""

    def __init__(self, world: str, *, seconds_max: float) -> None:
        self.job: Job | None = None
        self._seconds_max = seconds_max
        self._begun_s = 0.0
        self._answer = b""
        self._jobs_done = 0
        self._memory_bytes = 0
        #: what it says beside the outcomes: a file, since a pipe that nobody reads would stop it
        self._remarks: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the worker
        self._process = subprocess.Popen(  # noqa: S603  # arguments of our own making
            [sys.executable, "-P", "-m", "quorate.chaos.campaign.worker", world, str(seconds_max)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._remarks,
            # Ctrl-C is for the parent alone, which ends its workers.
            start_new_session=True,
        )

    @property
    def is_worn_out(self) -> bool:
        return self._jobs_done >= _JOBS_MAX or self._memory_bytes > _MEMORY_BYTES_MAX

    @property
    def is_dead(self) -> bool:
        return self._process.poll() is not None

    @property
    def seconds_left(self) -> float:
        """Until it has to be killed."""
        return self._begun_s + self._seconds_max + _GRACE_S - time.monotonic()

    def fileno(self) -> int:
        """Readable when ``receive`` has something to receive."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def give(self, job: Job) -> None:
        assert self.job is None
        self.job = job
        self._begun_s = time.monotonic()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job.to_json()).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # it is dead: receive says so

    def receive(self) -> tuple[Job, RunOutcome] | None:
        """To be called when there is something to read. None: not all of it is there yet."""
        read = os.read(self.fileno(), _READ_BYTES)
        if not read:
            return self._end_job(self._outcome_of_death())
        self._answer += read
        if not self._answer.endswith(b"\n"):
            return None
        answer = json.loads(self._answer)
        self._answer = b""
        self._jobs_done += 1
        self._memory_bytes = answer["memory_bytes"]
        return self._end_job(RunOutcome.from_json(answer))

    def kill_for_lateness(self) -> tuple[Job, RunOutcome]:
        self._process.kill()
        return self._end_job(self._outcome_of_death())

    def end(self) -> None:
        """At once, and whatever it does: what it was at is lost."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._remarks):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue  # a job that it was given and never read

    def _end_job(self, outcome: RunOutcome) -> tuple[Job, RunOutcome]:
        job = self.job
        assert job is not None
        self.job = None
        return job, outcome

    def _outcome_of_death(self) -> RunOutcome:
        assert self.job is not None
        status = self._process.wait()
        self._remarks.seek(0)
        lines = self._remarks.read().decode(errors="replace").splitlines()[-_REMARKS_LINES:]
        if time.monotonic() >= self._begun_s + self._seconds_max:
            said = [f"not done after {self._seconds_max:g} s of real time", *lines]
            return RunOutcome(self.job.seed, Failure(OUT_OF_TIME, "\n".join(said)))
        said = [f"the process that ran it ended with status {status}", *lines]
        return RunOutcome(self.job.seed, Failure(WORKER_DIED, "\n".join(said)))
