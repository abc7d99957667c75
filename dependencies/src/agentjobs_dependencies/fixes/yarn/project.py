"""A copy of a project for yarn: package.json files, the lock file, patches and a few settings.

It has no plugins, hooks, registries or other releases of yarn of the repository, and no code that
could run. yarn comes from the registry, in the release that writes the lock file's format.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentjobs_dependencies.coverage import MemberPatterns
from agentjobs_dependencies.fixes import tree, yaml_text
from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.npm.fetched_tools import build_argv, edit_tool, fetch_tool
from agentjobs_dependencies.fixes.npm.project import NpmProject
from agentjobs_dependencies.fixes.run_tool import run_tool
from agentjobs_dependencies.fixes.yarn.text import cache_key, lock_version
from agentjobs_dependencies.formats.npm import package_json

LOCK = "yarn.lock"
SETTINGS = ".yarnrc.yml"
# The last release that writes each version of the lock file.
_RELEASES = {4: "3.0.2", 5: "3.1.1", 6: "3.8.7", 8: "4.13.0", 9: "4.14.1", 10: "4.18.1"}
_FIRST_RELEASE = "1.22.22"
# yarn 2 writes version 4 too, with the checksums of its own cache.
_SECOND_RELEASE = "2.4.2"
_THIRD_CACHE = 8
# Settings that affect a resolution or a checksum.
_KEPT_SETTINGS = frozenset(
    {
        *("catalog", "catalogs", "compressionLevel", "defaultProtocol", "packageExtensions"),
        "enableTransparentWorkspaces",
    }
)
# yarn 1 can only install. Here it would return if everything is installed: it saves the lock file
# instead, and returns.
_INSTALLED_CHECK = "// PNP is so fast that the integrity check isn't pertinent"
_SAVE_LOCK = "yield this.saveLockfileAndIntegrity(patterns, workspaceLayout); return true;"
# yarn 3.0 destroys a stream of archive members that was not read to its end, which Node.js rejects
# since version 17: https://github.com/yarnpkg/berry/issues/3597
_END_STREAMS = """\
const {PassThrough} = require("stream");
const destroy = PassThrough.prototype.destroy;
PassThrough.prototype.destroy = function (error, callback) {
  const isEnded = error || !this.readableObjectMode || this.writableEnded;
  return isEnded ? destroy.call(this, error, callback) : this.end();
};
"""
# A program of the repository makes such a package. Escapes could hide it in YAML.
_RUNS_CODE = re.compile(r"\bexec:(?=\S)")
_ESCAPE = re.compile(r"\\[xuU]")
_MAX_MEMBERS = 2000


@dataclass(frozen=True, slots=True)
class YarnProject:
    files: NpmProject
    release: str

    @property
    def is_first(self) -> bool:
        """Whether it is one of yarn 1, which has other settings and another lock file."""
        return self.release == _FIRST_RELEASE

    def settings_text(self) -> str:
        return "" if self.is_first else self.files.read(SETTINGS)

    def write_settings(self, text: str) -> None:
        tree.write((self.files.directory / SETTINGS).resolve(), text)

    def committed_installation(self) -> str | None:
        """What of an installation is in the repository, and has to change with the lock file."""
        names = (".yarn/cache", ".pnp.cjs", ".pnp.js")
        return next((name for name in names if (self.files.directory / name).exists()), None)

    def lock(self, lock: str, settings: str, manifests: Mapping[str, Mapping[str, Any]]) -> str:
        """The lock file that yarn writes for these settings and package.json files."""
        if _ESCAPE.search(lock + settings):
            raise CannotFix(f"{LOCK} or {SETTINGS} contains escaped characters")
        if any(map(_RUNS_CODE.search, (lock, settings, *map(str, manifests.values())))):
            raise CannotFix("a package of the project is made by a program (`exec:`)")
        directory = self.files.write_manifests(manifests)
        tree.write(directory / LOCK, lock)
        if self.is_first:
            self._run_first(directory)
        else:
            patches = (self.files.directory / ".yarn" / "patches").glob("*.patch")
            tree.copy_files(self.files.root, patches, self.files.copy)
            kept = yaml_text.blocks(settings, SETTINGS).items()
            text = "".join(block.rstrip() + "\n" for key, block in kept if key in _KEPT_SETTINGS)
            if self.files.registry.startswith("http:"):
                text += 'unsafeHttpWhitelist: ["*"]\n'
            tree.write(directory / SETTINGS, text)
            self._run_later(directory)
        return tree.read(directory / LOCK)

    def _run_first(self, directory: Path) -> None:
        registry = self.files.registry
        run_tool(
            *("yarn", "install", "--no-default-rc", "--ignore-scripts", "--ignore-engines"),
            *("--ignore-platform", "--non-interactive", "--no-progress"),
            *([f"--registry={registry}"] if registry else []),
            directory=directory,
            environment=_ENVIRONMENT,
            program=build_argv(_fetch_first(registry)),
        )

    def _run_later(self, directory: Path) -> None:
        settings = {
            "enable_immutable_installs": "false",
            "enable_progress_bars": "false",
            "enable_scripts": "false",
            "enable_telemetry": "false",
            "npm_registry_server": self.files.registry,
            "http_proxy": os.environ.get("HTTP_PROXY") or os.environ.get("http_proxy"),
            "https_proxy": os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"),
        }
        if self.release.startswith("4."):
            # The service chose the version.
            settings |= {"enable_hardened_mode": "false", "npm_minimal_age_gate": "0"}
        # Scripts are disabled either way. yarn 2 cannot write the lock file only.
        mode = "--skip-builds" if self.release == _SECOND_RELEASE else "--mode=update-lockfile"
        run_tool(
            *("yarn", "install", mode),
            directory=directory,
            environment=_ENVIRONMENT
            | {f"YARN_{name.upper()}": value for name, value in settings.items() if value},
            program=_program(self.release, self.files.registry),
        )


# Other packages never come from git, because they are in the lock file already.
_ENVIRONMENT = {"YARN_IGNORE_PATH": "1", "GIT_ALLOW_PROTOCOL": "none", "CI": ""}


def find_release(lock: str) -> str:
    """The one that keeps the format of the lock file."""
    version = lock_version(lock)
    if version == 1:
        return _FIRST_RELEASE
    if version not in _RELEASES:
        raise CannotFix(
            f"{LOCK} has version {version}, which this agent cannot keep: run `yarn install` with "
            "yarn 3.2 or newer"
        )
    is_second = version == min(_RELEASES) and cache_key(lock) < _THIRD_CACHE
    return _SECOND_RELEASE if is_second else _RELEASES[version]


@cache
def _fetch_first(registry: str) -> Path:
    script = fetch_tool("yarn", _FIRST_RELEASE, "lib/cli.js", registry)
    edit_tool(script, _INSTALLED_CHECK, _SAVE_LOCK)
    return script.parent.parent / "bin" / "yarn.js"


def _program(release: str, registry: str) -> list[str]:
    script = fetch_tool("@yarnpkg/cli-dist", release, "bin/yarn.js", registry)
    if release != _RELEASES[4]:
        return build_argv(script)
    # It unpacks archives in threads, which load this file too.
    preloaded = script.with_name("end_streams.cjs")
    tree.write(preloaded, _END_STREAMS)
    return build_argv(script, f"--require={preloaded}")


def workspace_members(directory: Path, workspaces: Any) -> list[str]:
    """The directories that `workspaces` of package.json names: yarn 1 does not list them."""
    patterns = MemberPatterns(package_json.workspace_members(workspaces))
    manifests = (path.relative_to(directory) for path in directory.rglob("*/package.json"))
    parts = sorted(path.parts[:-1] for path in manifests if "node_modules" not in path.parts)
    members = ["/".join(names) for names in parts if patterns.match(names)]
    if len(members) > _MAX_MEMBERS:
        raise CannotFix(f"the project has more than {_MAX_MEMBERS} workspaces")
    return members
