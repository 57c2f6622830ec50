"""A whole node whose disk is full: it serves what it has, and everybody who asks hears what it cannot do."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from quorate.chaos.sim.transport import SimTransport
from quorate.console.cluster_health import look_at_cluster
from quorate.errors import DiskFull
from quorate.v1 import admin_pb2, broker_pb2, records_pb2
from tests.unit.node.test_endpoint import ask, measured
from tests.unit.node.test_simulated_node import CONFIG, PRODUCE, Machine, produce, simulate


async def refused_code(machine: Machine) -> str:
    entry = broker_pb2.ProducePartition(topic="t", records=[records_pb2.Record(value=b"x" * 10_000)])
    channel = SimTransport(machine.network, "client").connect("node:9092")
    answer = await channel.call(PRODUCE, broker_pb2.ProduceRequest(partitions=[entry]), timeout_s=10.0)
    await channel.close()
    return answer.partitions[0].error.code


def test_full_disk_is_in_health_and_metrics_until_there_is_room_again() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        endpoint = measured()
        endpoint.attach(node.node, CONFIG.node_id)

        async def without_room() -> float:
            # A page is kept for a second.
            await machine.simulation.clock.sleep(2)
            page = (await ask(endpoint, "/metrics")).body.decode()
            [family] = [
                each
                for each in text_string_to_metric_families(page)
                if each.name == "quorate_broker_logs_without_room"
            ]
            return family.samples[0].value

        async with machine.connect() as connection:
            await connection.create_topic(admin_pb2.CreateTopicRequest(name="t", partition_count=1))
            await produce(machine, b"v")
            assert (await look_at_cluster(connection)).problems == []
            assert await without_room() == 0

            machine.disk.capacity_bytes = machine.disk.used_bytes + 1_000
            assert await refused_code(machine) == DiskFull.code
            health = await look_at_cluster(connection)
            assert health.problems == [
                "1 partition takes no records: no space left on the disk of broker 1 (DISK_FULL)"
            ]
            assert health.partitions[0]["high_watermark"] == 1, "what is there is read"
            assert await without_room() == 1

            machine.disk.capacity_bytes = None
            await produce(machine, b"v")
            assert (await look_at_cluster(connection)).problems == []
            assert await without_room() == 0

            # Told once in half a minute: this one is to be.
            await machine.simulation.clock.sleep(30)
            machine.disk.capacity_bytes = machine.disk.used_bytes + 1_000
            assert await refused_code(machine) == DiskFull.code
            assert len((await look_at_cluster(connection)).problems) == 1
            machine.disk.capacity_bytes = None
            await machine.simulation.clock.sleep(60)
            assert (await look_at_cluster(connection)).problems == [], "although nothing was written"
            assert await without_room() == 0
        await node.stop()

    simulate(scenario)
