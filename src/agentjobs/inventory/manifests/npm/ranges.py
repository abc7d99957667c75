"""Words of the npm ecosystem: ranges, aliases, and what stands for the repository's own code."""

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
    """What a project or a package asks for. Left undecoded, so that one bad section or name does
    not cost the rest."""

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
    """`@scope/name@range` in its two parts."""
    at = descriptor.find("@", 1)
    return (descriptor, "") if at < 0 else (descriptor[:at], descriptor[at + 1 :])


def requirement(name: str, specifier: str, scope: Scope) -> Requirement:
    """An alias (`npm:real@range`) is a requirement of the real package, in the alias's words."""
    wanted = specifier
    if specifier.startswith("npm:"):
        real, wanted = split_descriptor(specifier[4:])
        # Newer lock files write `npm:` before any range, older ones only before another name.
        name, wanted = (name, real) if not wanted and _looks_like_range(real) else (real, wanted)
    exact = _EXACT.fullmatch(wanted)
    return Requirement(name, specifier, exact[1] if exact else None, scope)


def requirements(sections: Sections, warnings: Warnings) -> Iterator[Requirement]:
    """What a project asks for and does not bring itself."""
    others: set[str] = set()
    optional = strings(sections.optional_dependencies, "optionalDependencies", warnings)
    for raw, scope, where in (
        (sections.dependencies, "runtime", "dependencies"),
        (sections.dev_dependencies, "dev", "devDependencies"),
    ):
        for name, specifier in strings(raw, where, warnings).items():
            # npm: what is named in both is optional.
            if name not in optional:
                others.add(name)
                yield from _outside(name, specifier, "dev" if scope == "dev" else "runtime")
    for name, specifier in optional.items():
        yield from _outside(name, specifier, "optional")
    peers = strings(sections.peer_dependencies, "peerDependencies", warnings)
    meta = decoded(sections.peer_dependencies_meta, "peerDependenciesMeta", warnings)
    for name, specifier in peers.items():
        about = meta.get(name) if isinstance(meta, dict) else None
        if name not in others and name not in optional:
            is_optional = isinstance(about, dict) and about.get("optional") is True
            yield from _outside(name, specifier, "optional" if is_optional else "runtime")


def strings(raw: msgspec.Raw, where: str, warnings: Warnings) -> dict[str, str]:
    """A mapping of names to strings; whatever is not that becomes a warning."""
    value = decoded(raw, where, warnings)
    if not isinstance(value, dict):
        # Old tools write an empty list, or null, where they mean nothing.
        if value:
            warnings.add(f"{where} is not a mapping")
        return {}
    found = {}
    for name, specifier in value.items():
        if isinstance(specifier, str) and name:
            found[name] = specifier
        else:
            warnings.add(f"{where}.{name[:100]} is not a range: {str(specifier)[:100]!r}")
    return found


def decoded(raw: msgspec.Raw, where: str, warnings: Warnings) -> object:
    """Whatever it is; None if its text is not UTF-8."""
    try:
        return _ANY.decode(raw)
    except UnicodeDecodeError:
        warnings.add(f"{where} is not valid UTF-8 and was left out")
        return None


def _outside(name: str, specifier: str, scope: Scope) -> Iterator[Requirement]:
    if not is_local(specifier):
        yield requirement(name, specifier, scope)


def _looks_like_range(text: str) -> bool:
    return not text or text[0] in "^~<>=*" or text[0].isdigit() or text in {"latest", "next"}
