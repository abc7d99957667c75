"""yarn.lock of yarn 1 and of later releases as text: which version each range gets. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ENTRY = re.compile(
    r"^(?:\? (?P<long>[^\n]+)\n:|(?P<header>[^\s#?][^\n]*):)\n(?P<body>(?:[ \t][^\n]*(?:\n|$))+)",
    re.MULTILINE,
)
_VERSION = re.compile(r"^  version:? \"?([^\"\n]+)\"?$", re.MULTILINE)
_RESOLUTION = re.compile(r"^  resolution: \"?([^\"\n]+)\"?$", re.MULTILINE)
_REQUIRED = re.compile(
    r"^  (?:dependencies|optionalDependencies):\n((?:    [^\n]+(?:\n|$))+)", re.MULTILINE
)
_REQUIREMENT = re.compile(r"^    \"?([^\"\s]+?)\"?:? \"?([^\"\n]*)\"?$", re.MULTILINE)
_METADATA = re.compile(r"^__metadata:\n(?:  [^\n]+\n)*?  version: (\d+)", re.MULTILINE)
_CACHE_KEY = re.compile(r"^__metadata:\n(?:  [^\n]+\n)*?  cacheKey: \"?(\d+)", re.MULTILINE)
_OTHER_SOURCE = re.compile(r"(?!npm:)[a-z+]+:|.*/")

# A name and a range without the protocol `npm:`.
Descriptor = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """`name` is the real one of an alias. `directory` is that of a project of the repository."""

    name: str
    version: str
    descriptors: tuple[Descriptor, ...]
    requires: tuple[Descriptor, ...]
    is_published: bool
    directory: str | None
    span: tuple[int, int]


def lock_version(lock: str) -> int:
    """1, or the version that later releases of yarn state."""
    match = _METADATA.search(lock)
    return int(match[1]) if match else 1


def cache_key(lock: str) -> int:
    """The version of the cache that the checksums are for; 0 if the file does not state it."""
    match = _CACHE_KEY.search(lock)
    return int(match[1]) if match else 0


def entries(lock: str) -> list[Entry]:
    return [_entry(match) for match in _ENTRY.finditer(lock) if match["header"] != "__metadata"]


def packages(lock: str) -> set[tuple[str, str]]:
    return {(entry.name, entry.version) for entry in entries(lock) if entry.directory is None}


def split_descriptor(descriptor: str) -> Descriptor:
    at = descriptor.find("@", 1)
    return (descriptor, "") if at < 0 else (descriptor[:at], plain_range(descriptor[at + 1 :]))


def plain_range(spec: str) -> str:
    """Without the protocol, which old files omit; an alias keeps it."""
    return spec if "@" in spec[5:] else spec.removeprefix("npm:")


def reassign(
    lock: str, alias: Descriptor, descriptors: Iterable[Descriptor], package: str, old: str
) -> str:
    """Remove the entries of the old version, and let the alias's entry serve these descriptors."""
    is_first = lock_version(lock) == 1
    pieces, position = [], 0
    for entry in entries(lock):
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


def _entry(match: re.Match[str]) -> Entry:
    header, body = match["long"] or match["header"], match["body"]
    descriptors = tuple(map(split_descriptor, header.replace('"', "").split(", ")))
    version, resolution = _VERSION.search(body), _RESOLUTION.search(body)
    name, spec = descriptors[0]
    if resolution is not None:
        at = resolution[1].find("@", 1)
        name, source = resolution[1][:at], resolution[1][at + 1 :]
    elif spec.startswith("npm:"):
        name, source = split_descriptor(spec.removeprefix("npm:"))[0], "npm:"
    else:
        source = spec if _OTHER_SOURCE.match(spec) else "npm:"
    requires = "".join(_REQUIRED.findall(body))
    return Entry(
        name,
        version[1] if version else "",
        descriptors,
        tuple((name, plain_range(spec)) for name, spec in _REQUIREMENT.findall(requires)),
        source.startswith("npm:"),
        source.removeprefix("workspace:") if source.startswith("workspace:") else None,
        match.span(),
    )
