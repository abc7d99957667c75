"""JavaScript projects whose lock files the tests make with the releases that wrote such files."""

import json
import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.fixes.model import Fix
from agentjobs_runtime.settings.registries import public_registry
from tests.support.fix_corpus import Corpus, FixJob, Outcome, advisory
from tests.support.fix_proofs import Proof, run_command

REGISTRY = public_registry("npm")
LODASH = advisory("npm", "lodash", "4.17.21")
MINIMIST = advisory("npm", "minimist", "0.2.4")
BRACES = advisory("npm", "braces", "3.0.3")
UNRELATED = {"chalk": "^4.1.0", "debug": "4.3.1"}
# One job for all packages.
TOGETHER = {".agentjobs.toml": '[fixes]\ngroup = "ecosystem"\n'}

_LOCKS = {"npm": "package-lock.json", "pnpm": "pnpm-lock.yaml", "yarn": "yarn.lock"}
_SCRIPTS = {"npm": "bin/npm-cli.js", "pnpm": "bin/pnpm.cjs", "yarn": "bin/yarn.js"}
# The last release of Node.js that these run on as they are.
_NODE = "16.20.2"
_NEEDS_NODE = {("yarn", "3.0.2"), ("pnpm", "6.34.0")}
_TOP_LEVEL = re.compile(r"^(?=[^\s#])", re.MULTILINE)
_INDENTED = re.compile(r"^(?=  [^\s#]|[^\s#])", re.MULTILINE)
_NPM_ENTRY = re.compile(r"^(?=    \"[^\"]*\": \{$|\S|  \"[^\"]*\": \{$|  \}|\})", re.MULTILINE)


class PackageManager:
    """One release, installed with the npm of this machine."""

    def __init__(self, directory: Path, tool: str, release: str) -> None:
        self.tool = tool
        self.release = release
        is_later_yarn = tool == "yarn" and not release.startswith("1.")
        package = "@yarnpkg/cli-dist" if is_later_yarn else tool
        self._script = directory / "node_modules" / package / _SCRIPTS[tool]
        self._home = directory / "home"
        self._node = "node"
        packages = [f"{package}@{release}"]
        if (tool, release) in _NEEDS_NODE:
            node = f"node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}"
            self._node = str(directory / "node_modules" / node / "bin" / "node")
            packages.append(f"{node}@{_NODE}")
        if not self._script.exists():
            self._home.mkdir(parents=True)
            options = ("--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--silent")
            command = ("npm", "install", f"--prefix={directory}", *packages)
            run_command(directory, *command, *options)

    @property
    def major(self) -> int:
        return int(self.release.partition(".")[0])

    def run(self, directory: Path, *arguments: str) -> str:
        """No script of a project runs, and no setting of this machine applies."""
        environment = {
            "HOME": str(self._home),
            "XDG_CACHE_HOME": str(self._home),
            "XDG_CONFIG_HOME": str(self._home),
            "npm_config_registry": REGISTRY,
            "npm_config_ignore_scripts": "true",
            "npm_config_audit": "false",
            "YARN_IGNORE_PATH": "1",
        }
        if self.tool == "yarn" and self.major > 1:
            environment |= {
                "YARN_NPM_REGISTRY_SERVER": REGISTRY,
                "YARN_ENABLE_SCRIPTS": "false",
                "YARN_ENABLE_TELEMETRY": "false",
                "YARN_NODE_LINKER": "node-modules",
                "YARN_ENABLE_GLOBAL_CACHE": "true",
                "YARN_ENABLE_IMMUTABLE_INSTALLS": "false",
            }
        return run_command(directory, self._node, str(self._script), *arguments, **environment)

    def lock(self, directory: Path) -> None:
        """Write the lock file for the files as they are; locked versions are kept."""
        options = {
            "npm": ("--package-lock-only",),
            "pnpm": ("--lockfile-only", "--no-frozen-lockfile"),
            "yarn": (),
        }
        self.run(directory, "install", *options[self.tool])
        for path in (*directory.rglob("node_modules"), directory / ".yarn"):
            shutil.rmtree(path, ignore_errors=True)

    def prove(self, directory: Path) -> None:
        """Install exactly what the lock file says."""
        before = (directory / _LOCKS[self.tool]).read_text()
        if self.tool == "npm":
            self.run(directory, "ci")
        elif self.tool == "yarn" and self.major > 1:
            self.run(directory, "install", "--immutable")
        else:
            self.run(directory, "install", "--frozen-lockfile")
        assert (directory / _LOCKS[self.tool]).read_text() == before


class PackageManagers:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, tool: str, release: str) -> PackageManager:
        return PackageManager(self._directory / f"{tool}-{release}", tool, release)


class JavaScriptProject:
    """A project with the package manager that its authors use, which also proves its fixes."""

    def __init__(self, corpus: Corpus, manager: PackageManager, files: Mapping[str, Any]) -> None:
        self._project = corpus.project({})
        self.manager = manager
        self.tree = self._project.tree
        self.write(files)

    def write(self, files: Mapping[str, Any]) -> None:
        self._project.write(
            {
                name: content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
                for name, content in files.items()
            }
        )

    def read(self, name: str) -> str:
        return self._project.read(name)

    def lock(self) -> str:
        self.manager.lock(self.tree)
        return self.read(_LOCKS[self.manager.tool])

    def fix(
        self, *advisories: Advisory, expect: Outcome = "ready", prove: Proof | None = None
    ) -> FixJob:
        return self._project.fix(*advisories, expect=expect, prove=prove or self._prove)

    def _prove(self, tree: Path, _fixes: Sequence[Fix]) -> None:
        self.manager.prove(tree)


def manifest_of(job: FixJob, name: str = "package.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(job.read(name))
    return content


def rest_of(lock: str, *touched: str) -> str:
    """The text of a lock file without the entries of these packages and projects."""
    return "".join(
        block for name, block in _blocks(lock) if not any(_is_about(name, each) for each in touched)
    )


def _is_about(key: str, package: str) -> bool:
    """Keys are paths in npm's, ids in pnpm's and ranges in yarn's lock files."""
    return re.search(rf"(?:^|[/ \"']){re.escape(package)}(?=$|[@/\"':])", key) is not None


def _blocks(lock: str) -> Iterator[tuple[str, str]]:
    if lock.startswith("{"):
        pattern = _NPM_ENTRY
    elif "lockfileVersion:" in lock[:200]:
        pattern = _INDENTED
    else:
        pattern = _TOP_LEVEL
    starts = (match.start() for match in pattern.finditer(lock))
    for start, end in pairwise((*starts, len(lock))):
        block = lock[start:end]
        first = block.partition("\n")[0].strip()
        yield first.removesuffix(": {}").rstrip(":{ ").strip("\"'"), block


# A project of about 120 packages, and versions of some of them that its ranges allow and that are
# not the newest ones.
LARGE = {"name": "app", "private": True, "dependencies": {"eslint": "7.20.0", "express": "4.17.1"}}
OLD_VERSIONS = {
    "accepts": "1.3.7",
    "acorn": "7.4.0",
    "ajv": "6.12.2",
    "cross-spawn": "7.0.2",
    "esquery": "1.4.0",
    "glob-parent": "5.1.1",
    "lodash": "4.17.20",
    "semver": "7.3.2",
}


def large_old_project(
    corpus: Corpus,
    manager: PackageManager,
    overrides: Mapping[str, Any],
    more: Mapping[str, Any] | None = None,
) -> JavaScriptProject:
    """`overrides` make the package manager choose the old versions, and are then removed."""
    manifest = {**LARGE, **(more or {})}
    project = JavaScriptProject(corpus, manager, {"package.json": {**manifest, **overrides}})
    project.lock()
    project.write({"package.json": manifest})
    lock = project.lock()
    for name, version in OLD_VERSIONS.items():
        assert re.search(rf"{name}\W[^\n]*\n?[^\n]*{re.escape(version)}", lock), name
    return project
