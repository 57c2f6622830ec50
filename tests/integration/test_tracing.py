"""A trace travels with a record through a real cluster."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from quorate.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from quorate.client.tracing import Tracing
from quorate.node.local_cluster import LocalCluster


async def test_trace_travels_from_producer_to_consumer() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider)
    async with LocalCluster.create(brokers=1, is_combined=True) as cluster:
        async with AsyncAdmin(cluster.bootstrap) as admin, AsyncProducer(cluster.bootstrap) as producer:
            await admin.create_topic("orders", partitions=1, replication_factor=1)
            future = await tracing.send_async(producer, "orders", "42.00", headers={"kind": "paid"})
            place = await future
        async with AsyncConsumer(cluster.bootstrap, topics=["orders"]) as consumer:
            async for record in consumer:
                with tracing.processing(record):
                    assert dict(record.headers)["kind"] == b"paid"
                break
    sending, processing = exporter.get_finished_spans()
    assert sending.attributes is not None
    assert sending.attributes["messaging.quorate.offset"] == place.offset
    assert processing.parent is not None
    assert processing.parent.span_id == sending.context.span_id
