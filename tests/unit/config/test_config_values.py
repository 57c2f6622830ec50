"""What each kind of value accepts, and that the declarations are consistent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.config import Durability, HostPort, TopicConfig, parse_address
from quorate.core.config.docs import configuration_page
from quorate.core.config.kinds import (
    AddressList,
    ByteCount,
    Choice,
    DirectoryPath,
    DurationMs,
    Integer,
    Kind,
)
from quorate.core.config.node import NODE_SETTINGS
from quorate.core.config.schema import REQUIRED, Setting
from quorate.core.config.topic import CLUSTER_KEYS, NO_TOPIC_KEYS, NODE_KEYS, TOPIC_SETTINGS
from quorate.errors import InvalidConfig

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"

bytes_kind = ByteCount(0, 1 << 50)
unlimited_bytes = ByteCount(0, 1 << 50, unlimited=True)
duration = DurationMs(0, 1 << 50)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Integer(0, 10), 10, 10),
        (Integer(0, 10), "7", 7),
        (Integer(-5, 1_000), "1_000", 1_000),
        (bytes_kind, "1GiB", 1 << 30),
        (bytes_kind, "64 kib", 64 << 10),
        (bytes_kind, "2kB", 2_000),
        (bytes_kind, 12, 12),
        (unlimited_bytes, "-1", -1),
        (unlimited_bytes, -1, -1),
        (duration, "250ms", 250),
        (duration, "30s", 30_000),
        (duration, "7d", 7 * 86_400_000),
        (Choice(Durability), "fsync", Durability.FSYNC),
        (AddressList(), "a:1, b:2", (HostPort("a", 1), HostPort("b", 2))),
        (AddressList(), ["[::1]:0", "[::1]:0"], (HostPort("::1", 0), HostPort("::1", 0))),
    ],
)
def test_value_is_accepted(kind: Kind[Any], raw: object, value: object) -> None:
    assert kind.parse(raw) == value


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Integer(0, 10), 11),
        (Integer(0, 10), -1),
        (Integer(0, 10), True),
        (Integer(0, 10), 1.0),
        (Integer(0, 10), "1.0"),
        (Integer(0, 10), "٣"),
        (Integer(0, 10), "9" * 5_000),
        (Integer(0, 10), "1s"),
        (Integer(0, 10), ""),
        (Integer(0, 10), None),
        (bytes_kind, "5 parsecs"),
        (bytes_kind, "-1"),
        (unlimited_bytes, "-2"),
        (duration, "1MiB"),
        (Choice(Durability), "FSYNC"),
        (Choice(Durability), 1),
        (DirectoryPath(), ""),
        (DirectoryPath(), 5),
        (DirectoryPath(), "a\0b"),
        (AddressList(), ""),
        (AddressList(), []),
        (AddressList(), [1]),
        (AddressList(), {"a": 1}),
        (AddressList(), "a:1,a:1"),
        (AddressList(), "a:65536"),
        (AddressList(), "a:"),
        (AddressList(), "::1:9092"),
        (AddressList(), "http://a:1"),
    ],
)
def test_value_is_refused(kind: Kind[Any], raw: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        kind.parse(raw)


@given(st.text())
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    try:
        address = parse_address(text)
    except ValueError:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("each", NODE_SETTINGS + TOPIC_SETTINGS, ids=lambda each: each.key)
def test_default_survives_being_rendered_and_parsed(each: Setting) -> None:
    if each.default is not REQUIRED:
        assert each.kind.parse(each.kind.render(each.default)) == each.default


@pytest.mark.parametrize("each", NODE_SETTINGS + TOPIC_SETTINGS, ids=lambda each: each.key)
def test_setting_says_what_it_is_and_its_trade_off_in_sentences(each: Setting) -> None:
    assert each.about.endswith(".")
    assert each.trade_off.endswith(".")


def test_no_key_is_the_beginning_of_another() -> None:
    # TOML could not hold both: a name is either a value or a table.
    keys = sorted(each.key for each in NODE_SETTINGS)
    assert len(set(keys)) == len(keys)
    for key in keys:
        assert not any(other.startswith(key + ".") for other in keys)


def test_what_makes_a_record_safe_has_no_default_at_a_node() -> None:
    # Rule 29: the controller and the leader must see one value.
    safety = {"durability", "min.insync.replicas", "unclean.leader.election.enable"}
    assert safety | NO_TOPIC_KEYS == CLUSTER_KEYS
    assert set(NODE_KEYS) | CLUSTER_KEYS == {each.key for each in TOPIC_SETTINGS}
    assert not CLUSTER_KEYS & {each.key for each in NODE_SETTINGS}


def test_topic_overrides_replace_only_what_they_name() -> None:
    base = TopicConfig(retention_ms=5)
    config = base.with_overrides({"segment.bytes": "1MiB", "durability": "fsync"})
    assert config == TopicConfig(retention_ms=5, segment_bytes=1 << 20, durability=Durability.FSYNC)


def test_rendered_topic_config_can_be_set_again() -> None:
    config = TopicConfig(retention_bytes=-1, segment_ms=1, durability=Durability.FSYNC)
    assert TopicConfig().with_overrides(config.rendered()) == config


def test_unknown_topic_setting_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidConfig, match=r"did you mean retention\.ms\?"):
        TopicConfig().with_overrides({"retention.mss": "5"})


def test_configuration_page_is_up_to_date() -> None:
    # `python -m quorate.core.config.docs > docs/configuration.md` writes it.
    assert PAGE.read_text(encoding="utf-8") == configuration_page()
