"""Lock files made of `[[package]]` tables: takes over of a new one only what really differs.

A package manager of another age writes every table a little differently; a reader of the pull
request shall see the packages that moved and nothing else.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cve_fixer.model import CannotFix
from cve_fixer.text import code, plain

Table = dict[str, Any]

_START = re.compile(r"^(?=\[\[package\]\]$)", re.MULTILINE)
_AFTER = re.compile(r"^\[(?!\[?package[.\]])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LockText:
    head: str
    blocks: tuple[str, ...]
    tail: str


def split(text: str) -> LockText:
    head, *blocks = _START.split(text.replace("\r\n", "\n"))
    tail = ""
    if blocks and (after := _AFTER.search(blocks[-1])):
        blocks[-1], tail = blocks[-1][: after.start()], blocks[-1][after.start() :]
    return LockText(head.rstrip("\n"), tuple(block.rstrip("\n") for block in blocks), tail)


def joined(head: str, blocks: list[str], tail: str) -> str:
    return "\n\n".join([part for part in (head, *blocks, tail.rstrip("\n")) if part]) + "\n"


def read_lock(text: str) -> Table:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CannotFix(f"the lock file cannot be read: {error}") from None


def read_block(block: str) -> Table:
    package: Table = read_lock(block)["package"][0]
    return package


def merged_blocks(
    old: LockText,
    new: LockText,
    *,
    facts: Callable[[Table], Table],
    adapt: Callable[[str, Table], str],
) -> list[str]:
    """The new file's tables, each in the old file's words where its `facts` are the same.

    `adapt` turns a table that is new into the old file's dialect; it gets the old table of that
    name, or an empty one.
    """
    known: dict[str, list[tuple[str, Table]]] = defaultdict(list)
    for block in old.blocks:
        table = read_block(block)
        known[table["name"]].append((block, table))
    result = []
    for block in new.blocks:
        table = read_block(block)
        before = known.get(table["name"], [])
        same = (text for text, known_table in before if facts(known_table) == facts(table))
        result.append(next(same, None) or adapt(block, before[0][1] if before else {}))
    return result


def versions_of(text: str, package: str) -> set[str]:
    return _versions(text).get(package, set())


def also_moved(before: str, after: str, package: str) -> list[str]:
    """A sentence on the other packages that came, went or changed their version, if any did."""
    old, new = _versions(before), _versions(after)
    moved = [
        f"{code(name)} {_shown(old.get(name), 'new')} → {_shown(new.get(name), 'gone')}"
        for name in sorted(old.keys() | new.keys())
        if name != package and old.get(name) != new.get(name)
    ]
    return [f"With it moved {', '.join(moved)}."] if moved else []


def _versions(text: str) -> dict[str, set[str]]:
    versions: dict[str, set[str]] = defaultdict(set)
    for entry in read_lock(text).get("package", []):
        versions[str(entry.get("name"))].add(str(entry.get("version")))
    return versions


def _shown(versions: set[str] | None, otherwise: str) -> str:
    return plain(", ".join(sorted(versions))) if versions else f"({otherwise})"


def without_key(block: str, key: str) -> str:
    """Without a key whose value is on one line."""
    return re.sub(rf"^{key} = .*\n", "", block, flags=re.MULTILINE)
