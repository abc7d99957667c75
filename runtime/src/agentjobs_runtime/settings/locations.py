"""Finds the line of a setting in `agentjobs.toml`: neither tomllib nor msgspec reports it."""

import re
from typing import Self

from agentjobs_runtime.toml_lines import find_line


class SettingsFileError(Exception):
    """An invalid value in the file; `path` is like `agents[0].command`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.detail = reason
        self.reason = f"{path}: {reason}" if path else reason

    @classmethod
    def from_msgspec(cls, message: str) -> Self:
        """Parses a message such as "Expected `int`, got `str` - at `$.agents[0].id`"."""
        reason, _, where = message.partition(" - at ")
        path = where.strip("`").removeprefix("$").removeprefix(".").split("[...]")[0]
        named = re.search(r"(?:unknown field|missing required field) `([^`]+)`", reason)
        if named and "unknown" in reason:
            path = f"{path}.{named[1]}".removeprefix(".")
            reason = "there is no such setting"
        return cls(path, reason)


def find_setting_line(text: str, path: str) -> int:
    """The 1-based line where `path` is set; otherwise its table's header, else 1."""
    parts = filter(None, re.split(r"[.\[\]]", path))
    return find_line(text, tuple(int(part) if part.isdecimal() else part for part in parts))
