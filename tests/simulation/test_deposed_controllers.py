"""What a controller says after another was elected, and before it knows (rule 39)."""

from __future__ import annotations

from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.deposed_controller_story import a_deposed_controller_answers_no_read


def test_a_read_is_not_answered_on_acknowledgements_that_come_late() -> None:
    cluster_story(a_deposed_controller_answers_no_read).play()
