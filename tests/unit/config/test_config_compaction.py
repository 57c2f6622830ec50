"""The settings of compaction."""

from __future__ import annotations

import pytest

from quorate.core.config import CleanupPolicy, TopicConfig, load_node_config
from quorate.core.config.kinds import Ratio
from quorate.errors import InvalidConfig

COMPACT, DELETE = CleanupPolicy


@pytest.mark.parametrize(
    ("text", "policies", "rendered"),
    [
        ("delete", (DELETE,), "delete"),
        ("compact", (COMPACT,), "compact"),
        ("compact,delete", (COMPACT, DELETE), "compact,delete"),
        ("delete, compact", (COMPACT, DELETE), "compact,delete"),
    ],
)
def test_policies_are_kafkas(text: str, policies: tuple[CleanupPolicy, ...], rendered: str) -> None:
    config = TopicConfig().with_overrides({"cleanup.policy": text})
    assert config.cleanup_policy == policies
    assert config.is_compacted == (COMPACT in policies)
    assert config.rendered()["cleanup.policy"] == rendered


@pytest.mark.parametrize("text", ["", "none", "compact,compact", "compact,"])
def test_other_policies_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy"):
        TopicConfig().with_overrides({"cleanup.policy": text})


def test_nodes_have_defaults_for_all_of_it_under_kafkas_names() -> None:
    node = {
        "log.cleanup.policy": "compact",
        "log.cleaner.delete.retention.ms": "2h",
        "log.cleaner.min.cleanable.ratio": "0.25",
        "log.cleaner.min.compaction.lag.ms": "5s",
    }
    config = load_node_config(
        None, set_options=["node.id=1", "data.dir=/x", *(f"{key}={value}" for key, value in node.items())]
    ).topic_defaults
    assert config.is_compacted
    assert config.delete_retention_ms == 7_200_000
    assert config.min_cleanable_dirty_ratio == 0.25
    assert config.min_compaction_lag_ms == 5_000


@pytest.mark.parametrize(
    ("raw", "share"), [("0", 0.0), ("1", 1.0), (0.5, 0.5), (1, 1.0), (" .75 ", 0.75), ("1.0", 1)]
)
def test_ratio_is_a_number_from_0_to_1(raw: object, share: float) -> None:
    assert Ratio().parse(raw) == share
    assert Ratio().parse(Ratio().render(share)) == share


@pytest.mark.parametrize(
    "raw", ["", "nan", "inf", "-0.1", "1.1", "50%", "1e-1", True, None, -1, 2, float("nan")]
)
def test_what_is_no_ratio_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match=r"no |too "):
        Ratio().parse(raw)
