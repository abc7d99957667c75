"""Reads composer.json and composer.lock. PHP itself and its extensions are not packages.

The lock file does not say what the project itself asks for: the composer.json beside it does.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.text import Unreadable, Warnings, parse_json
from agentjobs.inventory.model import ParsedManifest, Requirement, Scope

ECOSYSTEM = "Packagist"

_RUNTIME: Scope = "runtime"
_DEV: Scope = "dev"

_EXACT = re.compile(
    r"(?i:={0,2}\s*v?(\d+(?:\.\d+){0,3}(?:[-.]?(?:alpha|beta|a|b|rc|p|pl|patch)\.?\d*)?))"
)
# More stand-ins for one name than anybody publishes would be an attack.
_MAX_STAND_INS = 20

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
    try:
        project = parse_json(content, msgspec.json.Decoder(_Project))
    except Unreadable as error:
        return ParsedManifest(ECOSYSTEM, warnings=(str(error),))
    warnings = Warnings()
    requirements = [
        *_requirements(project.require, _RUNTIME, warnings),
        *_requirements(project.require_dev, _DEV, warnings),
    ]
    return ParsedManifest(
        ECOSYSTEM,
        project=project.name.lower() if isinstance(project.name, str) else "",
        requirements=within_bounds(requirements, warnings),
        warnings=warnings.all(),
    )


def _requirements(asked: object, scope: Scope, warnings: Warnings) -> Iterator[Requirement]:
    if not isinstance(asked, dict):
        if asked:
            warnings.add("what is required is not an object of names and versions: left out")
        return
    for name, specifier in asked.items():
        if not isinstance(specifier, str):
            warnings.add(f"the version of {name[:100]} is not a text: it was left out")
        elif _is_package(name):
            yield Requirement(name.lower(), specifier, _exact(specifier), scope)


def read_composer_lock(content: bytes) -> ParsedManifest:
    try:
        document = parse_json(content, msgspec.json.Decoder(_Lock))
    except Unreadable as error:
        return ParsedManifest(ECOSYSTEM, warnings=(str(error),))
    warnings = Warnings()
    lock = Lock(warnings)
    packages: list[tuple[int, _Package]] = []
    for entries, scope in ((document.packages, _RUNTIME), (document.packages_dev or [], _DEV)):
        for package in _packages(entries, warnings):
            key, version = package.name.lower(), _plain(package.version)
            lock.add((key, version), key, version, scope)
            place = lock.position((key, version))
            if place is not None:
                packages.append((place, package))
    places = _places(packages)
    for place, package in packages:
        for required in _found(places, package.require):
            lock.require_by([place], required)
    return ParsedManifest(ECOSYSTEM, packages=lock.packages(), warnings=warnings.all())


def _packages(entries: list[msgspec.Raw], warnings: Warnings) -> Iterator[_Package]:
    decoder = msgspec.json.Decoder(_Package)
    for entry in entries:
        try:
            yield parse_json(bytes(entry), decoder)
        except Unreadable as error:
            warnings.add(f"a package was left out: {error}")


def _places(packages: list[tuple[int, _Package]]) -> dict[str, list[int]]:
    """Where each name is to be found: the package itself, or else those that stand in for it."""
    places: dict[str, list[int]] = {}
    for position, package in packages:
        places.setdefault(package.name.lower(), []).append(position)
    stand_ins: dict[str, list[int]] = {}
    for position, package in packages:
        for name in {n.lower() for n in [*package.replace, *package.provide] if isinstance(n, str)}:
            if name not in places:
                stand_ins.setdefault(name, []).append(position)
    return {name: found[:_MAX_STAND_INS] for name, found in (places | stand_ins).items()}


def _found(places: dict[str, list[int]], names: Iterable[object]) -> tuple[int, ...]:
    found = [places.get(name.lower(), []) for name in names if isinstance(name, str)]
    return tuple(dict.fromkeys(position for positions in found for position in positions))


def _is_package(name: str) -> bool:
    return "/" in name


def _exact(specifier: str) -> str | None:
    found = _EXACT.fullmatch(specifier.strip().partition("@")[0])
    return found[1] if found else None


def _plain(version: str) -> str:
    """Tags say v1.2 for what Packagist and its advisories compare as 1.2."""
    return version[1:] if re.match(r"[vV]\d", version) else version
