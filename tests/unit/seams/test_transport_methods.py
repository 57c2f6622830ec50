"""Methods and services of the Transport seam, as the descriptors of protobuf declare them."""

from __future__ import annotations

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from quorate.core.transport import CallKind, Service, method_of, methods_of
from tests.unit.seams.echo_service import DESCRIPTOR, ECHO


def test_methods_come_from_the_service_descriptor() -> None:
    methods = methods_of(DESCRIPTOR)
    assert methods["Echo"] == ECHO
    assert (ECHO.path, ECHO.name) == ("/quorate.test.EchoService/Echo", "Echo")
    assert str(ECHO) == ECHO.path
    assert ECHO.request_type is BytesValue
    kinds = {name: method.kind for name, method in methods.items()}
    assert kinds == {
        "Echo": CallKind.UNARY,
        "Fail": CallKind.UNARY,
        "Wait": CallKind.UNARY,
        "Poll": CallKind.UNARY,
        "Chat": CallKind.STREAM,
        "Count": CallKind.STREAM,
        "Endless": CallKind.STREAM,
    }


def test_method_with_other_types_than_declared_is_refused() -> None:
    with pytest.raises(TypeError, match="is declared with"):
        method_of(DESCRIPTOR, "Echo", StringValue, BytesValue)


def test_service_needs_a_handler_for_each_method_and_no_other() -> None:
    async def handler(request: object, call: object) -> BytesValue:
        return BytesValue()

    with pytest.raises(TypeError, match=r"\['Bogus', 'Chat', 'Count', 'Endless', 'Fail', 'Poll', 'Wait'\]"):
        Service(DESCRIPTOR, {"Echo": handler, "Bogus": handler})
