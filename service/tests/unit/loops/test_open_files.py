"""The limit on open files of a worker."""

import subprocess
import sys

# In a separate process, because limits apply to the whole process.
_WORKER = """
import resource
from agentjobs_runtime.open_files import raise_open_files_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
for soft, most in [(256, hard), (256, 512), (512, 512)]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))
    raise_open_files_limit()
    print(hard, *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_a_worker_raises_its_open_file_limit_up_to_the_hard_limit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WORKER], capture_output=True, text=True, check=True
    )
    first, *others = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    hard = first[0]
    assert first[1:] == [65_536 if hard < 0 else min(65_536, hard), hard]
    assert [limits[1:] for limits in others] == [[512, 512], [512, 512]]
