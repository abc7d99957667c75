"""Parses version ranges, aliases and requirements of the npm ecosystem."""

import re
from collections.abc import Iterator

import msgspec

from agentjobs.inventory.manifests.text import Warnings
from agentjobs.inventory.model import Requirement, Scope

ECOSYSTEM = "npm"

_EXACT = re.compile(
    r"\s*+=?\s*+v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)(?:\+[0-9A-Za-z.-]+)?\s*", re.ASCII
)
_VERSION = re.compile(r"v?\d+(?:\.\d+)*[0-9A-Za-z.+-]*", re.ASCII)
_LOCAL = ("file:", "link:", "portal:", "workspace:", "./", "../", "/", "~/")
_ANY = msgspec.json.Decoder()


class Sections(msgspec.Struct, rename="camel"):
    """The requirements of a project or package. Not decoded yet, so that one invalid section or
    name does not affect the others."""

    dependencies: msgspec.Raw = msgspec.Raw(b"{}")
    dev_dependencies: msgspec.Raw = msgspec.Raw(b"{}")
    optional_dependencies: msgspec.Raw = msgspec.Raw(b"{}")
    peer_dependencies: msgspec.Raw = msgspec.Raw(b"{}")
    peer_dependencies_meta: msgspec.Raw = msgspec.Raw(b"{}")


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


def requirements(sections: Sections, warnings: Warnings) -> Iterator[Requirement]:
    """The requirements of a project, without local ones."""
    others: set[str] = set()
    optional = strings(sections.optional_dependencies, "optionalDependencies", warnings)
    for raw, scope, where in (
        (sections.dependencies, "runtime", "dependencies"),
        (sections.dev_dependencies, "dev", "devDependencies"),
    ):
        for name, specifier in strings(raw, where, warnings).items():
            # In npm, a name in both sections is optional.
            if name not in optional:
                others.add(name)
                yield from _unless_local(name, specifier, "dev" if scope == "dev" else "runtime")
    for name, specifier in optional.items():
        yield from _unless_local(name, specifier, "optional")
    peers = strings(sections.peer_dependencies, "peerDependencies", warnings)
    meta = decode_field(sections.peer_dependencies_meta, "peerDependenciesMeta", warnings)
    for name, specifier in peers.items():
        about = meta.get(name) if isinstance(meta, dict) else None
        if name not in others and name not in optional:
            is_optional = isinstance(about, dict) and about.get("optional") is True
            yield from _unless_local(name, specifier, "optional" if is_optional else "runtime")


def strings(raw: msgspec.Raw, where: str, warnings: Warnings) -> dict[str, str]:
    """A mapping of names to strings; other entries become warnings."""
    value = decode_field(raw, where, warnings)
    if not isinstance(value, dict):
        # Old tools write an empty list or null for an empty mapping.
        if value:
            warnings.add(f"{where} is not a mapping")
        return {}
    mapping = {}
    for name, specifier in value.items():
        if isinstance(specifier, str) and name:
            mapping[name] = specifier
        else:
            warnings.add(f"{where}.{name[:100]} is not a range: {str(specifier)[:100]!r}")
    return mapping


def decode_field(raw: msgspec.Raw, where: str, warnings: Warnings) -> object:
    """Any JSON value; None if it is not valid UTF-8 or contains a number that is out of range."""
    try:
        return _ANY.decode(raw)
    except UnicodeDecodeError:
        warnings.add(f"{where} is not valid UTF-8 and is left out")
        return None
    except (msgspec.DecodeError, RecursionError) as error:
        warnings.add(f"{where} is left out: {str(error)[:100]}")
        return None


def _unless_local(name: str, specifier: str, scope: Scope) -> Iterator[Requirement]:
    if not is_local(specifier):
        yield requirement(name, specifier, scope)


def _looks_like_range(text: str) -> bool:
    return not text or text[0] in "^~<>=*" or text[0].isdigit() or text in {"latest", "next"}
