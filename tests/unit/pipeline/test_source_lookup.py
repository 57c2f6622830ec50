"""Where a bound lies in partitions that are written to while it is looked for."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from quorate.client.listed_offsets import OffsetAt
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.pipeline.source.lookup import Lookup, Partitions
from quorate.pipeline.source.read_options import Bound

_T0 = TopicPartition(TopicName("t"), PartitionId(0))


class _LookupWhileWriting(Lookup):
    """Behind each answer a record is written, and all of these are late enough."""

    def __init__(self) -> None:
        self.timestamps_ms = [1000, 1001]

    def offsets(self, partitions: Partitions, at: OffsetAt) -> dict[TopicPartition, int | None]:
        found: int | None = 0
        if at == "latest":
            found = len(self.timestamps_ms)
        elif isinstance(at, int):
            found = next((n for n, each in enumerate(self.timestamps_ms) if each >= at), None)
        if partitions:
            self.timestamps_ms.append(2000)
        return dict.fromkeys(partitions, found)


def test_start_by_time_skips_nothing_that_is_written_while_it_is_looked_for() -> None:
    lookup = _LookupWhileWriting()
    bound = Bound("startingTimestamp", "latest", timestamp_ms=2000)
    found = lookup.resolve({_T0: "id"}, bound, late_timestamp="latest", fail_on_data_loss=True)
    first = lookup.timestamps_ms.index(2000)
    assert found[_T0] <= first
