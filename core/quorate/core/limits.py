"""Limits that several packages keep, each stated once."""

from __future__ import annotations

from typing import Final

__all__ = [
    "DELIVERY_TIMEOUT_MS_MAX",
    "GROUP_NAME_CHARACTERS_MAX",
    "LEASE_SHARE_OF_SESSION_MAX",
    "PARTITIONS_PER_TOPIC_MAX",
    "PRODUCER_REMEMBERED_MS_MIN",
    "REPLICATION_FACTOR_MAX",
    "TOPIC_NAME_CHARACTERS_MAX",
]

#: A partition's directory is named <topic>-<partition>.<topic id>, and file systems stop at 255 bytes.
TOPIC_NAME_CHARACTERS_MAX: Final = 220

#: Of groups, and of all that a member calls itself: its id, instance, rack, client and host. They are kept in
#: memory and in every record about it.
GROUP_NAME_CHARACTERS_MAX: Final = 255

#: Each is a directory with files of its own; more in one request is a typing mistake.
PARTITIONS_PER_TOPIC_MAX: Final = 10_000

#: Each follower takes a copy of everything from the leader; nobody needs more copies than that.
REPLICATION_FACTOR_MAX: Final = 32

#: A broker's lease ends this much before its session can. A controller that was deposed may renew leases
#: until it notices, while the next one already counts; and two clocks need not go equally fast (rule 37).
LEASE_SHARE_OF_SESSION_MAX: Final = 2 / 3

#: For so long a producer may send a batch again. A broker that has forgotten it by then takes the first batch
#: of its row for a new one, and writes it twice.
DELIVERY_TIMEOUT_MS_MAX: Final = 30 * 60 * 1000

#: Twice that: what a producer gave up last may still be on its way.
PRODUCER_REMEMBERED_MS_MIN: Final = 2 * DELIVERY_TIMEOUT_MS_MAX
