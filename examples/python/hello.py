"""Writes one record to a topic and reads the topic back, with nothing but gRPC and the generated stubs.

Programs in Python have an easier way, ``quorate.client``; this one shows what any language can do.
How to run it: docs/languages.md.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import grpc

from quorate.v1 import broker_pb2 as pb
from quorate.v1 import records_pb2
from quorate.v1.broker_pb2_grpc import BrokerServiceStub

GIVE_UP_S: Final = 60.0
DENIED_S: Final = 5.0  # a topic that was made just now is known everywhere by then
ATTEMPT_S: Final = 10.0  # a broker that hangs is not waited for


def hello(bootstrap: str, topic: str) -> None:
    # Write to partition 0. The answer comes once every in-sync replica has the record.
    record = records_pb2.Record(key=b"python", value=b"hello from Python")
    to_write = pb.ProducePartition(topic=topic, partition=0, records=[record])
    produce = pb.ProduceRequest(acks=pb.ACKS_ALL, partitions=[to_write])
    stored = at_leader(bootstrap, topic, "Produce", produce)
    print(f"stored at offset {stored.base_offset}")

    # Read the partition from its first record to ours.
    offset = stored.log_start_offset
    while offset < stored.next_offset:
        to_read = pb.FetchPartition(topic=topic, partition=0, fetch_offset=offset)
        fetch = pb.FetchRequest(max_wait_ms=500, format=pb.RECORD_FORMAT_RECORDS, partitions=[to_read])
        read = at_leader(bootstrap, topic, "Fetch", fetch)
        for each in read.records:
            print(f"{each.offset}: {each.value.decode()}")
        offset = read.next_fetch_offset


def at_leader(bootstrap: str, topic: str, method: str, request: Any) -> Any:
    """Makes a call at the broker that leads partition 0, and returns the result for that partition.

    Leadership moves when a broker dies, so every retriable error means: ask again who leads, and try there.

    A write whose answer was lost may have been stored, so a retry may store it twice. Batches with a producer
    id and a sequence number are stored once; making those is what a client library is for.
    """
    began = time.monotonic()
    while True:
        try:
            answer = call(leader_of(bootstrap, topic), method, request)
            return checked(answer.partitions[0])
        except Refused as error:
            patience_s = DENIED_S if error.code == "UNKNOWN_TOPIC_OR_PARTITION" else GIVE_UP_S
            if not error.is_retriable or time.monotonic() - began > patience_s:
                raise
            print(f"trying again: {error}", file=sys.stderr)
            time.sleep(1)


def leader_of(bootstrap: str, topic: str) -> str:
    """Asks any broker where partition 0 is led."""
    request = pb.GetMetadataRequest(topics=[pb.TopicReference(name=topic)])
    metadata = call(bootstrap, "GetMetadata", request)
    partition = checked(metadata.topics[0]).partitions[0]
    addresses = {broker.broker_id: broker.address for broker in metadata.brokers}
    if not partition.HasField("leader") or partition.leader not in addresses:
        raise Refused("NO_LEADER", "nobody leads the partition right now", is_retriable=True)
    return str(addresses[partition.leader])


def call(address: str, method: str, request: Any) -> Any:
    """A program that does more keeps one channel for each broker."""
    with grpc.insecure_channel(address) as channel:
        try:
            return getattr(BrokerServiceStub(channel), method)(request, timeout=ATTEMPT_S)
        except grpc.RpcError as error:
            is_retriable = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            raise Refused(error.code().name, str(error.details()), is_retriable=is_retriable) from error


def checked(result: Any) -> Any:
    """A call that went well may still carry an error for one topic or partition, and whether to try again."""
    if result.HasField("error"):
        raise Refused(result.error.code, result.error.message, is_retriable=result.error.retriable)
    return result


class Refused(Exception):
    def __init__(self, code: str, message: str, *, is_retriable: bool) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.is_retriable = is_retriable


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: hello.py HOST:PORT TOPIC (any broker, and a topic that exists)", file=sys.stderr)
        sys.exit(2)
    try:
        hello(sys.argv[1], sys.argv[2])
    except Refused as refused:
        sys.exit(str(refused))
