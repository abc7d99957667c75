"""Reads composer.json and composer.lock. PHP itself and its extensions are not packages.

The direct requirements are only in composer.json, not in the lock file.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from agentjobs.inventory.manifests.bounds import limit_requirements
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.text import UnreadableManifest, Warnings, parse_json
from agentjobs.inventory.model import ParsedManifest, Requirement, Scope

ECOSYSTEM = "Packagist"

_RUNTIME: Scope = "runtime"
_DEV: Scope = "dev"

_EXACT = re.compile(
    r"(?i:={0,2}\s*v?(\d+(?:\.\d+){0,3}(?:[-.]?(?:alpha|beta|a|b|rc|p|pl|patch)\.?\d*)?))"
)
# More than any package name has in practice.
_MAX_PROVIDERS = 20

# PHP writes an empty object as an empty list.
_Names = dict[str, object] | list[object]


class _Project(msgspec.Struct):
    name: object = ""
    require: object = None
    require_dev: object = msgspec.field(default=None, name="require-dev")


class _Lock(msgspec.Struct):
    packages: list[msgspec.Raw] = []
    packages_dev: list[msgspec.Raw] | None = msgspec.field(default=None, name="packages-dev")


class _Package(msgspec.Struct):
    name: str
    version: str
    require: _Names = {}
    replace: _Names = {}
    provide: _Names = {}


def read_composer_json(content: bytes) -> ParsedManifest:
    project = parse_json(content, msgspec.json.Decoder(_Project))
    warnings = Warnings()
    requirements = [
        *_requirements(project.require, _RUNTIME, warnings),
        *_requirements(project.require_dev, _DEV, warnings),
    ]
    return ParsedManifest(
        ECOSYSTEM,
        project=project.name.lower() if isinstance(project.name, str) else "",
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
    document = parse_json(content, msgspec.json.Decoder(_Lock))
    warnings = Warnings()
    lock = Lock(warnings)
    packages: list[tuple[int, _Package]] = []
    for entries, scope in ((document.packages, _RUNTIME), (document.packages_dev or [], _DEV)):
        for package in _packages(entries, warnings):
            key, version = package.name.lower(), _strip_v(package.version)
            lock.add((key, version), key, version, scope)
            position = lock.position((key, version))
            if position is not None:
                packages.append((position, package))
    positions = _find_positions(packages)
    for position, package in packages:
        for required in _look_up(positions, package.require):
            lock.require_by([position], required)
    return ParsedManifest(ECOSYSTEM, packages=lock.packages(), warnings=warnings.all())


def _packages(entries: list[msgspec.Raw], warnings: Warnings) -> Iterator[_Package]:
    decoder = msgspec.json.Decoder(_Package)
    for entry in entries:
        try:
            yield parse_json(bytes(entry), decoder)
        except UnreadableManifest as error:
            warnings.add(f"a package is left out: {error}")


def _find_positions(packages: list[tuple[int, _Package]]) -> dict[str, list[int]]:
    """The positions for each name: the package itself, or packages that replace or provide it."""
    positions: dict[str, list[int]] = {}
    for position, package in packages:
        positions.setdefault(package.name.lower(), []).append(position)
    providers: dict[str, list[int]] = {}
    for position, package in packages:
        for name in {n.lower() for n in [*package.replace, *package.provide] if isinstance(n, str)}:
            if name not in positions:
                providers.setdefault(name, []).append(position)
    return {name: numbers[:_MAX_PROVIDERS] for name, numbers in (positions | providers).items()}


def _look_up(positions: dict[str, list[int]], names: Iterable[object]) -> tuple[int, ...]:
    lists = [positions.get(name.lower(), []) for name in names if isinstance(name, str)]
    return tuple(dict.fromkeys(position for numbers in lists for position in numbers))


def _exact(specifier: str) -> str | None:
    match = _EXACT.fullmatch(specifier.strip().partition("@")[0])
    return match[1] if match else None


def _strip_v(version: str) -> str:
    """Packagist and its advisories write the tag v1.2 as 1.2."""
    return version[1:] if re.match(r"[vV]\d", version) else version
