"""The ten minutes of docs/pipeline.md, run as they stand, on other ports and in another folder."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from typing import Final

from quorate.pipeline.jobs.config import ArchiveConfig
from quorate.pipeline.jobs.config.base import load
from tests.documented import ROOT, blocks_of, script_of
from tests.pipeline.job_helpers import LONG

_TIMEOUT_S: Final = 900


def test_the_file_of_settings_that_is_shown_is_one_that_its_job_takes(tmp_path: Path) -> None:
    # In every run, unlike the walk below: also that the page shows what that knows how to walk through.
    blocks = blocks_of("docs/pipeline.md", "Ten minutes")
    assert [each.kind for each in blocks] == ["sh", "python", "sh", "sh", "sh", "sh", "sh", "toml"]
    file = tmp_path / "archive.toml"
    file.write_text(blocks[-1].text, encoding="utf-8")
    config = load(ArchiveConfig, str(file), {})
    assert config.topics == ("orders", "payments")
    assert config.spark_conf == (("spark.executor.memory", "4g"),)


@LONG
async def test_the_ten_minutes_work_as_they_are_written(tmp_path: Path) -> None:
    blocks = [each for each in blocks_of("docs/pipeline.md", "Ten minutes") if each.kind != "toml"]
    script = (
        script_of(blocks, tmp_path) + '\necho "again: $(quorate consume orders-again --exit-at-end | wc -l)"'
    )
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", script),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), _TIMEOUT_S)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)  # the script stops its cluster
            await process.wait()
    text = out.decode()
    assert process.returncode == 0, text
    # The table that is shown, the archive of the first run and nothing new for the second, all of it again.
    assert "only showing top 20 rows" in text
    assert re.search(r"archive: batch 0: 1,000 rows, [\d,]+/s, lag 0", text), text
    # The table's buckets, of seven customers; and what the drill was promised.
    assert re.search(r"table: 1,000 rows, all done", text), text
    assert re.search(r"audit: passed; [\d,]+ sent, [1-9][\d,]* acknowledged", text), text
    assert '"group":"customer-6"' in text.replace(" ", ""), text
    # The cluster that is stopped has the last word.
    assert text.splitlines()[-2:] == ["again: 1000", "stopped node-1, node-2, node-3"], text
