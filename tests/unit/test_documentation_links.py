"""Links between the pages, and what the pages name, exist; no folder with code goes without a word."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH_IN_BACKQUOTES = re.compile(r"`([\w.-]+(?:/[\w.*-]+)+/?)(?:::\w+)?`")


def _pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])


def _anchors(page: Path) -> set[str]:
    """What a heading can be linked by, as GitHub derives it."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_between_pages_leads_somewhere() -> None:
    broken = []
    for page in _pages():
        for target in _LINK.findall(page.read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            linked = (page.parent / path) if path else page
            if not linked.exists() or (anchor and anchor not in _anchors(linked)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


@pytest.mark.parametrize("page", ["README.md", "docs/proofs.md"])
def test_every_path_that_pages_of_proofs_name_exists(page: str) -> None:
    named = set(_PATH_IN_BACKQUOTES.findall((ROOT / page).read_text()))
    assert named
    assert not {path for path in named if not list(ROOT.glob(path.rstrip("/")))}


def test_every_promise_in_the_readme_is_among_the_proofs() -> None:
    """The README has a few of them only, word for word but for where links begin."""
    of_readme, of_all = (_table_rows(page) for page in ("README.md", "docs/proofs.md"))
    assert of_readme
    assert of_readme < of_all


def _table_rows(page: str) -> set[str]:
    rows = re.findall(r"^\| (.+) \|$", (ROOT / page).read_text(), re.MULTILINE)
    return {re.sub(r"\]\([^)]*/", "](", row) for row in rows}


def test_architecture_tells_of_every_source_root() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    roots = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["dev-mode-dirs"]
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert "pipeline" in roots
    assert [root for root in roots if f"\n| `{root}/` |" not in page] == []
    # proto is what the others import, and stands on nothing.
    assert [root for root in roots if root != "proto" and f"\n    {root} --> " not in page] == []
