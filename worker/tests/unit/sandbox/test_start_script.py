"""The commands that a sandbox's shell reads from its standard input."""

import os
import subprocess

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.protocol import SandboxError
from agentjobs_worker.sandbox.start_script import READY_MARK, prepare_commands, start_commands

# The file system's encoding decodes any byte to text and back.
EVERY_BYTE = os.fsdecode(bytes(range(1, 256)))
_PRINT = """
import os, sys
argument = os.fsencode(sys.argv[1])
sys.stdout.buffer.write(os.environb[b"FIRST"] + argument + b"%d" % len(os.environ["SECOND"]))
"""


def run(commands: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh"], input=commands, capture_output=True, check=False, env={})


def test_a_shell_passes_on_every_byte_of_arguments_and_variables() -> None:
    variables = {"FIRST": EVERY_BYTE, "SECOND": "x" * 100_000, "PATH": "/usr/bin:/bin"}
    result = run(start_commands(["python3", "-c", _PRINT, EVERY_BYTE], variables))
    assert result.stdout == bytes(range(1, 256)) * 2 + b"100000"


def test_a_shell_runs_nothing_of_commands_that_it_received_in_part() -> None:
    commands = start_commands(["touch", "/nonexistent/file"], {"PATH": "/usr/bin:/bin"})
    for length in range(len(commands.rstrip())):
        result = run(commands[:length])
        assert b"touch" not in result.stderr


def test_a_shell_reports_that_it_is_ready_and_ends_with_its_input() -> None:
    assert run(prepare_commands(Limits(processes=0))).stdout == READY_MARK


@pytest.mark.parametrize(
    ("argv", "variables"),
    [(["a\0b"], {}), (["a"], {"X": "\0"}), (["a"], {"X; reboot": "1"}), (["a"], {"": "1"})],
)
def test_what_a_shell_cannot_pass_on_is_refused(argv: list[str], variables: dict[str, str]) -> None:
    with pytest.raises(SandboxError):
        start_commands(argv, variables)
