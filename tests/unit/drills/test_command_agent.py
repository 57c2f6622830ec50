"""Agents of shell commands, from their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.chaos.drills.agent import Ability
from quorate.chaos.drills.catalogue import STORIES, find_story
from quorate.chaos.drills.command_agent import CommandAgent
from quorate.errors import InvalidConfig, InvalidRequest, Unavailable, UnsupportedOperation

_EXAMPLES = Path(__file__).parents[3] / "examples/drill-agents"

_FILE = """
kind = "a shell"
bootstrap = "localhost:1"
[[nodes]]
name = "one"
id = 1
roles = ["broker"]
[[nodes]]
name = "two's"
id = 2
roles = ["broker"]
[commands]
start = "echo start {node} >> %(log)s"
kill = "echo kill {node} {id} >> %(log)s; echo braces {{stay}} >/dev/null"
stop = "echo no such thing; exit 3"
"""


def _agent(directory: Path, text: str = _FILE) -> CommandAgent:
    path = directory / "agent.toml"
    path.write_text(text % {"log": directory / "log"} if "%(" in text else text)
    return CommandAgent.from_file(str(path))


async def test_commands_are_run_for_the_node_that_they_are_about(tmp_path: Path) -> None:
    agent = _agent(tmp_path)
    await agent.kill("two's")
    await agent.start("one")
    assert (tmp_path / "log").read_text() == "kill two's 2\nstart one\n"


async def test_a_command_that_fails_tells_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"status 3: no such thing"):
        await _agent(tmp_path).stop("one")


async def test_what_there_is_no_command_for_cannot_be_done_and_drills_that_need_it_do_not_fit(
    tmp_path: Path,
) -> None:
    agent = _agent(tmp_path)
    assert agent.abilities == {Ability.KILL, Ability.STOP}
    misfit = find_story("zombie-leader").misfit(agent)
    assert misfit is not None
    assert "pause and resume a node" in misfit
    with pytest.raises(UnsupportedOperation, match="pause"):
        await agent.pause("one")


def test_a_drill_that_does_not_fit_is_told_which_command_is_missing(tmp_path: Path) -> None:
    agent = _agent(tmp_path)
    misfit = find_story("zombie-leader").misfit(agent)
    assert misfit == "a shell: no way to pause and resume a node; it has no commands for pause, resume"
    misfit = find_story("wiped-disk").misfit(agent)
    assert misfit == "a shell: no way to empty a node's data directory; it has no command for wipe"


def test_what_is_missing_is_a_clause_of_its_own_and_left_out_where_an_agent_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = _agent(tmp_path)
    assert agent.what_is_missing_for({Ability.WIPE}) == "it has no command for wipe"
    monkeypatch.setattr(CommandAgent, "what_is_missing_for", lambda *_: "")
    assert find_story("wiped-disk").misfit(agent) == "a shell: no way to empty a node's data directory"


@pytest.mark.parametrize("name", ["bit-rot", "journal-rot", "disk-full"])
def test_what_only_the_logs_of_nodes_tell_is_not_judged_where_they_cannot_be_read(
    tmp_path: Path, name: str
) -> None:
    """A drill that counted 0 there would call damage unnoticed that was noticed."""
    agent = _agent(tmp_path)
    misfit = find_story(name).misfit(agent)
    assert misfit is not None
    assert "read what nodes have logged" in misfit
    assert misfit.endswith("that takes a cluster on this machine, which no command makes up for")
    with pytest.raises(UnsupportedOperation, match="log_damaged"):
        agent.times_logged("log_damaged", node="one")


def test_a_story_that_needs_more_brokers_does_not_fit(tmp_path: Path) -> None:
    misfit = find_story("leader-kill").misfit(_agent(tmp_path))
    assert misfit == "it needs 3 brokers, and there are 2"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("bootstrap = ", "bootstraps = "), "it has no bootstrap"),
        (("stop = ", "slay = "), "slay: no such action"),
        (("start = ", "pause = "), "pause needs resume"),
        (("[commands]", "[command]"), "command: no such key"),
        (('kind = "', "kind = "), "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_key(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        _agent(tmp_path, _FILE.replace("%(log)s", "log").replace(*change))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidConfig, match="cannot be read"):
        CommandAgent.from_file(str(path))


@pytest.mark.parametrize("path", sorted(_EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_can_tell_most_stories(path: Path) -> None:
    agent = CommandAgent.from_file(str(path))
    assert {Ability.KILL, Ability.STOP, Ability.PAUSE, Ability.ISOLATE} <= agent.abilities
    told = [story.name for story in STORIES if story.misfit(agent) is None]
    assert {"leader-kill", "rolling-kill", "zombie-leader", "rolling-restart", "everything"} <= set(told)


def test_names_of_drills_are_unique_and_a_wrong_one_is_told_the_right_ones() -> None:
    names = [story.name for story in STORIES]
    assert len(set(names)) == len(names)
    with pytest.raises(InvalidRequest, match=r"leader-kill, .*, everything, control-pysyncobj$"):
        find_story("nosuchthing")
