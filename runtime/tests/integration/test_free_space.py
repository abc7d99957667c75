"""The reserve for the database, on a real file system that fills up."""

import os
import sys
from pathlib import Path

import pytest

from agentjobs_runtime.free_space import FreeSpace
from agentjobs_runtime.problems import Problem
from tests.support.bare_bwrap import bare_sandbox
from tests.support.paths import SOURCES

FILL = """
import sys
from pathlib import Path
from agentjobs_runtime.free_space import MIB, FreeSpace
disk = Path(sys.argv[1])
space, reserve = FreeSpace(disk, 8), disk / "reserve"
space.keep_reserve()
assert not space.is_low and reserve.stat().st_size == 2 * MIB, reserve.stat()
filler = open(disk / "filler", "wb", buffering=0)
try:
    while True:
        filler.write(bytes(MIB // 4))
except OSError:
    pass
assert space.is_low
space.keep_reserve()
assert not reserve.exists()
(disk / "database").write_bytes(bytes(MIB))
filler.truncate(0)
space.keep_reserve()
assert reserve.exists() and not space.is_low
print("restored")
"""


async def test_the_reserve_is_given_up_on_a_full_disk_and_restored(tmp_path: Path) -> None:
    options = ("--size", str(16 * 1024**2), "--tmpfs", str(tmp_path))
    environment = {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    async with bare_sandbox(
        sys.executable, "-c", FILL, str(tmp_path), options=options, environment=environment
    ) as sandbox:
        assert "restored" in await sandbox.run()


def test_below_the_floor_the_message_names_the_setting(tmp_path: Path) -> None:
    FreeSpace(tmp_path, 0).check()
    with pytest.raises(Problem, match="disk_floor_mib, which is 16777216") as caught:
        FreeSpace(tmp_path, 2**24).check()
    assert caught.value.code == "unavailable"
