"""Records as the command line shows them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any, Final

from quorate.core.records import ConsumerRecord, Record

__all__ = ["key_document", "record_document", "timestamp_text"]

_NO_TIMESTAMP: Final = -1


def record_document(record: Record | ConsumerRecord) -> dict[str, Any]:
    """Stable keys. Bytes that are UTF-8 stand as text, others as base64; the encoding says which."""
    value, value_encoding = _text(record.value)
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        **key_document(record.key),
        "value": value,
        "value_encoding": value_encoding,
        "headers": [_header_document(name, content) for name, content in record.headers],
    }


def key_document(key: bytes | None) -> dict[str, str | None]:
    """A key alone, as in the document of its record."""
    text, encoding = _text(key)
    return {"key": text, "key_encoding": encoding}


def _header_document(name: str, content: bytes | None) -> dict[str, str | None]:
    value, encoding = _text(content)
    return {"key": name, "value": value, "value_encoding": encoding}


def _text(content: bytes | None) -> tuple[str | None, str | None]:
    if content is None:
        return None, None
    try:
        return content.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(content).decode(), "base64"


def timestamp_text(timestamp_ms: int) -> str:
    """UTC, to the millisecond; the bare number where no calendar reaches."""
    if timestamp_ms == _NO_TIMESTAMP:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
