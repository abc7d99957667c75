"""The few settings of a repository's .npmrc that shape its lock file.

All others stay out of the copy that package managers see: registries, shells, certificates, hooks.
"""

import re
from pathlib import Path

from cve_fixer import tree

_MOST_BYTES = 64 * 1024
_LINE = re.compile(
    r"^[ \t]*([a-z-]+)(?:\[\])?[ \t]*=[ \t]*[\"']?([a-z0-9-]+)[\"']?[ \t]*$", re.MULTILINE
)


def settings_beside(project: Path, known: frozenset[str]) -> dict[str, str]:
    """Those of `known` that .npmrc sets to a plain word."""
    path = project / ".npmrc"
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return {}
    found = _LINE.findall(tree.read(path).replace("\r\n", "\n"))
    return {name: value for name, value in found if name in known}
