"""A fake interpreter for uv, which reports a version and refuses to do anything else.

To lock, uv queries an interpreter; only a build would run more, and nothing is built here. The
version is this Python's, or one that the project allows: a lock file applies to all of them.
"""

import sys
from pathlib import Path

from agentjobs_dependencies.versions.pypi import allows

_MINORS = range(8, 30)

_SCRIPT = """\
import platform, sys
at = sys.argv.index("-c") if "-c" in sys.argv else len(sys.argv)
code = "".join(sys.argv[at + 1 : at + 2])
if "get_interpreter_info" not in code:
    sys.exit("nothing is built here")
class Claimed(tuple):
    major, minor, micro, releaselevel, serial = {version}
sys.version_info = Claimed({version})
platform.python_version = lambda: "{text}"
# The interpreter that uv would start for a build.
sys.executable = sys._base_executable = {python!r}
sys.argv = ["-c", *sys.argv[at + 2 :]]
exec(code, {{"__name__": "__main__"}})
"""


def create_python(requires: str, directory: Path) -> str:
    """Written to `directory`; `requires` is the project's `requires-python`."""
    python = directory / "python"
    version = _choose_version(requires)
    script_path = directory / "claimed.py"
    script_path.write_text(
        _SCRIPT.format(
            version=(*version, "final", 0), text=".".join(map(str, version)), python=str(python)
        ),
        encoding="utf-8",
    )
    script = f'#!/bin/sh\nexec "{sys.executable}" -I -B "{script_path}" "$@"\n'
    python.write_text(script, encoding="utf-8")
    python.chmod(0o755)
    return str(python)


def _choose_version(requires: str) -> tuple[int, int, int]:
    current = sys.version_info[:3]
    candidates = [current, *((3, minor, micro) for minor in _MINORS for micro in (0, 99))]
    allowed = (
        candidate for candidate in candidates if allows(requires, ".".join(map(str, candidate)))
    )
    return next(allowed, current)
