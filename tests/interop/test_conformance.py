"""The lean transport, held against suites that nobody here wrote.

`make conformance` runs them by hand and prints every case.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tools import conformance
from tools.certificate import Tls, certified


def needs(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if not conformance.tool(name).exists()]
    reason = f"missing: {', '.join(missing)}; `make conformancetools` builds them where Go is installed"
    return pytest.mark.skipif(bool(missing), reason=reason)


def failures(outcomes: list[conformance.Outcome]) -> list[str]:
    return [f"{each.name}\n{each.output}" for each in outcomes if not each.passed]


@pytest.fixture(params=["clear text", "TLS"])
def tls(request: pytest.FixtureRequest) -> Iterator[Tls | None]:
    if request.param == "clear text":
        yield None
        return
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing, so there is no certificate")
    with certified() as made:
        yield made


@needs("h2spec")
async def test_lean_server_passes_every_case_of_h2spec(tls: Tls | None) -> None:
    outcomes = await conformance.h2spec(tls)
    assert failures(outcomes) == []


@needs("grpc-interop-client")
async def test_grpcs_interoperability_client_in_go_is_content_with_a_lean_server(
    tls: Tls | None,
) -> None:
    outcomes = await conformance.go_client(tls)
    assert failures(outcomes) == []
    assert len(outcomes) == len(conformance.GO_CASES)


@needs("ghz")
async def test_every_call_of_ghzs_load_succeeds_at_a_lean_server() -> None:
    assert failures(await conformance.ghz(calls=500)) == []


@needs("grpc-interop-server")
async def test_our_client_is_content_with_grpcs_interoperability_server_in_go(
    tls: Tls | None,
) -> None:
    assert failures(await conformance.our_client(tls)) == []
