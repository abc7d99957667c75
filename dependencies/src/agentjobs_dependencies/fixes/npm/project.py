"""A copy of a project for npm: package.json files and the lock file, nothing else.

It has no .npmrc, scripts or code of the repository, so nothing can run or redirect npm.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentjobs_dependencies.fixes import json_text, tree
from agentjobs_dependencies.fixes.markdown import code
from agentjobs_dependencies.fixes.model import CannotFix, Outcome
from agentjobs_dependencies.fixes.npm import package_json
from agentjobs_dependencies.fixes.run_tool import run_tool

_SETTINGS = frozenset(
    {"legacy-peer-deps", "install-links", "install-strategy", "legacy-bundling", "prefer-dedupe"}
)
_LOCK = "package-lock.json"
_MAX_NPMRC_BYTES = 64 * 1024
_NPMRC_LINE = re.compile(
    r"^[ \t]*([a-z-]+)(?:\[\])?[ \t]*=[ \t]*[\"']?([a-z0-9-]+)[\"']?[ \t]*$", re.MULTILINE
)

_LEGACY_PEERS = "--legacy-peer-deps=true"


@dataclass(slots=True)
class NpmProject:
    """`directory` contains the lock file; `copy` is an empty directory that replaces `root`."""

    root: Path
    directory: Path
    copy: Path
    registry: str
    omits_addresses: bool = False
    _options: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = read_npmrc(self.directory, _SETTINGS)
        self._options += [f"--{name}={value}" for name, value in sorted(settings.items())]

    def manifests(self, members: Iterable[str]) -> dict[str, str]:
        """The project's manifest and those of members that the repository has, by path as in the
        lock file. Raises CannotFix without the project's own."""
        result = {}
        for member in ("", *members):
            path = tree.find_file(self.root, self.directory / member / "package.json")
            if path is not None:
                result[member] = tree.read(path)
        if "" not in result:
            raise CannotFix(f"there is no {self.name('')}")
        return result

    def write(self, manifests: Mapping[str, str], before: Mapping[str, str]) -> None:
        """Write those that changed."""
        for member, text in manifests.items():
            if text != before[member]:
                tree.write((self.directory / member / "package.json").resolve(), text)

    def name(self, member: str) -> str:
        """The path of a member's package.json, for messages."""
        return self.file_name(f"{member or '.'}/package.json")

    def file_name(self, file: str) -> str:
        """The path of a file beside the lock file, for messages."""
        return _relative(self.directory / file, self.root)

    def read(self, file: str) -> str:
        """Empty if the project does not have the file."""
        if not (self.directory / file).is_file():
            return ""
        return tree.read(tree.resolve_file(self.root, self.file_name(file)))

    def lock(
        self,
        lock: Mapping[str, Any],
        manifests: Mapping[str, Mapping[str, Any]],
        lock_format: int = 3,
    ) -> dict[str, Any]:
        """The lock file that npm writes for these package.json files."""
        directory_in_copy = self.write_manifests(manifests)
        path = directory_in_copy / _LOCK
        path.write_text(json.dumps(lock), encoding="utf-8")
        self._run_npm(directory_in_copy, f"--lockfile-version={lock_format}")
        return json_text.read_object(tree.read(path), _LOCK)

    def resolve(self, manifests: Mapping[str, Mapping[str, Any]]) -> None:
        """Raises CannotFix if npm cannot, for example because peers conflict."""
        self._install(self.write_manifests(manifests), *self._options)

    def write_manifests(self, manifests: Mapping[str, Mapping[str, Any]]) -> Path:
        """Write these package.json files to the copy and return the project's directory."""
        directory_in_copy = self.copy / self.directory.resolve().relative_to(self.root.resolve())
        for member, manifest in manifests.items():
            path = (directory_in_copy / member).resolve() / "package.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(manifest), encoding="utf-8")
        return directory_in_copy

    def _run_npm(self, directory_in_copy: Path, *options: str) -> None:
        try:
            self._install(directory_in_copy, *options, *self._options)
        except CannotFix as error:
            if "ERESOLVE" not in str(error) or _LEGACY_PEERS in self._options:
                raise
            # The project has conflicting peers, so its users must install with this option too.
            self._options.append(_LEGACY_PEERS)
            self._install(directory_in_copy, *options, *self._options)

    def _install(self, directory_in_copy: Path, *options: str) -> None:
        addresses = ["--omit-lockfile-registry-resolved=true"] if self.omits_addresses else []
        registry = [f"--registry={self.registry}"] if self.registry else []
        run_tool(
            *("npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit"),
            *(
                "--no-fund",
                "--no-update-notifier",
                "--prefer-offline",
                f"--prefix={directory_in_copy}",
            ),
            *(*registry, *addresses, *options),
            directory=directory_in_copy,
            # Fixed packages never come from git, and others are in the lock file already.
            environment={"npm_config_git": "/bin/false"},
        )


def strip_manifests(manifests: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {member: package_json.strip_manifest(text) for member, text in manifests.items()}


def describe_override(
    outcome: Outcome, rule: str, parent: str, version: str, place: str, command: str
) -> None:
    """`rule` forces `parent` to use a version that it excludes; `place` is the file that has it."""
    outcome.changes.append(
        f"{code(parent)} excludes {version}, so {rule} in {code(place)} forces it: run the tests "
        "before you merge."
    )
    outcome.undo.append(
        f"Once {code(parent)} allows {version}, remove {rule} from {code(place)} and run "
        f"`{command}`."
    )


def _relative(path: Path, root: Path) -> str:
    return path.resolve().relative_to(root.resolve()).as_posix()


def read_npmrc(project: Path, known: frozenset[str]) -> dict[str, str]:
    """The `known` settings that .npmrc sets to a simple value."""
    path = project / ".npmrc"
    if not path.is_file() or path.stat().st_size > _MAX_NPMRC_BYTES:
        return {}
    result = _NPMRC_LINE.findall(tree.read(path).replace("\r\n", "\n"))
    return {name: value for name, value in result if name in known}
