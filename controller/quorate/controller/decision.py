"""What a decision consists of: records to commit, and the answer to give once they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from quorate.v1.metadata_pb2 import MetadataRecord

__all__ = ["ControllerEvent", "Decision"]

Response_co = TypeVar("Response_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ControllerEvent:
    """Something that people should see in the log once it is committed."""

    name: str
    fields: Mapping[str, object] = field(default_factory=dict)
    #: acknowledged records may be gone, or a guard was switched off
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision(Generic[Response_co]):
    """``records`` are committed together or not at all; ``response`` leaves after that.

    Where it is not complete, more has to be changed than one batch may hold: decide again, on the image with
    these records, and throw this response away.
    """

    records: tuple[MetadataRecord, ...]
    response: Response_co
    events: tuple[ControllerEvent, ...] = ()
    is_complete: bool = True
