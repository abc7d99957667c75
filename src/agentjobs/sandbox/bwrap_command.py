"""Starts bwrap: options by a descriptor, made files by descriptors, nothing in the command line."""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence

import msgspec

from agentjobs.sandbox.protocol import SandboxError


class BwrapCommand(msgspec.Struct, frozen=True):
    """`files` are contents by their path inside; `command` is what the first process becomes.

    `seccomp` is a program for the kernel, or nothing.
    """

    bwrap: str
    options: Sequence[str]
    files: Mapping[str, bytes]
    command: Sequence[str]
    seccomp: bytes

    def start(self, *, stdin: int, output: int) -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as descriptors:
            made: list[str] = []
            passed: list[int] = []
            for path, content in self.files.items():
                passed.append(_readable(content, descriptors))
                made += ("--perms", "0444", "--file", str(passed[-1]), path)
            if self.seccomp:
                passed.append(_readable(self.seccomp, descriptors))
                made += ("--seccomp", str(passed[-1]))
            # Not as arguments, because every user of the machine can read those.
            passed.append(_readable(_null_separated([*made, *self.options]), descriptors))
            return subprocess.Popen(
                [self.bwrap, "--args", str(passed[-1]), "--", *self.command],
                stdin=stdin,
                stdout=output,
                stderr=output,
                env={},
                cwd="/",
                pass_fds=passed,
                # Ctrl-C at the service's terminal drains the service; the agents are not asked.
                start_new_session=True,
            )


def _readable(content: bytes, descriptors: contextlib.ExitStack) -> int:
    descriptor = os.memfd_create("agentjobs")
    descriptors.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _null_separated(arguments: Sequence[str]) -> bytes:
    # A NUL inside one would be read by bwrap as further options, and could open the sandbox.
    if any("\0" in argument for argument in arguments):
        raise SandboxError("a path or an environment variable of the agent contains a NUL")
    return b"\0".join(map(os.fsencode, arguments))
