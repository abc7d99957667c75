"""The agent `cve-fixer` with the real uv and the real Poetry against the real index."""

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentjobs.advisories.registries.hosts import hosts_for
from agentjobs.agents.builtin_agents import CVE_FIXER_DIRECTORY, python_files
from agentjobs.agents.cve_fixer_support import FixerTools, find_fixer_tools
from agentjobs.outbound.egress.egress import PROXY_PORT, Egress
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.protocol import SandboxPort
from agentjobs.settings import Settings
from agentjobs.settings.registries import public_registry
from tests.support.paths import PROJECT
from tests.support.sandbox import SandboxHarness, unused_uid_base

REGISTRY = public_registry("pypi")
AGENTS_BIN = PROJECT / ".venv-agents" / "bin"
ENTRY = CVE_FIXER_DIRECTORY / "__main__.py"
HASHES = (
    "sha256:58cd2187c01e70e6e26505bca751777aa9f2ee0b7f4300988b709f44e013003f",
    "sha256:942c5a758f98d790eaed1a29cb6eefc7ffb0d1cf7af05c3d2791656dbd6ad1e1",
)
REQUESTS = {
    "ecosystem": "PyPI",
    "package": "requests",
    "from": "2.25.0",
    "to": "2.31.0",
    "hashes": HASHES,
    "registry": REGISTRY,
}
TRAP = "raise SystemExit('code of the repository ran')\n"


@pytest.fixture(scope="module")
def tools() -> FixerTools:
    return find_fixer_tools(f"{AGENTS_BIN}{os.pathsep}{os.environ['PATH']}")


class Project:
    def __init__(self, directory: Path, tools: FixerTools) -> None:
        self.tree = directory / "tree"
        self.tree.mkdir()
        self.tools = tools
        self.report = directory / "report.md"
        self.output = ""
        self.before: dict[str, str] = {}

    def write(self, **files: str) -> None:
        for name, content in files.items():
            (self.tree / name.replace("__", ".")).write_text(content)

    def run(self, *command: str, **environment: str) -> str:
        completed = subprocess.run(
            command,
            cwd=self.tree,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr
        return completed.stdout

    def uv(self, *arguments: str) -> None:
        self.run(*self.tools.commands["uv"], *arguments, "--default-index", REGISTRY, "-q")

    def poetry(self, *arguments: str) -> None:
        """Uses the fixer's launcher, which sets the index without changing files."""
        python = self.tools.commands["poetry"][0]
        self.run(
            *(
                python,
                "-I",
                str(ENTRY.with_name("python") / "poetry_without_builds.py"),
                "-n",
                *arguments,
            ),
            AGENTJOBS_FIXER_REGISTRY=REGISTRY,
            AGENTJOBS_FIXER_PACKAGE="",
        )
        lock = self.tree / "poetry.lock"
        source = r"\n\[package\.source\]\n(?:.+\n){3}"
        lock.write_text(re.sub(source, "", lock.read_text()))

    def fix(self, manifest: str, together: Iterable[str] = (), **changes: Any) -> None:
        self.before = {path.name: path.read_text() for path in self.tree.iterdir()}
        job = self.report.with_name("job.json")
        fixes = [{**REQUESTS, "manifest": manifest, **changes}]
        job.write_text(json.dumps({"fixes": fixes, "installed_together": [list(together)]}))
        self.output = self.run(
            *(sys.executable, "-I", "-u", str(ENTRY)),
            AGENTJOBS_JOB=str(job),
            AGENTJOBS_REPORT=str(self.report),
            **self.tools.environment,
        )

    def changed_lines(self, name: str) -> list[str]:
        """As git shows them, without context."""
        before = self.report.with_name("before")
        before.write_text(self.before[name])
        completed = subprocess.run(
            ["git", "diff", "--no-index", "-U0", str(before), str(self.tree / name)],
            capture_output=True,
            text=True,
            check=False,
        )
        return re.findall(r"^(?:-(?!--)|\+(?!\+\+)).*", completed.stdout, re.MULTILINE)

    def locked(self, name: str) -> dict[str, str]:
        packages = tomllib.loads((self.tree / name).read_text())["package"]
        return {package["name"]: package["version"] for package in packages}


@pytest.fixture
def project(tmp_path: Path, tools: FixerTools) -> Project:
    return Project(tmp_path, tools)


def test_a_plain_pin_changes_one_line_and_is_checked(project: Project) -> None:
    project.write(requirements__txt="# ours\nRequests[socks]==2.25.0  # http\n-e .\nidna==2.10\n")
    project.write(setup__py=TRAP)
    project.fix("requirements.txt")
    assert project.changed_lines("requirements.txt") == [
        "-Requests[socks]==2.25.0  # http",
        "+Requests[socks]==2.31.0  # http",
    ]
    assert "uv pip compile" in project.output
    assert "could not be checked" not in project.report.read_text()


def test_a_pin_that_conflicts_with_another_is_not_changed(project: Project) -> None:
    project.write(requirements__txt="requests==2.25.0\nidna==2.10\n")
    fix = {"package": "idna", "from": "2.10", "to": "3.7"}
    with pytest.raises(AssertionError, match="nothing could be fixed: another pin excludes idna"):
        project.fix("requirements.txt", **fix)
    assert (project.tree / "requirements.txt").read_text() == project.before["requirements.txt"]


def test_hashes_change_with_the_pin_and_new_requirements_get_hashes(
    project: Project,
) -> None:
    project.write(pins="requests==2.25.0\n")
    project.uv("pip", "compile", "pins", "-o", "requirements.txt", "--generate-hashes")
    project.fix("requirements.txt")
    changed = project.changed_lines("requirements.txt")
    assert [line for line in changed if "hash" not in line and "via" not in line] == [
        "+charset-normalizer==" + changed[0].partition("==")[2],
        "-requests==2.25.0 \\",
        "+requests==2.31.0 \\",
    ]
    assert [line.strip("+ \\") for line in changed if line.startswith("+")][-2:] == [
        f"--hash={digest}" for digest in HASHES
    ]


def test_a_compiled_file_is_recompiled_if_a_parent_pins_the_package(project: Project) -> None:
    head = "#\n# This file is autogenerated by pip-compile with Python 3.9\n#    pip-compile\n#\n"
    project.write(requirements__in="requests<2.26\n")
    project.uv("pip", "compile", "requirements.in", "-o", "requirements.txt", "--no-header")
    compiled = project.tree / "requirements.txt"
    compiled.write_text(head + compiled.read_text())
    project.write(requirements__in="requests\n")
    project.fix("requirements.txt", **{"package": "idna", "from": "2.10", "to": "3.7"})
    text = compiled.read_text()
    assert text.startswith(head)
    assert "\nidna==3.7\n    # via requests\n" in text
    assert "    # via -r requirements.in\n" in text
    assert (project.tree / "requirements.in").read_text() == "requests\n"
    assert "was recompiled" in project.report.read_text()
    kept = re.search(r"\ncertifi==\S+\n", project.before["requirements.txt"])
    assert kept is not None
    assert kept[0] in text


UV = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "1"
requires-python = ">=3.{minor}"
dependencies = ["requests{requests}"]
"""


def test_uv_updates_a_transitive_package_and_nothing_else(project: Project) -> None:
    # The last has no wheel: only a build or the lock file has its requirements.
    project.write(
        pyproject__toml=UV.format(minor=9, requests='==2.29.0", "urllib3==1.26.5", "docopt==0.6.2')
    )
    project.uv("lock")
    loose = UV.format(minor=9, requests='>=2.25", "docopt')
    project.write(pyproject__toml=loose)
    project.uv("lock")
    # As in a project with a dynamic version.
    project.write(pyproject__toml=loose.replace('version = "1"', 'dynamic = ["version"]'))
    lock = project.tree / "uv.lock"
    lock.write_text(lock.read_text().replace('name = "demo"\nversion = "1"\n', 'name = "demo"\n'))
    project.write(setup__py=TRAP)
    project.fix("uv.lock", **{"package": "urllib3", "from": "1.26.5", "to": "1.26.17"})
    assert not project.changed_lines("pyproject.toml")
    changed = project.changed_lines("uv.lock")
    assert changed[:2] == ['-version = "1.26.5"', '+version = "1.26.17"']
    assert len(changed) == 6
    assert all("urllib3" in line for line in changed[2:])


def test_uv_overrides_a_parent_that_excludes_the_fix_for_any_python(project: Project) -> None:
    newer = sys.version_info.minor + 2
    older = UV.format(minor=9, requests="==2.29.0")
    project.write(pyproject__toml=older)
    project.uv("lock")
    project.write(pyproject__toml=older.replace(">=3.9", f">=3.{newer}"))
    fix = {"package": "urllib3", "from": "1.26.20", "to": "2.0.6", "parents": ["requests"]}
    project.fix("uv.lock", **fix, direct=False)
    assert [line for line in project.changed_lines("pyproject.toml") if line.strip("+")] == [
        "+[tool.uv]",
        '+override-dependencies = ["urllib3>=2.0.6,<3"]',
    ]
    assert project.locked("uv.lock")["urllib3"] == "2.0.6"
    assert "override-dependencies" in project.report.read_text()


POETRY = """\
[project]
name = "demo"
version = "1"
requires-python = ">={python}"
dependencies = ["requests ({requests})"]  # http

[tool.poetry]
package-mode = false
"""


def test_poetry_updates_a_direct_package_and_its_pin(project: Project) -> None:
    # Another Python than this one: a lock file applies to every Python.
    project.write(pyproject__toml=POETRY.format(python="3.13,<4", requests="==2.25.0"))
    project.poetry("lock")
    with pytest.raises(AssertionError, match="nothing could be fixed: poetry update failed"):
        project.fix("poetry.lock", **{"package": "idna", "from": "2.10", "to": "3.7"})
    assert not project.changed_lines("poetry.lock")
    project.fix("poetry.lock")
    assert project.changed_lines("pyproject.toml") == [
        '-dependencies = ["requests (==2.25.0)"]  # http',
        '+dependencies = ["requests (==2.31.0)"]  # http',
    ]
    assert project.locked("poetry.lock")["requests"] == "2.31.0"
    assert "agentjobs" not in (project.tree / "poetry.lock").read_text()
    project.poetry("check", "--lock")


def test_poetry_updates_a_transitive_package_and_nothing_else(project: Project) -> None:
    pinned = POETRY.format(python="3.9,<4", requests='>=2.25,<2.26)", "urllib3 (==1.26.5')
    project.write(pyproject__toml=pinned)
    project.poetry("lock")
    project.write(pyproject__toml=POETRY.format(python="3.9,<4", requests=">=2.25,<2.26"))
    project.poetry("lock")
    project.fix("poetry.lock", **{"package": "urllib3", "from": "1.26.5", "to": "1.26.17"})
    assert not project.changed_lines("pyproject.toml")
    changed = project.changed_lines("poetry.lock")
    assert changed[:2] == ['-version = "1.26.5"', '+version = "1.26.17"']
    kinds = {re.split(r"[ =]", line[1:].strip(), maxsplit=1)[0] for line in changed}
    assert kinds == {"version", "python-versions", "{file", "brotli", "secure"}


async def test_every_installed_tool_starts_inside_the_sandbox(
    tmp_path: Path, tools: FixerTools
) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)
    assert {"uv", "poetry"} <= tools.commands.keys()
    for name, command in tools.commands.items():
        option = "version" if name == "go" else "--version"
        report = await harness.run(*command, option, read_only=(*python_files(), *tools.read_only))
        assert report.exit_code == 0, report.last_lines


async def test_both_lock_files_are_fixed_in_the_sandbox_through_the_proxy(
    project: Project, tmp_path: Path
) -> None:
    pinned = POETRY.format(python="3.9,<4", requests='>=2.25,<2.26)", "urllib3 (==1.26.5')
    project.write(pyproject__toml=pinned)
    project.uv("lock")
    project.poetry("lock")
    # The job installs this version, because the worker has another one.
    lock = project.tree / "poetry.lock"
    lock.write_text(re.sub(r"(by Poetry) [\d.]+", r"\1 2.1.4", lock.read_text()))
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)
    for path in project.tree.iterdir():
        (harness.workspace / path.name).write_bytes(path.read_bytes())
    hand_over(harness)
    fix = {**REQUESTS, "package": "urllib3", "from": "1.26.5", "to": "1.26.17"}
    fixes = [{**fix, "manifest": name} for name in ("uv.lock", "poetry.lock")]
    (harness.run_dir / "job.json").write_text(json.dumps({"fixes": fixes}))
    refused: list[str] = []
    hosts = hosts_for(Settings(data_dir=str(tmp_path)), "PyPI")
    egress = Egress(hosts, AllowList.parse(addresses_of(hosts)), refused.append)
    report = await harness.run(
        *(sys.executable, "-I", "-u", str(ENTRY)),
        read_only=(*python_files(), *project.tools.read_only),
        environment={**certificates(), **project.tools.environment},
        hosts=egress.hosts,
        ports=tuple(
            SandboxPort(number=port, protocol=protocol, environment=proxy_at(port, egress))
            for port, protocol in egress.ports.items()
        ),
    )
    await egress.close()
    assert refused == []
    assert report.last_lines.endswith("fixed: 2, not fixed: 0"), report.last_lines
    for name in ("uv.lock", "poetry.lock"):
        packages = tomllib.loads((harness.workspace / name).read_text())["package"]
        versions = {package["name"]: package["version"] for package in packages}
        assert versions["urllib3"] == "1.26.17"
    assert "by Poetry 2.1.4 " in (harness.workspace / "poetry.lock").read_text()
    # The second fix sees the first one's change to their common requirement.
    assert "urllib3 (==1.26.17)" in (harness.workspace / "pyproject.toml").read_text()


def hand_over(harness: SandboxHarness) -> None:
    owner = harness.sandbox.owner_uid(0)
    if owner is not None:
        subprocess.run(["chown", "-hR", f"{owner}:{owner}", harness.workspace], check=True)


def proxy_at(port: int, egress: Egress) -> Mapping[str, str]:
    return egress.environment if port == PROXY_PORT else {}


def addresses_of(hosts: Iterable[str]) -> list[str]:
    """Allow only the index's address, which may be a private mirror."""
    names = (host.rpartition(":")[0] for host in hosts)
    result = {entry[4][0] for name in names for entry in socket.getaddrinfo(name, 443)}
    return sorted(map(str, result))


def certificates() -> dict[str, str]:
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    return {name: os.environ[name] for name in names if name in os.environ}


def test_a_pin_of_another_file_that_is_installed_together_excludes_a_version(
    project: Project,
) -> None:
    project.write(a__txt="requests==2.25.0\n", b__txt="charset-normalizer==2.0.0\n")
    project.fix("a.txt", ["a.txt", "b.txt"])
    assert (project.tree / "a.txt").read_text() == "requests==2.31.0\n"
    # requests 2.25.0 does not require it at all, and 2.31.0 a newer one.
    project.write(a__txt="requests==2.25.0\n", b__txt="charset-normalizer==1.4.0\n")
    with pytest.raises(AssertionError, match="another pin excludes requests"):
        project.fix("a.txt", ["a.txt", "b.txt"])
    assert (project.tree / "a.txt").read_text() == "requests==2.25.0\n"


def test_pins_that_could_never_be_installed_together_make_a_draft(project: Project) -> None:
    project.write(a__txt="requests==2.25.0\nurllib3==1.0\n")
    project.fix("a.txt")
    assert (project.tree / "a.txt").read_text() == "requests==2.31.0\nurllib3==1.0\n"
    reasons = project.report.with_name("draft.md").read_text()
    assert "could not be checked for conflicts" in reasons


def test_every_python_of_the_project_is_checked(project: Project) -> None:
    # flake8 4.0.1 requires importlib-metadata<4.3 on Python 3.7 only.
    pins = "flake8==4.0.1\nimportlib-metadata==4.2.0\nzipp==3.5.0\n"
    fix = {"package": "importlib-metadata", "from": "4.2.0", "to": "4.8.0"}
    project.write(requirements__txt=pins, tox__ini="[tox]\nenvlist = py37, py311\n")
    with pytest.raises(
        AssertionError, match=r"excludes importlib-metadata 4\.8\.0 with Python 3\.7"
    ):
        project.fix("requirements.txt", **fix)
    project.write(tox__ini="[tox]\nenvlist = py311\n")
    project.fix("requirements.txt", **fix)
    assert "importlib-metadata==4.8.0" in (project.tree / "requirements.txt").read_text()


def test_a_package_without_a_wheel_does_not_prevent_the_check(project: Project) -> None:
    project.write(requirements__txt="requests==2.25.0\ndocopt==0.6.2\n", setup__py=TRAP)
    project.fix("requirements.txt")
    assert not project.report.with_name("draft.md").exists()
