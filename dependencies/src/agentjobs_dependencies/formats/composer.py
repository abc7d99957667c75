"""Reads composer.json and composer.lock. PHP itself and its extensions are not packages.

The direct requirements are only in composer.json, not in the lock file.
"""

import re
from collections.abc import Iterator
from typing import Any

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.text import UnreadableManifest, Warnings, parse_json, table_at
from agentjobs_dependencies.model import ParsedManifest, Requirement, Scope

ECOSYSTEM = "Packagist"

_RUNTIME: Scope = "runtime"
_DEV: Scope = "dev"

_EXACT = re.compile(
    r"(?i:={0,2}\s*v?(\d+(?:\.\d+){0,3}(?:[-.]?(?:alpha|beta|a|b|rc|p|pl|patch)\.?\d*)?))"
)
# More than any package name has in practice.
_MAX_PROVIDERS = 20

_Package = dict[str, Any]


def read_composer_json(content: bytes) -> ParsedManifest:
    project, warnings = parse_json(content)
    requirements = [
        *_requirements(project.get("require"), _RUNTIME, warnings),
        *_requirements(project.get("require-dev"), _DEV, warnings),
    ]
    name = project.get("name")
    return ParsedManifest(
        ECOSYSTEM,
        project=name.lower() if isinstance(name, str) else "",
        requirements=limit_requirements(requirements, warnings),
        warnings=warnings.all(),
    )


def _requirements(table: object, scope: Scope, warnings: Warnings) -> Iterator[Requirement]:
    if not isinstance(table, dict):
        if table:
            warnings.add(
                "a list of requirements is not an object of names and versions and is left out"
            )
        return
    for name, specifier in table.items():
        if not isinstance(specifier, str):
            warnings.add(f"{name[:100]} is left out: its version is not a string")
        # The names of PHP and its extensions have no vendor.
        elif "/" in name:
            yield Requirement(name.lower(), specifier, _exact(specifier), scope)


def read_composer_lock(content: bytes) -> ParsedManifest:
    document, warnings = parse_json(content)
    lock = Lock(warnings)
    packages: list[tuple[int, _Package]] = []
    for section, scope in (("packages", _RUNTIME), ("packages-dev", _DEV)):
        for package in _packages(document.get(section), warnings):
            key, version = package["name"].lower(), _strip_v(package["version"])
            lock.add((key, version), key, version, scope)
            position = lock.position((key, version))
            if position is not None:
                packages.append((position, package))
    providers = _find_providers(packages)
    for position, package in packages:
        for name in map(str.lower, table_at(package, "require")):
            for required in lock.named(name) or providers.get(name, ()):
                lock.require_by([position], required)
    return ParsedManifest(ECOSYSTEM, packages=lock.packages(), warnings=warnings.all())


def _packages(entries: object, warnings: Warnings) -> Iterator[_Package]:
    if not isinstance(entries, list | None):
        raise UnreadableManifest("unexpected structure: the packages are not a list")
    for entry in entries or ():
        match entry:
            case {"name": str(), "version": str()}:
                yield entry
            case _:
                warnings.add("a package is left out: its name or version is not a string")


def _find_providers(packages: list[tuple[int, _Package]]) -> dict[str, list[int]]:
    """The positions of packages that replace or provide a name."""
    providers: dict[str, list[int]] = {}
    for position, package in packages:
        provided = (*table_at(package, "replace"), *table_at(package, "provide"))
        for name in {name.lower() for name in provided}:
            providers.setdefault(name, []).append(position)
    return {name: positions[:_MAX_PROVIDERS] for name, positions in providers.items()}


def _exact(specifier: str) -> str | None:
    match = _EXACT.fullmatch(specifier.strip().partition("@")[0])
    return match[1] if match else None


def _strip_v(version: str) -> str:
    """Packagist and its advisories write the tag v1.2 as 1.2."""
    return version[1:] if re.match(r"[vV]\d", version) else version
