"""A command as its supervisor gets it, and its limits as reports name them."""

import base64
from typing import Any

from agentjobs_runtime.sandboxes.directories import WORKSPACE
from agentjobs_runtime.sandboxes.limits import MAX_OPEN_FILES, OOM_SCORE, Limits
from agentjobs_worker.sandbox.environment import environment_inside
from agentjobs_worker.sandbox.priority import NICE_INCREMENT
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxTask
from agentjobs_worker.sandbox.seccomp import filter_program
from agentjobs_worker.sandbox.syscalls import ARCHITECTURES


def prepare_message(task: SandboxTask, architecture: str) -> dict[str, Any]:
    """Raises SandboxError."""
    if architecture not in ARCHITECTURES:
        raise SandboxError(
            f"agents have no system call filter for {architecture}: run them on nodes with "
            f"{' or '.join(ARCHITECTURES)}"
        )
    program = filter_program(
        ARCHITECTURES[architecture],
        # The kernel counts what a pod uses.
        all_memory_is_counted=True,
        allows_setuid_bits=task.allows_setuid_bits,
    )
    limits = task.limits
    return {
        "type": "prepare",
        "argv": task.argv,
        "environment": environment_inside(task),
        "directory": str(WORKSPACE),
        "seccomp": base64.b64encode(program).decode(),
        "nice": NICE_INCREMENT,
        "oom_score_adj": int(OOM_SCORE),
        "ports": [port.number for port in task.ports],
        "limits": {
            "file_bytes": limits.file_bytes,
            "processes": limits.processes,
            "open_files": MAX_OPEN_FILES,
            "cpu_seconds": limits.cpu_seconds,
            "workspace_bytes": limits.workspace_bytes,
        },
    }


def limit_text(limits: Limits, name: str | None) -> str | None:
    texts = {
        "memory": limits.memory_text,
        "workspace": limits.workspace_text,
        "cpu": limits.cpu_text,
    }
    return None if name is None else texts[name]
