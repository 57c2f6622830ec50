"""The columns of a topic as a table: those of Spark's Kafka source, in its order."""

from __future__ import annotations

from typing import Final

__all__ = ["COLUMNS"]

#: name and type, in the language of Spark's schemas; the last one only if it is asked for
COLUMNS: Final = (
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
    ("headers", "array<struct<key:string,value:binary>>"),
)
