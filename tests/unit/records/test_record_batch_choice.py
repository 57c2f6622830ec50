"""Which implementation a process uses, and that it makes no other difference."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest

from quorate.core import records
from quorate.core.records import _pure as pure

SHOW = "from quorate.core.records import CODEC, parse_header; print(CODEC, parse_header.__module__)"


def in_a_new_process(code: str, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "QUORATE_CODEC"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_environment_forces_the_pure_codec() -> None:
    shown = in_a_new_process(SHOW, QUORATE_CODEC="pure")
    assert shown == "pure quorate.core.records._pure.header"


def test_the_compiled_codec_is_used_where_it_was_built() -> None:
    pytest.importorskip("quorate.core.records._compiled")
    assert in_a_new_process(SHOW) == "compiled quorate.core.records._compiled"


def test_without_the_compiled_module_the_pure_codec_stands_in() -> None:
    absent = "import sys; sys.modules['quorate.core.records._compiled'] = None; "
    assert in_a_new_process(absent + SHOW) == "pure quorate.core.records._pure.header"


def test_importing_the_codec_does_not_import_pyarrow() -> None:
    code = "import sys, quorate.core.records; print('pyarrow' in sys.modules)"
    assert in_a_new_process(code) == "False"


def test_this_process_says_which_codec_it_has() -> None:
    assert records.CODEC in ("compiled", "pure")


def test_both_implementations_have_the_same_names_and_signatures() -> None:
    compiled = pytest.importorskip("quorate.core.records._compiled")
    assert sorted(compiled.__all__) == sorted(pure.__all__)
    for name in pure.__all__:
        ours, theirs = getattr(pure, name), getattr(compiled, name)
        if inspect.isfunction(ours):
            assert parameters(theirs) == parameters(ours), name


def parameters(function: object) -> list[tuple[str, object, object]]:
    assert callable(function)
    signature = inspect.signature(function)
    return [(each.name, each.kind, each.default) for each in signature.parameters.values()]


def test_both_headers_have_the_same_attributes() -> None:
    compiled = pytest.importorskip("quorate.core.records._compiled")
    public = [
        {name for name in dir(module.BatchHeader) if not name.startswith("_")} for module in (pure, compiled)
    ]
    assert public[0] == public[1]
    fields = range(2, 15)
    assert repr(compiled.BatchHeader(*fields)) == repr(pure.BatchHeader(*fields))
