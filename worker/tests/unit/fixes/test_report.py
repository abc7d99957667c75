"""The whole agent `cve-fixer` with text edits: its edits, report and exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from agentjobs_dependencies.fixes import fix as fixing
from agentjobs_dependencies.fixes import report, tree
from agentjobs_dependencies.fixes.go import go_mod
from agentjobs_dependencies.fixes.model import Advisory, CannotFix, Fix, Outcome, read_fixes
from agentjobs_runtime.sandboxes.directories import DRAFT_FILE
from agentjobs_worker.agents.builtin_agents import CVE_FIXER_DIRECTORY

ADVISORY = {
    "id": "GHSA-1",
    "aliases": ["CVE-2022-1"],
    "severity": "high",
    "score": 7.5,
    "ranges": "<0.3.8",
    "summary": "A <b>loop</b> in `parse` @everyone",
    "url": "https://advisories.example/GHSA-1",
}
GO = {
    "ecosystem": "Go",
    "manifest": "go.mod",
    "package": "golang.org/x/text",
    "from": "0.3.7",
    "to": "0.3.8",
    "advisories": [ADVISORY],
    "why": "the lowest without one",
}


def run(directory: Path, fixes: object) -> tuple[int, str, str]:
    """Start it as the sandbox does, but without one."""
    (directory / "job.json").write_text(json.dumps({"fixes": fixes}))
    tree_dir = directory / "tree"
    tree_dir.mkdir(exist_ok=True)
    completed = subprocess.run(
        [sys.executable, "-I", "-u", str(CVE_FIXER_DIRECTORY / "__main__.py")],
        cwd=tree_dir,
        env={
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "AGENTJOBS_JOB": str(directory / "job.json"),
            "AGENTJOBS_REPORT": str(directory / "report.md"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    written = directory / "report.md"
    return (
        completed.returncode,
        completed.stdout + completed.stderr,
        written.read_text() if written.is_file() else "",
    )


def test_possible_fixes_are_made_and_the_others_reported(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/go.mod").write_text("require golang.org/x/text v0.3.7\n")
    (tmp_path / "tree/model.py").write_text("raise SystemExit('the tree was imported')\n")
    gem = {**GO, "ecosystem": "RubyGems", "manifest": "Gemfile.lock", "package": "rack"}
    code, output, written = run(tmp_path, [GO, gem])
    assert code == 0, output
    assert output.endswith("fixed: 1, not fixed: 1\n")
    assert (tmp_path / "tree/go.mod").read_text() == "require golang.org/x/text v0.3.8\n"
    assert written.startswith("Update golang.org/x/text to 0.3.8 (CVE-2022-1)\n\n")
    for part in (
        "### golang.org/x/text 0.3.7 → 0.3.8",
        "- [GHSA-1](https://advisories.example/GHSA-1) (CVE-2022-1): high, CVSS 7.5, affects ",
        r"`<0.3.8`. A \<b\>loop\</b\> in \`parse\` \@everyone",
        "Why 0.3.8: the lowest without one",
        "- `go.mod`: `golang.org/x/text` 0.3.7 → 0.3.8",
        "- `rack` 0.3.7 in `Gemfile.lock`: this agent cannot edit files like Gemfile.lock yet",
        "`git revert <commit>`",
    ):
        assert part in written


@pytest.mark.parametrize(
    ("fixes", "words"),
    [
        ([GO], "nothing could be fixed: go.mod is not in this branch"),
        ([{**GO, "manifest": "../go.mod"}], "../go.mod is outside the repository"),
        ([], "lists no fixes"),
        ([{"package": "x"}], "the job file cannot be used"),
    ],
)
def test_fixing_nothing_is_a_failure_with_the_reason_in_the_last_line(
    tmp_path: Path, fixes: list[Any], words: str
) -> None:
    code, output, _ = run(tmp_path, fixes)
    assert code == 1
    assert words in output.splitlines()[-1]
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("ecosystem", "manifest", "module"),
    [
        ("PyPI", "a/requirements-dev.txt", "python.requirements"),
        ("PyPI", "requirements/base.in", "python.requirements"),
        ("PyPI", "x/uv.lock", "python.uv_lock"),
        ("npm", "web/package-lock.json", "npm.package_lock"),
        ("npm", "yarn.lock", "yarn.lock"),
        ("PyPI", "Pipfile.lock", "python.pipfile_lock"),
        ("Maven", "a/pom.xml", "pom"),
    ],
)
def test_the_fixer_of_a_manifest_depends_on_its_name(
    ecosystem: str, manifest: str, module: str | None
) -> None:
    assert fixing.fixer_for(ecosystem, manifest) == module


def test_hostile_names_stay_text_in_a_report() -> None:
    name = "a`b\n# [x](http://evil)\x1b[31m"
    fix = Fix(
        "npm", name, name, name, name, advisories=(Advisory(name, url="javascript:x"),), why=name
    )
    outcome = Outcome(fixed=[fix])
    outcome.fail([fix], f"first\n~~~\n{name}")
    title, body = report.report(outcome).split("\n", 1)
    page = MarkdownIt().render(body)
    assert "\x1b" not in title + page
    assert "href" not in page
    assert "<h1" not in page
    assert page.count("<h3") == 4


def test_several_packages_share_one_title() -> None:
    one, two = (Fix("npm", "package.json", name, "1", "2") for name in "ab")
    assert report.title([one, two]) == "Update 2 packages with known vulnerabilities"
    advisories = (Advisory("GHSA-1", ("CVE-1",)), Advisory("GHSA-2"))
    both = Fix("npm", "package.json", "a", "1", "2", advisories=advisories)
    assert report.title([both, both]) == "Update a to 2 (CVE-1 and 1 more)"
    below = Fix("npm", "web/shop/package.json", "a", "1", "2")
    assert report.title([below]) == "Update a to 2 in web/shop"


def test_one_package_in_several_files_is_one_title_and_a_section_per_upgrade() -> None:
    main, tests, old = (
        Fix("PyPI", "requirements/main.txt", "a", "1.1", "1.4"),
        Fix("PyPI", "requirements/tests.txt", "a", "1.1", "1.4"),
        Fix("PyPI", "requirements/old.txt", "a", "0.9", "0.9.3"),
    )
    title, body = report.report(Outcome(fixed=[main, tests, old])).split("\n", 1)
    assert title == "Update a to 1.4, 0.9.3 in requirements"
    assert "### a 1.1 → 1.4\n\nIn `requirements/main.txt`, `requirements/tests.txt`.\n" in body
    assert "### a 0.9 → 0.9.3\n\n" in body
    for fix in (main, tests, old):
        assert f"- `{fix.manifest}`: `a` {fix.old} → {fix.new}" in body
    assert report.title([Fix("PyPI", "x", "a", "1", str(n)) for n in range(5)]) == (
        "Update a to 0, 1, 2 and others"
    )


def test_an_unproven_result_requests_a_draft_with_each_reason_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTJOBS_REPORT", str(tmp_path / "pull_request.md"))
    outcome = Outcome(fixed=[Fix("PyPI", "a.txt", "a", "1", "2")])
    fixing.write_report(outcome)
    assert not (tmp_path / "draft.md").exists()
    outcome.add(Outcome(unproven=["`a` does\nnot resolve", "`a` does\nnot resolve", "Other"]))
    fixing.write_report(outcome)
    assert (tmp_path / "draft.md").read_text() == "`a` does not resolve\nOther\n"
    assert fixing.DRAFT_FILE == DRAFT_FILE


def test_a_fix_is_read_from_the_job_file() -> None:
    (fix,) = read_fixes(
        {"fixes": [{**GO, "hashes": ["sha256:1"], "parents": ["p"], "direct": False}]}
    )
    assert (fix.old, fix.new, fix.direct, fix.parents) == ("0.3.7", "0.3.8", False, ("p",))
    assert fix.hashes == ("sha256:1",)
    assert fix.advisories[0].score == 7.5


def test_each_fix_knows_what_its_file_is_installed_together_with() -> None:
    fixes = [{**GO, "manifest": name} for name in ("a.txt", "b.txt", "c.txt")]
    groups = [["a.txt", "b.txt"], ["a.txt", "d.txt"]]
    a, b, c = read_fixes({"fixes": fixes, "installed_together": groups})
    assert a.installed_together == (("a.txt", "b.txt"), ("a.txt", "d.txt"))
    assert b.installed_together == (("a.txt", "b.txt"),)
    assert c.installed_together == ()


def test_a_link_out_of_the_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_text("x")
    (tmp_path / "root/go.mod").symlink_to(tmp_path / "secret")
    with pytest.raises(CannotFix, match="outside"):
        tree.resolve_file(tmp_path / "root", "go.mod")


def test_links_that_lead_to_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "go.mod").symlink_to("go.sum")
    (tmp_path / "go.sum").symlink_to("go.mod")
    with pytest.raises(CannotFix, match=r"go\.mod cannot be read"):
        tree.resolve_file(tmp_path, "go.mod")


def test_checksums_are_not_written_through_a_link_out_of_the_repository(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("x")
    (root / "go.mod").write_text("module a\n\nrequire example.com/b v1.0.0\n")
    (root / "go.sum").symlink_to(tmp_path / "secret")
    fix = Fix("Go", "go.mod", "example.com/b", "1.0.0", "1.0.1")
    (failure,) = go_mod.apply([fix], root).failed
    assert failure.reason == "go.sum is outside the repository"
    assert (tmp_path / "secret").read_text() == "x"
