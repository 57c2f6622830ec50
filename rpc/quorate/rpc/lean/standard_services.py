"""What every gRPC server offers beside its own services: health (grpc.health.v1) and reflection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # it has no types
from grpc_reflection.v1alpha import reflection_pb2  # type: ignore[import-untyped]  # it has no types

from quorate.core.transport import Call, Handler, Service
from quorate.rpc.lean.status import StatusCode, StatusError

__all__ = ["Health", "reflection_service"]

_HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"]
_REFLECTION: Final = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
_STATES: Final = health_pb2.HealthCheckResponse.ServingStatus


class Health:
    def __init__(self) -> None:
        self._states: dict[str, int] = {}
        self._is_stopped = False
        #: set, and replaced by the next one, at every change
        self._changed = asyncio.Event()
        self.service = _service(_HEALTH, {"Check": self._check, "List": self._list, "Watch": self._watch})

    def set(self, names: Iterable[str], *, serving: bool) -> None:
        if not self._is_stopped:
            self._states.update(dict.fromkeys(names, _STATES.SERVING if serving else _STATES.NOT_SERVING))
            self._tell()

    def stop(self) -> None:
        """Nothing serves any more, and whoever watches is told so as the last thing."""
        self._states = dict.fromkeys(self._states, _STATES.NOT_SERVING)
        self._is_stopped = True
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _check(self, request: Any, _call: Call) -> Any:
        state = self._states.get(request.service)
        if state is None:
            raise StatusError(StatusCode.NOT_FOUND, "there is no such service here")
        return health_pb2.HealthCheckResponse(status=state)

    async def _list(self, _request: Any, _call: Call) -> Any:
        states = {name: health_pb2.HealthCheckResponse(status=state) for name, state in self._states.items()}
        return health_pb2.HealthListResponse(statuses=states)

    async def _watch(self, requests: AsyncIterator[Any], _call: Call) -> AsyncGenerator[Any, None]:
        async for request in requests:
            told = None
            while True:
                changed = self._changed
                state = self._states.get(request.service, _STATES.SERVICE_UNKNOWN)
                if state != told:
                    told = state
                    yield health_pb2.HealthCheckResponse(status=state)
                if self._is_stopped:
                    return
                await changed.wait()


def reflection_service(names: Iterable[str]) -> Service:
    reflection = _Reflection(sorted((*names, _HEALTH.full_name, _REFLECTION.full_name)))
    return _service(_REFLECTION, {"ServerReflectionInfo": reflection.answer_all})


def _service(descriptor: ServiceDescriptor, handlers: Mapping[str, Handler]) -> Service:
    """Without the handlers for methods that an older release of the messages does not have."""
    known = {method.name: handlers[method.name] for method in descriptor.methods}
    return Service(descriptor, known, is_internal=True)


class _Reflection:
    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._pool = descriptor_pool.Default()
        self._answers: Mapping[str, Callable[[Any], dict[str, Any]]] = {
            "file_by_filename": self._file_by_name,
            "file_containing_symbol": self._file_of_symbol,
            "file_containing_extension": self._file_of_extension,
            "all_extension_numbers_of_type": self._extension_numbers,
            "list_services": self._services,
        }

    async def answer_all(self, requests: AsyncIterator[Any], _call: Call) -> AsyncGenerator[Any, None]:
        async for request in requests:
            yield reflection_pb2.ServerReflectionResponse(original_request=request, **self._answer(request))

    def _answer(self, request: Any) -> dict[str, Any]:
        asked = request.WhichOneof("message_request")
        if asked is None:
            return _error(StatusCode.INVALID_ARGUMENT, "nothing is asked")
        try:
            return self._answers[asked](getattr(request, asked))
        except KeyError:
            return _error(StatusCode.NOT_FOUND, "there is no such thing here")

    def _file_by_name(self, name: str) -> dict[str, Any]:
        return _files(self._pool.FindFileByName(name))

    def _file_of_symbol(self, symbol: str) -> dict[str, Any]:
        try:
            return _files(self._pool.FindFileContainingSymbol(symbol))
        except KeyError:
            # A method is a symbol too, of which the pool does not know.
            service_name, _, method_name = symbol.rpartition(".")
            service = self._pool.FindServiceByName(service_name)
            return _files(service.methods_by_name[method_name].containing_service.file)

    def _file_of_extension(self, asked: Any) -> dict[str, Any]:
        message = self._pool.FindMessageTypeByName(asked.containing_type)
        extension = self._pool.FindExtensionByNumber(message, asked.extension_number)
        return _files(self._pool.FindFileContainingSymbol(extension.full_name))

    def _extension_numbers(self, message_name: str) -> dict[str, Any]:
        message = self._pool.FindMessageTypeByName(message_name)
        numbers = sorted(each.number for each in self._pool.FindAllExtensions(message))
        return {
            "all_extension_numbers_response": reflection_pb2.ExtensionNumberResponse(
                base_type_name=message.full_name, extension_number=numbers
            )
        }

    def _services(self, _asked: str) -> dict[str, Any]:
        services = [reflection_pb2.ServiceResponse(name=name) for name in self._names]
        return {"list_services_response": reflection_pb2.ListServiceResponse(service=services)}


def _files(file: FileDescriptor) -> dict[str, Any]:
    """With all that it stands on."""
    found: dict[str, FileDescriptor] = {}
    wanted = [file]
    while wanted:
        each = wanted.pop()
        if each.name not in found:
            found[each.name] = each
            wanted.extend(each.dependencies)
    contents = []
    for each in found.values():
        proto = descriptor_pb2.FileDescriptorProto()
        each.CopyToProto(proto)
        contents.append(proto.SerializeToString())
    return {"file_descriptor_response": reflection_pb2.FileDescriptorResponse(file_descriptor_proto=contents)}


def _error(code: StatusCode, message: str) -> dict[str, Any]:
    return {"error_response": reflection_pb2.ErrorResponse(error_code=int(code), error_message=message)}
