"""Directories that jobs are given: what cannot be one is told as such, before anything is begun."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.errors import JobFailed
from quorate.pipeline.jobs.job_lock import held_locks, only_one_job


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_a_file_is_no_directory_and_nothing_below_it_is(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()
    path = str(file / below)
    with pytest.raises(InvalidRequest, match=f"{path} is no directory"), only_one_job(path):
        pytest.fail("it cannot be used")


def test_where_none_can_be_made_it_is_said_what_the_system_said() -> None:
    refused = r"/proc/quorate cannot be used \(No such file or directory\)"
    with pytest.raises(InvalidRequest, match=refused), only_one_job("/proc/quorate"):
        pytest.fail("it cannot be used")


def test_a_directory_is_one_jobs_until_its_process_ends(tmp_path: Path) -> None:
    with only_one_job(str(tmp_path)):
        script = (
            "from quorate.pipeline.jobs.job_lock import only_one_job\n"
            f"with only_one_job({str(tmp_path)!r}): pass"
        )
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert "another job (process" in other.stderr
    with only_one_job(str(tmp_path)):
        pass


def test_what_a_killed_job_had_started_keeps_its_directory_until_it_ends_too(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys\n"
        "from quorate.pipeline.jobs.job_lock import held_locks, only_one_job\n"
        f"with only_one_job({str(tmp_path)!r}):\n"
        "    # It ends when its input does, which is that of the job, as the JVM's.\n"
        "    writer = subprocess.Popen(['cat'], pass_fds=held_locks())\n"
        "    print(writer.pid, flush=True)\n"
        "    writer.wait()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, text=True) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        writer = os.pidfd_open(int(job.stdout.readline()))
        with pytest.raises(InvalidRequest, match=rf"\(process {job.pid}\) uses .*: stop it first"):
            _use(tmp_path)
        job.kill()
        assert job.wait() == -signal.SIGKILL
        with pytest.raises(InvalidRequest, match=rf"\(process {job.pid}\) used .*, which may still write"):
            _use(tmp_path)
        job.stdin.close()
    # Its output ends earlier, by a moment: it is gone when its descriptors are.
    select.select([writer], [], [])
    os.close(writer)
    _use(tmp_path)


def test_a_job_that_has_ended_well_leaves_its_directory_to_the_next_at_once(tmp_path: Path) -> None:
    """Its JVM, which has the locks, too, ends a little later."""
    with only_one_job(str(tmp_path)):
        writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=held_locks())
    with writer:
        assert not held_locks()
        _use(tmp_path)


def test_of_a_job_that_has_failed_something_may_still_write(tmp_path: Path) -> None:
    def fail() -> None:
        with only_one_job(str(tmp_path)):
            started.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=held_locks()))
            raise JobFailed("a task has failed, and others of its stage go on")

    started: list[subprocess.Popen[bytes]] = []
    with pytest.raises(JobFailed):
        fail()
    with started[0], pytest.raises(InvalidRequest, match="another job"):
        _use(tmp_path)
    _use(tmp_path)


def _use(directory: Path) -> None:
    with only_one_job(str(directory)):
        pass
