"""Quantities as people write them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from quorate.console.planning.quantities import (
    Rate,
    parse_bytes,
    parse_count,
    parse_duration_s,
    parse_factor,
    parse_rate,
    parse_share,
    show_bytes,
    show_count,
    show_duration,
    show_quotient,
)


@pytest.mark.parametrize(
    ("text", "per_second", "is_bytes"),
    [
        ("1M/s", 10**6, False),
        ("1,000,000 msg/s", 10**6, False),
        ("1.5k records/sec", 1500, False),
        ("86400/day", 1, False),
        ("120 per minute", 2, False),
        ("10MB/s", 10**7, True),
        ("1 GiB/s", 1 << 30, True),
        ("10Gbit/s", 1_250_000_000, True),
        ("10Gbps", 1_250_000_000, True),
        ("86.4 TB/d", 10**9, True),
    ],
)
def test_rates(text: str, per_second: int, is_bytes: bool) -> None:
    assert parse_rate(text) == Rate(Fraction(per_second), is_bytes)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bytes, "1KB", 1000),
        (parse_bytes, "1kb", 1000),
        (parse_bytes, "1KiB", 1024),
        (parse_bytes, "500B", 500),
        (parse_bytes, "500", 500),
        (parse_bytes, "20 TB", 20 * 10**12),
        (parse_duration_s, "7d", 604_800),
        (parse_duration_s, "7 days", 604_800),
        (parse_duration_s, "1.5h", 5400),
        (parse_count, "500M", 5 * 10**8),
        (parse_count, "1.2B", 12 * 10**8),
        (parse_factor, "2x", 2),
        (parse_factor, "1.5", Fraction(3, 2)),
        (parse_share, "20%", Fraction(1, 5)),
        (parse_share, "0.2", Fraction(1, 5)),
        (parse_share, "0%", 0),
    ],
)
def test_other_quantities(parse: Callable[[str], Any], text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "told"),
    [
        (parse_rate, "1M", "has no time in it"),
        (parse_rate, "1M/fortnight", "no unit of time"),
        (parse_rate, "10Gb/s", "bits or bytes"),
        (parse_rate, "10 furlongs/s", "no unit here"),
        (parse_rate, "-1/s", "is no number with a unit"),
        (parse_rate, "0/s", "is zero"),
        (parse_bytes, "1QB", "no unit here"),
        (parse_bytes, "nan", "is no number with a unit"),
        (parse_bytes, "9" * 40, "is no number with a unit"),
        (parse_duration_s, "7", "has no unit"),
        (parse_factor, "0.5x", "less than 1"),
        (parse_share, "100%", "leaves nothing"),
        (parse_share, "1", "leaves nothing"),
        (parse_share, "20", "has no unit: write 20%, or 0.2"),
        (parse_share, "1.5", "has no unit: write 1.5%, or 0.015"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_could(
    parse: Callable[[str], Any], text: str, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        parse(text)


def test_figures_are_shown_in_the_unit_that_keeps_them_short() -> None:
    assert show_bytes(Fraction(6048 * 10**11)) == "604.8 TB"
    assert show_bytes(Fraction(18144 * 10**11)) == "1.814 PB"
    assert show_bytes(Fraction(999_960)) == "1 MB"
    assert show_bytes(Fraction(0)) == "0 B"
    assert show_count(Fraction(10**10, 86_400)) == "115.7 k"
    assert show_duration(Fraction(604_800)) == "7 d"
    assert show_duration(Fraction(90)) == "90 s"
    assert show_quotient(Fraction(9072, 100)) == "90.72"
    assert show_quotient(Fraction(115_741, 100)) == "1,157.41"
