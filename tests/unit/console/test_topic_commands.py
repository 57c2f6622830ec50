"""``quorate topic`` against a controller that answers as it is told."""

from __future__ import annotations

import pytest

from quorate.console.main import main
from quorate.errors import NotEnoughReplicas
from quorate.v1 import admin_pb2
from tests.unit.console.fake_administration import FakeAdministration, json_of

Capsys = pytest.CaptureFixture[str]


def described(partitions: int = 2) -> admin_pb2.TopicDescription:
    return admin_pb2.TopicDescription(
        name="t",
        topic_id="id",
        partitions=[
            admin_pb2.PartitionDescription(partition=each, replicas=[1, 2], isr=[1], elr=[2], leader=1)
            for each in range(partitions)
        ],
    )


def test_replicas_may_be_placed_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAdministration(create_topic=described()).install(monkeypatch)
    assert main(["topic", "create", "t", "--assignment", "1:2,2:1"]) == 0
    [request] = fake.asked("create_topic")
    placed = [(each.partition, list(each.replicas)) for each in request.assignments]
    assert placed == [(0, [1, 2]), (1, [2, 1])]
    assert not request.HasField("partition_count")


def test_changes_of_a_topic_are_all_checked_before_the_first_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAdministration(
        alter_configs=[[], []], create_partitions=described(), describe_topic=described()
    ).install(monkeypatch)
    assert main(["topic", "alter", "t", "--partitions", "4", "--config", "retention.ms=1"]) == 0
    made = [(called, request.validate_only) for called, request in fake.calls[:-1]]
    assert made == [
        ("alter_configs", True),
        ("create_partitions", True),
        ("alter_configs", False),
        ("create_partitions", False),
    ]


def test_change_that_is_refused_leaves_the_topic_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAdministration(alter_configs=[[]], create_partitions=NotEnoughReplicas("no")).install(
        monkeypatch
    )
    assert main(["topic", "alter", "t", "--partitions", "4", "--config", "retention.ms=1"]) == 1
    assert all(request.validate_only for _, request in fake.calls)


@pytest.mark.parametrize(
    ("value", "source", "warning"),
    [
        ("1", admin_pb2.CONFIG_SOURCE_TOPIC, ""),
        ("2", admin_pb2.CONFIG_SOURCE_TOPIC, "is 2, as high as the number of replicas"),
        ("3", admin_pb2.CONFIG_SOURCE_TOPIC, "2 is in force"),
        ("3", admin_pb2.CONFIG_SOURCE_DEFAULT, ""),
    ],
)
def test_as_many_replicas_in_sync_as_there_are_or_more_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capsys,
    value: str,
    source: admin_pb2.ConfigSource,
    warning: str,
) -> None:
    topic = described()
    topic.configs.add(name="min.insync.replicas", value=value, source=source)
    FakeAdministration(create_topic=topic, alter_configs=[[], []], describe_topic=topic).install(monkeypatch)
    for command in (["create", "t"], ["alter", "t", "--config", f"min.insync.replicas={value}"]):
        assert main(["topic", *command]) == 0
        told = capsys.readouterr().err
        assert (warning in told, told.startswith("warning: ")) == (True, bool(warning))


def test_topic_is_deleted_by_id(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = FakeAdministration(describe_topic=described(), delete_topic=None).install(monkeypatch)
    assert json_of(capsys, "topic", "delete", "t", "--yes") == {"name": "t", "topic_id": "id"}
    assert fake.asked("delete_topic") == ["id"]


def test_topic_is_not_deleted_unasked(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    fake = FakeAdministration(describe_topic=described(), delete_topic=None).install(monkeypatch)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["topic", "delete", "t"]) == 2
    assert fake.asked("delete_topic") == []


@pytest.mark.parametrize(("answer", "status", "deleted"), [("y\n", 0, ["id"]), ("n\n", 1, [])])
def test_whoever_is_there_is_asked_before_a_topic_is_deleted(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, answer: str, status: int, deleted: list[str]
) -> None:
    fake = FakeAdministration(describe_topic=described(), delete_topic=None).install(monkeypatch)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _prompt: answer.strip())
    assert main(["topic", "delete", "t"]) == status
    assert fake.asked("delete_topic") == deleted
    assert ("t was not deleted" in capsys.readouterr().err) == (not deleted)


def test_describe_shows_eligible_leaders_and_the_worst_of_each_partition(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    topic = described(8)
    topic.configs.add(name="min.insync.replicas", value="2", source=admin_pb2.CONFIG_SOURCE_DEFAULT)
    for partition in topic.partitions:
        partition.replicas[:], partition.isr[:] = [1, 2, 3], [1, 2, 3]
    topic.partitions[1].ClearField("leader")
    topic.partitions[2].is_recovering = True
    topic.partitions[3].adding_replicas.append(3)
    topic.partitions[3].removing_replicas.append(1)
    topic.partitions[4].error.code = "LOG_DAMAGED"
    topic.partitions[5].isr[:] = [1, 2]
    topic.partitions[6].isr[:] = [1]
    topic.partitions[7].is_sync_pending = True
    FakeAdministration(describe_topic=topic).install(monkeypatch)
    assert main(["topic", "describe", "t"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:10]
    states = [" ".join(line.split()[9:]) for line in lines]
    assert states == [
        "ok", "offline", "recovering", "moving +3 -1", "LOG_DAMAGED", "under-replicated",
        "under min.insync.replicas", "not synced yet",
    ]  # fmt: skip
    told = json_of(capsys, "topic", "describe", "t")["topics"][0]["partitions"]
    assert [each["state"] for each in told] == states
    assert told[0]["elr"] == [2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["alter", "t"],
        ["alter", "t", "--config", "a=1", "--delete-config", "a"],
        ["create", "t", "--assignment", "1:x"],
        ["create", "t", "--assignment", ""],
    ],
)
def test_wrong_usage_of_topic_commands_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, arguments: list[str]
) -> None:
    fake = FakeAdministration().install(monkeypatch)
    assert main(["topic", *arguments]) == 2
    assert "Usage:" in capsys.readouterr().err
    assert fake.calls == []


@pytest.mark.parametrize(("option", "value"), [("--interval", "5"), ("--keys", "10"), ("--sample", "10000")])
def test_what_goes_with_load_is_refused_without_it_also_where_it_is_the_default(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topic", "describe", "orders", option, value]) == 2
    assert f"{option} goes with --load" in capsys.readouterr().err
