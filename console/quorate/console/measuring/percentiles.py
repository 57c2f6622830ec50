"""How long something took, of many times that it was done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Percentiles", "percentiles_of"]


class Percentiles(NamedTuple):
    """In milliseconds."""

    p50: float
    p95: float
    p99: float
    p999: float
    max: float

    def document(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in self._asdict().items()}

    def text(self) -> str:
        return "  ".join(
            f"{name} {value:.2f} ms"
            for name, value in zip(("p50", "p95", "p99", "p99.9", "max"), self, strict=True)
        )


def percentiles_of(samples_ms: Sequence[float]) -> Percentiles:
    """Of at least one. Each is a sample, the nearest above: nothing is made up between two."""
    ordered = sorted(samples_ms)
    last = len(ordered) - 1
    p50, p95, p99, p999 = (
        ordered[min(last, int(len(ordered) * share))] for share in (0.50, 0.95, 0.99, 0.999)
    )
    return Percentiles(p50, p95, p99, p999, ordered[last])
