"""A broker that is cut off answers what it knew: no plan may rest on it, nor the first one of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

from pyspark.sql.types import LongType, StructField, StructType

from quorate.chaos.models.producer.simulated_brokers import service_of
from quorate.client.background import BackgroundLoop
from quorate.core.transport import Call, Handler, Server
from quorate.errors import UnknownTopicOrPartition
from quorate.pipeline.source import connection
from quorate.pipeline.source.batch_reader import QuorateReader
from quorate.pipeline.source.errors import DataLost, TopicRecreated
from quorate.pipeline.source.read_options import read_options
from quorate.pipeline.source.stream_reader import QuorateStreamReader
from quorate.rpc.error_detail import detail_from_error
from quorate.rpc.lean.transport import LeanTransport
from quorate.v1 import broker_pb2

_OFFSETS = StructType([StructField("offset", LongType())])
_OLD, _NEW = "A" * 22, "B" * 22
#: where each partition ends
_END = 100


class _Broker:
    """Knows topics as of its own metadata offset, and where every partition ends."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.address = "127.0.0.1:0"
        self.metadata_offset = 10
        #: name: id and number of partitions
        self.topics: dict[str, tuple[str, int]] = {}
        self.cluster: list[_Broker] = []
        self._server: Server | None = None

    async def start(self) -> None:
        methods: dict[str, Handler] = {"GetMetadata": self.get_metadata, "ListOffsets": self.list_offsets}
        self._server = await LeanTransport().serve(self.address, [service_of(methods)])
        self.address = self._server.address

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)

    async def get_metadata(
        self, request: broker_pb2.GetMetadataRequest, _call: Call
    ) -> broker_pb2.GetMetadataResponse:
        answer = broker_pb2.GetMetadataResponse(cluster_id="c", metadata_offset=self.metadata_offset)
        for each in self.cluster:
            answer.brokers.add(broker_id=each.number, address=each.address)
        names = sorted(self.topics) if request.all_topics else [each.name for each in request.topics]
        for name in names:
            if name not in self.topics:
                detail = detail_from_error(UnknownTopicOrPartition("no such topic"))
                answer.topics.add(name=name, error=detail)
                continue
            topic_id, partitions = self.topics[name]
            topic = answer.topics.add(name=name, topic_id=topic_id)
            for number in range(partitions):
                topic.partitions.add(partition=number, leader=1, leader_epoch=1, replicas=[1], isr=[1])
        return answer

    async def list_offsets(
        self, request: broker_pb2.ListOffsetsRequest, _call: Call
    ) -> broker_pb2.ListOffsetsResponse:
        answer = broker_pb2.ListOffsetsResponse()
        for each in request.partitions:
            is_start = each.spec == broker_pb2.OFFSET_SPEC_EARLIEST
            answer.partitions.add(
                topic=each.topic, partition=each.partition, offset=0 if is_start else _END, leader_epoch=1
            )
        return answer


@pytest.fixture
def brokers() -> Iterator[list[_Broker]]:
    """Three, of which the first leads everything. The third one does not hear of anything any more."""
    background = BackgroundLoop.acquire()
    made = [_Broker(number) for number in (1, 2, 3)]
    for each in made:
        each.cluster = made
        background.call(each.start())
    try:
        yield made
    finally:
        for known in list(connection._open.values()):
            known.close()
        connection._open.clear()
        for each in made:
            background.call(each.stop())
        background.release()


def _knows(
    brokers: list[_Broker], *, fresh: dict[str, tuple[str, int]], stale: dict[str, tuple[str, int]]
) -> None:
    for each in brokers[:2]:
        each.topics, each.metadata_offset = fresh, 20
    brokers[2].topics = stale


Processes = Callable[[], Iterator[list[str]]]


@pytest.fixture
def processes(brokers: list[_Broker]) -> Processes:
    """In each turn nothing is known yet, and another broker is asked first."""

    def turns() -> Iterator[list[str]]:
        addresses = [each.address for each in brokers]
        for first in range(len(addresses)):
            for known in list(connection._open.values()):
                known.close()
            connection._open.clear()
            yield addresses[first:] + addresses[:first]

    return turns


def _options(addresses: list[str], **options: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": ",".join(addresses), "kafka.request.timeout.ms": "10000", **options}
    return given if "subscribePattern" in given or "assign" in given else {"subscribe": "grown", **given}


def _stream(addresses: list[str], **options: str) -> QuorateStreamReader:
    given = _options(addresses, startingOffsets="earliest", **options)
    return QuorateStreamReader(read_options(given, is_streaming=True), _OFFSETS)


def _latest(reader: QuorateStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def _position(partitions: int, offset: int, *, topic: str = "grown", topic_id: str = _OLD) -> dict[str, Any]:
    return {topic: {"id": topic_id, "offsets": {str(number): offset for number in range(partitions)}}}


@pytest.mark.parametrize("how", [{}, {"subscribePattern": "gr.*"}, {"assign": '{"grown": [0, 1, 2, 3]}'}])
def test_a_process_that_has_just_started_is_not_misled_about_partitions(
    brokers: list[_Broker], processes: Processes, how: dict[str, str]
) -> None:
    _knows(brokers, fresh={"grown": (_OLD, 4)}, stale={"grown": (_OLD, 2)})
    for addresses in processes():
        assert _latest(_stream(addresses, **how), _position(4, 7)) == _position(4, _END)


def test_a_batch_leaves_out_no_partition_and_no_topic_that_one_broker_does_not_know(
    brokers: list[_Broker], processes: Processes
) -> None:
    _knows(brokers, fresh={"grown": (_OLD, 4), "grown-2": (_NEW, 1)}, stale={"grown": (_OLD, 2)})
    for addresses in processes():
        given = _options(addresses, subscribePattern="grown.*")
        tasks = QuorateReader(read_options(given, is_streaming=False), _OFFSETS).partitions()
        assert len(tasks) == 5


@pytest.mark.parametrize("is_lenient", ["true", "false"])
def test_a_partition_that_nobody_who_answers_knows_is_kept_where_it_was(
    brokers: list[_Broker], is_lenient: str
) -> None:
    """And read on from there, once it is known."""
    for each in brokers:
        each.topics = {"grown": (_OLD, 2)}
    reader = _stream([brokers[0].address], failOnDataLoss=is_lenient)
    found = _latest(reader, _position(4, 7))
    assert found["grown"]["offsets"] == {"0": _END, "1": _END, "2": 7, "3": 7}
    assert sum(task.value.size for task in reader.partitions(_position(4, 7), found)) == 2 * (_END - 7)
    for each in brokers:
        each.topics, each.metadata_offset = {"grown": (_OLD, 4)}, 20
    assert _latest(_stream([brokers[0].address]), found) == _position(4, _END)


def test_a_pattern_does_not_lose_a_topic_that_only_one_broker_does_not_know(
    brokers: list[_Broker], processes: Processes
) -> None:
    """One that is read already, so that it would be lost, or would be read from its beginning again."""
    _knows(brokers, fresh={"grown": (_OLD, 1), "grown-2": (_NEW, 1)}, stale={"grown": (_OLD, 1)})
    start = _position(1, 7) | _position(1, 7, topic="grown-2", topic_id=_NEW)
    for addresses in processes():
        reader = _stream(addresses, subscribePattern="grown.*")
        assert _latest(reader, start) == _position(1, _END) | _position(
            1, _END, topic="grown-2", topic_id=_NEW
        )


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_what_came_between_the_target_of_available_now_and_the_first_position_is_left_to_the_next_run(
    brokers: list[_Broker], fail_on_data_loss: str
) -> None:
    for each in brokers:
        each.topics = {"grown": (_OLD, 1)}
    options = {"subscribePattern": "grown.*", "failOnDataLoss": fail_on_data_loss}
    reader = _stream([brokers[0].address], **options)
    reader.prepareForTriggerAvailableNow()
    for each in brokers:
        each.topics, each.metadata_offset = {"grown": (_OLD, 2), "grown-2": (_NEW, 1)}, 20
    start = reader.initialOffset()
    came_later = _position(1, 0, topic="grown-2", topic_id=_NEW)
    assert start == _position(2, 0) | came_later
    end = _latest(reader, start)
    assert end == {"grown": {"id": _OLD, "offsets": {"0": _END, "1": 0}}} | came_later
    assert _latest(reader, end) == end
    next_run = _stream([brokers[0].address], **options)
    next_run.prepareForTriggerAvailableNow()
    assert _latest(next_run, end) == _position(2, _END) | _position(1, _END, topic="grown-2", topic_id=_NEW)


def test_a_topic_that_all_deny_and_a_partition_that_is_assigned_no_more_are_gone(
    brokers: list[_Broker],
) -> None:
    for each in brokers:
        each.topics = {"kept": (_OLD, 2)}
    start = _position(2, 7, topic="kept") | _position(1, 7)
    with pytest.raises(DataLost, match="grown-0: it is not there any more"):
        _latest(_stream([brokers[0].address], subscribePattern="kept|grown"), start)
    lenient = {"failOnDataLoss": "false", "assign": '{"kept": [1]}'}
    found = _latest(_stream([brokers[0].address], **lenient), start)
    assert found == {"kept": {"id": _OLD, "offsets": {"1": _END}}}


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_topic_made_anew_is_refused_by_its_id_also_where_data_may_be_lost(
    brokers: list[_Broker], partitions: int, *, is_available_now: bool
) -> None:
    """Fewer partitions than before are no reason to take it for the old one, and more are none."""
    for each in brokers:
        each.topics = {"grown": (_NEW, partitions)}
    reader = _stream([brokers[0].address], failOnDataLoss="false")
    if is_available_now:
        reader.prepareForTriggerAvailableNow()
    refused = rf"grown was deleted and made anew.* id {_OLD}.* id {_NEW}.* new checkpointLocation"
    with pytest.raises(TopicRecreated, match=refused):
        _latest(reader, _position(2, 7))
