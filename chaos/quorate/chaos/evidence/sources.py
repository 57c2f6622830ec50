"""Of which sources a recorded run is evidence: a digest that a change to them changes.

Seeds that ran yesterday say something about today's code only if the code that they put to the test is
the same. That is what decides which records are acknowledged, where they are copied to, who leads, and
what a log is after a crash: raft, replication and recovery. And it is what these believe without asking:
checksums and the scan of batches, time, the bounds that settings are held to, which errors there are and
which of them end a process. So each run is recorded with the digest of these sources, and when one of them
changes the count of seeds begins again at nothing. Drills of real processes are recorded with it, too:
therefore it has the real disk and the end of a process, which no simulated run executes.

The list is explicit. Too short, and evidence survives a change that it knows nothing about; too long, and a
change to a help text throws away hours of runs. Left out is what only describes, formats or measures, and
what stands on either side and has proofs of its own: the clients (their every answer is checked in every
run), the coordinators of consumer groups (who write to a partition and read it as a client does, and decide
nothing about it), what only clients use of the record codec (compared with others' implementations), the
wire.

What Python does not execute does not count: comments, docstrings and layout can be improved without running
20,000 seeds again. The digest is therefore of the syntax tree, written down here and not by ``ast.dump``,
whose format differs between versions of Python. Nor does what settings say of themselves. Of what is compiled
by Cython the lines count, without those that are empty or only a comment.

The simulator's sources have a digest of their own. It is recorded, because a seed draws the same plan only
while they are the same; it starts no count again, because other plans are evidence as well.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["SIMULATOR", "SOURCES", "SOURCES_LEFT_OUT", "current_sources", "digest_of", "source_files"]

#: folders with all that is below them, and single files
SOURCES: Final = (
    # raft: the quorum, and the metadata that it replicates
    "metadata/quorate/metadata",
    # replication: who leads and who is in the ISR, and what a leader and a follower do
    "controller/quorate/controller",
    "broker/quorate/broker",
    # recovery: the log and what opening it makes of it; a broker's directory is in broker/
    "storage/quorate/storage",
    # what all of these stand on when they write, wait and give up
    "core/quorate/core/backoff.py",
    "core/quorate/core/clock.py",
    "core/quorate/core/disk.py",
    "core/quorate/core/exchange.py",
    "core/quorate/core/os_disk.py",
    "core/quorate/core/served_exchange.py",
    "core/quorate/core/silence.py",
    "core/quorate/core/transport.py",
    "core/quorate/core/waking.py",
    # which errors there are, and what they tell whoever meets them
    "core/quorate/core/controller_errors.py",
    "core/quorate/core/error_base.py",
    "core/quorate/errors.py",
    # what is within bounds: the lease's share of the session, above all
    "core/quorate/core/config/kinds.py",
    "core/quorate/core/config/node.py",
    "core/quorate/core/config/schema.py",
    "core/quorate/core/config/topic.py",
    "core/quorate/core/limits.py",
    # which bytes are a batch: checksums, headers, scans, and what compaction makes of one
    "core/quorate/core/records/_cython/checksum.pxi",
    "core/quorate/core/records/_cython/header.pxi",
    "core/quorate/core/records/_cython/run.pxi",
    "core/quorate/core/records/_pure/header.py",
    "core/quorate/core/records/_pure/run.py",
    "core/quorate/core/records/codec.py",
    "core/quorate/core/records/format.py",
    "core/quorate/core/records/keys.py",
    "core/quorate/core/records/split.py",
    "core/quorate/core/records/thinning.py",
    # the order of a node's start and stop, and what ends its process
    "node/quorate/node/node.py",
    "node/quorate/node/process.py",
    "node/quorate/node/stop_times.py",
)

#: of the above: they only tell what is the case, or use partitions as clients do
SOURCES_LEFT_OUT: Final = (
    "broker/quorate/broker/describing.py",
    "broker/quorate/broker/groups",
    "broker/quorate/broker/metrics",
    "broker/quorate/broker/partition_ends.py",
    "controller/quorate/controller/cluster_description.py",
    "controller/quorate/controller/topic_descriptions.py",
    "metadata/quorate/metadata/leader_descriptions.py",
    "storage/quorate/storage/inspect.py",
)

#: all of ``quorate.chaos`` that a simulated run imports
SIMULATOR: Final = (
    "chaos/quorate/chaos/checks",
    "chaos/quorate/chaos/cluster",
    "chaos/quorate/chaos/history",
    "chaos/quorate/chaos/invariants",
    "chaos/quorate/chaos/raft",
    "chaos/quorate/chaos/sim",
)

_DIGITS: Final = 16
#: arguments by which a setting says what it is for
_FOR_PEOPLE: Final = ("about", "trade_off")


def current_sources(root: Path) -> str:
    """The digest of what a recorded run puts to the test, as it is now."""
    return digest_of(root, SOURCES, SOURCES_LEFT_OUT)


def digest_of(root: Path, sources: Iterable[str], left_out: Iterable[str] = ()) -> str:
    """``root``: of the source checkout. ``FileNotFoundError`` if one of the names is no longer there."""
    digest = hashlib.sha256()
    for path in source_files(root, sources, left_out):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(_meaning(path).encode())
    return digest.hexdigest()[:_DIGITS]


def source_files(root: Path, sources: Iterable[str], left_out: Iterable[str] = ()) -> list[Path]:
    """Sorted, each once."""
    return sorted(_files_of(root, sources) - _files_of(root, left_out))


def _files_of(root: Path, names: Iterable[str]) -> set[Path]:
    found: set[Path] = set()
    for name in names:
        path = _existing(root / name)
        found |= set(path.rglob("*.py")) if path.is_dir() else {path}
    return found


def _existing(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"{path} is listed as a source of the evidence, and does not exist")
    return path


def _meaning(path: Path) -> str:
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return "".join(_write_down(ast.parse(source)))
    lines = (line.rstrip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _write_down(node: object) -> Iterator[str]:
    if isinstance(node, ast.keyword) and node.arg in _FOR_PEOPLE:
        return
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name in node._fields:
            value = getattr(node, name, None)
            # Versions of Python add fields that are empty wherever the older syntax is used.
            if value is None or value == []:
                continue
            yield f" {name}="
            yield from _write_down(_without_docstring(node, value) if name == "body" else value)
        yield ")"
    elif isinstance(node, list):
        for item in node:
            yield from _write_down(item)
            yield ","
    else:
        yield repr(node)


def _without_docstring(node: ast.AST, body: object) -> object:
    has_docstring = (
        isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(body, list)
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    )
    return body[1:] if has_docstring and isinstance(body, list) else body
