"""A copy of a project in which npm may work: package.json files and the lock file, nothing else.

No .npmrc, no scripts and no code of the repository come along, so none can run or redirect npm.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cve_fixer import json_text, tree
from cve_fixer.model import CannotFix
from cve_fixer.npm import package_json
from cve_fixer.npm.settings import settings_beside
from cve_fixer.run_tool import run_tool

_SETTINGS = frozenset(
    {"legacy-peer-deps", "install-links", "install-strategy", "legacy-bundling", "prefer-dedupe"}
)
_LOCK = "package-lock.json"
_PEERS = "--legacy-peer-deps=true"


@dataclass(slots=True)
class NpmProject:
    """`directory` holds the lock file; `copy` is an empty directory that stands for `root`."""

    root: Path
    directory: Path
    copy: Path
    registry: str
    omits_addresses: bool = False
    _options: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = settings_beside(self.directory, _SETTINGS)
        self._options += [f"--{name}={value}" for name, value in sorted(settings.items())]

    def manifests(self, members: Iterable[str]) -> dict[str, str]:
        """By place as the lock file names it; only those that are in the repository."""
        found = {}
        for member in members:
            path = self.directory / member / "package.json"
            if path.resolve().is_relative_to(self.root.resolve()) and path.is_file():
                found[member] = tree.read(tree.file_in(self.root, _relative(path, self.root)))
        return found

    def write(self, manifests: Mapping[str, str]) -> None:
        for member, text in manifests.items():
            tree.write((self.directory / member / "package.json").resolve(), text)

    def name(self, member: str) -> str:
        """Of a member's package.json, for people."""
        return _relative(self.directory / member / "package.json", self.root)

    def lock(
        self,
        lock: Mapping[str, Any],
        manifests: Mapping[str, Mapping[str, Any]],
        lock_format: int = 3,
    ) -> dict[str, Any]:
        """What npm makes of this lock file for these package.json files."""
        place = self.copied(manifests)
        path = place / _LOCK
        path.write_text(json.dumps(lock), encoding="utf-8")
        self._run_npm(place, f"--lockfile-version={lock_format}")
        return json_text.read_object(tree.read(path), _LOCK)

    def copied(self, manifests: Mapping[str, Mapping[str, Any]]) -> Path:
        """Where in the copy the project is, with these package.json files."""
        place = self.copy / self.directory.resolve().relative_to(self.root.resolve())
        for member, manifest in manifests.items():
            path = (place / member).resolve() / "package.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(manifest), encoding="utf-8")
        return place

    def _run_npm(self, place: Path, *options: str) -> None:
        try:
            self._install(place, *options, *self._options)
        except CannotFix as error:
            if "ERESOLVE" not in str(error) or _PEERS in self._options:
                raise
            # The project lives with peers that disagree; whoever installs it has told npm so.
            self._options.append(_PEERS)
            self._install(place, *options, *self._options)

    def _install(self, place: Path, *options: str) -> None:
        addresses = ["--omit-lockfile-registry-resolved=true"] if self.omits_addresses else []
        registry = [f"--registry={self.registry}"] if self.registry else []
        run_tool(
            *("npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit"),
            *("--no-fund", "--no-update-notifier", "--prefer-offline", f"--prefix={place}"),
            *(*registry, *addresses, *options),
            directory=place,
            # Nothing that is fixed here comes by git, and what does is in the lock file already.
            environment={"npm_config_git": "/bin/false"},
        )


def harmless(manifests: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {member: package_json.harmless(text) for member, text in manifests.items()}


def _relative(path: Path, root: Path) -> str:
    return path.resolve().relative_to(root.resolve()).as_posix()
