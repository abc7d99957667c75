"""Lock files made of `[[package]]` tables: takes over only real differences from a new one.

Another version of a package manager writes every table a little differently, but the pull request
should only show the packages that changed.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentjobs_dependencies.fixes.tree import read_toml

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


def join_blocks(head: str, blocks: list[str], tail: str) -> str:
    return "\n\n".join([part for part in (head, *blocks, tail.rstrip("\n")) if part]) + "\n"


def read_lock(text: str) -> Table:
    return read_toml(text, "the lock file")


def read_block(block: str) -> Table:
    package: Table = read_lock(block)["package"][0]
    return package


def merge_blocks(
    old: LockText,
    new: LockText,
    *,
    relevant: Callable[[Table], Table],
    adapt: Callable[[str, Table], str],
) -> list[str]:
    """The new file's tables, each with the old file's text if their `relevant` parts are equal.

    `adapt` changes a new table to the old file's style; it gets the old table of that name, or an
    empty one.
    """
    known: dict[str, list[tuple[str, Table]]] = defaultdict(list)
    for block in old.blocks:
        table = read_block(block)
        known[table["name"]].append((block, table))
    result = []
    for block in new.blocks:
        table = read_block(block)
        before = known.get(table["name"], [])
        same = (text for text, known_table in before if relevant(known_table) == relevant(table))
        result.append(next(same, None) or adapt(block, before[0][1] if before else {}))
    return result


def find_versions(text: str, package: str) -> set[str]:
    return {version for name, version in packages(text) if name == package}


def packages(text: str) -> set[tuple[str, str]]:
    """Names and versions."""
    entries = read_lock(text).get("package", [])
    return {(str(entry.get("name")), str(entry.get("version"))) for entry in entries}


def remove_key(block: str, key: str) -> str:
    """Remove a key whose value is on one line."""
    return re.sub(rf"^{key} = .*\n", "", block, flags=re.MULTILINE)
