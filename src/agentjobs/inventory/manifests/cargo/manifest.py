"""Reads Cargo.toml. Crates of a path are the repository's own code, not packages.

`complete` brings the manifests of a workspace and its lock file together.
"""

from collections.abc import Iterator, Mapping

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.cargo.lock import read_cargo_lock
from agentjobs.inventory.manifests.cargo.workspace import (
    INHERITED,
    SHARED,
    WORKSPACE,
    complete,
    exact_version,
)
from agentjobs.inventory.manifests.text import Unreadable, Warnings, parse_toml
from agentjobs.inventory.model import ParsedManifest, Requirement, Scope

__all__ = ["complete", "read_cargo_lock", "read_cargo_toml"]

ECOSYSTEM = "crates.io"

_TABLES: dict[str, Scope] = {
    "dependencies": "runtime",
    "build-dependencies": "dev",
    "build_dependencies": "dev",
    "dev-dependencies": "dev",
    "dev_dependencies": "dev",
}


def read_cargo_toml(content: bytes) -> ParsedManifest:
    try:
        manifest = parse_toml(content)
    except Unreadable as error:
        return ParsedManifest(ECOSYSTEM, warnings=(str(error),))
    workspace = _table(manifest, "workspace")
    package = _table(manifest, "package") or _table(manifest, "project")
    warnings = Warnings()
    return ParsedManifest(
        ECOSYSTEM,
        project=_text(package.get("name")),
        requirements=within_bounds(_requirements(manifest, warnings), warnings),
        members=_members(workspace),
        notes=_shared(workspace, warnings) if "workspace" in manifest else {},
        warnings=warnings.all(),
    )


def _members(workspace: Mapping[str, object]) -> tuple[str, ...]:
    """Patterns of directories; what a workspace excludes is marked as npm's workspaces do it."""
    members = [each for each in _list(workspace.get("members")) if isinstance(each, str)]
    excluded = [each for each in _list(workspace.get("exclude")) if isinstance(each, str)]
    return (*members, *(f"!{each}" for each in excluded))


def _requirements(manifest: Mapping[str, object], warnings: Warnings) -> Iterator[Requirement]:
    targets = [t for t in _table(manifest, "target").values() if isinstance(t, dict)]
    for part in [manifest, *targets]:
        for table, scope in _TABLES.items():
            for alias, wanted in _table(part, table).items():
                found = _requirement(alias, wanted, scope, warnings)
                if found is not None:
                    yield found


def _requirement(
    alias: str, wanted: object, scope: Scope, warnings: Warnings
) -> Requirement | None:
    """None for a crate of the repository itself, and for what makes no sense."""
    table = wanted if isinstance(wanted, dict) else {"version": wanted}
    match table:
        case {"path": str()}:
            return None
        case {"workspace": True}:
            specifier = INHERITED
        case {"version": str(version)}:
            specifier = version
        case {"git": str(address)}:
            specifier = f"git {address}"
        case _:
            warnings.add(f"{alias[:100]} was left out: it has no version, path or git address")
            return None
    if scope == "runtime" and table.get("optional") is True:
        scope = "optional"
    name = _text(table.get("package")) or alias
    return Requirement(name, specifier, exact_version(specifier), scope)


def _shared(workspace: Mapping[str, object], warnings: Warnings) -> dict[str, str]:
    """What the members may inherit: for each name there, the crate and its specifier."""
    notes = {WORKSPACE: "yes"}
    for alias, wanted in _table(workspace, "dependencies").items():
        found = _requirement(alias, wanted, "runtime", warnings)
        notes[SHARED + alias] = f"{found.name} {found.specifier}" if found else ""
    return notes


def _table(table: Mapping[str, object], key: str) -> dict[str, object]:
    found = table.get(key)
    return found if isinstance(found, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
