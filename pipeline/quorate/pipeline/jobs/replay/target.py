"""The topic that a replay writes to: which one it is, where it begins and ends, and what it forgets.

After a kill a replay looks there for what it has written, so a topic that forgets on its own is no target:
what compaction took would be written again, behind what is newer.
"""

from __future__ import annotations

from typing import Final

from quorate.client import Admin
from quorate.client.listed_offsets import OffsetAt
from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.errors import RowsMissing
from quorate.pipeline.jobs.replay.notes import Chunk
from quorate.pipeline.jobs.replay.remainder import Gap

__all__ = ["Target"]

_POLICY: Final = "cleanup.policy"


class Target:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self.topic = topic

    def check_keeps_all(self) -> None:
        with Admin(self._bootstrap) as admin:
            policy = admin.describe_topic(self.topic).configs.get(_POLICY)
        if policy is not None and "compact" in policy.value:
            raise InvalidRequest(
                f"{self.topic} has {_POLICY}={policy.value}: after a kill a replay looks there for what it "
                f"has written, and compaction may have taken it. Set {_POLICY}=delete for the time of the "
                f"replay, and compact afterwards",
                topic=self.topic,
            )

    def ends(self) -> dict[str, int]:
        """By partition, exclusive; those of which it is known."""
        return self._offsets("latest")

    def check_holds(self, chunk: Chunk, *, is_placed: bool) -> None:
        """All that was written since the chunk was begun, so far as the beginnings of its partitions tell."""
        begins = self._offsets("earliest")
        for partition, end_before in chunk.target_ends.items():
            may_be_written = not is_placed or partition in chunk.spans
            if may_be_written and begins.get(partition, 0) > end_before:
                raise RowsMissing(
                    f"{self.topic}-{partition} begins at offset {begins[partition]}, and the chunk that was "
                    f"being written when the last run ended was begun at {end_before}: retention has deleted "
                    f"what would tell how much of it is written. {self._what_to_do}",
                    topic=self.topic,
                    partition=int(partition),
                    offset=end_before,
                )

    def check_gap(self, gap: Gap | None) -> None:
        if gap is not None:
            raise RowsMissing(
                f"of the chunk that was being written when the last run ended, {self.topic} has what was at "
                f"offset {gap.last_found} of partition {gap.partition}, and lacks what was at "
                f"{gap.first_missing} before it: it has lost records since, so nobody can say what is still "
                f"to be written. {self._what_to_do}",
                topic=self.topic,
                partition=gap.partition,
                offset=gap.first_missing,
            )

    @property
    def _what_to_do(self) -> str:
        return "Replay into another topic that keeps its records, with another checkpoint.dir"

    def _offsets(self, at: OffsetAt) -> dict[str, int]:
        with Admin(self._bootstrap) as admin:
            found = admin.list_offsets(self.topic, at)
        return {
            str(place.partition): listed.offset
            for place, listed in found.items()
            if listed.offset is not None
        }
