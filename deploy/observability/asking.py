"""Asks a Prometheus by its HTTP interface."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
import urllib.request
from typing import Any, Final

__all__ = ["Prometheus"]

#: what a dashboard leaves to Grafana
_CHOSEN: Final = {
    **dict.fromkeys(("$cluster", "$topic", "$group", "$instance"), ".*"),
    "$__rate_interval": "1m",
}


class Prometheus:
    def __init__(self, address: str) -> None:
        self._address = address

    async def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"

        def ask() -> Any:
            with urllib.request.urlopen(url, timeout=30) as response:
                return json.load(response)["data"]

        return await asyncio.to_thread(ask)

    async def query(self, expression: str) -> list[Any]:
        for variable, value in _CHOSEN.items():
            expression = expression.replace(variable, value)
        found = await self.ask("query", query=expression)
        result: list[Any] = found["result"]
        return result

    async def version(self) -> str:
        return str((await self.ask("status/buildinfo"))["version"])

    async def targets(self) -> dict[str, str]:
        """Their health by their addresses, as the configuration names them: up, down, or unknown yet."""
        active = (await self.ask("targets", state="active"))["activeTargets"]
        return {each["discoveredLabels"]["__address__"]: each["health"] for each in active}

    async def alerts(self) -> dict[str, str]:
        """By name: pending or firing."""
        return {each["labels"]["alertname"]: each["state"] for each in (await self.ask("alerts"))["alerts"]}

    async def rules(self) -> dict[str, str]:
        """Their health by their names: ok, err, or unknown as long as they were not evaluated."""
        groups = (await self.ask("rules"))["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    async def broken_rules(self) -> list[str]:
        groups = (await self.ask("rules"))["groups"]
        return [
            f"{rule['name']}: {rule.get('lastError')}"
            for group in groups
            for rule in group["rules"]
            if rule["health"] == "err"
        ]
