"""package.json: who asks for what, ranges that exclude a version, overrides. Edits it as text."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cve_fixer import json_text
from cve_fixer.apply_fixes import in_its_text
from cve_fixer.model import Fix, Outcome
from cve_fixer.npm.ranges import admits, raised

# The later ones win where a package stands in several.
SECTIONS = ("peerDependencies", "dependencies", "optionalDependencies", "devDependencies")
# What could make a package manager run something, refuse, or become another version of itself.
_LEFT_OUT = (
    "scripts",
    "packageManager",
    "devEngines",
    "engines",
    "bin",
    "config",
    "pnpm",
    "gypfile",
)

Rule = tuple[tuple[str, ...], str]


def fix(fixes: list[Fix], root: Path) -> Outcome:
    """Where no lock file speaks, the range in package.json does."""
    return in_its_text(fixes, root, admitting)


def admitting(text: str, name: str, version: str) -> str:
    """With the range raised under which `name` is asked for, if it excludes the version."""
    for section in _sections_of(read(text), name):
        spec = read(text)[section][name]
        if admits(spec, version) is False:
            text = json_text.with_value(text, (section, name), raised(spec, version))
    return text


def read(text: str) -> dict[str, Any]:
    return json_text.read_object(text, "package.json")


def asked(manifest: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Of each name the section and the range that count."""
    found: dict[str, tuple[str, str]] = {}
    for section in SECTIONS:
        entries = manifest.get(section)
        for name, spec in entries.items() if isinstance(entries, dict) else ():
            if isinstance(spec, str):
                found[name] = (section, spec)
    return found


def harmless(text: str) -> dict[str, Any]:
    """What a resolution needs of it, for the copy that package managers see."""
    manifest = read(text)
    return {key: value for key, value in manifest.items() if key not in _LEFT_OUT}


def _sections_of(manifest: Mapping[str, Any], name: str) -> list[str]:
    """A range of peers is a promise to others: it changes only where it alone asks."""
    present = [
        section
        for section in SECTIONS
        if isinstance(manifest.get(section), dict) and isinstance(manifest[section].get(name), str)
    ]
    return present if len(present) == 1 else [name for name in present if name != SECTIONS[0]]


def override_rules(overrides: Any, package: str, at: tuple[str, ...] = ()) -> Iterator[Rule]:
    """npm's nested `overrides`: where a rule for the package stands, and what it says."""
    for key, value in overrides.items() if isinstance(overrides, dict) else ():
        is_about_it = _name_in(key) == package
        if isinstance(value, str) and (
            is_about_it or (key == "." and at and _name_in(at[-1]) == package)
        ):
            yield (*at, key), value
        elif isinstance(value, dict) and len(at) < 20:
            yield from override_rules(value, package, (*at, key))


def with_override(text: str, parent: str, package: str, version: str) -> str:
    """npm's: `package` below `parent` is this version, whatever `parent` asks for."""
    present = read(text).get("overrides")
    of_parent = present.get(parent) if isinstance(present, dict) else None
    rules: dict[str, str] = {".": of_parent} if isinstance(of_parent, str) else {}
    if rules:
        return json_text.with_value(text, ("overrides", parent), {**rules, package: version})
    return json_text.with_value(text, ("overrides", parent, package), version)


def without_rules(overrides: Any, package: str) -> Any:
    """A copy in which nothing is said about the package."""
    copy = json.loads(json.dumps(overrides))
    for path, _ in list(override_rules(copy, package)):
        holder = copy
        for key in path[:-1]:
            holder = holder[key]
        del holder[path[-1]]
    return copy


def _name_in(key: str) -> str:
    """`name@range` and `@scope/name@range` are about `name`."""
    at = key.find("@", 1)
    return key if at < 0 else key[:at]
