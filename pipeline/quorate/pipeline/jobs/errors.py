"""What jobs end with, on top of `quorate.errors`."""

from __future__ import annotations

from quorate.core.error_base import QuorateError

__all__ = ["JobFailed", "RowsMissing"]


class JobFailed(QuorateError):
    """A job on Spark ended before its time.

    What it had committed stays; started again, it goes on from there.
    """

    code = "JOB_FAILED"


class RowsMissing(JobFailed):
    """What is there is not what was to be there. Nothing of it counts as done."""

    code = "ROWS_MISSING"
