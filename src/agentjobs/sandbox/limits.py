"""Resource limits of an agent: values, their words, and what the kernel keeps for each process."""

import msgspec

KIB = 1024
GIB = 1024**3
BLOCK_BYTES = 512
# What a file system keeps for a file beside its content: empty ones must not be free.
FILE_BYTES = 1024
OOM_SCORE = "500"
# The watchdog counts all processes together and says so; the kernel only ends the one.
CPU_BACKSTOP_SECONDS = 2


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one sandbox may use, all its processes together; 0 means no limit."""

    memory_bytes: int = 4 * GIB
    # Counted per uid, so it is one sandbox's own only because each slot has its own uid or user
    # namespace. Threads count too.
    processes: int = 1_024
    file_bytes: int = 4 * GIB
    # /tmp, /dev/shm and the home directory each; they live in memory.
    scratch_bytes: int = 2 * GIB
    workspace_bytes: int = 10 * GIB
    cpu_seconds: int = 0

    @property
    def memory_words(self) -> str:
        return f"{in_words(self.memory_bytes)} of memory"

    @property
    def workspace_words(self) -> str:
        return f"{in_words(self.workspace_bytes)} in the workspace"

    @property
    def cpu_words(self) -> str:
        return f"{self.cpu_seconds} second{'s' * (self.cpu_seconds != 1)} of CPU time"

    def shell_commands(self, *, own_user: bool = True) -> str:
        """For the shell that becomes the agent: a program in between would take 0.5 ms.

        `own_user`: nobody but the agent runs as this user, so that its processes can be counted.
        """
        commands = ["ulimit -c 0"]
        if self.file_bytes:
            commands.append(f"ulimit -f {self.file_bytes // BLOCK_BYTES}")
        if self.cpu_seconds:
            commands.append(f"ulimit -t {self.cpu_seconds + CPU_BACKSTOP_SECONDS}")
        if self.processes and own_user:
            commands.append(
                f'if [ -n "$BASH_VERSION" ]; then ulimit -u {self.processes}; '
                f"else ulimit -p {self.processes}; fi"
            )
        # When memory runs out, the kernel is to take the agent and not the service.
        return "; ".join([*commands, f"echo {OOM_SCORE} 2>/dev/null >/proc/self/oom_score_adj"])


def in_words(size: int) -> str:
    """The largest unit that keeps the number whole."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size % KIB or unit == "GiB":
            return f"{size} {unit}"
        size //= KIB
    raise AssertionError
