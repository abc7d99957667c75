"""Which build of the program runs: version, commit and date, for people to read."""

from functools import cache
from importlib import import_module
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_SHOWN_DIGITS = 12
_GIT_SECONDS = 5


@cache
def describe_build() -> str:
    """For example `0.2.0 (commit 3f6c0d1a9b24, 2026-11-17)`."""
    from importlib.metadata import version  # noqa: PLC0415 - most calls do not need it

    return f"{version('agentjobs')} ({_recorded_build() or _checkout(_ROOT) or 'development'})"


def _recorded_build() -> str | None:
    """None in a checkout: packaging/build_hook.py adds the module to packages."""
    try:
        record = import_module("agentjobs.build_record")
    except ModuleNotFoundError:
        return None
    changed = " with changes" if record.IS_CHANGED else ""
    return f"commit {record.COMMIT[:_SHOWN_DIGITS]}{changed}, {record.DATE}"


def _checkout(root: Path) -> str | None:
    """None without a repository that git can read."""
    if not (root / ".git").exists():
        return None
    import subprocess  # noqa: PLC0415 - packages do not need it

    command = ["git", "--git-dir", str(root / ".git")]
    command += ["log", "-1", "--no-show-signature", "--format=%h, %cs", f"--abbrev={_SHOWN_DIGITS}"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=_GIT_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return f"development, after commit {done.stdout.strip()}"
