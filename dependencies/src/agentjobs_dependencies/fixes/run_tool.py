"""Runs a package manager with an environment built from scratch. Knows none of its options.

`AGENTJOBS_FIXER_TOOLS` maps each tool that the service found on its machine to its argv: a JSON
object such as {"poetry": ["/…/python", "/…/poetry"]}.
"""

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from agentjobs_dependencies.fixes.model import CannotFix

TOOLS_VARIABLE = "AGENTJOBS_FIXER_TOOLS"
TIMEOUT_SECONDS = 600
_LAST_LINES = 12
# The sandbox's proxies and certificates; no other variable is passed on.
_PASSED_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "TMPDIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_EXTRA_CA_CERTS", "NODE_USE_ENV_PROXY"),
)


class ToolTimedOut(CannotFix):
    """Another run would probably time out too."""


def run_tool(
    tool: str,
    *arguments: str,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    program: Sequence[str] = (),
) -> str:
    """Return its standard output. Raises CannotFix with its last lines if it fails.

    `program` is the argv that replaces the tool's own.
    """
    command = [*(program or find_tool(tool)), *arguments]
    print(f"{tool} {_strip_passwords(' '.join(arguments))}")
    try:
        result = subprocess.run(
            command,
            check=False,
            cwd=directory,
            env=_environment(environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_seconds,
        )
    except OSError as error:
        raise CannotFix(f"{tool} cannot be started: {error}") from None
    except subprocess.TimeoutExpired:
        raise ToolTimedOut(f"{tool} took longer than {timeout_seconds:.0f} seconds") from None
    if result.returncode != 0:
        raise CannotFix(_failure(tool, arguments, result))
    return result.stdout


def has_tool(tool: str) -> bool:
    try:
        find_tool(tool)
    except CannotFix:
        return False
    return True


def find_tool(tool: str) -> list[str]:
    """The argv from the service, or uv next to this Python, or the tool on PATH."""
    with suppress(ValueError, AttributeError, TypeError):
        configured = json.loads(os.environ.get(TOOLS_VARIABLE) or "{}").get(tool)
        if configured:
            return [str(argument) for argument in configured]
    beside_python = Path(sys.executable).with_name("uv")
    is_beside = tool == beside_python.name and beside_python.is_file()
    path = str(beside_python) if is_beside else shutil.which(tool)
    if path is None:
        raise CannotFix(
            f"{tool} is not installed on the worker, but this file can only be written with it"
        )
    return [path]


def find_interpreter(tool: str) -> list[str]:
    """The interpreter of a tool that is a script: from its argv, or its shebang line."""
    argv = find_tool(tool)
    if len(argv) > 1:
        return argv[:-1]
    with suppress(OSError), Path(argv[0]).open("rb") as file:
        first = file.readline(4096).decode("utf-8", "replace")
        if first.startswith("#!"):
            return first[2:].split()
    raise CannotFix(f"{argv[0]} is not a script, so it cannot be kept from building packages")


def _strip_passwords(argv: str) -> str:
    """The registry's address may contain passwords, and this goes to the job's log."""
    return re.sub(r"://[^/@\s]*@", "://", argv)


@cache
def tools_home() -> str:
    """Shared by all runs, so that each can reuse downloads of earlier ones."""
    home = tempfile.mkdtemp(prefix="cve-fixer-home-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


@cache
def install_python_tool(tool: str, version: str, registry: str, *overrides: str) -> Path:
    """The Python of a new environment with the tool from the registry, installed without builds.

    `overrides` replace what packages require of other packages. Raises CannotFix if the tool
    cannot be installed.
    """
    directory = Path(tools_home()) / f"{tool}-{version}"
    environment = {"UV_PYTHON_DOWNLOADS": "never"}
    common = ("--no-config", "--python")
    run_tool(
        *("uv", "venv", "--quiet", *common, sys.executable, str(directory)),
        directory=Path(tools_home()),
        environment=environment,
    )
    python = directory / "bin" / "python"
    overrides_file = directory / "overrides.txt"
    overrides_file.write_text("\n".join(overrides), encoding="utf-8")
    run_tool(
        *("uv", "pip", "install", "--quiet", *common, str(python), "--no-build"),
        *("--default-index", registry, "--overrides", str(overrides_file), f"{tool}=={version}"),
        directory=Path(tools_home()),
        environment=environment,
    )
    return python


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    home = tools_home()
    passed = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    return {**passed, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home, **extra}


def _failure(
    tool: str, arguments: tuple[str, ...], result: subprocess.CompletedProcess[str]
) -> str:
    lines = [
        line.rstrip() for line in f"{result.stdout}\n{result.stderr}".splitlines() if line.strip()
    ]
    last = _strip_passwords("\n".join(lines[-_LAST_LINES:]))
    return f"{tool} {arguments[0]} failed with exit code {result.returncode}:\n{last}"
