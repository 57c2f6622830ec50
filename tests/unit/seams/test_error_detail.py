"""Errors as messages: every class there and back, and nothing a peer sends can do harm."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import ERRORS_BY_CODE, FencedLeaderEpoch, InvalidRequest, QuorateError
from quorate.rpc.error_detail import detail_from_error, error_from_detail
from quorate.v1 import errors_pb2


def over_the_wire(error: QuorateError) -> QuorateError:
    content = detail_from_error(error).SerializeToString()
    return error_from_detail(errors_pb2.ErrorDetail.FromString(content))


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_every_class_comes_back_with_message_and_facts(kind: type[QuorateError]) -> None:
    facts: dict[str, str | int | None] = {"topic": "orders", "offset": -(1 << 63), "epoch": 0, "leader": None}
    error = over_the_wire(kind("was ist los?", **facts))
    assert type(error) is kind
    assert error.message == str(error) == "was ist los?"
    assert error.facts == facts


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_detail_states_the_decisions_of_the_class(kind: type[QuorateError]) -> None:
    detail = detail_from_error(kind("x"))
    assert detail.code == kind.code
    assert (detail.retriable, detail.refresh_metadata) == (kind.retriable, kind.refresh_metadata)
    assert detail.outcome_unknown == kind.outcome_unknown


@pytest.mark.parametrize("retriable", [False, True])
@pytest.mark.parametrize("refresh_metadata", [False, True])
@pytest.mark.parametrize("outcome_unknown", [False, True])
def test_code_of_a_newer_peer_keeps_its_decisions(
    retriable: bool, refresh_metadata: bool, outcome_unknown: bool
) -> None:
    detail = errors_pb2.ErrorDetail(
        code="QUOTA_OF_THE_FUTURE",
        message="slow down",
        retriable=retriable,
        refresh_metadata=refresh_metadata,
        outcome_unknown=outcome_unknown,
        facts={"wait_ms": errors_pb2.Fact(integer=5)},
    )
    error = error_from_detail(detail)
    assert isinstance(error, QuorateError)
    assert (error.code, error.message) == ("QUOTA_OF_THE_FUTURE", "slow down")
    assert (error.retriable, error.refresh_metadata) == (retriable, refresh_metadata)
    assert error.outcome_unknown == outcome_unknown
    assert error.facts == {"wait_ms": 5}
    assert over_the_wire(error).code == "QUOTA_OF_THE_FUTURE", "it can be passed on"


def test_facts_may_have_any_name() -> None:
    error = QuorateError("x")
    error.facts.update({"message": "m", "self": 1, "": "empty", "not an identifier": None})
    assert over_the_wire(error).facts == error.facts


def test_what_does_not_fit_the_message_is_made_to_fit() -> None:
    error = InvalidRequest("x" * 5000, huge=1 << 70, long="y" * 5000, broken="\udcff.log", flag=True)
    back = over_the_wire(error)
    assert back.message == "x" * 1497 + "…"
    assert back.facts["huge"] == str(1 << 70)
    assert back.facts["long"] == "y" * 157 + "…"
    assert back.facts["broken"] == "?.log"
    assert back.facts["flag"] == 1


def test_text_is_cut_between_characters() -> None:
    for length in range(1495, 1510):
        message = over_the_wire(InvalidRequest("x" * (length % 3) + "€" * length)).message
        assert message.rstrip("…").lstrip("x").strip("€") == ""
        assert 1490 < len(message.encode()) <= 1500


def test_number_of_facts_is_bounded() -> None:
    error = QuorateError("x")
    error.facts.update({f"fact-{number}": number for number in range(1000)})
    assert len(over_the_wire(error).facts) == 16


@given(st.binary(max_size=200))
def test_any_message_gives_some_error(content: bytes) -> None:
    detail = errors_pb2.ErrorDetail()
    try:
        detail.ParseFromString(content)
    except Exception:  # noqa: BLE001 - protobuf's own affair
        return
    assert isinstance(error_from_detail(detail), QuorateError)


def test_known_error_can_be_pickled_after_its_journey() -> None:
    error = pickle.loads(pickle.dumps(over_the_wire(FencedLeaderEpoch("old", leader_epoch=3))))
    assert type(error) is FencedLeaderEpoch
    assert error.facts == {"leader_epoch": 3}
