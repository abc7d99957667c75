"""The agent `cve-fixer` without the go command, against the real module proxy."""

from pathlib import Path

import pytest

from tests.support.fixer_project import FixerProject

GO_MOD = """\
module example.com/app

go 1.19

require gopkg.in/yaml.v3 v3.0.0
"""
CHECK = "gopkg.in/check.v1 v0.0.0-20161208181325-20d25e280405"
GO_SUM = f"""\
{CHECK} h1:yhCVgyC4o1eVCa2tZl7eS0r+SDo693bJlVdllGtEeKM=
{CHECK}/go.mod h1:Co6ibVJAznAaIkqp8huTwlJQCZ016jof/cbN4VW5Yz0=
gopkg.in/yaml.v3 v3.0.0 h1:hjy8E9ON/egN1tAYqKb61G10WtihqetD4sz2H+8nIeA=
gopkg.in/yaml.v3 v3.0.0/go.mod h1:K4uyk7z7BCEPqu6E+C64Yfv1cQ7kz7rIZviUmN+EgEM=
"""
# As the go command writes them.
NEW_LINES = """\
gopkg.in/yaml.v3 v3.0.1 h1:fxVm/GzAzEWqLHuvctI91KS9hhNmmWOoWu0XTYJS7CA=
gopkg.in/yaml.v3 v3.0.1/go.mod h1:K4uyk7z7BCEPqu6E+C64Yfv1cQ7kz7rIZviUmN+EgEM=
"""


@pytest.fixture
def project(tmp_path: Path) -> FixerProject:
    return FixerProject(tmp_path, "Go", {"go.mod": GO_MOD, "go.sum": GO_SUM})


def test_checksums_come_from_the_registry(project: FixerProject) -> None:
    project.fix("go.mod", ("gopkg.in/yaml.v3", "3.0.0", "3.0.1"), with_tools=False)
    assert project.draft_reasons == ""
    assert project.read("go.mod") == GO_MOD.replace("v3.0.0", "v3.0.1")
    assert project.read("go.sum") == GO_SUM + NEW_LINES


def test_vendored_modules_need_the_go_command(project: FixerProject) -> None:
    (project.tree / "vendor").mkdir()
    (project.tree / "vendor" / "modules.txt").write_text("# gopkg.in/yaml.v3 v3.0.0\n")
    project.fix("go.mod", ("gopkg.in/yaml.v3", "3.0.0", "3.0.1"), with_tools=False)
    assert "run go mod vendor" in project.draft_reasons


def test_a_version_that_needs_a_newer_go_is_unproven(project: FixerProject) -> None:
    manifest = "module example.com/app\n\ngo 1.19\n\nrequire golang.org/x/text v0.29.0\n"
    (project.tree / "go.mod").write_text(manifest)
    project.fix("go.mod", ("golang.org/x/text", "0.29.0", "0.30.0"), with_tools=False)
    assert "needs a newer Go than go.mod names" in project.draft_reasons


def test_a_version_that_requires_more_modules_is_unproven(project: FixerProject) -> None:
    manifest = GO_MOD.replace("gopkg.in/yaml.v3 v3.0.0", "golang.org/x/net v0.5.0")
    (project.tree / "go.mod").write_text(manifest)
    project.fix("go.mod", ("golang.org/x/net", "0.5.0", "0.7.0"), with_tools=False)
    assert project.read("go.mod") == manifest.replace("v0.5.0", "v0.7.0")
    assert project.read("go.sum") == GO_SUM
    assert "0.7.0 requires golang.org/x/" in project.draft_reasons
    assert "run go mod tidy on this branch" in project.draft_reasons
