"""Producers whose batches are deleted are remembered, whatever happens on the way (rule 49)."""

from __future__ import annotations

import pytest

from quorate.chaos.models.log import deleted_producers_story


@pytest.mark.parametrize("story", deleted_producers_story.__all__)
async def test_producers_of_deleted_batches_are_remembered(story: str) -> None:
    await getattr(deleted_producers_story, story)()
