"""A client that goes while it is answered is no error of the server's."""

from __future__ import annotations

import logging

import pytest

from quorate.rpc.grpcio_logging import quieten_grpcio

LOGGER = logging.getLogger("grpc._cython.cygrpc")


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quieten_grpcio()


def test_client_that_is_gone_is_told_of_to_those_who_debug(caplog: pytest.LogCaptureFixture) -> None:
    for level in (logging.INFO, logging.DEBUG):
        with caplog.at_level(level, logger=LOGGER.name):
            LOGGER.error("ExecuteBatchError raised in core by servicer method [%s]", "/quorate.v1.X/Y")
    assert [(record.levelname, record.args) for record in caplog.records] == [("DEBUG", ("/quorate.v1.X/Y",))]


def test_other_errors_of_grpcio_stay_errors(caplog: pytest.LogCaptureFixture) -> None:
    LOGGER.error("Unexpected [%s] raised by servicer method [%s]", "KeyError", "/quorate.v1.X/Y")
    assert [record.levelname for record in caplog.records] == ["ERROR"]
