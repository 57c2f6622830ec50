"""Where values come from, who wins, and what a mistake is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.core.config import HostPort, NodeConfig, load_node_config
from quorate.core.config.node import NODE_SETTINGS
from quorate.core.config.sources import from_environment
from quorate.core.ids import BrokerId
from quorate.errors import InvalidConfig

REQUIRED = ("node.id=1", "data.dir=/data")


def load(
    *set_options: str, file: Path | None = None, environment: dict[str, str] | None = None
) -> NodeConfig:
    path = None if file is None else str(file)
    return load_node_config(path, set_options=set_options, environment=environment or {})


def write(directory: Path, text: str) -> Path:
    path = directory / "node.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(*set_options: str, file: Path | None = None, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(InvalidConfig) as caught:
        load(*set_options, file=file, environment=environment)
    return caught.value.message


def test_file_supplies_values_in_dotted_keys_and_tables(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        node.id = 7
        data.dir = "/data"
        listeners = ["127.0.0.1:9092", "[::1]:9093"]
        [log]
        segment.bytes = 1_048_576
        [log.retention]
        ms = "3d"
        """,
    )
    config = load(file=file)
    assert config.node_id == 7
    assert config.listeners == (HostPort("127.0.0.1", 9092), HostPort("::1", 9093))
    assert config.topic_defaults.segment_bytes == 1 << 20
    assert config.topic_defaults.retention_ms == 3 * 86_400_000


def test_set_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = write(tmp_path, "node.id = 1\ndata.dir = '/file'\nnum.partitions = 11\nnum.io.threads = 12\n")
    environment = {"QUORATE_NUM_PARTITIONS": "21", "QUORATE_NODE_ID": "22"}
    config = load("node.id=33", file=file, environment=environment)
    assert config.node_id == 33
    assert config.num_partitions == 21
    assert config.num_io_threads == 12
    assert config.fetch_wait_max_ms == 60_000


def test_last_of_several_set_options_wins() -> None:
    assert load(*REQUIRED, "num.partitions=2", "num.partitions=3").num_partitions == 3


def test_relative_data_directory_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load("node.id=1", "data.dir=here").data_dir == str(tmp_path / "here")


def test_missing_required_keys_are_all_named_with_the_ways_to_set_them() -> None:
    message = refusal()
    assert "node.id is required" in message
    assert "QUORATE_NODE_ID" in message
    assert "--set data.dir=" in message


def test_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    assert "did you mean log.retention.ms?" in refusal(*REQUIRED, "log.retention.mss=5")


def test_unknown_key_that_resembles_nothing_gets_no_suggestion() -> None:
    assert "did you mean" not in refusal(*REQUIRED, "zzzzzzzz=5")


def test_unknown_key_in_a_file_is_refused_with_file_and_line(tmp_path: Path) -> None:
    file = write(tmp_path, "node.id = 1\ndata.dir = '/d'\n\n[log]\nsegment.byte = 5\n")
    message = refusal(file=file)
    assert f"{file}:5: unknown key log.segment.byte" in message
    assert "did you mean log.segment.bytes?" in message


def test_wrong_value_in_a_file_names_line_key_and_what_would_be_accepted(tmp_path: Path) -> None:
    file = write(tmp_path, "node.id = 1\ndata.dir = '/d'\nnum.partitions = true\n")
    message = refusal(file=file)
    assert message.startswith(f"{file}:3: num.partitions:")
    assert "expected a whole number from 1 to 10000" in message


def test_value_of_several_lines_is_located_at_its_end(tmp_path: Path) -> None:
    file = write(tmp_path, "node.id = 1\ndata.dir = '/d'\nlisteners = [\n  'a:1',\n  'nonsense',\n]\n")
    assert f"{file}:6: listeners:" in refusal(file=file)


def test_wrong_value_in_the_environment_names_the_variable() -> None:
    message = refusal(*REQUIRED, environment={"QUORATE_LOGGING_FORMAT": "maybe"})
    assert "environment variable QUORATE_LOGGING_FORMAT" in message
    assert "one of auto, json, text" in message


def test_misspelt_variable_is_refused_and_not_ignored() -> None:
    message = refusal(*REQUIRED, environment={"QUORATE_NODE_IDD": "1"})
    assert "environment variable QUORATE_NODE_IDD" in message
    assert "did you mean node.id?" in message


@pytest.mark.parametrize(
    "variable",
    [
        "QUORATE_SERVICE_HOST",
        "QUORATE_SERVICE_PORT_GRPC",
        "QUORATE_PORT",
        "QUORATE_PORT_9092_TCP_ADDR",
        "QUORATE_BROKER_SERVICE_PORT",
        "QUORATE_BOOTSTRAP",
        "QUORATE_CLIENT_RACK",
        "QUORATE_CODEC",
        "QUORATE_TRACEBACK",
        "HOME",
    ],
)
def test_variables_that_are_no_settings_are_left_alone(variable: str) -> None:
    assert load(*REQUIRED, environment={variable: "tcp://10.0.0.1:9092"}).node_id == 1


def test_no_setting_is_mistaken_for_a_variable_of_others() -> None:
    variables = {each.environment_name: each.key for each in NODE_SETTINGS}
    found = from_environment(dict.fromkeys(variables, "x"), variables)
    assert {raw.key for raw in found} == {each.key for each in NODE_SETTINGS}


def test_all_problems_are_reported_at_once() -> None:
    message = refusal("node.id=-1", "nope.nope=1")
    assert message.startswith("3 problems:")
    for part in ("node.id: -1 is too small", "unknown key nope.nope", "data.dir is required"):
        assert part in message


@pytest.mark.parametrize("option", ["node.id", "=5", ""])
def test_set_option_without_key_or_value_is_refused(option: str) -> None:
    assert "expected KEY=VALUE" in refusal(*REQUIRED, option)


def test_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    assert "does not exist" in refusal(file=tmp_path / "absent.toml")


def test_directory_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(file=tmp_path)


def test_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in refusal(file=path)


def test_file_that_is_no_toml_is_refused_with_the_place(tmp_path: Path) -> None:
    assert "line 1" in refusal(file=write(tmp_path, "node.id == 1"))


def test_batch_that_fits_into_no_request_is_refused_naming_both_keys() -> None:
    message = refusal(
        *REQUIRED, "message.max.bytes=4MiB", "socket.request.max.bytes=4MiB", "fetch.max.bytes=1MiB"
    )
    assert "message.max.bytes" in message
    assert "socket.request.max.bytes" in message


def test_configuration_built_by_code_is_held_to_the_same_bounds() -> None:
    with pytest.raises(InvalidConfig, match=r"num\.partitions: 0 is too small"):
        NodeConfig(node_id=BrokerId(1), data_dir="/data", num_partitions=0)


def test_producers_are_remembered_for_longer_than_any_of_them_tries() -> None:
    """One that is forgotten before writes a batch twice."""
    with pytest.raises(InvalidConfig, match=r"producer\.id\.expiration\.ms: 3599999 is too small"):
        NodeConfig(node_id=BrokerId(1), data_dir="/data", producer_id_expiration_ms=3_599_999)


def test_key_that_is_nearly_one_of_the_clusters_is_refused_with_that() -> None:
    assert "did you mean min.insync.replicas?" in refusal(*REQUIRED, "min.insync.replica=3")


def test_setting_that_must_be_one_for_the_cluster_is_refused_at_a_node() -> None:
    # Rule 29: a MinISR of its own at a broker would let it acknowledge what others do not hold.
    told = refusal("min.insync.replicas=1")
    assert "--set min.insync.replicas: min.insync.replicas has to be one value for the whole cluster" in told
