"""yarn.lock of yarn 1 and of later releases as text: moves ranges to another entry. Pure."""

import re
from collections.abc import Iterable

from agentjobs_dependencies.formats.npm.yarn_lock import Descriptor, read_entries


def lock_version(lock: str) -> int:
    """1, or the version that later releases of yarn state."""
    return _read_metadata(lock, "version") or 1


def cache_key(lock: str) -> int:
    """The version of the cache that the checksums are for; 0 if the file does not state it."""
    return _read_metadata(lock, "cacheKey")


def _read_metadata(lock: str, key: str) -> int:
    pattern = rf"^__metadata:\n(?:  [^\n]+\n)*?  {key}: \"?(\d+)"
    match = re.search(pattern, lock, re.MULTILINE)
    return int(match[1]) if match else 0


def packages(lock: str) -> set[tuple[str, str]]:
    return {(entry.name, entry.version) for entry in read_entries(lock) if entry.directory is None}


def reassign(
    lock: str, alias: Descriptor, descriptors: Iterable[Descriptor], package: str, old: str
) -> str:
    """Remove the entries of the old version, and let the alias's entry serve these descriptors."""
    is_first = lock_version(lock) == 1
    pieces, position = [], 0
    for entry in read_entries(lock):
        start, end = entry.span
        if alias in entry.descriptors:
            served = sorted({*entry.descriptors, *descriptors})
            body = lock[start:end].partition(":\n")[2]
            pieces += [lock[position:start], _header(served, is_first), "\n", body]
        elif (entry.name, entry.version) == (package, old):
            pieces.append(lock[position:start])
        else:
            continue
        position = end
    return "".join((*pieces, lock[position:]))


def _header(descriptors: list[Descriptor], is_first: bool) -> str:
    if is_first:
        return ", ".join(f'"{name}@{spec}"' for name, spec in descriptors) + ":"
    names = (f"{name}@{spec if ':' in spec else f'npm:{spec}'}" for name, spec in descriptors)
    return f'"{", ".join(names)}":'
