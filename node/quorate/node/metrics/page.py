"""The page of all metrics: written when somebody asks for it, and shared by all who ask at about that time.

Writing one takes time from the node's other work. So there is at most one under way for each format, and one
a second, however many collectors there are and however fast they ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from quorate.core.metrics import MetricSource
from quorate.node.metrics.exposition import Format, write_page

__all__ = ["MetricsPage"]

_KEPT_S: Final = 1.0


class MetricsPage:
    def __init__(self, sources: Callable[[], Sequence[MetricSource]]) -> None:
        """``sources``: those that there are at the moment."""
        self._sources = sources
        self._pages: dict[Format, asyncio.Task[bytes]] = {}

    async def get(self, form: Format) -> bytes:
        page = self._pages.get(form)
        if page is None:
            page = self._pages[form] = asyncio.create_task(self._write(form), name="metrics-page")
        # Shared: one who goes away must not take it from the others.
        return await asyncio.shield(page)

    async def close(self) -> None:
        pages = list(self._pages.values())
        for page in pages:
            page.cancel()
        if pages:
            await asyncio.wait(pages)

    async def _write(self, form: Format) -> bytes:
        began = asyncio.get_running_loop().time()
        try:
            sources = self._sources()
            async with asyncio.TaskGroup() as tasks:
                for source in sources:
                    tasks.create_task(source.look(), name="metrics-look")
            return await write_page(sources, form)
        finally:
            loop = asyncio.get_running_loop()
            loop.call_at(began + _KEPT_S, self._pages.pop, form, None)
