"""A Python for uv to look at: it says which version it is, and refuses to do anything else.

To lock, uv asks an interpreter who it is; only a build would run more of it, and nothing is built
here. Its version is this Python's, or one that the project admits: a lock file is for them all.
"""

import sys
from pathlib import Path

from cve_fixer.python.versions import admits

_MINORS = range(8, 30)

_ANSWER = """\
import platform, sys
at = sys.argv.index("-c") if "-c" in sys.argv else len(sys.argv)
code = "".join(sys.argv[at + 1 : at + 2])
if "get_interpreter_info" not in code:
    sys.exit("nothing is built here")
class Claimed(tuple):
    major, minor, micro, releaselevel, serial = {version}
sys.version_info = Claimed({version})
platform.python_version = lambda: "{text}"
# What uv would start for a build.
sys.executable = sys._base_executable = {python!r}
sys.argv = ["-c", *sys.argv[at + 2 :]]
exec(code, {{"__name__": "__main__"}})
"""


def make_python(requires: str, directory: Path) -> str:
    """Written into `directory`; `requires` is what the project says of its Python."""
    python = directory / "python"
    version = _claimed(requires)
    answer = directory / "claimed.py"
    answer.write_text(
        _ANSWER.format(
            version=(*version, "final", 0), text=".".join(map(str, version)), python=str(python)
        ),
        encoding="utf-8",
    )
    script = f'#!/bin/sh\nexec "{sys.executable}" -I -B "{answer}" "$@"\n'
    python.write_text(script, encoding="utf-8")
    python.chmod(0o755)
    return str(python)


def _claimed(requires: str) -> tuple[int, int, int]:
    here = sys.version_info[:3]
    claims = [here, *((3, minor, micro) for minor in _MINORS for micro in (0, 99))]
    admitted = (claim for claim in claims if admits(requires, ".".join(map(str, claim))))
    return next(admitted, here)
