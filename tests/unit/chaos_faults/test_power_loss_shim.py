"""The shim loses what was not synced, all of it and nothing else; killing a process loses nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.chaos.faults.powerloss import FaultyDisk, why_no_shim
from quorate.chaos.sim.disk import SimDisk
from quorate.core.disk import Disk
from quorate.core.os_disk import OsDisk
from tests.unit.chaos_faults.disk_script import ScriptRunner, Step, draw_script

pytestmark = pytest.mark.skipif(why_no_shim() is not None, reason=str(why_no_shim()))

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    return FaultyDisk(str(tmp_path / "data"))


def run_under_shim(disk: FaultyDisk, *arguments: str, stdin: str = "") -> str:
    process = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **disk.environment()},
        cwd=REPOSITORY,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    return process.stdout


def run_python(disk: FaultyDisk, program: str) -> None:
    """A program that does as it pleases in the directory, and is then killed."""
    lines = (
        "import os, signal",
        f"os.chdir({disk.directory!r})",
        "root = os.open('.', os.O_RDONLY)",
        program,
        "os.kill(os.getpid(), signal.SIGKILL)",
    )
    run_under_shim(disk, "-c", "\n".join(lines))


def everything(disk: Disk, path: str) -> object:
    try:
        names = disk.list(path)
    except NotADirectoryError:
        return disk.read_file(path)
    return {name: everything(disk, f"{path}/{name}") for name in names}


def files(disk: FaultyDisk) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in Path(disk.directory).iterdir() if each.is_file()}


@pytest.mark.parametrize("seed", range(3))
async def test_shim_and_simulated_disk_keep_the_same_after_power_loss(disk: FaultyDisk, seed: int) -> None:
    rng = random.Random(seed)
    lives = [{f"case-{n}": draw_script(rng, rng.randint(5, 40)) for n in range(50)} for _ in range(2)]
    real = OsDisk(sync_threads=1)
    simulated = SimDisk()
    simulated.make_directory("/data")
    await simulated.fsync_directory("/")
    # Two processes, one after the other: being killed loses nothing, and the notes of the first still count.
    for scripts in lives:
        outcomes = json.loads(run_scripts(disk, scripts))
        assert outcomes == await simulated_outcomes(simulated, scripts)
        assert everything(real, disk.directory) == everything(simulated, "/data")
    before = everything(real, disk.directory)

    loss = disk.lose_power()
    simulated.power_loss()

    assert everything(real, disk.directory) == everything(simulated, "/data")
    assert everything(real, disk.directory) != before
    assert loss.names
    assert loss.lost_bytes
    real.close()


def run_scripts(disk: FaultyDisk, scripts: dict[str, list[Step]]) -> str:
    module = "tests.unit.chaos_faults.disk_script"
    return run_under_shim(disk, "-m", module, disk.directory, stdin=json.dumps(scripts))


async def simulated_outcomes(disk: SimDisk, scripts: dict[str, list[Step]]) -> dict[str, list[str]]:
    for name in scripts:
        disk.make_directory(f"/data/{name}")
    await disk.fsync_directory("/data")
    return {name: await ScriptRunner(disk, f"/data/{name}").run(script) for name, script in scripts.items()}


def test_write_during_a_sync_is_not_covered_by_it(disk: FaultyDisk) -> None:
    # Thousands of appends in one thread while another syncs; the last sync begins before the last append.
    run_python(
        disk,
        """
import threading
file = os.open('log', os.O_RDWR | os.O_CREAT)
os.fsync(root)
stop = threading.Event()
synced = 0
def sync():
    global synced
    while not stop.is_set():
        size = os.fstat(file).st_size
        os.fdatasync(file)
        synced = size
thread = threading.Thread(target=sync)
thread.start()
for number in range(3000):
    os.pwrite(file, b'%06d\\n' % number, number * 7)
stop.set()
thread.join()
os.pwrite(file, b'never synced', 3000 * 7)
note = os.open('note', os.O_RDWR | os.O_CREAT)
os.write(note, b'%d' % synced)
os.fsync(note)
os.fsync(root)
""",
    )
    disk.lose_power()
    kept = files(disk)
    assert b"never" not in kept["log"]
    assert len(kept["log"]) >= int(kept["note"]) > 0
    assert kept["log"] == b"".join(b"%06d\n" % number for number in range(3000))[: len(kept["log"])]


def test_replaced_file_comes_back_unless_the_directory_was_synced(disk: FaultyDisk) -> None:
    program = """
for name, content in (('state', b'old'), ('state.tmp', b'new')):
    with open(name, 'wb') as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if name == 'state':
        os.fsync(root)
os.rename('state.tmp', 'state')
"""
    run_python(disk, program)
    assert files(disk) == {"state": b"new"}
    assert disk.lose_power().names == 2
    assert files(disk) == {"state": b"old"}

    run_python(disk, program + "os.fsync(root)")
    assert disk.lose_power().names == 0
    assert files(disk) == {"state": b"new"}


def test_torn_losses_keep_what_was_synced_and_invent_nothing(disk: FaultyDisk) -> None:
    for number in range(40):
        Path(disk.directory, f"{number}").write_bytes(b"A" * 3000)
    run_python(disk, "for n in range(40): os.pwrite(os.open(f'{n}', os.O_RDWR), b'B' * 3000, 3000)")
    disk.lose_power(random.Random(1))
    outcomes = set()
    for content in files(disk).values():
        assert content.startswith(b"A" * 3000), "it was synced"
        assert len(content) <= 6000
        assert set(content) <= {ord("A"), ord("B"), 0}
        outcomes.add((len(content), content.count(b"B")))
    assert {(3000, 0), (6000, 3000)} <= outcomes, "nothing, and all of it"
    assert len(outcomes) > 6


def test_boot_id_changes_with_power_loss_and_only_then(disk: FaultyDisk) -> None:
    program = """
from quorate.core.os_disk import OsDisk
with open('boot', 'w') as file:
    file.write(OsDisk().boot_id())
    file.flush()
    os.fsync(file.fileno())
os.fsync(root)
"""
    seen = []
    for _ in range(2):
        run_python(disk, program)
        seen.append(files(disk)["boot"])
    disk.lose_power()
    for _ in range(2):
        run_python(disk, program)
        seen.append(files(disk)["boot"])
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert seen[1] != seen[2]


def test_full_disk_refuses_what_would_grow_and_takes_the_rest(disk: FaultyDisk) -> None:
    run_python(disk, "os.write(os.open('log', os.O_WRONLY | os.O_CREAT), b'0123456789')")
    disk.fill()
    run_python(
        disk,
        """
import errno
file = os.open('log', os.O_RDWR)
os.pwrite(file, b'abc', 0)
for grow in (
    lambda: os.pwrite(file, b'abc', 8),
    lambda: os.pwritev(file, [b'abc'], 10),
    lambda: os.ftruncate(file, 11),
    lambda: os.open('more', os.O_WRONLY | os.O_CREAT),
):
    try:
        grow()
    except OSError as error:
        assert error.errno == errno.ENOSPC
    else:
        raise AssertionError
assert os.statvfs(os.getcwd()).f_bavail == 0
""",
    )
    disk.make_room()
    run_python(disk, "os.pwrite(os.open('log', os.O_RDWR), b'!', 10)")
    assert files(disk) == {"log": b"abc3456789!"}


def test_failed_sync_makes_nothing_durable(disk: FaultyDisk) -> None:
    disk.fail_syncs()
    run_python(
        disk,
        """
file = os.open('log', os.O_WRONLY | os.O_CREAT)
os.write(file, b'x')
for each in (file, root):
    try:
        os.fsync(each)
    except OSError:
        continue
    raise AssertionError
""",
    )
    disk.let_syncs_succeed()
    assert disk.lose_power().names == 1
    assert files(disk) == {}
