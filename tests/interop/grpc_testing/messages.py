"""The messages and methods of gRPC's interoperability tests, made from their .proto file at import."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import ServiceDescriptor
from grpc_tools import protoc

from quorate.core.transport import CallKind, Method, methods_of

__all__ = ["METHODS", "TEST_SERVICE", "UNIMPLEMENTED_METHOD", "UNIMPLEMENTED_SERVICE", "message"]

_PROTO: Final = Path(__file__).with_name("testing.proto")


def _load() -> ServiceDescriptor:
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "descriptors"
        arguments = ["protoc", f"-I{_PROTO.parent}", f"--descriptor_set_out={made}", _PROTO.name]
        if protoc.main(arguments) != 0:
            raise AssertionError(f"{_PROTO} cannot be compiled")
        files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
    pool = descriptor_pool.Default()
    for file in files.file:
        pool.Add(file)
    return pool.FindServiceByName("grpc.testing.TestService")


TEST_SERVICE: Final = _load()
METHODS: Final = methods_of(TEST_SERVICE)


def message(name: str) -> Any:
    """The class of that name."""
    return message_factory.GetMessageClass(TEST_SERVICE.file.message_types_by_name[name])


UNIMPLEMENTED_METHOD: Final[Method[Any, Any]] = Method(
    "/grpc.testing.TestService/UnimplementedCall", CallKind.UNARY, message("Empty"), message("Empty")
)
UNIMPLEMENTED_SERVICE: Final[Method[Any, Any]] = Method(
    "/grpc.testing.UnimplementedService/UnimplementedCall", CallKind.UNARY, message("Empty"), message("Empty")
)
