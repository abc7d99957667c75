"""Finds the line of a value in a TOML document, which tomllib does not report."""

import re

# The names and indexes that lead to a value.
ValuePath = tuple[str | int, ...]

# Possessive: lines of a multi-line string are matched too, and may have any content.
_HEADER = re.compile(r"\s*+(?P<bracket>\[{1,2}+)(?P<name>[^\[\]]++)\]{1,2}+\s*+(#.*)?$")
_SETTING = re.compile(r"(?P<name>[^=#\[\]{}]++)=")


def find_line(text: str, path: ValuePath) -> int:
    """The 1-based line that sets the value; an index in the path is the number of a `[[table]]`.

    For an unusual spelling, the line of the innermost table that is found, or 1.
    """
    table: ValuePath = ()
    counts: dict[ValuePath, int] = {}
    best_depth, best_line = 0, 1
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = _locate(header["name"], counts, is_array=header["bracket"] == "[[")
            keys = table
        elif setting := _SETTING.match(line):
            keys = (*table, *_names(setting["name"]))
        else:
            continue
        depth = _common_length(keys, path)
        if depth == len(path):
            return number
        if depth > best_depth:
            best_depth, best_line = depth, number
    return best_line


def _locate(header: str, counts: dict[ValuePath, int], *, is_array: bool) -> ValuePath:
    """The path of a table, with the index of the array's last element where it is in an array."""
    *parents, name = _names(header)
    path: ValuePath = ()
    for parent in parents:
        path = (*path, parent)
        if path in counts:
            path = (*path, counts[path] - 1)
    path = (*path, name)
    if is_array:
        counts[path] = counts.get(path, 0) + 1
        path = (*path, counts[path] - 1)
    return path


def _names(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]


def _common_length(keys: ValuePath, path: ValuePath) -> int:
    length = 0
    for key, expected in zip(keys, path, strict=False):
        if key != expected:
            break
        length += 1
    return length
