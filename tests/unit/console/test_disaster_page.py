"""What docs/operations/disaster-recovery.md gives to be typed, run as it stands with a `quorate` of paper."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations" / "disaster-recovery.md"
TOPICS = {
    "topics": [
        {
            "name": "__consumer_offsets",
            "partitions": [{"partition": 0, "state": "offline"}, {"partition": 1, "state": "ok"}],
        },
        {"name": "orders", "partitions": [{"partition": 12, "state": "offline"}]},
    ]
}


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_loop_recovers_each_partition_that_is_offline_and_no_other(tmp_path: Path) -> None:
    [loop] = re.findall(r"^ *```\n(.*?)^ *```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "topics.json").write_text(json.dumps(TOPICS))
    quorate = tmp_path / "quorate"
    # It reads its standard input, as a command that asks may: the list has to be safe from it.
    quorate.write_text('#!/bin/sh\ncase $1 in topic) cat topics.json;; *) cat; echo "$@";; esac\n')
    quorate.chmod(0o755)
    subprocess.run(
        ["sh", "-euc", textwrap.dedent(loop)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=True,
    )
    assert (tmp_path / "recovered.txt").read_text().splitlines() == [
        "partition recover __consumer_offsets:0 --yes",
        "partition recover orders:12 --yes",
    ]
