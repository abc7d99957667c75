"""Reads Cargo.toml. Crates with a path belong to the repository and are not packages.

`complete` relates the manifests of a workspace and its lock file.
"""

from collections.abc import Iterator, Mapping

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.cargo.lock import read_cargo_lock
from agentjobs_dependencies.formats.cargo.workspace import (
    INHERITED,
    SHARED,
    WORKSPACE,
    complete,
    exact_version,
)
from agentjobs_dependencies.formats.text import Warnings, parse_toml, table_at
from agentjobs_dependencies.model import ParsedManifest, Requirement, Scope

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
    manifest = parse_toml(content)
    workspace = table_at(manifest, "workspace")
    package = table_at(manifest, "package") or table_at(manifest, "project")
    warnings = Warnings()
    return ParsedManifest(
        ECOSYSTEM,
        project=_text(package.get("name")),
        requirements=limit_requirements(_requirements(manifest, warnings), warnings),
        members=_members(workspace),
        notes=_shared(workspace, warnings) if "workspace" in manifest else {},
        warnings=warnings.all(),
    )


def _members(workspace: Mapping[str, object]) -> tuple[str, ...]:
    """Patterns of directories; excluded ones start with `!`, as in npm's workspaces."""
    members = [pattern for pattern in _list(workspace.get("members")) if isinstance(pattern, str)]
    excluded = [pattern for pattern in _list(workspace.get("exclude")) if isinstance(pattern, str)]
    return (*members, *(f"!{pattern}" for pattern in excluded))


def _requirements(manifest: Mapping[str, object], warnings: Warnings) -> Iterator[Requirement]:
    targets = [t for t in table_at(manifest, "target").values() if isinstance(t, dict)]
    for part in [manifest, *targets]:
        for table, scope in _TABLES.items():
            for alias, value in table_at(part, table).items():
                requirement = _requirement(alias, value, scope, warnings)
                if requirement is not None:
                    yield requirement


def _requirement(alias: str, value: object, scope: Scope, warnings: Warnings) -> Requirement | None:
    """None for a crate of the repository and for an invalid entry."""
    table = value if isinstance(value, dict) else {"version": value}
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
            warnings.add(f"{alias[:100]} is left out: it has no version, path or git URL")
            return None
    if scope == "runtime" and table.get("optional") is True:
        scope = "optional"
    name = _text(table.get("package")) or alias
    return Requirement(name, specifier, exact_version(specifier), scope)


def _shared(workspace: Mapping[str, object], warnings: Warnings) -> dict[str, str]:
    """The dependencies that members may inherit: the crate and specifier for each name."""
    notes = {WORKSPACE: "yes"}
    for alias, value in table_at(workspace, "dependencies").items():
        shared = _requirement(alias, value, "runtime", warnings)
        notes[SHARED + alias] = f"{shared.name} {shared.specifier}" if shared else ""
    return notes


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
