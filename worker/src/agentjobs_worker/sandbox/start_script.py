"""The shell commands that a sandbox reads from its standard input, until it becomes the agent.

The sandbox applies its limits and reports that it is ready. The agent's command and environment
follow when it may start, so that a sandbox can be created before they are known.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.protocol import SandboxError

READY_MARK = b"\0"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def prepare_commands(limits: Limits | None) -> bytes:
    """None: the limits are set before the shell starts."""
    prefix = "" if limits is None else f"{limits.shell_commands()}; "
    return f"{prefix}printf '\\0'\n".encode()


def start_commands(argv: Sequence[str], variables: Mapping[str, str]) -> bytes:
    """A group, which a shell runs only when it has read all of it. Raises SandboxError."""
    check_command(argv, variables)
    exports = "".join(f"export {name}={shlex.quote(text)}; " for name, text in variables.items())
    return os.fsencode(f"{{ {exports}exec {shlex.join(argv)} </dev/null; }}\n")


def check_command(argv: Sequence[str], variables: Mapping[str, str]) -> None:
    """Raises SandboxError if no process can have them."""
    if any("\0" in text for text in (*argv, *variables.values())):
        raise SandboxError("the command or an environment variable of the agent contains a NUL")
    if invalid := [name for name in variables if not _VARIABLE.fullmatch(name)]:
        raise SandboxError(f"{invalid[0]!r} is not the name of an environment variable")
