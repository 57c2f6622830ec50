"""A connection for command-line tests: remembers what it is asked, answers what it was told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from quorate.console import connecting
from quorate.console.main import main
from quorate.errors import QuorateError

__all__ = ["FakeAdministration", "json_of"]

T = TypeVar("T")


class FakeAdministration:
    """``answers[name]`` is what the call of that name gives: a value, an error, or a list of them in turn."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, Any]] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeAdministration:
        def with_connection(_bootstrap: str, work: Callable[[Any], Awaitable[T]]) -> T:
            async def run() -> T:
                return await work(self)

            return asyncio.run(run())

        monkeypatch.setattr(connecting, "with_connection", with_connection)
        # As clients, too: it is the admin that they make.
        monkeypatch.setattr(connecting, "with_clients", with_connection)
        return self

    def admin(self) -> FakeAdministration:
        return self

    async def __aenter__(self) -> FakeAdministration:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name not in self.answers:
            raise AttributeError(name)

        async def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, options or (arguments[0] if len(arguments) == 1 else arguments)))
            answer = self.answers[name]
            if isinstance(answer, list):
                answer = answer.pop(0)
            if isinstance(answer, QuorateError):
                raise answer
            return answer

        return call

    def asked(self, name: str) -> list[Any]:
        return [arguments for called, arguments in self.calls if called == name]


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert main([*arguments, "--output", "json"]) == status
    return json.loads(capsys.readouterr().out)
