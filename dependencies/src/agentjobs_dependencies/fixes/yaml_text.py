"""Changes entries in simple YAML, as people and pnpm write it, as text.

A file is a sequence of blocks, each started by an unindented key. Other YAML is refused.
"""

import re

from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.formats.yaml_lines import read_yaml

_TOP = re.compile(r"(['\"]?)([A-Za-z][\w-]*)\1[ \t]*:(?=\s|$)")
_CONTINUES = re.compile(r"[ \t#]|-[ \t]|---|\.\.\.|$")
_ENTRY = re.compile(
    r"^(?P<lead>[ \t]*)(?P<key>'(?:[^'\n]|'')*'|\"[^\"\\\n]*\"|[^\s#'\"{\[&*!|-][^\n]*?)[ \t]*:"
    r"(?:[ \t]+(?P<value>'(?:[^'\n]|'')*'|\"[^\"\\\n]*\"|[^\s#'\"][^\n#]*?))?[ \t]*(?:#[^\n]*)?$",
    re.MULTILINE,
)
_PLAIN = re.compile(r"[A-Za-z0-9^~][\w.+^~/>@-]*")
_NUMBER = re.compile(
    r"[\d._+-]+|0[xob]\w+|\d[\d.]*e\d+|true|false|null|yes|no|on|off", re.IGNORECASE
)


def blocks(text: str, name: str) -> dict[str, str]:
    """Blocks by key, in order; "" holds the text before the first."""
    by_key = {"": ""}
    key = ""
    for line in text.removeprefix("\ufeff").splitlines(keepends=True):
        if top := _TOP.match(line):
            key = top[2]
            if key in by_key:
                raise CannotFix(f"{name} has `{key}` twice")
            by_key[key] = line
        elif _CONTINUES.match(line):
            by_key[key] += line
        else:
            raise CannotFix(f"{name} does not have one key per line: {line[:60]!r}")
    return by_key


def entries(block: str) -> dict[str, str]:
    """Plain values directly below the block's key."""
    table = next(iter(read_yaml(block).values()), None)
    values = table.items() if isinstance(table, dict) else ()
    return {key: value for key, value in values if isinstance(value, str)}


def set_entry(text: str, path: tuple[str, ...], value: str, *, name: str) -> str:
    """Set the scalar at a path of keys. A missing last one is added, also to a missing block."""
    if path[0] not in blocks(text, name):
        line_end = _line_end(text)
        before = "" if not text else line_end if text.endswith("\n") else 2 * line_end
        row = f"{quote(path[-1])}: {quote(value)}"
        return f"{text}{before}{path[0]}:{line_end}  {row}{line_end}"
    start, end, siblings = 0, len(text), list[re.Match[str]]()
    for depth, key in enumerate(path):
        siblings = _find_entries(text, start, end)
        at = next((at for at, entry in enumerate(siblings) if unquote(entry["key"]) == key), None)
        if at is None and depth + 1 == len(path):
            return _add_entry(text, end, siblings, f"{quote(key)}: {quote(value)}")
        if at is None:
            raise CannotFix(f"{name} does not have one entry per line: no `{key}`")
        span = siblings[at].span("value")
        start = siblings[at].end()
        end = siblings[at + 1].start() if at + 1 < len(siblings) else end
        if text[slice(*span)].startswith("{") and depth + 2 == len(path):
            pairs = entries(text[siblings[at].start() : end]) | {path[-1]: value}
            row = ", ".join(f"{quote(key)}: {quote(value)}" for key, value in pairs.items())
            return f"{text[: span[0]]}{{{row}}}{text[span[1] :]}"
    if span[0] < 0:
        raise CannotFix(f"{name} has no value for `{path[-1]}`")
    return text[: span[0]] + quote(value, like=text[slice(*span)]) + text[span[1] :]


def _find_entries(text: str, start: int, end: int) -> list[re.Match[str]]:
    """The entries of the table that starts here, without what is nested in it."""
    entries = list(_ENTRY.finditer(text, start, end))
    return [entry for entry in entries if entry["lead"] == entries[0]["lead"]]


def _add_entry(text: str, end: int, siblings: list[re.Match[str]], row: str) -> str:
    lead = siblings[0]["lead"] if siblings else "  "
    at = len(text[:end].rstrip())
    line_end = _line_end(text)
    rest = text[at:] if text[at:].startswith(("\r", "\n")) else line_end + text[at:]
    return f"{text[:at]}{line_end}{lead}{row}{rest}"


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def unquote(scalar: str) -> str:
    if len(scalar) > 1 and scalar[0] == scalar[-1] == "'":
        return scalar[1:-1].replace("''", "'")
    if len(scalar) > 1 and scalar[0] == scalar[-1] == '"':
        return scalar[1:-1]
    return scalar


def quote(scalar: str, like: str = "") -> str:
    if like.startswith('"') and not set(scalar) & set('"\\'):
        return f'"{scalar}"'
    is_plain = _PLAIN.fullmatch(scalar) and not (
        _NUMBER.fullmatch(scalar) and scalar.count(".") < 2
    )
    return scalar if is_plain and not like.startswith("'") else f"""'{scalar.replace("'", "''")}'"""
