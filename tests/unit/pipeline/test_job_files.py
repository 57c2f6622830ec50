"""Directories that jobs are given: what cannot be one is told as such, before anything is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.failures import JobFailed, failing_as_job
from quorate.pipeline.jobs.files import only_one_job


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


def test_what_the_system_says_of_a_file_is_no_bug_of_ours(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    with pytest.raises(JobFailed, match="gone: No such file or directory"), failing_as_job():
        (tmp_path / "gone").read_bytes()
    # That is about no file: a connection, or whoever reads what is told.
    with pytest.raises(BrokenPipeError), failing_as_job():
        raise BrokenPipeError
