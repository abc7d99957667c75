"""Resource limits of an agent: values, their text, and the rlimits of each process."""

import msgspec

KIB = 1024
GIB = 1024**3
BLOCK_BYTES = 512
# What a file costs besides its content, so that empty files count too.
FILE_BYTES = 1024
OOM_SCORE = "500"
# Exceeded without reaching the limit of the sandbox: the kernel killed one of its processes.
NO_HOST_MEMORY = "the machine has no memory left, and its kernel killed processes"
UNMEASURED = "the machine had no thread, memory or descriptor left to measure the limits"
# The watchdog counts all processes and reports the limit; the rlimit only ends one process.
CPU_BACKSTOP_SECONDS = 2
# Also bounds the descriptors that a user has in flight between processes, where nothing shows them.
MAX_OPEN_FILES = 16_384


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What all processes of one sandbox may use together; 0 means no limit."""

    memory_bytes: int = 4 * GIB
    # The kernel counts per uid, and each slot has its own uid or user namespace. Includes threads.
    processes: int = 1_024
    file_bytes: int = 4 * GIB
    # For each of /tmp, /dev/shm and the home directory, which live in memory.
    scratch_bytes: int = 2 * GIB
    workspace_bytes: int = 10 * GIB
    cpu_seconds: int = 0
    # Needs a cgroup with the cpu controller.
    cpus: float = 0

    @property
    def memory_text(self) -> str:
        return f"{format_bytes(self.memory_bytes)} of memory"

    @property
    def workspace_text(self) -> str:
        return f"{format_bytes(self.workspace_bytes)} in the workspace"

    @property
    def cpu_text(self) -> str:
        return f"{self.cpu_seconds} second{'s' * (self.cpu_seconds != 1)} of CPU time"

    def divided(self, count: int) -> "Limits":
        """The share of each of so many sandboxes that have these limits together."""
        names = ("memory_bytes", "processes", "scratch_bytes", "workspace_bytes", "cpu_seconds")
        # Rounded up, because 0 means no limit.
        shares = {name: -(-getattr(self, name) // count) for name in names}
        return msgspec.structs.replace(self, **shares, cpus=self.cpus / count)

    def shell_commands(self, *, own_user: bool = True) -> str:
        """For the shell that execs the agent: a separate program would take 0.5 ms.

        `own_user`: only the agent runs as this user, so its processes can be counted.
        """
        # Fails if the service's own limit is lower.
        commands = ["ulimit -c 0", f"ulimit -n {MAX_OPEN_FILES} 2>/dev/null"]
        if self.file_bytes:
            commands.append(f"ulimit -f {self.file_bytes // BLOCK_BYTES}")
        if self.cpu_seconds:
            commands.append(f"ulimit -t {self.cpu_seconds + CPU_BACKSTOP_SECONDS}")
        if self.processes and own_user:
            commands.append(
                f'if [ -n "$BASH_VERSION" ]; then ulimit -u {self.processes}; '
                f"else ulimit -p {self.processes}; fi"
            )
        # If memory runs out, the kernel should kill the agent, not the service.
        return "; ".join([*commands, f"echo {OOM_SCORE} 2>/dev/null >/proc/self/oom_score_adj"])


def format_bytes(size: int) -> str:
    """The size in the largest unit that gives a whole number."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size % KIB or unit == "GiB":
            return f"{size} {unit}"
        size //= KIB
    raise AssertionError
