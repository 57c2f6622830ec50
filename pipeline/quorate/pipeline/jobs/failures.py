"""What went wrong, without the two tracebacks of two languages that Spark makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quorate.pipeline.jobs.errors import JobFailed
from quorate.pipeline.jobs.jvm import has_jvm_ended

__all__ = ["failing_as_job"]

#: the last line of a Python traceback, or the first of Java's: an exception and its message
_EXCEPTION: Final = re.compile(r"^(?:: )?(?:[a-z_]\w*\.)+([A-Z]\w*): (.+)$", re.MULTILINE)
#: what is said of a JVM that is on its way out, or gone
_STOPPED: Final = re.compile(
    "SparkContext (?:was |has been )?(?:stopped|shut ?down)|stopped SparkContext|Py4JNetworkError|"
    "while sending or receiving|Connection refused"
)
_CHARACTERS_MAX: Final = 2000


@contextmanager
def failing_as_job() -> Iterator[None]:
    """Whatever Spark says inside is told as ``JobFailed``, and what the system says of files."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        reason = _reason(str(error))
        if _STOPPED.search(reason) and has_jvm_ended():
            raise JobFailed(
                f"Spark's JVM has ended before the job ({reason}). If the job was asked to stop, the "
                f"JVM was told to end as well: send SIGTERM to the job alone"
            ) from error
        raise JobFailed(f"the job failed: {reason}") from error
    except OSError as error:
        if error.filename is None:
            raise
        raise JobFailed(f"the job failed: {error.filename}: {error.strerror}") from error


def _reason(text: str) -> str:
    """The innermost one that can be told in a line."""
    found = [match for match in _EXCEPTION.finditer(text) if not match[1].startswith("Py4J")]
    if found:
        return f"{found[-1][1]}: {found[-1][2]}"[:_CHARACTERS_MAX]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    return " ".join(lines[:2])[:_CHARACTERS_MAX]
