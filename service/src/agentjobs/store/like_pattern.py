"""Patterns for LIKE with `ESCAPE '!'`."""

import re

_SPECIAL = re.compile(r"([!%_])")


def escape_like(text: str) -> str:
    return _SPECIAL.sub(r"!\1", text)


def contains_pattern(text: str) -> str:
    return f"%{escape_like(text)}%"
