"""A node from any Python program, with nothing but grpcio and the generated stubs.

Start one first:

    quorate node run --set node.id=1 --set data.dir=/tmp/quorate-example

Then: ``python examples/python/one_node.py [HOST:PORT]``
"""

import sys

import grpc

from quorate.v1 import admin_pb2, admin_pb2_grpc, broker_pb2, broker_pb2_grpc, records_pb2


def main(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        broker = broker_pb2_grpc.BrokerServiceStub(channel)

        try:
            admin.CreateTopic(admin_pb2.CreateTopicRequest(name="greetings"), timeout=10)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
                raise

        hello = records_pb2.Record(key=b"en", value=b"hello")
        produce = broker_pb2.ProduceRequest(
            acks=broker_pb2.ACKS_ALL,
            partitions=[broker_pb2.ProducePartition(topic="greetings", partition=0, records=[hello])],
        )
        [stored] = broker.Produce(produce, timeout=10).partitions
        if stored.HasField("error"):
            sys.exit(f"{stored.error.code}: {stored.error.message}")
        print(f"stored at offset {stored.base_offset}")

        fetch = broker_pb2.FetchRequest(
            format=broker_pb2.RECORD_FORMAT_RECORDS,
            partitions=[
                broker_pb2.FetchPartition(topic="greetings", partition=0, fetch_offset=stored.base_offset)
            ],
        )
        [fetched] = broker.Fetch(fetch, timeout=10).partitions
        for record in fetched.records:
            print(f"read at offset {record.offset}: {record.key.decode()}={record.value.decode()}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
