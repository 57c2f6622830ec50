"""What went wrong, without the two tracebacks of two languages that Spark makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quorate.core.error_base import QuorateError

__all__ = ["JobFailed", "RowsMissing", "failing_as_job"]

#: the last line of a Python traceback: an exception and its message
_EXCEPTION: Final = re.compile(r"^(?:[a-z_]\w*\.)+([A-Z]\w*): (.+)$", re.MULTILINE)
_CHARACTERS_MAX: Final = 2000


class JobFailed(QuorateError):
    """A job on Spark ended before its time.

    What it had committed stays; started again, it goes on from there.
    """

    code = "JOB_FAILED"


class RowsMissing(JobFailed):
    """What is there is not what was to be there. Nothing of it counts as done."""

    code = "ROWS_MISSING"


@contextmanager
def failing_as_job() -> Iterator[None]:
    """Whatever Spark says inside is told as ``JobFailed``."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise JobFailed(f"the job failed: {_reason(str(error))}") from error


def _reason(text: str) -> str:
    """The innermost one that can be told in a line."""
    found = [match for match in _EXCEPTION.finditer(text) if not match[1].startswith("Py4J")]
    if found:
        return f"{found[-1][1]}: {found[-1][2]}"[:_CHARACTERS_MAX]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    return " ".join(lines[:2])[:_CHARACTERS_MAX]
