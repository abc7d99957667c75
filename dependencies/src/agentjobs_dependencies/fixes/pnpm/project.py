"""A copy of a project for pnpm: package.json files, its settings and the lock file.

It has only settings that affect a resolution: no hooks, registries, shells or other versions of
pnpm itself. It has no code of the repository that could run.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentjobs_dependencies.fixes import tree, yaml_text
from agentjobs_dependencies.fixes.npm.fetched_tools import build_argv
from agentjobs_dependencies.fixes.npm.project import NpmProject, read_npmrc
from agentjobs_dependencies.fixes.pnpm.release import Pnpm
from agentjobs_dependencies.fixes.run_tool import run_tool

WORKSPACE = "pnpm-workspace.yaml"
LOCK = "pnpm-lock.yaml"
_FLAGS = frozenset(
    {
        *("autoInstallPeers", "dedupeDirectDeps", "dedupeInjectedDeps", "dedupePeerDependents"),
        *("excludeLinksFromLockfile", "injectWorkspacePackages", "linkWorkspacePackages"),
        *("lockfileIncludeTarballUrl", "peersSuffixMaxLength", "preferWorkspacePackages"),
        *("resolutionMode", "resolvePeersFromWorkspaceRoot", "sharedWorkspaceLockfile"),
    }
)
# Tables of package.json or pnpm-workspace.yaml that affect a resolution, except overrides.
TABLES = frozenset(
    {
        *("packageExtensions", "patchedDependencies", "ignoredOptionalDependencies"),
        "peerDependencyRules",
    }
)
_KEPT = _FLAGS | TABLES | {"packages", "catalog", "catalogs"}
_PATCH = re.compile(r":[ \t]*['\"]?([^'\"\n]+\.patch)['\"]?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PnpmProject:
    files: NpmProject
    pnpm: Pnpm

    def workspace_text(self) -> str:
        return self.files.read(WORKSPACE).replace("\r\n", "\n")

    def write_workspace(self, text: str) -> None:
        path = (self.files.directory / WORKSPACE).resolve()
        tree.write(path, tree.match_line_endings(tree.read(path) if path.is_file() else "", text))

    def lock(
        self,
        lock: str,
        workspace: str,
        tables: Mapping[str, Any],
        manifests: Mapping[str, Mapping[str, Any]],
    ) -> str:
        """The lock file that pnpm writes for these settings and package.json files. `tables` are
        those of package.json, with all overrides."""
        parts = yaml_text.blocks(workspace, WORKSPACE)
        kept = {key: block for key, block in parts.items() if key in _KEPT}
        patches = [*_PATCH.findall(workspace), *_values(tables.get("patchedDependencies"))]
        paths = [self.files.directory / path for path in patches]
        tree.copy_files(self.files.root, paths, self.files.copy)
        flags = self._flags(lock)
        if not self.pnpm.reads_workspace:
            manifests = {**manifests, "": {**manifests[""], "pnpm": tables}}
            npmrc = "".join(f"{_kebab(name)}={value}\n" for name, value in flags.items())
        else:
            npmrc = ""
            more = {key: json.dumps(value) for key, value in tables.items()} | flags
            kept |= {key: f"{key}: {value}" for key, value in more.items() if key not in kept}
        directory = self.files.write_manifests(manifests)
        tree.write(directory / ".npmrc", npmrc)
        text = "".join(block.rstrip() + "\n" for block in kept.values())
        tree.write(directory / WORKSPACE, text)
        if not text:
            # Older releases would take it for a workspace.
            (directory / WORKSPACE).unlink()
        tree.write(directory / LOCK, lock)
        self._install(directory)
        return tree.read(directory / LOCK)

    def _install(self, directory: Path) -> None:
        registry = self.files.registry
        run_tool(
            *("pnpm", "install", "--lockfile-only", "--ignore-scripts", "--ignore-pnpmfile"),
            *("--no-frozen-lockfile", "--config.prefer-frozen-lockfile=false"),
            *([f"--registry={registry}"] if registry else []),
            # The service chose the version, and the other entries are trusted.
            *("--config.minimum-release-age=0", "--config.trust-lockfile=true"),
            *("--config.manage-package-manager-versions=false", "--config.pm-on-fail=ignore"),
            directory=directory,
            environment={"CI": "", "COREPACK_ENABLE_DOWNLOAD_PROMPT": "0"},
            program=build_argv(self.pnpm.script) if self.pnpm.script else (),
        )

    def _flags(self, lock: str) -> dict[str, str]:
        """The settings that the lock file records, and those of .npmrc."""
        recorded = yaml_text.entries(yaml_text.blocks(lock, LOCK).get("settings", ""))
        known = {_kebab(flag): flag for flag in _FLAGS}
        in_npmrc = read_npmrc(self.files.directory, frozenset(known))
        flags = {**{known[name]: value for name, value in in_npmrc.items()}, **recorded}
        return {name: value for name, value in flags.items() if name in _FLAGS}


def _kebab(flag: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", flag)


def _values(table: Any) -> list[str]:
    values = table.values() if isinstance(table, dict) else ()
    return [value for value in values if isinstance(value, str)]


def members(importers: Iterable[str]) -> list[str]:
    """The projects' directories; pnpm's name for the root is a dot."""
    return ["" if importer == "." else importer for importer in importers]
