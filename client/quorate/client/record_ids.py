"""The one name of a record: no other ever has it, in any topic that is made anew or otherwise (rule 43)."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RecordId"]


class RecordId(NamedTuple):
    """A record, as one group reads it."""

    #: empty: read without a group
    group: str
    #: and not the topic's name: a topic that is made anew has other records at the same offsets
    topic_id: str
    partition: int
    offset: int
