"""Reads and edits package.json as text: required ranges and overrides."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentjobs_dependencies.fixes import json_text
from agentjobs_dependencies.formats.npm.ranges import split_descriptor
from agentjobs_dependencies.versions.npm import allows, raise_range

# Later sections take precedence.
SECTIONS = ("peerDependencies", "dependencies", "optionalDependencies", "devDependencies")
# Fields that could make a package manager run code, refuse, or switch its own version.
_OMITTED_KEYS = ("scripts", "packageManager", "devEngines", "engines", "config", "pnpm", "gypfile")

Rule = tuple[tuple[str, ...], str]


def allow_version(text: str, package: str, version: str) -> str:
    """Raise the ranges that require the package, if they exclude the version."""
    for name, (_, spec) in requirements(read(text)).items():
        # An alias has another name than its package: `"alias": "npm:package@1.0.0"`.
        if spec.startswith(f"npm:{package}@") or (name == package and "npm:" not in spec):
            text = raise_requirement(text, name, version)
    return text


def raise_requirement(text: str, name: str, version: str) -> str:
    """`name` is an alias, or that of the package."""
    manifest = read(text)
    for section in _find_sections(manifest, name):
        spec = manifest[section][name]
        if allows(spec, version) is False:
            text = json_text.set_value(text, (section, name), raise_range(spec, version))
    return text


def read(text: str) -> dict[str, Any]:
    return json_text.read_object(text, "package.json")


def requirements(manifest: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The effective section and range of each name."""
    required: dict[str, tuple[str, str]] = {}
    for section in SECTIONS:
        entries = manifest.get(section)
        for name, spec in entries.items() if isinstance(entries, dict) else ():
            if isinstance(spec, str):
                required[name] = (section, spec)
    return required


def strip_manifest(text: str) -> dict[str, Any]:
    """The fields that a resolution needs, for the copy that package managers see."""
    manifest = read(text)
    return {key: value for key, value in manifest.items() if key not in _OMITTED_KEYS}


def _find_sections(manifest: Mapping[str, Any], name: str) -> list[str]:
    """A peer range is a promise to others, so it changes only if no other section has it."""
    present = [
        section
        for section in SECTIONS
        if isinstance(manifest.get(section), dict) and isinstance(manifest[section].get(name), str)
    ]
    return present if len(present) == 1 else [name for name in present if name != SECTIONS[0]]


def override_rules(overrides: Any, package: str, at: tuple[str, ...] = ()) -> Iterator[Rule]:
    """npm's nested `overrides`: the path and the range of each rule for the package."""
    for key, value in overrides.items() if isinstance(overrides, dict) else ():
        is_target = split_descriptor(key)[0] == package
        if isinstance(value, str) and (
            is_target or (key == "." and at and split_descriptor(at[-1])[0] == package)
        ):
            yield (*at, key), value
        elif isinstance(value, dict) and len(at) < 20:
            yield from override_rules(value, package, (*at, key))


def add_override(text: str, parent: str, package: str, version: str) -> str:
    """Make npm use this version of `package` below `parent`, whatever `parent` requires."""
    present = read(text).get("overrides")
    of_parent = present.get(parent) if isinstance(present, dict) else None
    rules: dict[str, str] = {".": of_parent} if isinstance(of_parent, str) else {}
    if rules:
        return json_text.set_value(text, ("overrides", parent), {**rules, package: version})
    return json_text.set_value(text, ("overrides", parent, package), version)


def remove_rules(overrides: Any, package: str) -> Any:
    """A copy without rules for the package."""
    copy = json.loads(json.dumps(overrides))
    for path, _ in list(override_rules(copy, package)):
        holder = copy
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]
    return copy
