"""Commands that the documentation names exist, with the options that it gives them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from quorate.console.command_line import cli

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    path
    for folder in (ROOT, ROOT / "docs", ROOT / "deploy", ROOT / "examples")
    for path in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
    # What a measurement or a decision of the past was made with stays as it was.
    if not path.is_relative_to(ROOT / "docs" / "adr") and not path.is_relative_to(ROOT / "docs" / "evidence")
)
#: where a command of a shell ends
END = re.compile(r"\s(?:\||&&|;|>|>>|2>|<|#)(?:\s|$)|[;|]$|\)$")
#: a command's name, and not a file, an option's value or a word of a sentence
CALL = re.compile(r"(?:^|[\s/`(])quorate ((?:-|[a-z])[^\n]*)")


def calls(page: Path) -> Iterator[str]:
    """In blocks of code each line, elsewhere what stands in quotes."""
    text = page.read_text()
    for block in re.findall(r"^ *```[a-z]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            # Output of commands, JSON and the like begin otherwise.
            if re.match(r"\s*(?:\$ |[A-Z_]+=\S+ |echo [^|]*\| |for .*; do )*(?:\S*/)?quorate ", line):
                yield from (found.group(1) for found in CALL.finditer(line))
    without_blocks = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    for quoted in re.findall(r"`([^`\n]+)`", without_blocks):
        if quoted.startswith("quorate "):
            yield quoted.removeprefix("quorate ")


def words_of(call: str) -> list[str]:
    call = END.split(call, maxsplit=1)[0]
    try:
        return shlex.split(call)
    except ValueError:
        return call.split()


def problem_of(call: str) -> str | None:
    command: click.Command = cli
    known = {option for parameter in cli.params for option in parameter.opts}
    words = words_of(call)
    while words and isinstance(command, click.Group):
        word = words.pop(0)
        if word.startswith("-"):
            # A global one may stand before the command; with its value, if it has one.
            if word in ("--output", "--bootstrap") and words:
                words.pop(0)
            continue
        if not re.fullmatch(r"[a-z][a-z-]*", word):
            break
        found = command.get_command(click.Context(command), word)
        if found is None:
            return f"there is no command {word}"
        command = found
        known |= {option for parameter in command.params for option in parameter.opts}
    known |= {"--help", "-h", "--output", "--bootstrap", "--quiet"}
    for word in words:
        option = word.partition("=")[0].rstrip("…,.")
        if re.fullmatch(r"--[a-z-]+", option) and option not in known:
            return f"{command.name} has no option {option}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_the_page_exist(page: Path) -> None:
    problems = [(call, problem) for call in calls(page) if (problem := problem_of(call)) is not None]
    assert not problems


def test_the_pages_of_operations_are_full_of_commands() -> None:
    pages = [page for page in PAGES if {"operations", "runbooks"} & {*page.parts, page.stem}]
    assert sum(1 for page in pages for _ in calls(page)) > 60


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("topic describe orders --load --keys 5", None),
        ("--output json cluster describe > cluster.json", None),
        ("broker list", None),
        ("broker lst", "there is no command lst"),
        ("topic create orders --replicas 3", "create has no option --replicas"),
        ("produce orders | wc --lines", None),
    ],
)
def test_wrong_ones_are_noticed(call: str, problem: str | None) -> None:
    assert problem_of(call) == problem
