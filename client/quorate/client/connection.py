"""Typed calls to a cluster, by the first bootstrap address that answers.

What the command line and the demonstration need, and no more: no batching, no retries, no state of
topics. Those belong to Producer, Consumer and Admin.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Literal, Protocol, Self, TypeVar

from google.protobuf.message import Message

from quorate.core.config import parse_address
from quorate.core.transport import Channel, Method, Transport, method_of
from quorate.errors import InvalidConfig, RequestTimedOut, Unavailable
from quorate.rpc.error_detail import error_from_detail
from quorate.rpc.grpcio_transport import GrpcioOptions, GrpcioTransport
from quorate.v1 import admin_pb2, broker_pb2, errors_pb2

__all__ = ["Connection", "connect", "parse_bootstrap", "raise_if_failed"]

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

_BROKER: Final = broker_pb2.DESCRIPTOR.services_by_name["BrokerService"]
_ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]

_PRODUCE: Final = method_of(_BROKER, "Produce", broker_pb2.ProduceRequest, broker_pb2.ProduceResponse)
_FETCH: Final = method_of(_BROKER, "Fetch", broker_pb2.FetchRequest, broker_pb2.FetchResponse)
_LIST_OFFSETS: Final = method_of(
    _BROKER, "ListOffsets", broker_pb2.ListOffsetsRequest, broker_pb2.ListOffsetsResponse
)
_CREATE_TOPIC: Final = method_of(
    _ADMIN, "CreateTopic", admin_pb2.CreateTopicRequest, admin_pb2.CreateTopicResponse
)
_LIST_TOPICS: Final = method_of(
    _ADMIN, "ListTopics", admin_pb2.ListTopicsRequest, admin_pb2.ListTopicsResponse
)
_DESCRIBE_TOPIC: Final = method_of(
    _ADMIN, "DescribeTopic", admin_pb2.DescribeTopicRequest, admin_pb2.DescribeTopicResponse
)

#: An address that does not answer within this is passed over, if there are others.
_PROBE_TIMEOUT_S: Final = 3.0
_ADMIN_TIMEOUT_S: Final = 30.0
#: What a call may take beyond the time that the broker is allowed to wait.
_MARGIN_S: Final = 10.0
#: A single batch may be as large as 128 MiB, whatever a fetch asks for.
_MESSAGE_BYTES_MAX: Final = 160 << 20


def parse_bootstrap(text: str) -> list[str]:
    """The addresses in ``HOST:PORT[,HOST:PORT…]``."""
    try:
        return [str(parse_address(part.strip())) for part in text.split(",")]
    except ValueError as error:
        raise InvalidConfig(f"bootstrap: {error}; expected HOST:PORT[,HOST:PORT…]", key="bootstrap") from None


def connect(bootstrap: str) -> Connection:
    """To a cluster on the network, by gRPC."""
    options = GrpcioOptions(message_bytes_max=_MESSAGE_BYTES_MAX)
    return Connection(GrpcioTransport(options), parse_bootstrap(bootstrap))


class _PartitionResult(Protocol):
    """What the results of Produce, Fetch and ListOffsets have in common."""

    @property
    def error(self) -> errors_pb2.ErrorDetail: ...

    def HasField(self, name: Literal["error"], /) -> bool: ...  # noqa: N802 - protobuf's name


def raise_if_failed(result: _PartitionResult) -> None:
    """The error of one partition of an answer, as the exception that it is."""
    if result.HasField("error"):
        raise error_from_detail(result.error)


class Connection:
    """Use as an asynchronous context manager."""

    def __init__(self, transport: Transport, addresses: Sequence[str]) -> None:
        assert addresses
        self._transport = transport
        self._addresses = addresses
        self._channel: Channel | None = None

    async def __aenter__(self) -> Self:
        self._channel = await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._channel is not None
        await self._channel.close()

    async def produce(self, request: broker_pb2.ProduceRequest) -> broker_pb2.ProduceResponse:
        return await self._call(_PRODUCE, request, timeout_s=request.timeout_ms / 1000 + _MARGIN_S)

    async def fetch(self, request: broker_pb2.FetchRequest) -> broker_pb2.FetchResponse:
        return await self._call(_FETCH, request, timeout_s=request.max_wait_ms / 1000 + _MARGIN_S)

    async def list_offsets(self, request: broker_pb2.ListOffsetsRequest) -> broker_pb2.ListOffsetsResponse:
        return await self._call(_LIST_OFFSETS, request)

    async def create_topic(self, request: admin_pb2.CreateTopicRequest) -> admin_pb2.TopicDescription:
        return (await self._call(_CREATE_TOPIC, request)).topic

    async def list_topics(self) -> list[admin_pb2.TopicListing]:
        return list((await self._call(_LIST_TOPICS, admin_pb2.ListTopicsRequest())).topics)

    async def describe_topic(self, name: str) -> admin_pb2.TopicDescription:
        return (await self._call(_DESCRIBE_TOPIC, admin_pb2.DescribeTopicRequest(name=name))).topic

    async def _call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float = _ADMIN_TIMEOUT_S
    ) -> Response:
        assert self._channel is not None
        return await self._channel.call(method, request, timeout_s=timeout_s)

    async def _connect(self) -> Channel:
        """The first address that answers; a single one need not be asked first."""
        if len(self._addresses) == 1:
            return self._transport.connect(self._addresses[0])
        for address in self._addresses:
            channel = self._transport.connect(address)
            try:
                await channel.call(_LIST_TOPICS, admin_pb2.ListTopicsRequest(), timeout_s=_PROBE_TIMEOUT_S)
            except (Unavailable, RequestTimedOut):
                await channel.close()
            except BaseException:
                await channel.close()
                raise
            else:
                return channel
        raise Unavailable(f"nobody answers at any of {', '.join(self._addresses)}")
