"""What Spark calls a batch."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Batch"]


class Batch(NamedTuple):
    """The same again when it is done again after a kill, with the same records."""

    #: of the checkpoint: another one after it was lost
    query_id: str
    number: int
