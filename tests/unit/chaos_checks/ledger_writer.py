"""A process that writes a ledger until it is killed, and tells what it has done once it is on record."""

from __future__ import annotations

import asyncio
import sys

from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_file import LedgerFile
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition

PARTITION = TopicPartition(TopicName("t"), PartitionId(0))


async def write_for_ever(path: str) -> None:
    history = History(recorder=LedgerFile.create(path))
    offset = 0
    while True:
        burst = [history.begin("writer", PARTITION, value_bytes=100) for _ in range(10)]
        history.flush()
        # From here on the records may be anywhere.
        for sent in burst:
            sys.stdout.write(f"send {sent.number}\n")
        for sent in burst:
            history.acknowledge(sent, Offset(offset))
            offset += 1
        # The end of the loop's turn.
        await asyncio.sleep(0)
        for sent in burst:
            sys.stdout.write(f"acknowledged {sent.number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(write_for_ever(sys.argv[1]))
