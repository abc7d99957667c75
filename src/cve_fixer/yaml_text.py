"""Changes entries in YAML of the plain kind that people and pnpm write, as text.

A file is a row of blocks, each opened by a key at the left edge. What is written in another way is
refused, never guessed at.
"""

import re
from collections.abc import Iterator

from cve_fixer.model import CannotFix

_TOP = re.compile(r"(['\"]?)([A-Za-z][\w-]*)\1[ \t]*:(?=\s|$)")
_CONTINUES = re.compile(r"[ \t#]|-[ \t]|---|\.\.\.|$")
_ENTRY = re.compile(
    r"^(?P<lead>[ \t]+)(?P<key>'(?:[^'\n]|'')*'|\"[^\"\\\n]*\"|[^\s#'\"{\[&*!|-][^\n]*?)[ \t]*:"
    r"(?:[ \t]+(?P<value>'(?:[^'\n]|'')*'|\"[^\"\\\n]*\"|[^\s#'\"][^\n#]*?))?[ \t]*(?:#[^\n]*)?$",
    re.MULTILINE,
)
_FLOW = re.compile(r"^[^\n:]+:[ \t]*\{([^\n]*)\}[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z0-9^~][\w.+^~/>@-]*")
_NUMBER = re.compile(
    r"[\d._+-]+|0[xob]\w+|\d[\d.]*e\d+|true|false|null|yes|no|on|off", re.IGNORECASE
)


def blocks(text: str, name: str) -> dict[str, str]:
    """By key, in order; under "" what stands before the first."""
    found = {"": ""}
    key = ""
    for line in text.removeprefix("\ufeff").splitlines(keepends=True):
        if top := _TOP.match(line):
            key = top[2]
            if key in found:
                raise CannotFix(f"{name} has `{key}` twice")
            found[key] = line
        elif _CONTINUES.match(line):
            found[key] += line
        else:
            raise CannotFix(f"{name} is not written one key to a line: {line[:60]!r}")
    return found


def entries(block: str) -> Iterator[tuple[str, str]]:
    """Keys and plain values directly below the block's own key."""
    flow = _FLOW.match(block)
    if flow:
        for part in filter(str.strip, flow[1].split(",")):
            key, _, value = part.rpartition(":")
            yield unquoted(key.strip()), unquoted(value.strip())
        return
    lead = None
    for found in _ENTRY.finditer(block, block.find("\n") + 1):
        lead = lead or found["lead"]
        if found["lead"] == lead and found["value"]:
            yield unquoted(found["key"]), unquoted(found["value"])


def with_entry(text: str, block: str, key: str, value: str, *, name: str) -> str:
    """With this entry in the block, which is made at the end where it is missing."""
    parts = blocks(text, name)
    line_end = "\r\n" if "\r\n" in text else "\n"
    if block not in parts:
        before = line_end if text.strip() else ""
        start = text if not text or text.endswith("\n") else text + line_end
        return f"{start}{before}{block}:{line_end}  {quoted(key)}: {quoted(value)}{line_end}"
    parts[block] = with_entry_in(parts[block], key, value)
    return "".join(parts.values())


def with_entry_in(block: str, key: str, value: str) -> str:
    """The block with its opening line first."""
    line_end = "\r\n" if "\r\n" in block else "\n"
    if flow := _FLOW.match(block):
        others = [pair for pair in entries(block) if pair[0] != key]
        row = ", ".join(f"{quoted(one)}: {quoted(other)}" for one, other in (*others, (key, value)))
        return block[: flow.start(1)] + row + block[flow.end(1) :]
    listed = list(_ENTRY.finditer(block, block.find("\n") + 1))
    for found in listed:
        if found["lead"] == listed[0]["lead"] and unquoted(found["key"]) == key and found["value"]:
            start, end = found.span("value")
            return block[:start] + quoted(value, like=found["value"]) + block[end:]
    body = block.rstrip()
    lead = listed[0]["lead"] if listed else "  "
    rest = block[len(body) :].lstrip("\r\n") if not block.endswith("\n") else block[len(body) :]
    return f"{body}{line_end}{lead}{quoted(key)}: {quoted(value)}{rest or line_end}"


def unquoted(scalar: str) -> str:
    if len(scalar) > 1 and scalar[0] == scalar[-1] == "'":
        return scalar[1:-1].replace("''", "'")
    if len(scalar) > 1 and scalar[0] == scalar[-1] == '"':
        return scalar[1:-1]
    return scalar


def quoted(scalar: str, like: str = "") -> str:
    if like.startswith('"') and not set(scalar) & set('"\\'):
        return f'"{scalar}"'
    is_plain = _PLAIN.fullmatch(scalar) and not (
        _NUMBER.fullmatch(scalar) and scalar.count(".") < 2
    )
    return scalar if is_plain and not like.startswith("'") else f"""'{scalar.replace("'", "''")}'"""
