"""Text as a part of a pattern of LIKE, for statements that say `ESCAPE '!'`."""

import re

_SPECIAL = re.compile(r"([!%_])")


def escaped(text: str) -> str:
    return _SPECIAL.sub(r"!\1", text)


def containing(text: str) -> str:
    return f"%{escaped(text)}%"
