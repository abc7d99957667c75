"""Finds the line of a setting in `agentjobs.toml`: neither tomllib nor msgspec reports it."""

import re
from typing import Self


class SettingsFileError(Exception):
    """An invalid value in the file; `path` is like `agents[0].command`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.detail = reason
        self.reason = f"{path}: {reason}" if path else reason

    @classmethod
    def from_msgspec(cls, message: str) -> Self:
        """From a message such as "Expected `int`, got `str` - at `$.agents[0].id`"."""
        reason, _, where = message.partition(" - at ")
        path = where.strip("`").removeprefix("$").removeprefix(".").split("[...]")[0]
        named = re.search(r"(?:unknown field|missing required field) `([^`]+)`", reason)
        if named and "unknown" in reason:
            path = f"{path}.{named[1]}".removeprefix(".")
            reason = "there is no such setting"
        return cls(path, reason)


def line_of(text: str, path: str) -> int:
    """The 1-based line where `path` is set; otherwise its table's header, else 1."""
    matched = re.match(r"(?:(?P<table>\w+)\[(?P<index>\d+)\])?\.?(?P<key>\w+)?", path)
    table, index, key = matched.group("table", "index", "key") if matched else (None, None, None)
    lines = text.splitlines()
    start = _header_line(lines, table, int(index)) if table and index else 0
    if key:
        for number, line in enumerate(lines[start:], start + 1):
            if number > start + 1 and table and line.lstrip().startswith("[["):
                break
            if re.match(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*(?:[=.\]])", line):
                return number
    return start + 1


def _header_line(lines: list[str], table: str, index: int) -> int:
    headers = [at for at, line in enumerate(lines) if re.match(rf"\s*\[\[\s*{table}\s*\]\]", line)]
    return headers[index] if index < len(headers) else 0
