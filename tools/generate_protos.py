"""Generates the Python stubs beside the .proto files, or with --check says whether they are current.

Stubs are kept in the repository so that installing needs no protoc; --check makes sure that nobody
forgets to generate them, edits them by hand, or leaves some behind when a .proto file goes away.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Final

from grpc_tools import protoc

PROTO_ROOT: Final = Path(__file__).resolve().parent.parent / "proto"
STUB_PATTERNS: Final = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a stub is out of date")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        generated = Path(directory)
        generate(PROTO_ROOT, generated)
        outdated = differences(stubs(generated), stubs(PROTO_ROOT))
        if not arguments.check:
            write(stubs(generated), PROTO_ROOT, outdated)
    for path in outdated:
        print(f"{'out of date' if arguments.check else 'written'}: proto/{path}")
    if arguments.check and outdated:
        print("run: make protos")
        return 1
    return 0


def generate(proto_root: Path, output: Path) -> None:
    sources = sorted(str(path.relative_to(proto_root)) for path in proto_root.rglob("*.proto"))
    well_known_types = files("grpc_tools") / "_proto"
    outputs = [f"--{kind}_out={output}" for kind in ("python", "pyi", "grpc_python")]
    status = protoc.main(["protoc", f"-I{proto_root}", f"-I{well_known_types}", *outputs, *sources])
    if status != 0:
        sys.exit(f"protoc failed with status {status}")


def stubs(root: Path) -> dict[Path, bytes]:
    """Every stub under ``root`` by its path there."""
    paths = (path for pattern in STUB_PATTERNS for path in root.rglob(pattern))
    return {path.relative_to(root): path.read_bytes() for path in paths}


def differences(expected: dict[Path, bytes], present: dict[Path, bytes]) -> list[Path]:
    """Stubs that are missing, different, or left over from a .proto file that is gone."""
    return sorted(path for path in expected | present if expected.get(path) != present.get(path))


def write(expected: dict[Path, bytes], root: Path, paths: list[Path]) -> None:
    for path in paths:
        content = expected.get(path)
        if content is None:
            (root / path).unlink()
        else:
            (root / path).write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
