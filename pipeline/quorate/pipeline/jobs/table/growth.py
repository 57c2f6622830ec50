"""How many partitions the topic of a table has.

A table knows a key by its partition, in which its records are in order. When a topic gets more partitions,
keys go to others: a new value makes a second row, and a tombstone deletes nothing, for the row of before is
another partition's. Across partitions there is no order that would tell which row is the newer one, as
timestamps are the producers'. So a table is of a topic that does not grow, unless its owner says that keys do
not move.
"""

from __future__ import annotations

import json

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.config.table import GrownTopic
from quorate.pipeline.jobs.files import read_object, replace_file

__all__ = ["KnownPartitions"]


class KnownPartitions:
    """Noted beside the table, in a file of its own."""

    def __init__(self, path: str, topic: str, grown: GrownTopic) -> None:
        self._path = path
        self._file = f"{path}/_partitions.json"
        self._topic = topic
        self._grown = grown
        self._count = 0

    def open(self, count: int, *, is_empty: bool) -> None:
        """``count``: as the cluster says now. ``is_empty``: nothing is in the table that could move."""
        known = None if is_empty else read_object(self._file)
        # Nothing: the table is of a version that did not note it.
        self._count = count if known is None else int(known["partitions"])
        self._note(self._count)
        self.look_at(count)

    def look_at(self, count: int) -> None:
        """So many there are at least."""
        if count <= self._count:
            return
        if self._grown is GrownTopic.FAIL:
            raise InvalidRequest(
                f"topic {self._topic} had {self._count} partitions when {self._path} was begun, and has "
                f"{count}: keys go to other partitions now, so a new value, or a tombstone, would not find "
                f"the row of its key. Write the current values into a topic whose partitions stay, and begin "
                f"another table of that; or, if writers choose the partitions of keys themselves and keep to "
                f"it, go on with grown.topic=take",
                topic=self._topic,
                path=self._path,
            )
        self._note(count)

    def _note(self, count: int) -> None:
        replace_file(self._file, json.dumps({"partitions": count}).encode())
        self._count = count
