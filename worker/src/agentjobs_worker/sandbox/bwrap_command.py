"""Starts bwrap. Passes options and generated files by descriptor, not as arguments."""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence

import msgspec

from agentjobs_worker.sandbox.layers import LayerMounts
from agentjobs_worker.sandbox.protocol import SandboxError


class BwrapCommand(msgspec.Struct, frozen=True):
    """`files` maps paths inside the sandbox to contents; `command` is its first process.

    `seccomp` is a BPF program, or empty. `mounts` are made before.
    """

    bwrap: str
    options: Sequence[str]
    files: Mapping[str, bytes]
    command: Sequence[str]
    seccomp: bytes
    mounts: LayerMounts | None = None

    def start(self, entry: Sequence[str], *, stdin: int, output: int) -> subprocess.Popen[bytes]:
        """`entry` is a command that becomes the one behind it."""
        with contextlib.ExitStack() as stack:
            generated: list[str] = []
            descriptors: list[int] = []
            for path, content in self.files.items():
                descriptors.append(_memory_file(content, stack))
                generated += ("--perms", "0444", "--file", str(descriptors[-1]), path)
            if self.seccomp:
                descriptors.append(_memory_file(self.seccomp, stack))
                generated += ("--seccomp", str(descriptors[-1]))
            # Every user of the machine can read arguments.
            descriptors.append(_memory_file(_join_with_nul([*generated, *self.options]), stack))
            argv = [self.bwrap, "--args", str(descriptors[-1]), "--", *self.command]
            if self.mounts is not None:
                descriptors.append(_memory_file(self.mounts.plan(argv), stack))
                argv = self.mounts.command(descriptors[-1])
            return subprocess.Popen(
                [*entry, *argv],
                stdin=stdin,
                stdout=output,
                stderr=output,
                env={},
                cwd="/",
                pass_fds=descriptors,
                # Ctrl-C in the service's terminal must reach the service only, which then drains.
                start_new_session=True,
            )

    def clean_up(self) -> None:
        """Blocking. Call it when no process of the sandbox is alive."""
        if self.mounts is not None:
            self.mounts.remove_work_directories()


def _memory_file(content: bytes, stack: contextlib.ExitStack) -> int:
    descriptor = os.memfd_create("agentjobs")
    stack.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _join_with_nul(arguments: Sequence[str]) -> bytes:
    # bwrap would read what follows a NUL as another option, which could open the sandbox.
    if any("\0" in argument for argument in arguments):
        raise SandboxError("a path or an environment variable of the agent contains a NUL")
    return b"\0".join(map(os.fsencode, arguments))
