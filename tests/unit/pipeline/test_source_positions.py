"""Where a stream is, as it stands in checkpoints."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.pipeline.source.errors import TopicRecreated
from quorate.pipeline.source.positions import Positions

PLACES = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 12)), st.integers(0, 10**12), min_size=1, max_size=20
)


def positions_of(places: dict[tuple[str, int], int]) -> Positions:
    offsets = {TopicPartition(TopicName(t), PartitionId(p)): offset for (t, p), offset in places.items()}
    return Positions(offsets, {topic: f"id-{topic}" for topic, _ in places})


@given(PLACES, st.randoms())
def test_equal_positions_are_equal_text_in_whatever_order_they_came(
    places: dict[tuple[str, int], int], rng: object
) -> None:
    shuffled = list(places.items())
    rng.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random of hypothesis
    text = json.dumps(positions_of(places).to_json())
    assert json.dumps(positions_of(dict(shuffled)).to_json()) == text
    assert json.dumps(Positions.from_json(json.loads(text)).to_json()) == text


def test_a_topic_of_the_same_name_with_another_id_is_refused() -> None:
    before = positions_of({("a", 0): 5})
    with pytest.raises(TopicRecreated, match=r"topic a was deleted and made anew.*checkpointLocation"):
        before.check_ids({"a": "id-other"})


def test_a_topic_that_is_gone_or_new_is_no_recreated_one() -> None:
    positions_of({("a", 0): 5}).check_ids({"b": "id-b"})
