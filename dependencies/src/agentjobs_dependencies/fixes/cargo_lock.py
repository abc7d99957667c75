"""Updates crates in Cargo.lock with cargo, one by one. Changes nothing for a fix that fails."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.apply_fixes import one_by_one
from agentjobs_dependencies.fixes.markdown import code, describe_other_changes
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.run_tool import find_tool, run_tool
from agentjobs_dependencies.formats.cargo.lock import read_crates, read_document
from agentjobs_dependencies.formats.text import UnreadableManifest, Warnings, table_at

_PUBLIC_INDEX = "index.crates.io"
_SOURCE = "agentjobs"


@dataclass(frozen=True, slots=True)
class _Lock:
    """`packages` are names and versions; `unused_patches` only names."""

    packages: list[tuple[str, str]]
    from_git: set[tuple[str, str]]
    unused_patches: set[str]


@one_by_one
def apply(fix: Fix, root: Path) -> Outcome:
    path = tree.resolve_file(root, fix.manifest)
    before = path.read_bytes()
    old = _read_lock(before, fix.manifest)
    if (fix.package, fix.old) in old.from_git:
        raise CannotFix(
            f"{fix.package} {fix.old} comes from a git repository: update it there, or remove its "
            "`git` or `[patch]` from Cargo.toml"
        )
    if (fix.package, fix.old) not in old.packages:
        if (fix.package, fix.new) in old.packages:
            # An earlier fix has updated it.
            return Outcome(fixed=[fix])
        raise CannotFix(f"{fix.manifest} does not list {fix.package} {fix.old}")
    try:
        _update_to(fix, path)
    except CannotFix as error:
        path.write_bytes(before)
        _update_parents(fix, path, before, error)
    new = _read_lock(path.read_bytes(), fix.manifest)
    unproven = [
        f"Nothing uses the `[patch]` of {code(name)} after the fix: check whether the project "
        "still needs it."
        for name in sorted(new.unused_patches - old.unused_patches)
    ]
    changes = describe_other_changes(old.packages, new.packages, fix.package)
    return Outcome(fixed=[fix], changes=changes, unproven=unproven)


def _update_to(fix: Fix, path: Path) -> None:
    _cargo_update(fix, path, f"{fix.package}@{fix.old}", "--precise", fix.new)


def _update_parents(fix: Fix, path: Path, before: bytes, error: CannotFix) -> None:
    """Update what requires the old version, the nearest first, until nothing does.

    Raises the error of the first attempt, because later ones are only a consequence of it.
    """
    for parent in reversed(fix.parents):
        with suppress(CannotFix):
            _cargo_update(fix, path, parent)
            if (fix.package, fix.old) in _read_lock(path.read_bytes(), fix.manifest).packages:
                _update_to(fix, path)
            return
    path.write_bytes(before)
    raise error


def _cargo_update(fix: Fix, path: Path, package: str, *options: str) -> None:
    run_tool(
        "cargo",
        *("update", "--package", package, *options),
        *_registry_options(fix.registry),
        directory=path.parent,
        environment=_environment(),
    )


def _read_lock(content: bytes, name: str) -> _Lock:
    try:
        document, reason = read_document(content)
    except UnreadableManifest as error:
        raise CannotFix(f"{name} cannot be read: {error}") from None
    if reason:
        raise CannotFix(f"{name} cannot be read: {reason}")
    crates = list(read_crates(document.get("package"), Warnings()))
    unused = read_crates(table_at(document, "patch").get("unused"), Warnings())
    return _Lock(
        [(crate.name, crate.version) for crate in crates],
        {(crate.name, crate.version) for crate in crates if crate.source.startswith("git+")},
        {crate.name for crate in unused},
    )


def _registry_options(registry: str) -> list[str]:
    """Cargo.lock names the public registry even if the crates come from a mirror."""
    if _PUBLIC_INDEX in registry:
        return []
    return [
        *("--config", f'source.crates-io.replace-with="{_SOURCE}"'),
        *("--config", f'source.{_SOURCE}.registry="sparse+{registry.rstrip("/")}/"'),
    ]


def _environment() -> dict[str, str]:
    """Programs that the repository's .cargo/config.toml names do not run."""
    return {
        "RUSTC": str(Path(find_tool("cargo")[0]).with_name("rustc")),
        "RUSTC_WRAPPER": "",
        "RUSTC_WORKSPACE_WRAPPER": "",
        "CARGO_REGISTRIES_CRATES_IO_PROTOCOL": "sparse",
        "CARGO_NET_GIT_FETCH_WITH_CLI": "false",
        "CARGO_TERM_COLOR": "never",
        # Versions that suit the project's `rust-version` come first.
        "CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS": "fallback",
    }
