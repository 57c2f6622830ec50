"""Whether the driver finds what the tasks have written: they may be on machines with another directory."""

from __future__ import annotations

from quorate.pipeline.jobs.errors import RowsMissing

__all__ = ["check_seen"]


def check_seen(*, written: int, found: int) -> None:
    """Before anything of it is committed: Spark would not ask for the rest again."""
    if written != found:
        raise RowsMissing(
            f"the tasks have written {written:,} rows, and the driver finds {found:,} in its path: every "
            f"worker has to see the same directory there as the driver does. Nothing of the batch is "
            f"committed; mount it everywhere, and start the job again",
            rows_written=written,
            rows_found=found,
        )
