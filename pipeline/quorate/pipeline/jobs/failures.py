"""What went wrong, without the two tracebacks of two languages that Spark makes of it."""

from __future__ import annotations

import re
from typing import Final

from quorate.core.error_base import QuorateError

__all__ = ["JobFailed", "job_failure"]

#: the last line of a Python traceback: an exception and its message
_EXCEPTION: Final = re.compile(r"^(?:[a-z_]\w*\.)+([A-Z]\w*): (.+)$", re.MULTILINE)
_CHARACTERS_MAX: Final = 2000


class JobFailed(QuorateError):
    """A job on Spark ended before its time.

    What it had committed stays; started again, it goes on from there.
    """

    code = "JOB_FAILED"


def job_failure(error: Exception) -> JobFailed:
    """The innermost reason that can be told in a line."""
    text = str(error)
    found = [match for match in _EXCEPTION.finditer(text) if not match[1].startswith("Py4J")]
    reason = f"{found[-1][1]}: {found[-1][2]}" if found else text.strip().split("\n")[0]
    return JobFailed(f"the job failed: {reason[:_CHARACTERS_MAX]}")
