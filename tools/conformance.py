"""Holds the lean transport against suites that nobody here wrote, every case that applies.

- h2spec: HTTP/2 and HPACK, against a lean server
- gRPC's interoperability tests: Go's client against a lean server, and our client against Go's server
- the same three over TLS, where what is spoken is agreed on by ALPN
- ghz: load, unary and streams, over several connections at once; every call has to succeed

`make conformance` builds the tools and runs this. With names as arguments, only those suites run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from quorate.errors import QuorateError
from quorate.rpc.lean.channel import LeanChannel
from quorate.rpc.lean.options import LeanOptions
from quorate.rpc.lean.transport import LeanTransport
from tests.interop.grpc_testing.cases import CASES
from tests.interop.grpc_testing.service import interop_service
from tools.certificate import Tls, certified

__all__ = [
    "GO_CASES",
    "Outcome",
    "ghz",
    "go_client",
    "h2spec",
    "main",
    "our_client",
    "tool",
]

ROOT: Final = Path(__file__).resolve().parent.parent
#: those without credentials, load balancers and metrics of Google's cloud
GO_CASES: Final = (
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "pick_first_unary",
)
#: by name: the method, and a request that wants an answer of some size
_GHZ_CASES: Final = {
    "unary": ("UnaryCall", {"response_size": 1_000, "payload": {"body": "bG9hZA=="}}),
    "large answers": ("UnaryCall", {"response_size": 1_000_000}),
    "streams": ("FullDuplexCall", [{"response_parameters": [{"size": 1_000}] * 5}] * 5),
}
_CASE_S_MAX: Final = 30.0
_GHZ_S_MAX: Final = 300.0
_H2SPEC_S_MAX: Final = 300.0
_H2SPEC_TOTAL: Final = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")


class Outcome(NamedTuple):
    name: str
    passed: bool
    output: str


def tool(name: str) -> Path:
    return ROOT / ".tools" / "bin" / name


@contextlib.asynccontextmanager
async def _lean_server(tls: Tls | None = None) -> AsyncIterator[int]:
    options = LeanOptions(server_tls=tls.of_server() if tls else None)
    server = await LeanTransport(options).serve("127.0.0.1:0", [interop_service()])
    try:
        yield int(server.address.rpartition(":")[2])
    finally:
        await server.stop(0)


async def _run(*command: str, limit_s: float) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(limit_s):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 1, f"not done within {limit_s} s"
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace")


async def h2spec(tls: Tls | None = None) -> list[Outcome]:
    """All of its cases, the strict ones too."""
    async with _lean_server(tls) as port:
        command = (str(tool("h2spec")), "-h", "127.0.0.1", "-p", str(port), "--strict", "-o", "5")
        _, output = await _run(*command, *(("-t", "-k") if tls else ()), limit_s=_H2SPEC_S_MAX)
    total = _H2SPEC_TOTAL.search(output)
    passed = total is not None and total[1] == total[2] and int(total[1]) > 0
    return [Outcome(total[0] if total else "no result", passed, output)]


async def go_client(tls: Tls | None = None) -> list[Outcome]:
    outcomes = []
    over = ("-use_tls", "-use_test_ca", "-ca_file", tls.certificate) if tls else ()
    async with _lean_server(tls) as port:
        for case in GO_CASES:
            command = (str(tool("grpc-interop-client")), "-server_port", str(port), "-test_case", case)
            status, output = await _run(*command, "-server_host", "127.0.0.1", *over, limit_s=_CASE_S_MAX)
            outcomes.append(Outcome(case, status == 0, output))
    return outcomes


async def our_client(tls: Tls | None = None) -> list[Outcome]:
    outcomes = []
    async with _go_server(tls) as address:
        options = LeanOptions(client_tls=tls.of_client() if tls else None)
        channel = LeanTransport(options).connect(address)
        assert isinstance(channel, LeanChannel)
        for name, case in CASES.items():
            try:
                async with asyncio.timeout(_CASE_S_MAX):
                    await case(channel)
                outcomes.append(Outcome(name, passed=True, output=""))
            except (AssertionError, QuorateError, TimeoutError) as error:
                outcomes.append(Outcome(name, passed=False, output=repr(error)))
        await channel.close()
    return outcomes


async def ghz(calls: int = 1_000) -> list[Outcome]:
    """Fifty callers on ten connections. It learns the messages by reflection."""
    outcomes = []
    async with _lean_server() as port:
        for name, (method, request) in _GHZ_CASES.items():
            load = ("-n", str(calls), "-c", "50", "--connections", "10", "-t", "60s")
            call = ("--call", f"grpc.testing.TestService.{method}", "-d", json.dumps(request))
            command = (str(tool("ghz")), "--insecure", *call, *load, "-O", "json", f"127.0.0.1:{port}")
            status, output = await _run(*command, limit_s=_GHZ_S_MAX)
            told = json.loads(output) if status == 0 else {}
            passed = told.get("statusCodeDistribution") == {"OK": calls}
            rate = f", {told['rps']:,.0f}/s" if told else ""
            outcomes.append(Outcome(f"{calls} calls, {name}{rate}", passed, output[-2_000:]))
    return outcomes


@contextlib.asynccontextmanager
async def _go_server(tls: Tls | None) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    over = ("-use_tls", "-tls_cert_file", tls.certificate, "-tls_key_file", tls.key) if tls else ()
    process = await asyncio.create_subprocess_exec(
        str(tool("grpc-interop-server")), "-port", str(port), *over, stderr=asyncio.subprocess.DEVNULL
    )
    address = f"127.0.0.1:{port}"
    try:
        async with asyncio.timeout(_CASE_S_MAX):
            while await LeanTransport().is_refused(address, timeout_s=1.0):  # noqa: ASYNC110 - not ours to tell
                await asyncio.sleep(0.05)
        yield address
    finally:
        process.kill()
        await process.wait()


def _encrypted(suite: Callable[[Tls], Awaitable[list[Outcome]]]) -> Callable[[], Awaitable[list[Outcome]]]:
    async def run() -> list[Outcome]:
        with certified() as tls:
            return await suite(tls)

    return run


_SUITES: Final[dict[str, tuple[str, Callable[[], Awaitable[list[Outcome]]]]]] = {
    "h2spec": ("h2spec against a lean server", h2spec),
    "h2spec-tls": ("the same over TLS", _encrypted(h2spec)),
    "go-client": ("gRPC's interoperability client in Go against a lean server", go_client),
    "go-client-tls": ("the same over TLS", _encrypted(go_client)),
    "ghz": ("ghz's load on a lean server", ghz),
    "our-client": ("our client against gRPC's interoperability server in Go", our_client),
    "our-client-tls": ("the same over TLS", _encrypted(our_client)),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="one of: " + ", ".join(_SUITES))
    names = parser.parse_args(arguments).suites
    unknown = sorted(set(names) - _SUITES.keys())
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}")
    failed = 0
    for name, (what, suite) in _SUITES.items():
        if names and name not in names:
            continue
        outcomes = asyncio.run(_outcomes(suite))
        print(f"{what}: {sum(each.passed for each in outcomes)} of {len(outcomes)}")
        for each in outcomes:
            print(f"  {'ok' if each.passed else 'FAILED':<7} {each.name}")
            if not each.passed:
                failed += 1
                print(each.output)
    return 1 if failed else 0


async def _outcomes(suite: Callable[[], Awaitable[list[Outcome]]]) -> list[Outcome]:
    return await suite()


if __name__ == "__main__":
    sys.exit(main())
