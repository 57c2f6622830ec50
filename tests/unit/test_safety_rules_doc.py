"""docs/safety-rules.md against the tree: all 66 rules are there, and no status claims what is not.

A status is read by a machine here, so it has a fixed shape::

    **Status:** KIND. Enforced by `path::Name`, `path`. Tested by `tests/...`. Missing: words.

``In place:`` takes the part of ``Enforced by`` where the kind is *groundwork*.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "safety-rules.md"

#: section letter -> its first and last rule; the numbers are part of the project's vocabulary
SECTIONS = {
    "A": (1, 1),
    "B": (2, 7),
    "C": (8, 12),
    "D": (13, 20),
    "E": (21, 26),
    "F": (27, 36),
    "G": (37, 37),
    "H": (38, 43),
    "I": (44, 48),
    "J": (49, 52),
    "K": (53, 61),
    "L": (62, 66),
}
RULE_NUMBERS = range(1, 67)

#: kind of status -> the labels that must follow it
LABELS_OF_KIND = {
    "enforced": ("Enforced by", "Tested by"),
    "partly": ("Enforced by", "Tested by", "Missing:"),
    "groundwork": ("In place:", "Missing:"),
    "not yet": (),
}

_RULE = re.compile(r"^### Rule (\d+): (.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_STATUS = re.compile(r"^\*\*Status:\*\* (.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
# "rule 44", "rules 30, 31 and 44", "rules 49-52", also broken over two comment lines.
_RULE_MENTION = re.compile(r"\brules?\s+(\d+(?:\s*(?:,|and|to|-|–)\s*\d+)*)", re.IGNORECASE)
_LINE_BREAK_IN_COMMENT = re.compile(r"\n\s*(?:#:?|//)?\s*")
_SOURCE_SUFFIXES = {".py", ".pyx", ".pyi", ".proto"}


class Rule(NamedTuple):
    number: int
    section: str
    status: str

    @property
    def kind(self) -> str:
        return self.status.split(".", 1)[0]

    @property
    def references(self) -> list[str]:
        """What the status names in backquotes that looks like a path."""
        return [word for word in re.findall(r"`([^`]+)`", self.status) if "/" in word]

    def references_after(self, label: str) -> list[str]:
        """The paths between this label and the next one."""
        _, _, after = self.status.partition(label)
        part = re.split(r"Enforced by|Tested by|In place:|Missing:", after)[0]
        return [word for word in re.findall(r"`([^`]+)`", part) if "/" in word]


def _read_rules(text: str) -> list[Rule]:
    rules = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        letter = re.match(r"([A-Z])\. ", section)
        for number, body in _RULE.findall(section):
            assert letter is not None, f"rule {number} stands outside a lettered section"
            statuses = _STATUS.findall(body)
            assert len(statuses) == 1, f"rule {number} has {len(statuses)} statuses"
            rules.append(Rule(int(number), letter[1], " ".join(statuses[0].split())))
    return rules


RULES = _read_rules(DOCUMENT.read_text())


def test_all_66_rules_are_there_once_and_in_order() -> None:
    assert [rule.number for rule in RULES] == list(RULE_NUMBERS)


def test_every_rule_stands_in_its_section() -> None:
    for rule in RULES:
        first, last = SECTIONS[rule.section]
        assert first <= rule.number <= last


def test_every_status_is_of_a_known_kind_and_says_all_that_the_kind_asks_for() -> None:
    for rule in RULES:
        assert rule.kind in LABELS_OF_KIND, rule
        for label in LABELS_OF_KIND[rule.kind]:
            assert label in rule.status, f"rule {rule.number} is {rule.kind!r} and has no {label!r}"
            if label != "Missing:":
                assert rule.references_after(label), f"rule {rule.number}: {label!r} names no file"


def test_only_tests_are_named_as_tests() -> None:
    for rule in RULES:
        for reference in rule.references_after("Tested by"):
            assert reference.startswith("tests/"), rule
        for reference in rule.references_after("Enforced by"):
            assert not reference.startswith("tests/"), rule


def test_every_file_and_name_in_a_status_exists() -> None:
    for rule in RULES:
        for reference in rule.references:
            path, _, name = reference.partition("::")
            assert (ROOT / path).exists(), f"rule {rule.number} names {path}, which is not there"
            if name:
                assert name in set(_names_defined_in(ROOT / path)), f"rule {rule.number}: no {reference}"


def test_a_rule_that_source_comments_mention_has_a_status_beyond_not_yet() -> None:
    not_yet = {rule.number for rule in RULES if rule.kind == "not yet"}
    wrong = {
        f"{path.relative_to(ROOT)}: rule {number}"
        for path in _source_files()
        for number in _rules_mentioned_in(path.read_text())
        if number in not_yet or number not in RULE_NUMBERS
    }
    assert not wrong


def test_mentions_are_read_in_all_the_ways_they_are_written() -> None:
    assert set(_rules_mentioned_in("# see rule 44")) == {44}
    assert set(_rules_mentioned_in("Rules 30, 31 and 44.")) == {30, 31, 44}
    assert set(_rules_mentioned_in("rules 49-52")) == {49, 50, 51, 52}
    assert set(_rules_mentioned_in("    # kept by rule\n    # 7, always")) == {7}
    assert set(_rules_mentioned_in("the rules of 2 logs")) == set()


def _names_defined_in(path: Path) -> Iterator[str]:
    """Classes, functions and module constants; methods and fields as ``Class.name``.

    In a file that is not Python, any word of it.
    """
    text = path.read_text()
    if path.suffix != ".py":
        yield from re.findall(r"\w+", text)
        return
    for node in ast.parse(text).body:
        yield from _names_of(node)
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                yield from (f"{node.name}.{name}" for name in _names_of(member))


def _names_of(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _source_files() -> Iterator[Path]:
    """Hand-written sources of all source roots: the folders that hold a ``quorate`` folder."""
    for namespace in sorted(ROOT.glob("*/quorate")):
        for path in sorted(namespace.rglob("*")):
            if path.suffix in _SOURCE_SUFFIXES and "_pb2" not in path.name:
                yield path


def _rules_mentioned_in(text: str) -> Iterator[int]:
    for match in _RULE_MENTION.finditer(_LINE_BREAK_IN_COMMENT.sub(" ", text)):
        for first, last in re.findall(r"(\d+)(?:\s*(?:to|-|–)\s*(\d+))?", match[1]):
            yield from range(int(first), int(last or first) + 1)
