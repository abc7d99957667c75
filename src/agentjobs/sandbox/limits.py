"""Resource limits of an agent, as far as the kernel keeps them per process."""

import msgspec

GIB = 1024**3
BLOCK_BYTES = 512


class Limits(msgspec.Struct, frozen=True):
    # Counted per uid, so it is one sandbox's own only because each slot has its own uid or user
    # namespace. Threads count too.
    processes: int = 1_024
    file_bytes: int = 4 * GIB
    # /tmp, /dev/shm and the home directory each; they live in memory.
    scratch_bytes: int = 2 * GIB

    def shell_commands(self) -> str:
        """For the shell that becomes the agent: a program in between would take 0.5 ms."""
        # When memory runs out, the kernel is to take the agent and not the service.
        return (
            f"ulimit -c 0; ulimit -f {self.file_bytes // BLOCK_BYTES}; "
            f'if [ -n "$BASH_VERSION" ]; then ulimit -u {self.processes}; '
            f"else ulimit -p {self.processes}; fi; "
            "echo 500 2>/dev/null >/proc/self/oom_score_adj"
        )
