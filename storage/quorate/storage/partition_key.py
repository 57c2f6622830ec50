"""The name of a partition's directory, and what it says."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from quorate.core.ids import PartitionId, TopicId, TopicName
from quorate.core.limits import TOPIC_NAME_CHARACTERS_MAX

__all__ = ["PartitionKey"]

_NAME: Final = re.compile(
    rf"(?P<topic>[A-Za-z0-9._-]{{1,{TOPIC_NAME_CHARACTERS_MAX}}})-(?P<partition>\d+)\.(?P<id>[\w-]{{22}})"
)


class PartitionKey(NamedTuple):
    """A recreated topic has another id, and so another log (rule 43)."""

    topic: TopicName
    partition: PartitionId
    topic_id: TopicId

    @property
    def directory_name(self) -> str:
        return f"{self.topic}-{self.partition}.{self.topic_id}"

    @classmethod
    def parse(cls, directory_name: str) -> PartitionKey | None:
        match = _NAME.fullmatch(directory_name)
        if match is None:
            return None
        return cls(TopicName(match["topic"]), PartitionId(int(match["partition"])), TopicId(match["id"]))
