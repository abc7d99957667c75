"""Runs a package manager with an environment made from nothing. Knows no package manager's options.

`AGENTJOBS_FIXER_TOOLS` holds the words that start each tool, as the service found them on its
machine: a JSON object such as {"poetry": ["/…/python", "/…/poetry"]}.
"""

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from cve_fixer.model import CannotFix

TOOLS_VARIABLE = "AGENTJOBS_FIXER_TOOLS"
TIMEOUT_SECONDS = 600
_LAST_LINES = 12
# How the sandbox lets a program out, and whose certificates it trusts: nothing else comes in.
_KEPT = (
    *("PATH", "LANG", "LC_ALL", "TMPDIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_EXTRA_CA_CERTS", "NODE_USE_ENV_PROXY"),
)


def run_tool(
    tool: str,
    *arguments: str,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    through: str = "",
) -> str:
    """Its standard output. Raises CannotFix with its last lines when it fails.

    `through` is a script that the tool's own Python runs instead of the tool.
    """
    words = find_tool(tool)
    command = [*_interpreter(words), "-I", through, *arguments] if through else [*words, *arguments]
    print(f"{tool} {_without_passwords(' '.join(arguments))}")
    try:
        done = subprocess.run(
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
        raise CannotFix(f"{tool} took longer than {timeout_seconds:.0f} seconds") from None
    if done.returncode != 0:
        raise CannotFix(_failure(tool, arguments, done))
    return done.stdout


def find_tool(tool: str) -> list[str]:
    """What the service says, else what stands beside this Python, else what PATH has."""
    with suppress(ValueError, AttributeError, TypeError):
        told = json.loads(os.environ.get(TOOLS_VARIABLE) or "{}").get(tool)
        if told:
            return [str(word) for word in told]
    beside_python = Path(sys.executable).with_name(tool)
    found = str(beside_python) if beside_python.is_file() else shutil.which(tool)
    if found is None:
        raise CannotFix(f"{tool} is not installed on the worker, and only it can write this file")
    return [found]


def _interpreter(words: list[str]) -> list[str]:
    """Of a tool that is a script: named before it, or in its first line."""
    if len(words) > 1:
        return words[:-1]
    with suppress(OSError), Path(words[0]).open("rb") as script:
        first = script.readline(4096).decode("utf-8", "replace")
        if first.startswith("#!"):
            return first[2:].split()
    raise CannotFix(f"{words[0]} is no script, so nothing keeps it from building packages")


def _without_passwords(words: str) -> str:
    """The registry's address may hold some, and this is the job's log."""
    return re.sub(r"://[^/@\s]*@", "://", words)


@cache
def _home() -> str:
    """One for all runs, so that each finds what an earlier one fetched."""
    home = tempfile.mkdtemp(prefix="cve-fixer-home-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    home = _home()
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home, **extra}


def _failure(tool: str, arguments: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.rstrip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    last = _without_passwords("\n".join(lines[-_LAST_LINES:]))
    return f"{tool} {arguments[0]} failed with exit code {done.returncode}:\n{last}"
