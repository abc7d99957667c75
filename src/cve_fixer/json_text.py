"""Changes values in a JSON text and leaves every other byte: order, indentation, line ends.

Knows nothing of what the text is for.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cve_fixer.model import CannotFix

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
        raise CannotFix(f"{name} is no JSON object")
    return value


def with_value(text: str, path: tuple[str, ...], value: Any) -> str:
    """Makes the objects on the way where they are missing."""
    new: Any = value
    for key in reversed(path):
        new = {key: new}
    return patched(text, {}, new)


def patched(text: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """With what differs between two readings done to the text, whatever else the text has."""
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
    gone = {key for key in old if key not in new and key in members}
    kept = [key for key in members if key not in gone]
    if not kept:
        added = {key: value for key, value in new.items() if old.get(key) != value}
        yield start, _end(text, start), _written(text, start, added)
        return
    yield from _removals(members, gone)
    known = any(key in members for key in new)
    anchor = None if known else members[kept[-1]].value_end
    for key, value in new.items():
        if key in members:
            anchor = members[key].value_end
            if old.get(key) != value:
                yield from _changed(text, members[key], old.get(key, {}), value)
        elif old.get(key) != value:
            yield _insertion(text, members[kept[0]].key_start, anchor, key, value)


def _changed(text: str, member: _Member, old: Any, new: Any) -> Iterator[Edit]:
    is_object = text[member.value_start] == "{"
    if is_object and isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _edits(text, member.value_start, old, new)
    else:
        yield member.value_start, member.value_end, _written(text, member.key_start, new)


def _removals(members: dict[str, _Member], gone: set[str]) -> Iterator[Edit]:
    keys, has_kept = list(members), False
    for at, key in enumerate(keys):
        if key not in gone:
            has_kept = True
        elif has_kept:
            yield members[keys[at - 1]].value_end, members[key].value_end, ""
        else:
            yield members[key].key_start, members[keys[at + 1]].key_start, ""


def _insertion(text: str, first: int, anchor: int | None, key: str, value: Any) -> Edit:
    line = text.rfind("\n", 0, first) + 1
    lead = text[line:first]
    gap = f"{_line_end(text)}{lead}" if not lead.strip() else " "
    entry = f"{json.dumps(key, ensure_ascii=False)}: {_written(text, first, value)}"
    if anchor is None:
        return first, first, f"{entry},{gap}"
    return anchor, anchor, f",{gap}{entry}"


def _written(text: str, position: int, value: Any) -> str:
    """As it would stand at this position's indentation."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    lead = line[: len(line) - len(line.lstrip())]
    found = _UNIT.search(text)
    words = json.dumps(value, indent=found[1] if found else None, ensure_ascii=False)
    return words.replace("\n", _line_end(text) + lead)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _members(text: str, start: int) -> dict[str, _Member]:
    members = {}
    position = _blank(text, start + 1)
    while text[position] != "}":
        key, key_end = _DECODER.raw_decode(text, position)
        value_start = _blank(text, _blank(text, key_end) + 1)
        value_end = _end(text, value_start)
        members[key] = _Member(position, value_start, value_end)
        position = _blank(text, value_end)
        if text[position] == ",":
            position = _blank(text, position + 1)
    return members


def _end(text: str, start: int) -> int:
    end: int = _DECODER.raw_decode(text, start)[1]
    return end


def _blank(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    assert found is not None, "blank matches anywhere"
    return found.end()
