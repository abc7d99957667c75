"""Changes values in a JSON text and keeps every other byte: order, indentation, line endings.

Knows nothing of what the text is for.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentjobs_dependencies.fixes.model import CannotFix

Edit = tuple[int, int, str]

_DECODER = json.JSONDecoder(strict=False)
_BLANK = re.compile(r"[ \t\r\n]*")
_UNIT = re.compile(r"\{\r?\n([ \t]+)\"")


def read_object(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text.removeprefix("\ufeff"), strict=False)
    except (ValueError, RecursionError) as error:
        raise CannotFix(f"{name} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise CannotFix(f"{name} is not a JSON object")
    return value


def set_value(text: str, path: tuple[str, ...], value: Any) -> str:
    """Set the value at a path, creating missing objects."""
    new: Any = value
    for key in reversed(path):
        new = {key: new}
    return patch(text, {}, new)


def patch(text: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Apply the difference between two parsed versions to the text."""
    start = text.index("{")
    pieces, position = [], 0
    for begin, end, replacement in sorted(_edits(text, start, old, new), key=lambda edit: edit[0]):
        pieces += [text[position:begin], replacement]
        position = end
    return "".join((*pieces, text[position:]))


@dataclass(frozen=True, slots=True)
class _Member:
    key_start: int
    value_start: int
    value_end: int


def _edits(text: str, start: int, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Edit]:
    members = _members(text, start)
    removed = {key for key in old if key not in new and key in members}
    remaining = [key for key in members if key not in removed]
    if not remaining:
        added = {key: value for key, value in new.items() if old.get(key) != value}
        yield start, _value_end(text, start), _format(text, start, added)
        return
    yield from _removals(members, removed)
    has_known_key = any(key in members for key in new)
    anchor = None if has_known_key else members[remaining[-1]].value_end
    for key, value in new.items():
        if key in members:
            anchor = members[key].value_end
            if old.get(key) != value:
                yield from _value_edits(text, members[key], old.get(key, {}), value)
        elif old.get(key) != value:
            yield _insertion(text, members[remaining[0]].key_start, anchor, key, value)


def _value_edits(text: str, member: _Member, old: Any, new: Any) -> Iterator[Edit]:
    is_object = text[member.value_start] == "{"
    if is_object and isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _edits(text, member.value_start, old, new)
    else:
        yield member.value_start, member.value_end, _format(text, member.key_start, new)


def _removals(members: dict[str, _Member], removed: set[str]) -> Iterator[Edit]:
    keys, has_kept = list(members), False
    for index, key in enumerate(keys):
        if key not in removed:
            has_kept = True
        elif has_kept:
            yield members[keys[index - 1]].value_end, members[key].value_end, ""
        else:
            yield members[key].key_start, members[keys[index + 1]].key_start, ""


def _insertion(text: str, first: int, anchor: int | None, key: str, value: Any) -> Edit:
    line = text.rfind("\n", 0, first) + 1
    lead = text[line:first]
    gap = f"{_line_ending(text)}{lead}" if not lead.strip() else " "
    entry = f"{json.dumps(key, ensure_ascii=False)}: {_format(text, first, value)}"
    if anchor is None:
        return first, first, f"{entry},{gap}"
    return anchor, anchor, f",{gap}{entry}"


def _format(text: str, position: int, value: Any) -> str:
    """Format a value with the indentation at this position."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    lead = line[: len(line) - len(line.lstrip())]
    match = _UNIT.search(text)
    text_of_value = json.dumps(value, indent=match[1] if match else None, ensure_ascii=False)
    return text_of_value.replace("\n", _line_ending(text) + lead)


def _line_ending(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _members(text: str, start: int) -> dict[str, _Member]:
    members = {}
    position = _skip_blank(text, start + 1)
    while text[position] != "}":
        key, key_end = _DECODER.raw_decode(text, position)
        value_start = _skip_blank(text, _skip_blank(text, key_end) + 1)
        value_end = _value_end(text, value_start)
        members[key] = _Member(position, value_start, value_end)
        position = _skip_blank(text, value_end)
        if text[position] == ",":
            position = _skip_blank(text, position + 1)
    return members


def _value_end(text: str, start: int) -> int:
    end: int = _DECODER.raw_decode(text, start)[1]
    return end


def _skip_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    assert match is not None, "matches anywhere"
    return match.end()
