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

from cve_fixer import tree, yaml_text
from cve_fixer.model import CannotFix
from cve_fixer.npm import package_json
from cve_fixer.npm.project import NpmProject, read_npmrc
from cve_fixer.run_tool import run_tool

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
_TABLES = frozenset(
    {
        *("packages", "catalog", "catalogs", "overrides", "packageExtensions"),
        *("patchedDependencies", "ignoredOptionalDependencies", "peerDependencyRules"),
    }
)
_PUBLISHED = re.compile(r"(?:@[\w.~][\w.~-]*/)?[\w.~][\w.~-]*@\d[\w.+-]*", re.ASCII)
_PATCH = re.compile(r":[ \t]*['\"]?([^'\"\n]+\.patch)['\"]?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PnpmProject:
    files: NpmProject

    def settings(self, lock: str, workspace: str) -> str:
        """The text of pnpm-workspace.yaml for the copy."""
        kept = {
            key: text
            for key, text in yaml_text.blocks(workspace, WORKSPACE).items()
            if key in _FLAGS | _TABLES
        }
        text = "".join(block.rstrip() + "\n" for block in kept.values())
        recorded = dict(yaml_text.entries(yaml_text.blocks(lock, LOCK).get("settings", "")))
        for name, value in {**self._npmrc(), **recorded}.items():
            if name in _FLAGS and name not in kept:
                text += f"{name}: {value}\n"
        return text

    def workspace_text(self) -> str:
        path = self.files.directory / WORKSPACE
        if not path.is_file():
            return ""
        return tree.read(tree.resolve_file(self.files.root, self.name(WORKSPACE))).replace(
            "\r\n", "\n"
        )

    def write_workspace(self, text: str) -> None:
        path = (self.files.directory / WORKSPACE).resolve()
        tree.write(path, tree.with_line_endings_of(tree.read(path) if path.is_file() else "", text))

    def name(self, file: str) -> str:
        path = (self.files.directory / file).resolve()
        return path.relative_to(self.files.root.resolve()).as_posix()

    def lock(self, lock: str, settings: str, manifests: Mapping[str, Mapping[str, Any]]) -> str:
        """The lock file that pnpm writes for these settings and package.json files."""
        project_copy = self.files.write_manifests(manifests)
        patches = [self.files.directory / path for path in _PATCH.findall(settings)]
        tree.copy_files(self.files.root, patches, self.files.copy)
        tree.write(project_copy / WORKSPACE, settings)
        tree.write(project_copy / LOCK, lock)
        self._run(
            project_copy,
            *("install", "--lockfile-only", "--ignore-scripts", "--ignore-pnpmfile"),
            *("--no-frozen-lockfile", "--config.prefer-frozen-lockfile=false"),
        )
        return tree.read(project_copy / LOCK)

    def ranges_of(self, package_id: str) -> dict[str, str]:
        """The requirements of a published package; empty if the registry does not know it."""
        if not _PUBLISHED.fullmatch(package_id):
            return {}
        try:
            output = self._run(
                self.files.copy,
                *("view", package_id, "dependencies", "optionalDependencies"),
                *("peerDependencies", "--json"),
            )
            parsed = json.loads(output)
        except (CannotFix, ValueError, RecursionError):
            return {}
        requirements = package_json.requirements(parsed) if isinstance(parsed, dict) else {}
        return {name: spec for name, (_, spec) in requirements.items()}

    def _run(self, project_copy: Path, command: str, *options: str) -> str:
        registry = self.files.registry
        return run_tool(
            *("pnpm", command, *options),
            *([f"--registry={registry}"] if registry else []),
            # The service chose the version, and the other entries are trusted.
            *("--config.minimum-release-age=0", "--config.trust-lockfile=true"),
            *("--config.manage-package-manager-versions=false", "--config.pm-on-fail=ignore"),
            directory=project_copy,
            environment={"CI": "", "COREPACK_ENABLE_DOWNLOAD_PROMPT": "0"},
        )

    def _npmrc(self) -> dict[str, str]:
        known = {
            re.sub("[A-Z]", lambda parsed: f"-{parsed[0].lower()}", flag): flag for flag in _FLAGS
        }
        parsed = read_npmrc(self.files.directory, frozenset(known))
        return {known[name]: value for name, value in parsed.items()}


def members(importers: Iterable[str]) -> list[str]:
    """As directories: pnpm's name for the root is a dot."""
    return ["" if importer == "." else importer for importer in importers]
