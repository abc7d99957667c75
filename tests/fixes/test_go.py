"""Fixes of Go modules with the real go command, which then builds the project."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.fixer_project import FixerProject

GO_MOD = """\
module example.com/app

go 1.19

require golang.org/x/text v0.3.7
"""
MAIN = """\
package main

import "golang.org/x/text/language"

func main() { println(language.English.String()) }
"""
TEXT = ("golang.org/x/text", "0.3.7", "0.3.8")


def go(project: FixerProject, *arguments: str) -> str:
    environment = {**os.environ, "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    result = subprocess.run(
        ["go", *arguments],
        cwd=project.tree,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return result.stdout


def check(project: FixerProject) -> None:
    """The project builds with go.mod and go.sum as they are, and both are tidy."""
    go(project, "build", "-o", os.devnull, "./...")
    before = (project.read("go.mod"), project.read("go.sum"))
    go(project, "mod", "tidy")
    assert (project.read("go.mod"), project.read("go.sum")) == before


@pytest.fixture
def project(tmp_path: Path) -> FixerProject:
    project = FixerProject(tmp_path, "Go", {"go.mod": GO_MOD, "main.go": MAIN})
    go(project, "mod", "tidy")
    return project


def test_go_mod_and_go_sum_are_updated(project: FixerProject) -> None:
    assert "Update golang.org/x/text to 0.3.8" in project.fix("go.mod", TEXT)
    assert project.read("go.mod") == GO_MOD.replace("v0.3.7", "v0.3.8")
    check(project)


def test_what_the_new_version_requires_is_updated_too(project: FixerProject) -> None:
    (project.tree / "main.go").write_text(
        MAIN.replace("text/language", "net/html").replace(
            "language.English.String()", 'html.EscapeString("")'
        )
    )
    (project.tree / "go.mod").write_text(
        GO_MOD.replace("golang.org/x/text v0.3.7", "golang.org/x/net v0.5.0")
    )
    go(project, "mod", "tidy")
    project.fix("go.mod", ("golang.org/x/net", "0.5.0", "0.7.0"))
    assert "golang.org/x/net v0.7.0" in project.read("go.mod")
    check(project)


def test_vendored_modules_are_updated(project: FixerProject) -> None:
    go(project, "mod", "vendor")
    project.fix("go.mod", TEXT)
    assert "golang.org/x/text v0.3.8" in project.read("vendor/modules.txt")
    check(project)


def test_a_version_that_needs_a_newer_go_is_not_proposed(project: FixerProject) -> None:
    before = project.read("go.sum")
    report = project.fix("go.mod", ("golang.org/x/text", "0.3.7", "0.30.0"))
    assert "golang.org/x/text 0.30.0" in report.replace("\\", "")
    assert (project.read("go.mod"), project.read("go.sum")) == (GO_MOD, before)


def test_an_untidy_project_keeps_its_other_requirements(project: FixerProject) -> None:
    untidy = GO_MOD + "require gopkg.in/yaml.v3 v3.0.1\n"
    (project.tree / "go.mod").write_text(untidy)
    project.fix("go.mod", TEXT)
    assert "golang.org/x/text v0.3.8" in project.read("go.mod")
    assert "gopkg.in/yaml.v3 v3.0.1" in project.read("go.mod")
    go(project, "build", "-o", os.devnull, "./...")
