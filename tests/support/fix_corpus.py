"""Projects on which `make test SUITE=fixes` proves the fixes of the agent `cve-fixer`.

A test of `tests/fixes` uses the fixture `corpus`:

    def test_an_indirect_requirement_is_updated(corpus: Corpus) -> None:
        project = corpus.project({"go.mod": …, "main.go": …})
        project.run("go", "mod", "tidy")  # lock it as its developers do
        job = project.fix(advisory("Go", "golang.org/x/text", "0.3.8"))
        assert job.changed == {"go.mod", "go.sum"}

`fix` expects one job whose pull request is ready; with `expect="draft"` or `expect="failed"`,
another outcome. `fix_all` returns every job of the project, and each starts from the same commit.

Each job takes the path of a real one: the index reads the committed tree, OSV records match its
versions, the real registry has the versions to choose from, fixes are grouped into jobs, a job is
claimed and planned, the agent's program edits the tree, and the service checks the proposed commit.
Only the sandbox, the platform and the push are left out.

A pull request that is ready has to be proven by the ecosystem's own tool in a fresh clone of the
proposed commit, or the test fails. `fix_proofs.PROOFS` has a proof for each kind of file;
`prove=` replaces it, for example for files that are installed together. Every job is a row of the
table that `fix_table` prints.
"""

import asyncio
import dataclasses
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.cve_fix.cve_fix import plan_cve_fix
from agentjobs_dependencies.advisories.model import Advisory, parse_advisory
from agentjobs_runtime.protocol.outcomes import JobFailed
from tests.support.fix_proofs import Proof, file_kind, prove_each, run_command
from tests.support.fix_service import fix_runs, repo_of
from tests.support.fixer_project import run_fixer
from tests.support.osv_records import CVSS_HIGH, record
from tests.support.workspace import run_git

Outcome = Literal["ready", "draft", "failed"]


def advisory(ecosystem: str, package: str, fixed: str, *, introduced: str = "0") -> Advisory:
    """It is severe, and affects the versions from `introduced` to before `fixed`."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{ecosystem}-{package}-{fixed}")
    document = record(f"TEST-{name}", package, fixed, ecosystem=ecosystem, vector=CVSS_HIGH)
    document["affected"][0]["ranges"][0]["events"][0] = {"introduced": introduced}
    parsed = parse_advisory(document)
    assert parsed is not None
    return parsed


@dataclass(frozen=True)
class FixJob:
    """`files` are kinds of manifests, `changed` all files that the commit changes, and `tree` is a
    clone of the commit."""

    project: str
    ecosystem: str
    files: tuple[str, ...]
    outcome: Outcome = "failed"
    reason: str = ""
    proven: bool = False
    report: str = field(default="", repr=False)
    changed: frozenset[str] = frozenset()
    tree: Path = field(default=Path(), repr=False)

    def read(self, name: str) -> str:
        return (self.tree / name).read_bytes().decode()


@dataclass(frozen=True)
class Corpus:
    """`record_job` adds a job to the table."""

    directory: Path
    database_url: str
    name: str
    record_job: Callable[[FixJob], None]

    def project(self, files: Mapping[str, str]) -> "Project":
        project = Project(self)
        project.write(files)
        return project


class Project:
    """A git repository with the files of a project. A test has one."""

    def __init__(self, corpus: Corpus) -> None:
        self.tree = corpus.directory / "tree"
        self._corpus = corpus
        self.tree.mkdir()
        run_git(self.tree, "init", "--quiet", "--initial-branch=main")

    def write(self, files: Mapping[str, str]) -> None:
        for name, content in files.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode())

    def read(self, name: str) -> str:
        return (self.tree / name).read_bytes().decode()

    def run(self, *command: str, within: str = ".", **environment: str) -> str:
        """Run a program in a directory of the project and return its output."""
        return run_command(self.tree / within, *command, **environment)

    def fix(
        self, *advisories: Advisory, expect: Outcome = "ready", prove: Proof = prove_each
    ) -> FixJob:
        jobs = self.fix_all(*advisories, prove=prove)
        assert len(jobs) == 1, f"expected one job, not {jobs}"
        assert jobs[0].outcome == expect, jobs[0]
        return jobs[0]

    def fix_all(self, *advisories: Advisory, prove: Proof = prove_each) -> list[FixJob]:
        jobs = asyncio.run(self._fix_all(advisories, prove))
        for job in jobs:
            self._corpus.record_job(job)
        unproven = [job for job in jobs if job.outcome == "ready" and not job.proven]
        assert not unproven, f"ready, but not proven: {unproven}"
        return jobs

    async def _fix_all(self, advisories: Sequence[Advisory], prove: Proof) -> list[FixJob]:
        base = self._commit()
        corpus = self._corpus
        async with fix_runs(
            corpus.database_url, corpus.directory, self.tree / ".git", base, advisories
        ) as runs:
            return [await self._run_job(run, base, prove) for run in runs]

    async def _run_job(self, run: ServiceRun, base: str, prove: Proof) -> FixJob:
        assert run.job.cause is not None
        fixes = run.job.cause.all_fixes
        ecosystems = {fix.ecosystem for fix in fixes}
        job = FixJob(
            self._corpus.name,
            ecosystems.pop() if len(ecosystems) == 1 else "several",
            tuple(sorted({file_kind(fix.ecosystem, fix.manifest) for fix in fixes})),
        )
        run_git(self.tree, "checkout", "--quiet", "--force", base)
        run_git(self.tree, "clean", "--quiet", "-dfx")
        try:
            plan = await plan_cve_fix(run, repo_of(run), base)
            result = run_fixer(
                self.tree, plan.job_file_entries, self._corpus.directory / run.job.id
            )
            if result.exit_code:
                reason = result.last_line.replace(str(self.tree), ".")
                return dataclasses.replace(job, report=result.report, reason=reason)
            commit = self._commit()
            await plan.verify(commit)
        except JobFailed as error:
            return dataclasses.replace(job, reason=f"{error.code}: {error}")
        job = dataclasses.replace(
            job,
            outcome="draft" if result.draft_reasons else "ready",
            reason=result.draft_reasons,
            report=result.report,
            changed=frozenset(run_git(self.tree, "diff", "--name-only", base, commit).splitlines()),
            tree=self._clone(commit),
        )
        if job.outcome == "draft":
            return job
        try:
            prove(job.tree, plan.fixes)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            return dataclasses.replace(job, reason=f"not proven: {error}")
        return dataclasses.replace(job, proven=True)

    def _commit(self) -> str:
        run_git(self.tree, "add", "--all")
        run_git(self.tree, "commit", "--quiet", "--allow-empty", "--message", "x")
        return run_git(self.tree, "rev-parse", "HEAD")

    def _clone(self, commit: str) -> Path:
        clone = self._corpus.directory / commit
        run_git(self.tree, "clone", "--quiet", str(self.tree), str(clone))
        run_git(clone, "checkout", "--quiet", commit)
        return clone
