"""The client side: Producer, Consumer and Admin, for threads and for asyncio.

    from quorate.client import Producer, Consumer, Admin, TopicPartition

Names are imported when they are first used: whoever needs one client does not wait for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quorate.client.admin import Admin, AsyncAdmin
    from quorate.client.consumer import AsyncConsumer, Consumer, ConsumerStatistics
    from quorate.client.groups.membership import Membership
    from quorate.client.groups.offsets import OffsetAndMetadata
    from quorate.client.producer import (
        AsyncProducer,
        Delivery,
        Producer,
        ProducerStatistics,
        RecordFuture,
        RecordMetadata,
    )
    from quorate.client.record_ids import RecordId
    from quorate.core.ids import TopicPartition
    from quorate.core.records import ConsumerRecord

    Record = ConsumerRecord

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "ConsumerRecord",
    "ConsumerStatistics",
    "Delivery",
    "Membership",
    "OffsetAndMetadata",
    "Producer",
    "ProducerStatistics",
    "Record",
    "RecordFuture",
    "RecordId",
    "RecordMetadata",
    "TopicPartition",
]

_HOMES: Final = {
    "quorate.client.admin": ("Admin", "AsyncAdmin"),
    "quorate.client.consumer": ("AsyncConsumer", "Consumer", "ConsumerStatistics"),
    "quorate.client.groups.membership": ("Membership",),
    "quorate.client.groups.offsets": ("OffsetAndMetadata",),
    "quorate.client.producer": (
        "AsyncProducer",
        "Delivery",
        "Producer",
        "ProducerStatistics",
        "RecordFuture",
        "RecordMetadata",
    ),
    "quorate.client.record_ids": ("RecordId",),
    "quorate.core.ids": ("TopicPartition",),
    "quorate.core.records": ("ConsumerRecord",),
}
_MODULES: Final = {name: module for module, names in _HOMES.items() for name in names}
#: by another name elsewhere: there ``Record`` is what a batch holds, before it is known where it is from
_ALIASES: Final = {"Record": "ConsumerRecord"}


def __getattr__(name: str) -> object:
    name_there = _ALIASES.get(name, name)
    module = _MODULES.get(name_there)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name_there)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
