"""The addresses by which a client finds the cluster, as applications give them."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.client.arguments import has_utf8, shown
from quorate.core.config import parse_address
from quorate.errors import InvalidConfig

__all__ = ["parse_bootstrap"]


def parse_bootstrap(bootstrap: str | Sequence[str]) -> list[str]:
    """The addresses in ``HOST:PORT[,HOST:PORT…]``, or in a sequence of such."""
    addresses = [bootstrap] if isinstance(bootstrap, str) else bootstrap
    if not isinstance(addresses, Sequence) or not all(isinstance(each, str) for each in addresses):
        raise InvalidConfig(
            f"bootstrap is {shown(bootstrap)}; expected HOST:PORT[,HOST:PORT…], or a list of such",
            key="bootstrap",
        )
    text = ",".join(addresses)
    if not has_utf8(text):
        raise InvalidConfig(f"bootstrap is {shown(text)}: it has no UTF-8", key="bootstrap")
    try:
        return [str(parse_address(part.strip())) for part in text.split(",")]
    except ValueError as error:
        raise InvalidConfig(f"bootstrap: {error}; expected HOST:PORT[,HOST:PORT…]", key="bootstrap") from None
