"""Whoever lists an archive of Parquet finds every batch whole, also while files are put in place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.archive.listing import listed_whole


def _say(state: Path, *, ends: int, removals: Sequence[str] = (), renames: Sequence[object] = ()) -> None:
    state.write_text(json.dumps({"ends": ends, "removals": removals, "renames": renames}))


def test_with_nothing_to_do_the_first_listing_is_taken(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert listed_whole("archive", str(state), lambda: "somebody else's", looks_max=1) == "somebody else's"
    _say(state, ends=7)
    assert listed_whole("archive", str(state), lambda: "files", looks_max=1) == "files"


def test_a_listing_during_which_files_were_replaced_is_done_again(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    _say(state, ends=7)
    looks = 0

    def look() -> int:
        nonlocal looks
        looks += 1
        if looks == 1:
            # A whole batch is put in place meanwhile.
            _say(state, ends=8)
        if looks == 2:
            # Small files begin to be replaced, and that is over before anybody looks again.
            _say(state, ends=8, removals=["a"], renames=[["b", "c"]])
            _say(state, ends=9)
        return looks

    assert listed_whole("archive", str(state), look) == 3


def test_what_a_killed_job_has_left_in_the_middle_is_not_taken_for_the_archive(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    _say(state, ends=8, renames=[["b", "c"]])
    with pytest.raises(InvalidRequest, match="run that archive job again"):
        listed_whole("archive", str(state), lambda: pytest.fail("it is not whole"), looks_max=2)
