"""Messages as values."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from google.protobuf.message import Message

__all__ = ["from_message"]

T = TypeVar("T")


def from_message(kind: type[T], message: Message, **given: Any) -> T:
    """A value with the message's fields of the same names, but for those that are given.

    Repeated fields become tuples; one that is not set becomes None where that differs from its default.
    """
    known = message.DESCRIPTOR.fields_by_name
    values = dict(given)
    for field in fields(kind):  # type: ignore[arg-type]  # only dataclasses are passed
        if field.name in given:
            continue
        descriptor = known[field.name]
        value = getattr(message, field.name)
        if descriptor.is_repeated:
            value = tuple(value)
        elif descriptor.has_presence and not message.HasField(field.name):
            value = None
        values[field.name] = value
    return kind(**values)
