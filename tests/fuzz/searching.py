"""How a fuzz target is run: libFuzzer with our bounds, from good inputs on."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import atheris  # type: ignore[import-untyped]

__all__ = ["search"]

_DEFAULTS: Final = {"-timeout": "10", "-rss_limit_mb": "1024", "-max_len": "4096"}


def search(name: str, test_one_input: Callable[[bytes], None], seeds: Iterable[bytes]) -> None:
    """With the arguments of this process, which are libFuzzer's."""
    arguments = sys.argv[1:]
    given = {argument.partition("=")[0] for argument in arguments}
    defaults = [f"{option}={value}" for option, value in _DEFAULTS.items() if option not in given]
    if all(argument.startswith("-") for argument in arguments):
        arguments.append(tempfile.mkdtemp(prefix=f"quorate-fuzz-{name}-"))
    corpus = Path(arguments[-1])
    if corpus.is_dir():
        for number, seed in enumerate(seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
        if "-artifact_prefix" not in given:
            defaults.append(f"-artifact_prefix={corpus}/")
    atheris.Setup([sys.argv[0], *defaults, *arguments], test_one_input)
    atheris.Fuzz()
