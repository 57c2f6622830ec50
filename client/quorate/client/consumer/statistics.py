"""What a consumer counts about itself."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ConsumerStatistics"]


@dataclass(slots=True)
class ConsumerStatistics:
    """Counts since the consumer was made, but for what says otherwise."""

    #: handed to the application
    records: int = 0
    #: answers to fetches, and the bytes of batches in them
    fetches: int = 0
    bytes_fetched: int = 0
    #: bytes that wait to be polled, now
    bytes_buffered: int = 0
    #: positions that a new leader was asked about
    validations: int = 0
    #: positions that retention had overtaken, and that were moved as ``out_of_range_reset`` says
    resets: int = 0
    #: of a group: changes of the assignment, partitions that came and went by them, requests that committed
    rebalances: int = 0
    partitions_assigned: int = 0
    partitions_revoked: int = 0
    partitions_lost: int = 0
    commits: int = 0
    #: answers about a partition that were errors, to fetches or about offsets; and streams that broke
    partition_errors: int = 0
    broker_errors: int = 0
