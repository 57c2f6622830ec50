"""Cuts two pods apart, by commands of whoever knows the network of the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deploy.k8s.test.kubernetes import Pod
from deploy.test.commands import CannotTest, run

__all__ = ["Scissors"]


class Scissors:
    """``{a}`` and ``{b}`` in a command are the addresses of the two pods; each is run for both orders."""

    def __init__(self, cut: str, heal: str) -> None:
        for command in (cut, heal):
            if "{a}" not in command or "{b}" not in command:
                raise CannotTest(f"--cut and --heal name both pods, by {{a}} and {{b}}: {command}")
        self._cut = cut
        self._heal = heal

    @asynccontextmanager
    async def apart(self, one: Pod, other: Pod) -> AsyncIterator[None]:
        try:
            await self._both_ways(self._cut, one, other)
            yield
        finally:
            await self._both_ways(self._heal, one, other)

    async def _both_ways(self, command: str, one: Pod, other: Pod) -> None:
        for first, second in ((one, other), (other, one)):
            await run("sh", "-c", command.replace("{a}", first.ip).replace("{b}", second.ip))
