"""Patterns for names of topics: RE2's, whose time to match is bounded whatever the pattern is."""

from __future__ import annotations

import re
from typing import Any

import re2

from quorate.pipeline.source.options import refusal

__all__ = ["compiled"]


def compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern)
    except (re2.error, re.error) as error:
        raise refusal("subscribePattern", f"{pattern!r} is no pattern in RE2's syntax: {error}") from None
