"""Everything that can be told beside others, in a random order."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.chaos.drills.drill import Drill
from quorate.chaos.drills.story import Layout, Story, story

__all__ = ["everything_of"]


def everything_of(stories: Sequence[Story]) -> Story:
    """``stories``: all; those that do not fit the cluster or the agent are left out."""
    mixed = [each for each in stories if each.is_in_the_mix]

    @story(
        "everything",
        shows=f"a random mix of {len(mixed)} faults with quiet periods between them",
        uses={ability for each in mixed for ability in each.needs},
        # Some of them do to a broker what a controller must not suffer.
        layout=Layout(is_combined=False),
    )
    async def everything(drill: Drill) -> None:
        possible = [each for each in mixed if each.misfit(drill.agent) is None]
        # All of them before any comes again, so that a run of a few minutes has seen most.
        names = [each.name for each in possible]
        name = drill.choices.next_of("kinds of faults", names)
        chosen = next(each for each in possible if each.name == name)
        drill.signs.update(chosen.signs)
        await chosen.strike(drill)

    return everything
