"""What clients asked of the metadata, what they were told, and the proof that the metadata agrees.

Every topic is made by one client under a name that nobody else uses, and one setting of it serves as a
register: its client writes 1, 2, 3, … into it, one after the other, and anybody reads it. A client whose
write had an unknown outcome leaves the topic alone from then on, for such a write may take effect at any
later time. So the history of each topic is simple enough to be judged without a search:

- a write that was acknowledged is seen by every read that begins later, through whichever voter;
- what one read has seen, later reads see too;
- what nobody has written, or what was refused, is never seen.

That is linearizability of a register with one writer. Blocks of producer ids are the third kind of change:
no two that were given away overlap, and the metadata has moved past all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.core.ids import TopicName
from quorate.metadata.image import MetadataImage

__all__ = ["REGISTER", "MetadataLedger", "TopicEntry", "register_value"]

#: the setting that is used as a register; any value is as good as another
REGISTER: Final = "retention.ms"


@dataclass(slots=True)
class TopicEntry:
    """One topic, as far as its clients can know."""

    name: str
    #: empty: nobody was told yet
    topic_id: str = ""
    #: its creation was acknowledged, or somebody has seen it
    must_exist: bool = False
    #: its creation was refused: it must never be seen
    is_refused: bool = False
    #: the highest that was tried
    written: int = 0
    #: the highest that was acknowledged, or read: no later read may see less
    least: int = 0
    #: values that were refused
    refused: set[int] = field(default_factory=set)
    #: nothing about it is unknown: its client goes on writing
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class _Block:
    first: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.count


class MetadataLedger:
    def __init__(self) -> None:
        self.topics: dict[str, TopicEntry] = {}
        self._blocks: list[_Block] = []
        self._blocks_unknown = 0
        #: changes that were acknowledged
        self.acknowledged = 0
        #: changes of which nobody knows what became of them
        self.unknown = 0
        #: changes that were refused before anything was done
        self.refused = 0
        #: reads that were answered
        self.reads = 0
        self.findings: list[str] = []

    # --- what clients did -----------------------------------------------------------------------------

    def creating(self, name: str) -> TopicEntry:
        entry = self.topics[name] = TopicEntry(name)
        return entry

    def created(self, entry: TopicEntry, topic_id: str) -> None:
        self.acknowledged += 1
        entry.topic_id, entry.must_exist, entry.is_open = topic_id, True, True

    def creation_refused(self, entry: TopicEntry) -> None:
        self.refused += 1
        entry.is_refused = True

    def writing(self, entry: TopicEntry) -> int:
        """The value to write; to be followed by one of those below."""
        assert entry.is_open
        entry.written += 1
        return entry.written

    def wrote(self, entry: TopicEntry, value: int) -> None:
        self.acknowledged += 1
        entry.least = max(entry.least, value)

    def write_refused(self, entry: TopicEntry, value: int) -> None:
        self.refused += 1
        entry.refused.add(value)

    def outcome_unknown(self, entry: TopicEntry) -> None:
        self.unknown += 1
        entry.is_open = False

    def got_block(self, first: int, count: int) -> None:
        self.acknowledged += 1
        self._blocks.append(_Block(first, count))

    def block_unknown(self) -> None:
        self.unknown += 1
        self._blocks_unknown += 1

    def block_refused(self) -> None:
        self.refused += 1

    def read(self, entry: TopicEntry, value: int | None, *, least_before: int | None, where: str) -> None:
        """``value`` None: no such topic.

        ``least_before``: what had to be seen when the read began; None: perhaps not even the topic.
        """
        self.reads += 1
        self._check_value(entry, value, least=least_before, where=f"a read through {where}")
        if value is not None:
            entry.must_exist = True
            entry.least = max(entry.least, value)

    # --- what the metadata says -----------------------------------------------------------------------

    def compare(self, image: MetadataImage, where: str) -> None:
        """At the end, when nobody writes any more; for the image of each voter."""
        for name, entry in self.topics.items():
            topic = image.topic_named(TopicName(name))
            value = None if topic is None else register_value(topic.configs)
            self._check_value(entry, value, least=entry.least if entry.must_exist else None, where=where)
            if topic is not None and entry.topic_id not in ("", topic.topic_id):
                self.findings.append(f"{where}: {name} is {topic.topic_id}, created was {entry.topic_id}")
        for name in sorted(image.topic_ids):
            if name not in self.topics:
                self.findings.append(f"{where}: invented: nobody has created {name}")
        self._compare_blocks(image.next_producer_id, where)

    def _check_value(self, entry: TopicEntry, value: int | None, *, least: int | None, where: str) -> None:
        if value is None:
            if least is not None:
                self.findings.append(f"{where}: lost: {entry.name} is not there, and must be")
        elif entry.is_refused:
            self.findings.append(f"{where}: invented: {entry.name} is there, and its creation was refused")
        elif least is not None and value < least:
            self.findings.append(
                f"{where}: lost: {entry.name} has {value}, and {least} was acknowledged or seen"
            )
        elif value > entry.written or value in entry.refused:
            self.findings.append(f"{where}: invented: {entry.name} has {value}, which was never accepted")

    def _compare_blocks(self, next_producer_id: int, where: str) -> None:
        blocks = sorted(self._blocks, key=lambda block: block.first)
        for before, after in itertools.pairwise(blocks):
            if after.first < before.end:
                self.findings.append(f"{where}: producer ids from {after.first} on were given away twice")
        if blocks and next_producer_id < blocks[-1].end:
            self.findings.append(f"{where}: lost: producer ids up to {blocks[-1].end} were given away")
        given = sum(block.count for block in blocks)
        most = given + self._blocks_unknown * max((block.count for block in blocks), default=0)
        if blocks and not given <= next_producer_id <= most:
            self.findings.append(
                f"{where}: {next_producer_id} producer ids gone, {given} to {most} asked for"
            )


def register_value(configs: Mapping[str, str]) -> int:
    """0: never written."""
    return int(configs.get(REGISTER, "0"))
