"""Parses version ranges, aliases and requirements of the npm ecosystem."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentjobs_dependencies.formats.text import Warnings, table_at
from agentjobs_dependencies.model import Requirement, Scope

ECOSYSTEM = "npm"

_EXACT = re.compile(
    r"\s*+=?\s*+v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)(?:\+[0-9A-Za-z.-]+)?\s*", re.ASCII
)
_VERSION = re.compile(r"v?\d+(?:\.\d+)*[0-9A-Za-z.+-]*", re.ASCII)
_LOCAL = ("file:", "link:", "portal:", "workspace:", "./", "../", "/", "~/")


def is_local(specifier: str) -> bool:
    return specifier.startswith(_LOCAL)


def is_version(version: str) -> bool:
    return _VERSION.fullmatch(version) is not None


def split_descriptor(descriptor: str) -> tuple[str, str]:
    """Splits `@scope/name@range`."""
    at = descriptor.find("@", 1)
    return (descriptor, "") if at < 0 else (descriptor[:at], descriptor[at + 1 :])


def requirement(name: str, specifier: str, scope: Scope) -> Requirement:
    """An alias (`npm:real@range`) becomes a requirement of the real package."""
    version_range = specifier
    if specifier.startswith("npm:"):
        real, version_range = split_descriptor(specifier[4:])
        # Newer lock files write `npm:` before any range, older ones only before another name.
        if not version_range and _looks_like_range(real):
            version_range = real
        else:
            name = real
    exact = _EXACT.fullmatch(version_range)
    return Requirement(name, specifier, exact[1] if exact else None, scope)


def requirements(package: Mapping[str, Any], warnings: Warnings) -> Iterator[Requirement]:
    """The requirements of a project, without local ones."""
    others: set[str] = set()
    optional = strings(package, "optionalDependencies", warnings)
    sections: tuple[tuple[str, Scope], ...] = (
        ("dependencies", "runtime"),
        ("devDependencies", "dev"),
    )
    for section, scope in sections:
        for name, specifier in strings(package, section, warnings).items():
            # In npm, a name in both sections is optional.
            if name not in optional:
                others.add(name)
                yield from _unless_local(name, specifier, scope)
    for name, specifier in optional.items():
        yield from _unless_local(name, specifier, "optional")
    meta = table_at(package, "peerDependenciesMeta")
    for name, specifier in strings(package, "peerDependencies", warnings).items():
        if name not in others and name not in optional:
            is_optional = table_at(meta, name).get("optional") is True
            yield from _unless_local(name, specifier, "optional" if is_optional else "runtime")


def strings(package: Mapping[str, Any], section: str, warnings: Warnings) -> dict[str, str]:
    """A mapping of names to strings; other entries become warnings."""
    value = package.get(section)
    if not isinstance(value, dict):
        # Old tools write an empty list or null for an empty mapping.
        if value:
            warnings.add(f"{section} is not a mapping")
        return {}
    mapping = {}
    for name, specifier in value.items():
        if isinstance(specifier, str) and name:
            mapping[name] = specifier
        else:
            warnings.add(f"{section}.{name[:100]} is not a range: {str(specifier)[:100]!r}")
    return mapping


def _unless_local(name: str, specifier: str, scope: Scope) -> Iterator[Requirement]:
    if not is_local(specifier):
        yield requirement(name, specifier, scope)


def _looks_like_range(text: str) -> bool:
    return not text or text[0] in "^~<>=*" or text[0].isdigit() or text in {"latest", "next"}
