"""Topics: made whole or not at all, found again after any stop, served as far as they can be."""

from __future__ import annotations

import asyncio

import pytest

from quorate.broker.local_metadata import LocalMetadata
from quorate.chaos.sim.disk_faults import FaultHook, Operation, ProcessDied
from quorate.core.config.topic import TOPIC_SETTINGS
from quorate.core.ids import BrokerId
from quorate.errors import (
    InvalidConfig,
    InvalidTopic,
    QuorateError,
    StorageFailed,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from quorate.storage.recovery import BATCH_BYTES_MAX
from quorate.v1 import admin_pb2
from tests.unit.broker.broker_harness import DATA_DIRECTORY, World, simulate


async def topic_names(world: World) -> list[str]:
    response = await world.call("ListTopics", admin_pb2.ListTopicsRequest())
    return [topic.name for topic in response.topics]


def test_topic_is_described_with_its_settings_and_where_they_come_from() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2, segment_bytes="1MiB")
        await world.produce("a", partition=1)
        topic = await world.describe()
        assert (topic.name, len(topic.topic_id), topic.replication_factor) == ("t", 22, 1)
        configs = {entry.name: (entry.value, entry.source) for entry in topic.configs}
        assert configs["segment.bytes"] == ("1048576", admin_pb2.CONFIG_SOURCE_TOPIC)
        assert configs["durability"] == ("replicated", admin_pb2.CONFIG_SOURCE_DEFAULT)
        assert set(configs) == {setting.key for setting in TOPIC_SETTINGS}
        first, second = topic.partitions
        assert (first.partition, first.leader, list(first.replicas), list(first.isr)) == (0, 1, [1], [1])
        assert (first.high_watermark, first.size_bytes) == (0, 0)
        assert (second.high_watermark, second.log_start_offset) == (1, 0)
        assert second.size_bytes > 0

    simulate(scenario)


def test_topics_survive_a_clean_stop_and_a_crash_with_ids_and_settings() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("b", partitions=3, retention_ms="-1")
        await world.create_topic("a")
        before = {name: await world.describe(name) for name in ("a", "b")}
        for stop in (world.restart, world.crash, world.lose_power):
            await stop()
            assert await topic_names(world) == ["a", "b"]
            for name, description in before.items():
                after = await world.describe(name)
                assert after.topic_id == description.topic_id
                assert after.configs == description.configs
                assert len(after.partitions) == len(description.partitions)

    simulate(scenario)


def test_leader_epoch_grows_with_every_start() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        epochs = [(await world.produce("a")).leader_epoch]
        for stop in (world.restart, world.crash, world.crash, world.lose_power):
            await stop()
            epochs.append((await world.produce("a")).leader_epoch)
        assert epochs == sorted(set(epochs))

    simulate(scenario)


def test_leader_epoch_grows_even_when_nothing_was_written_in_between() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.restart()
        await world.crash()
        assert (await world.describe()).partitions[0].leader_epoch == 2

    simulate(scenario)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 221, "a\n"])
def test_name_that_no_directory_could_have_is_refused(name: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(InvalidTopic):
            await world.create_topic(name)
        assert await topic_names(world) == []

    simulate(scenario)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 220, "-1", "...", "a-0.b"])
def test_name_is_accepted_and_found_again(name: str) -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(name)
        await world.crash()
        assert await topic_names(world) == [name]

    simulate(scenario)


def test_topic_that_exists_is_not_made_again() -> None:
    async def scenario(world: World) -> None:
        outcomes = await asyncio.gather(*(world.create_topic() for _ in range(5)), return_exceptions=True)
        assert outcomes.count(None) == 1
        assert sum(isinstance(outcome, TopicAlreadyExists) for outcome in outcomes) == 4

    simulate(scenario)


def test_creation_is_finished_even_if_the_client_goes_away() -> None:
    async def scenario(world: World) -> None:
        creating = asyncio.create_task(world.create_topic(partitions=3))
        await asyncio.sleep(0.2)
        creating.cancel()
        await world.create_topic("other")
        assert await topic_names(world) == ["other", "t"]
        creating = asyncio.create_task(world.create_topic("last"))
        await asyncio.sleep(0.2)
        creating.cancel()
        await world.restart()
        assert await topic_names(world) == ["last", "other", "t"]

    simulate(scenario, sync_delay_s=0.1)


def test_topic_whose_settings_no_longer_fit_the_node_is_named_when_it_starts() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(max_message_bytes="50MiB")
        assert await world.broker.close()
        with pytest.raises(InvalidConfig, match=r"topic t: max\.message\.bytes"):
            await world.start(socket_request_max_bytes=8 << 20, fetch_max_bytes=1 << 20)

    simulate(scenario)


@pytest.mark.parametrize("partitions", [0, -1, 10_001])
def test_impossible_number_of_partitions_is_refused(partitions: int) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(InvalidTopic):
            await world.create_topic(partitions=partitions)

    simulate(scenario)


def test_number_of_partitions_follows_the_node_where_none_is_given() -> None:
    async def scenario(world: World) -> None:
        await world.call("CreateTopic", admin_pb2.CreateTopicRequest(name="t"))
        assert len((await world.describe()).partitions) == 4

    simulate(scenario, num_partitions=4)


def test_more_copies_than_brokers_are_refused() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(InvalidTopic, match="one broker"):
            await world.call("CreateTopic", admin_pb2.CreateTopicRequest(name="t", replication_factor=3))

    simulate(scenario)


def test_unknown_setting_is_refused_with_the_nearest_known_one() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(InvalidConfig, match=r"did you mean segment\.bytes"):
            await world.create_topic(segment_byte="1MiB")

    simulate(scenario)


def test_batch_size_that_fits_into_no_message_is_refused() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(InvalidConfig, match=r"socket\.request\.max\.bytes"):
            await world.create_topic(max_message_bytes="100MiB")

    simulate(scenario)


def test_largest_batch_size_that_can_be_set_is_one_that_storage_takes_for_sound() -> None:
    [setting] = [each for each in TOPIC_SETTINGS if each.key == "max.message.bytes"]
    assert setting.kind.parse(BATCH_BYTES_MAX) == BATCH_BYTES_MAX
    with pytest.raises(ValueError, match="too large"):
        setting.kind.parse(BATCH_BYTES_MAX + 1)


def test_name_and_id_have_to_agree() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic("a")
        await world.create_topic("b")
        topic_id = (await world.describe("b")).topic_id
        request = admin_pb2.DescribeTopicRequest(name="a", topic_id=topic_id)
        with pytest.raises(UnknownTopicOrPartition, match="belongs to b"):
            await world.call("DescribeTopic", request)

    simulate(scenario)


def die_at(number: int) -> FaultHook:
    """Dead from that operation on: partitions are made side by side, and all of them end there."""
    seen = 0

    def hook(_operation: Operation) -> None:
        nonlocal seen
        seen += 1
        if seen >= number:
            raise ProcessDied

    return hook


def test_crash_at_any_point_of_a_creation_leaves_the_whole_topic_or_none() -> None:
    outcomes: set[bool] = set()

    def crash_at(number: int) -> bool:
        """Whether the creation got as far as the operation of that number."""
        finished = False

        async def scenario(world: World) -> None:
            nonlocal finished
            await world.create_topic("other")
            world.disk.fault_hook = die_at(number)
            try:
                await world.create_topic(partitions=2)
                finished = True
            except ProcessDied:
                pass
            world.disk.fault_hook = None
            await world.crash()
            existed = "t" in await topic_names(world)
            outcomes.add(existed)
            assert existed or not finished
            if not existed:
                await world.create_topic(partitions=2)
            assert [(await world.produce("a", partition=number)).base_offset for number in (0, 1)] == [0, 0]
            assert await topic_names(world) == ["other", "t"]

        simulate(scenario)
        return not finished

    number = 1
    while crash_at(number):
        number += 1
    assert number > 10
    assert outcomes == {True, False}


def test_missing_directory_takes_its_partition_offline_and_no_other() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2)
        await world.produce("kept", partition=1)
        topic_id = (await world.describe()).topic_id
        assert await world.broker.close()
        directory = f"{DATA_DIRECTORY}/t-0.{topic_id}"
        for name in world.disk.list(directory):
            world.disk.unlink(f"{directory}/{name}")
        world.disk.remove_directory(directory)
        await world.start()
        gone, kept = (await world.describe()).partitions
        assert gone.error.code == "STORAGE_FAILED"
        assert not gone.HasField("leader")
        assert kept.leader == 1
        assert (await world.produce("a", partition=0)).error.code == "STORAGE_FAILED"
        assert (await world.fetch(0, partition=0)).error.code == "STORAGE_FAILED"
        assert await world.values(1) == ["kept"]
        # Nor is it made anew, empty: that would hide the loss.
        assert f"t-0.{topic_id}" not in world.disk.list(DATA_DIRECTORY)

    simulate(scenario)


def test_damaged_log_is_not_served_and_the_others_are() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(partitions=2)
        for partition in (0, 1):
            await world.produce("a", partition=partition)
        topic_id = (await world.describe()).topic_id
        world.disk.flip_bit(f"{DATA_DIRECTORY}/t-0.{topic_id}/00000000000000000000.log", 8 * 65)
        assert (await world.fetch(0, partition=0)).error.code == "LOG_DAMAGED"
        found_while_serving = (await world.describe()).partitions[0]
        assert found_while_serving.error.code == "LOG_DAMAGED"
        assert not found_while_serving.HasField("leader")
        await world.crash()
        assert (await world.produce("b", partition=0)).error.code == "LOG_DAMAGED"
        assert (await world.describe()).partitions[0].error.code == "LOG_DAMAGED"
        assert await world.values(1) == ["a"]

    simulate(scenario)


def test_damaged_list_of_topics_refuses_the_start_and_is_left_alone() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a")
        assert await world.broker.close()
        path = f"{DATA_DIRECTORY}/metadata"
        world.disk.flip_bit(path, 400)
        damaged = world.disk.read_file(path)
        for _ in range(2):
            with pytest.raises(StorageFailed, match="list of topics is damaged"):
                await world.start()
        assert world.disk.read_file(path) == damaged
        world.disk.flip_bit(path, 400)
        await world.start()
        assert await world.values() == ["a"]

    simulate(scenario)


def test_start_that_fails_leaves_no_mark_of_a_clean_stop() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic()
        await world.produce("a")
        world.disk.crash()
        path = f"{DATA_DIRECTORY}/metadata"
        world.disk.flip_bit(path, 400)
        with pytest.raises(QuorateError):
            await world.start()
        assert "clean-shutdown" not in world.disk.list(DATA_DIRECTORY)
        assert world.disk.open_paths == []

    simulate(scenario)


def test_second_broker_on_the_same_directory_is_refused() -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(StorageFailed, match="used by another process"):
            await world.start()

    simulate(scenario)


def test_expired_segments_are_deleted_in_the_background() -> None:
    async def scenario(world: World) -> None:
        await world.create_topic(segment_bytes="16KiB", retention_ms="1h")
        for _ in range(4):
            await world.produce("x" * 10_000)
        maintenance = asyncio.create_task(world.broker.maintain_forever())
        await asyncio.sleep(3_000)
        assert (await world.describe()).partitions[0].log_start_offset == 0
        await asyncio.sleep(1_000)
        assert (await world.describe()).partitions[0].log_start_offset > 0
        maintenance.cancel()

    simulate(scenario)


def test_directory_of_an_unknown_topic_is_left_alone() -> None:
    async def scenario(world: World) -> None:
        name = f"stranger-0.{'x' * 22}"
        world.disk.make_directory(f"{DATA_DIRECTORY}/{name}")
        await world.crash()
        assert await topic_names(world) == []
        assert name in world.disk.list(DATA_DIRECTORY)

    simulate(scenario)


def test_data_directory_of_another_node_is_refused_by_both_ids() -> None:
    async def scenario(world: World) -> None:
        await world.restart()
        with pytest.raises(InvalidConfig, match=r"belongs to node 1, but node\.id is 7"):
            LocalMetadata.open(world.disk, DATA_DIRECTORY, BrokerId(7))

    simulate(scenario)
