"""The scripts behind `make`: where packages come from, what a lock file says, what is missing."""

import ast
import os
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

import agentjobs_client
from scripts import check_locks, check_site
from scripts.build_platforms import Recipe, rewrite
from scripts.check_locks import faults_in, required_by
from scripts.install import uv_settings
from tests.support.paths import PROJECT, SOURCES

HASHED = "a==1.0 \\\n    --hash=sha256:00\n"


def test_no_group_has_a_possessive_quantifier():
    """Before Python 3.11.5 they match wrongly (Debian 12 has 3.11.2); an atomic group is equal."""
    files = [
        str(path.relative_to(PROJECT))
        for source in (*SOURCES, PROJECT / "clients" / "python" / "src")
        for path in source.rglob("*.py")
        if re.search(r"\)(?:[*+?]|\{[\d,]+\})\+", path.read_text())
    ]
    assert files == []


def test_uv_uses_the_settings_of_pip():
    assert uv_settings(
        {
            "index-url": "https://packages.example/simple",
            "extra-index-url": "https://one.example\nhttps://two.example",
            "find-links": "/wheels /more",
            "cert": "/etc/ca.pem",
        }
    ) == {
        "UV_DEFAULT_INDEX": "https://packages.example/simple",
        "UV_INDEX": "https://one.example https://two.example",
        "UV_FIND_LINKS": "/wheels,/more",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_without_pip_settings_uv_uses_its_defaults():
    assert set(uv_settings({})) == {"UV_INDEX_STRATEGY"}


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://packages.example/simple",
        "-i https://packages.example/simple",
        "--extra-index-url=https://packages.example",
        "--find-links /wheels",
        "# from https://packages.example",
        "b @ file:///wheels/b.whl",
    ],
)
def test_a_lock_file_that_names_an_index_is_refused(tmp_path, line):
    lock = tmp_path / "lock"
    lock.write_text(f"{HASHED}{line}\n")
    assert ["names a package index" in fault for fault in faults_in(lock, [])] == [True]


def test_a_lock_file_must_satisfy_the_project_and_have_hashes(tmp_path):
    lock = tmp_path / "lock"
    lock.write_text(f"{HASHED}b==2.0\n    # via a\n")
    required = [Requirement("a>=1"), Requirement("b>=3"), Requirement("c")]
    faults = list(faults_in(lock, required))
    assert len(faults) == 3
    assert "b has no hash" in faults[0]
    assert "b>=3" in faults[1]
    assert "satisfy c" in faults[2]


def test_each_lock_contains_its_packages_and_none_contains_ours():
    server = {
        "project": {
            "name": "server",
            "dependencies": ["a", "client~=1.0"],
            "optional-dependencies": {"extra": ["d>=4"]},
        },
        "dependency-groups": {"agents": ["b>=2"], "docs": ["e>=5"]},
    }
    client = {"project": {"name": "client", "dependencies": ["c>=3"]}}
    documents = [server, client]
    locks = {
        "requirements.lock": ["a", "c>=3"],
        "requirements-dev.lock": ["a", "c>=3", "d>=4"],
        "requirements-agents.lock": ["b>=2"],
        "requirements-docs.lock": ["e>=5"],
    }
    required = {lock: [str(each) for each in required_by(documents, lock)] for lock in locks}
    assert required == locks


def test_all_packages_have_one_version_and_require_it_of_each_other():
    packages = {
        project["name"]: project
        for name in check_locks.PROJECTS[1:]
        for project in [tomllib.loads((PROJECT / name).read_text())["project"]]
    }
    version = agentjobs_client.__version__
    assert {project["version"] for project in packages.values()} == {version}
    own = [
        Requirement(text)
        for project in packages.values()
        for text in project["dependencies"]
        if text.startswith("agentjobs")
    ]
    assert {requirement.name for requirement in own} == set(packages) - {
        "agentjobs",
        "agentjobs-kubernetes",
    }
    assert {str(requirement.specifier) for requirement in own} == {f"~={version}"}


@pytest.fixture
def machine(tmp_path):
    """A PATH of its own, on which programs can be put that write down how they were called."""

    def call(*packages: str, installed: tuple[str, ...] = (), user: int = 1000):
        programs = tmp_path / "bin"
        programs.mkdir()
        log = tmp_path / "log"
        answers = {"id": f"echo {user}", "apt-get": f'echo apt-get "$@" >> {log}'}
        answers.update(dict.fromkeys(installed, "echo /usr/lib/git-core"))
        for name, line in answers.items():
            (programs / name).write_text(f"#!/bin/sh\n{line}\n")
            (programs / name).chmod(0o755)
        for name in ("bash", "env"):
            (programs / name).symlink_to(f"/usr/bin/{name}")
        done = subprocess.run(
            ["/bin/bash", str(PROJECT / "scripts" / "system-packages"), *packages],
            env={"PATH": str(programs)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr, log.read_text() if log.exists() else ""

    return call


def test_nothing_is_installed_when_nothing_is_missing(machine):
    assert machine("bubblewrap", installed=("bwrap",)) == (0, "", "")


def test_root_installs_what_is_missing_and_only_that(machine):
    exit_code, _, calls = machine("bubblewrap", "git", installed=("git",), user=0)
    assert exit_code == 0
    assert calls.count("\n") == 1
    assert "install -y --no-install-recommends bubblewrap\n" in calls


def test_users_without_root_get_the_command_to_run(machine):
    exit_code, err, calls = machine("bubblewrap", "git")
    assert (exit_code, calls) == (2, "")
    assert "sudo apt-get install -y --no-install-recommends bubblewrap git" in err


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 12)])
def test_the_installer_tells_an_old_python_what_to_do(version):
    """It compiles on such a Python, too: what that lacks comes after the check."""
    source = (PROJECT / "scripts" / "install.py").read_text()
    ast.parse(source, feature_version=version[:2])
    text = ".".join(map(str, version))
    program = (
        f"import runpy, sys; sys.version = '{text} (main)'; sys.version_info = {version};"
        "runpy.run_path(sys.argv[1], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(PROJECT / "scripts" / "install.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert f"is Python {text}, but 3.11 or newer is required" in done.stderr
    assert "make PYTHON=" in done.stderr


def test_ci_runs_make_test_and_then_the_rest():
    script = PROJECT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("make test\nmake test SUITE=rest")


def test_imports_of_a_server_are_rewritten_and_a_removed_part_is_not_registered(tmp_path):
    recipe = Recipe(
        "s",
        "1.0",
        "example.com/s@v1.0",
        imports={"a.example/session": ("b.example/session", "v1")},
        removed_lines="CmdPart",
    )
    file = tmp_path / "main.go"
    file.write_text('import "a.example/session/mysql"\nrun(CmdPart())\nrun("a.example")\n')
    rewrite(file, recipe)
    assert file.read_text() == 'import "b.example/session/mysql"\nrun("a.example")\n'


@pytest.mark.parametrize(
    "loaded",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<script src="//cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="http://fonts.example/x.css">',
        '<img srcset="page.html 1x, https://cdn.example/x.png 2x">',
        '<div style="background: url(https://cdn.example/x.png)"></div>',
        "<style>@import 'https://cdn.example/x.css';</style>",
        '<img src="missing.png">',
        '<script src="/missing.js"></script>',
    ],
)
def test_a_page_that_loads_from_elsewhere_or_a_missing_file_is_refused(tmp_path, loaded):
    (tmp_path / "page.html").write_text(f"<html><body>{loaded}</body></html>")
    (fault,) = check_site.faults_in(tmp_path)
    assert fault.startswith("page.html: loads ")


@pytest.mark.parametrize("text", ["Alternatives.\n- One.", "Steps:\n1. One.", "```sh\nmake"])
def test_a_page_that_shows_markdown_as_text_is_refused(tmp_path, text):
    (tmp_path / "page.html").write_text(f"<p><strong>So.</strong> {text}</p><ul><li>- x</li></ul>")
    (fault,) = check_site.faults_in(tmp_path)
    assert fault.startswith("page.html: shows a list as text")


def test_a_page_may_link_to_other_hosts_and_load_its_own_files(tmp_path):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "site.css").write_text("a { background: url(data:image/png;base64,AA==) }")
    (tmp_path / "deeper" / "page.html").write_text(
        '<link rel="canonical" href="https://docs.example/">'
        '<link rel="stylesheet" href="../site.css">'
        '<a href="https://elsewhere.example/">there</a><img src="../site.css?v=1">'
    )
    assert list(check_site.faults_in(tmp_path)) == []
    (tmp_path / "site.css").write_text("@font-face { src: url('https://fonts.example/f.woff2') }")
    assert len(list(check_site.faults_in(tmp_path))) == 1
