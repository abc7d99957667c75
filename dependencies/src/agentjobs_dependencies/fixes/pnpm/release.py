"""Finds releases of pnpm that keep a lock file's format: the worker's, or those from npm."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.npm.fetched_tools import edit_tool, fetch_tool
from agentjobs_dependencies.fixes.run_tool import run_tool

_FORMATS = {"5.3": 6, "5.4": 7, "6.0": 8, "6.1": 8, "9.0": None}
# Later releases of pnpm 6 write format 5.4.
_RELEASES = {6: "6.34.0", 7: "7.33.7", 8: "8.15.9", 9: "9.15.9", 10: "10.34.9"}
# pnpm 6 passes a proxy of an object to its methods, which Node.js rejects since version 20.
_PASSED_PROXY = (".prototype[p].call(receiver,", ".prototype[p].call(target,")
# Later ones write format 9.0 too, but only run if the worker has them.
_FORMAT_9 = (10, 9)
_FIRST_WITH_SETTINGS_IN_WORKSPACE = 10
_PACKAGE_MANAGER = re.compile(r"pnpm@(\d{1,3})\.")


@dataclass(frozen=True, slots=True)
class Pnpm:
    """`script` is None for the worker's own."""

    major: int
    script: Path | None = None

    @property
    def reads_workspace(self) -> bool:
        """Whether it reads settings from pnpm-workspace.yaml instead of package.json."""
        return self.major >= _FIRST_WITH_SETTINGS_IN_WORKSPACE


def find_releases(
    lock_format: str, package_manager: Any, directory: Path, registry: str
) -> Iterator[Pnpm]:
    """Releases that write the format and may have written the file, the most likely one first.

    `package_manager` is that field of package.json, and `directory` an empty one.
    """
    if lock_format not in _FORMATS:
        raise CannotFix(
            f"the lock file has the format {lock_format}, which this agent cannot keep: run "
            "`pnpm install` with pnpm 6 or newer"
        )
    installed = _installed_major(directory)
    for major in dict.fromkeys(_majors(lock_format, package_manager, installed)):
        if major == installed:
            yield Pnpm(major)
        else:
            yield Pnpm(major, _fetch(major, registry))


@cache
def _fetch(major: int, registry: str) -> Path:
    script = fetch_tool("pnpm", _RELEASES[major], "bin/pnpm.cjs", registry)
    if major == min(_RELEASES):
        edit_tool(script.parent.parent / "dist" / "pnpm.cjs", *_PASSED_PROXY)
    return script


def _majors(lock_format: str, package_manager: Any, installed: int) -> list[int]:
    only = _FORMATS[lock_format]
    match = _PACKAGE_MANAGER.match(str(package_manager))
    stated = int(match[1]) if match else 0
    if only or stated in _FORMAT_9:
        return [only or stated]
    newest = [installed] if installed >= min(_FORMAT_9) else []
    return newest or [max(_FORMAT_9)] if stated else [*newest, *_FORMAT_9]


def _installed_major(directory: Path) -> int:
    """0 if the worker has no pnpm, or one that does not run."""
    try:
        version = run_tool("pnpm", "--version", directory=directory)
    except CannotFix:
        return 0
    match = re.match(r"\d{1,3}", version)
    return int(match[0]) if match else 0
