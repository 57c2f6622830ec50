"""A QuorateError as a message, and back.

The same message serves a whole call that failed (see ``grpc_errors``) and one partition inside an
answer. It carries the class's decisions beside its code, so that a receiver older than the sender can
still decide on an error whose code it has never heard of.

What arrives is a peer's word and treated as such: any keys, any length, any code.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from quorate.errors import ERRORS_BY_CODE, Fact, QuorateError
from quorate.v1 import errors_pb2

__all__ = ["detail_from_error", "error_from_detail", "shorten"]

# A call's error travels in HTTP/2 trailers, for which peers grant 8 KB as a rule; beyond that they
# drop the call with an error of their own, and the real one is lost. These limits stay below it with
# everything at its longest and encoded as base64.
_MESSAGE_BYTES_MAX: Final = 1500
_FACTS_MAX: Final = 16
_FACT_KEY_BYTES_MAX: Final = 40
_FACT_BYTES_MAX: Final = 160
_ELLIPSIS: Final = "…".encode()
_INT64: Final = range(-(1 << 63), 1 << 63)


def detail_from_error(error: QuorateError) -> errors_pb2.ErrorDetail:
    facts = list(error.facts.items())[:_FACTS_MAX]
    return errors_pb2.ErrorDetail(
        code=error.code,
        message=shorten(error.message, _MESSAGE_BYTES_MAX),
        retriable=error.retriable,
        refresh_metadata=error.refresh_metadata,
        outcome_unknown=error.outcome_unknown,
        facts={shorten(key, _FACT_KEY_BYTES_MAX): _fact(value) for key, value in facts},
    )


def error_from_detail(detail: errors_pb2.ErrorDetail) -> QuorateError:
    """An instance of the class with that code; a code not known here keeps its name and decisions."""
    kind = ERRORS_BY_CODE.get(detail.code) or _kind_for(
        _Decisions(detail.code, detail.retriable, detail.refresh_metadata, detail.outcome_unknown)
    )
    error = kind(detail.message)
    # Not as keywords: a fact may have any name, also one of the constructor's.
    error.facts.update({key: _value(fact) for key, fact in detail.facts.items()})
    return error


def shorten(text: str, bytes_max: int) -> str:
    """As much of the text as fits into so many bytes of UTF-8."""
    # Half a surrogate pair, as Python has in undecodable file names, is no text in protobuf.
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= bytes_max:
        return encoded.decode("utf-8")
    return encoded[: bytes_max - len(_ELLIPSIS)].decode("utf-8", "ignore") + _ELLIPSIS.decode("utf-8")


class _Decisions(NamedTuple):
    code: str
    retriable: bool
    refresh_metadata: bool
    outcome_unknown: bool


@lru_cache(maxsize=100)
def _kind_for(decisions: _Decisions) -> type[QuorateError]:
    class ErrorOfNewerPeer(QuorateError):
        """An error that this version has no class for."""

        code = decisions.code
        retriable = decisions.retriable
        refresh_metadata = decisions.refresh_metadata
        outcome_unknown = decisions.outcome_unknown

    return ErrorOfNewerPeer


def _fact(value: Fact) -> errors_pb2.Fact:
    if value is None:
        return errors_pb2.Fact()
    if isinstance(value, int) and value in _INT64:
        return errors_pb2.Fact(integer=int(value))
    return errors_pb2.Fact(text=shorten(str(value), _FACT_BYTES_MAX))


def _value(fact: errors_pb2.Fact) -> Fact:
    which = fact.WhichOneof("value")
    if which is None:
        return None
    return fact.integer if which == "integer" else fact.text
