"""Changes entries in simple YAML, as people and pnpm write it, as text.

A file is a sequence of blocks, each started by an unindented key. Other YAML is refused.
"""

import re

from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.formats.yaml_lines import read_yaml

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


def set_entry(text: str, block: str, key: str, value: str, *, name: str) -> str:
    """Set an entry of a block; a missing block is added at the end."""
    parts = blocks(text, name)
    line_end = "\r\n" if "\r\n" in text else "\n"
    if block not in parts:
        before = line_end if text.strip() else ""
        start = text if not text or text.endswith("\n") else text + line_end
        return f"{start}{before}{block}:{line_end}  {quote(key)}: {quote(value)}{line_end}"
    parts[block] = set_entry_in_block(parts[block], key, value)
    return "".join(parts.values())


def set_entry_in_block(block: str, key: str, value: str) -> str:
    """Set an entry of one block, which starts with its key line."""
    line_end = "\r\n" if "\r\n" in block else "\n"
    if flow := _FLOW.match(block):
        others = [pair for pair in entries(block).items() if pair[0] != key]
        row = ", ".join(f"{quote(name)}: {quote(text)}" for name, text in (*others, (key, value)))
        return block[: flow.start(1)] + row + block[flow.end(1) :]
    matches = list(_ENTRY.finditer(block, block.find("\n") + 1))
    for match in matches:
        if match["lead"] == matches[0]["lead"] and unquote(match["key"]) == key and match["value"]:
            start, end = match.span("value")
            return block[:start] + quote(value, like=match["value"]) + block[end:]
    body = block.rstrip()
    indent = matches[0]["lead"] if matches else "  "
    rest = block[len(body) :].lstrip("\r\n") if not block.endswith("\n") else block[len(body) :]
    return f"{body}{line_end}{indent}{quote(key)}: {quote(value)}{rest or line_end}"


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
