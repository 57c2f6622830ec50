"""What every test run has in common."""

from __future__ import annotations

import os
import platform
import signal

import pytest
from hypothesis import HealthCheck, settings

from build_codec import MODULES
from quorate.core.config import rpc_transport_of_clients
from quorate.core.records import CODEC

# Before gRPC is imported: its C core remarks on every server that stops, between the dots of a run.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

pytest_plugins = ["pytester", "tests.hang_guard", "tests.nothing_skipped", "tests.suite_budget"]

# The same examples in every run: whoever breaks a property sees it, not whoever comes next. Other
# examples, and many more, come from `pytest --hypothesis-profile thorough` and from `make fuzz`.
settings.register_profile(
    "quick", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough",
    max_examples=5_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("quick")


def pytest_configure() -> None:
    """A run that was started by `nohup` or with `&` in a script ignores these two signals, and so would every
    process that a test starts in order to see what it does when it is interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_sessionstart() -> None:
    """Whoever changes a module that is compiled would otherwise test what it was before."""
    if CODEC == "compiled":
        stale = [each.name for each in MODULES if each.in_place.exists() and not each.is_up_to_date()]
        if stale:
            pytest.exit(f"compiled before their sources were changed: {', '.join(stale)}; make setup", 2)


def pytest_report_header() -> str:
    return (
        f"quorate: {CODEC} codec, {rpc_transport_of_clients()} transport, Python {platform.python_version()}"
    )
