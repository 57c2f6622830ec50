"""By which arguments clients are made, and that both kinds of each have the same calls."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from quorate.client import AsyncConsumer, AsyncProducer, Consumer, Producer
from quorate.errors import InvalidConfig

NOWHERE = "127.0.0.1:1"

#: what every release takes
PROMISED: dict[str, Any] = {
    "group": None,
    "topics": None,
    "pattern": None,
    "group_instance_id": None,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
    "max_poll_interval_ms": 300_000,
}


def test_consumer_takes_every_argument_that_was_promised() -> None:
    AsyncConsumer(NOWHERE, **PROMISED)
    Consumer(NOWHERE, **PROMISED).close()


def test_without_transactions_both_isolation_levels_mean_the_same() -> None:
    AsyncConsumer(NOWHERE, isolation_level="read_uncommitted")
    with pytest.raises(InvalidConfig, match="isolation_level is 'dirty'"):
        AsyncConsumer(NOWHERE, isolation_level="dirty")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pattern", "t.*"),
        ("group_instance_id", "i"),
        ("group_remote_assignor", "range"),
        ("enable_auto_commit", True),
        ("auto_commit_interval_ms", 1_000),
        ("max_poll_interval_ms", 1_000),
    ],
)
def test_what_means_nothing_without_a_group_is_refused_by_its_name(kind: Any, name: str, value: Any) -> None:
    with pytest.raises(InvalidConfig, match=f"^{name}=.* needs a group"):
        kind(NOWHERE, **{name: value})
    made = kind(NOWHERE, group="g", **{name: value})
    if kind is Consumer:
        made.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group", ""),
        ("group", 5),
        ("group", "g" * 256),
        ("group_instance_id", "i" * 256),
        ("client_id", "c" * 256),
        ("enable_auto_commit", "yes"),
    ],
)
def test_options_of_groups_are_refused_by_their_names(name: str, value: Any) -> None:
    with pytest.raises(InvalidConfig, match=f"^{name} is"):
        AsyncConsumer(NOWHERE, **{"group": "g", name: value})


@pytest.mark.parametrize(
    ("kind", "mistaken", "nearest"),
    [
        (Consumer, "isolation_levle", "isolation_level"),
        (AsyncConsumer, "isolation_levle", "isolation_level"),
        (Producer, "linger", "linger_ms"),
        (AsyncProducer, "linger", "linger_ms"),
    ],
)
def test_unknown_argument_is_refused_in_the_name_of_the_class_that_was_called(
    kind: Any, mistaken: str, nearest: str
) -> None:
    with pytest.raises(TypeError) as refused:
        kind(NOWHERE, **{mistaken: 1})
    assert str(refused.value) == (
        f"{kind.__name__}(...) got an unexpected keyword argument {mistaken!r}; did you mean {nearest!r}?"
    )
    with pytest.raises(TypeError, match=r"argument 'zzzzzz'$"):
        kind(NOWHERE, zzzzzz=1)


@pytest.mark.parametrize(("sync", "asynchronous"), [(Consumer, AsyncConsumer), (Producer, AsyncProducer)])
def test_both_kinds_have_the_same_calls(sync: type, asynchronous: type) -> None:
    assert calls_of(sync) == calls_of(asynchronous)


def calls_of(kind: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(each) for name, each in vars(kind).items() if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "asynchronous"), [(Consumer, AsyncConsumer), (Producer, AsyncProducer)])
def test_only_the_asynchronous_kind_takes_the_seams_of_simulations(sync: type, asynchronous: type) -> None:
    names = set(inspect.signature(asynchronous).parameters)
    assert names - set(inspect.signature(sync).parameters) == {"clock", "rng"}
