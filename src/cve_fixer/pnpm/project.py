"""A copy of a project in which pnpm may work: package.json files, its settings, the lock file.

Of the settings only those that shape a resolution come along: no hooks, registries, shells, other
versions of pnpm itself. No code of the repository is there to run.
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
from cve_fixer.npm import settings as npm_settings
from cve_fixer.npm.project import NpmProject
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
        """pnpm-workspace.yaml as the copy has it."""
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
        return tree.read(tree.file_in(self.files.root, self.name(WORKSPACE))).replace("\r\n", "\n")

    def write_workspace(self, text: str) -> None:
        path = (self.files.directory / WORKSPACE).resolve()
        tree.write(path, tree.with_line_ends_of(tree.read(path) if path.is_file() else "", text))

    def name(self, file: str) -> str:
        path = (self.files.directory / file).resolve()
        return path.relative_to(self.files.root.resolve()).as_posix()

    def lock(self, lock: str, settings: str, manifests: Mapping[str, Mapping[str, Any]]) -> str:
        """What pnpm makes of this lock file for these settings and package.json files."""
        place = self.files.copied(manifests)
        patches = [self.files.directory / found for found in _PATCH.findall(settings)]
        tree.copy_files(self.files.root, patches, self.files.copy)
        tree.write(place / WORKSPACE, settings)
        tree.write(place / LOCK, lock)
        self._run(
            place,
            *("install", "--lockfile-only", "--ignore-scripts", "--ignore-pnpmfile"),
            *("--no-frozen-lockfile", "--config.prefer-frozen-lockfile=false"),
        )
        return tree.read(place / LOCK)

    def ranges_of(self, package_id: str) -> dict[str, str]:
        """What a published package asks for; empty where the registry does not know it."""
        if not _PUBLISHED.fullmatch(package_id):
            return {}
        try:
            answer = self._run(
                self.files.copy,
                *("view", package_id, "dependencies", "optionalDependencies"),
                *("peerDependencies", "--json"),
            )
            found = json.loads(answer)
        except (CannotFix, ValueError, RecursionError):
            return {}
        asked = package_json.asked(found) if isinstance(found, dict) else {}
        return {name: spec for name, (_, spec) in asked.items()}

    def _run(self, place: Path, command: str, *options: str) -> str:
        registry = self.files.registry
        return run_tool(
            *("pnpm", command, *options),
            *([f"--registry={registry}"] if registry else []),
            # The service chose the version; and the lock file's other entries are not in question.
            *("--config.minimum-release-age=0", "--config.trust-lockfile=true"),
            *("--config.manage-package-manager-versions=false", "--config.pm-on-fail=ignore"),
            directory=place,
            environment={"CI": "", "COREPACK_ENABLE_DOWNLOAD_PROMPT": "0"},
        )

    def _npmrc(self) -> dict[str, str]:
        known = {
            re.sub("[A-Z]", lambda found: f"-{found[0].lower()}", flag): flag for flag in _FLAGS
        }
        found = npm_settings.settings_beside(self.files.directory, frozenset(known))
        return {known[name]: value for name, value in found.items()}


def members(importers: Iterable[str]) -> list[str]:
    """As directories: pnpm calls the root a dot."""
    return ["" if importer == "." else importer for importer in importers]
