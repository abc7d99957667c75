"""Fixes that an open pull request has get no second one, on both databases."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agentjobs.advisories.findings import findings_of_repo
from agentjobs.inventory.indexing import read_dependencies
from agentjobs.jobs.operations import open_pulls
from agentjobs.jobs.operations.auto_trigger import reconcile
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.open_pulls import OpenPullReader
from agentjobs.jobs.operations.proposed_fixes import ProposingPull, pulls_for_findings
from agentjobs.jobs.queue.claim import may_write_branch
from agentjobs.local_git import repositories
from agentjobs.platforms.protocol import PullRequest, PullRequestRequest, RepoAddress
from agentjobs.publishing.cve_fix.proposed import leave_out_proposed, remaining_fixes
from agentjobs.pulls.local_platform import LocalPlatform
from agentjobs.pulls.platform_pulls import record_pull
from agentjobs.repos.thresholds import set_organization_threshold
from agentjobs.store.database import Database, Transaction
from agentjobs_dependencies.fix_plan import Exposure
from agentjobs_dependencies.fixes.model import Fix
from agentjobs_runtime.protocol.outcomes import JobFailed
from agentjobs_runtime.settings import load
from agentjobs_worker.agents.catalog import Catalog
from tests.support.git_server import serving
from tests.support.jobs import JobHarness, an_agent, claim_job, job_harness
from tests.support.stored_findings import PYYAML, REQUESTS, add_findings
from tests.support.workspace import run_git

BASE = "requests==2.25.0\npyyaml==5.3\n"


class Repository:
    """The bare repository of `acme/shop`, and its open pull requests."""

    def __init__(self, harness: JobHarness, repo_id: str, directory: Path) -> None:
        self._db, self._repo_id = harness.db, repo_id
        root = harness.context.settings.repositories_path
        self._bare = repositories.path(root, repo_id)
        self.tree = directory / "tree"
        run_git(directory, "init", "-q", "-b", "main", str(self.tree))
        self.head = self._commit(BASE)
        root.mkdir(parents=True)
        run_git(directory, "clone", "-q", "--bare", str(self.tree), str(self._bare))
        self.mirror = directory / "mirror.git"
        run_git(directory, "clone", "-q", "--bare", str(self.tree), str(self.mirror))

    async def open_pull(self, number: int, requirements: str) -> None:
        commit = self._commit(requirements)
        run_git(self.tree, "push", "-q", str(self._bare), f"{commit}:refs/heads/b{number}")
        request = PullRequestRequest(
            head_branch=f"b{number}",
            base_branch="main",
            head_commit=commit,
            base_commit=self.head,
            title="A change",
            body="",
        )
        pull = PullRequest(number, "", draft=False)
        await self._db.transact(record_pull, self._repo_id, request, pull)

    def remove(self) -> None:
        shutil.rmtree(self._bare)

    def remove_pull(self, number: int) -> None:
        """Its commit is gone, but it is still listed as open."""
        run_git(self._bare, "update-ref", "-d", f"refs/heads/b{number}")
        run_git(self._bare, "gc", "-q", "--prune=now")

    def remove_file_of_pull(self, number: int) -> None:
        """As after a fetch that was refused because the platform did not send the file."""
        blob = run_git(self._bare, "rev-parse", f"refs/heads/b{number}:requirements.txt")
        run_git(self._bare, "update-ref", "-d", f"refs/heads/b{number}")
        (self._bare / "objects" / blob[:2] / blob[2:]).unlink()

    def _commit(self, requirements: str) -> str:
        (self.tree / "requirements.txt").write_text(requirements)
        run_git(self.tree, "add", "-A")
        run_git(self.tree, "commit", "-q", "--allow-empty", "-m", "x")
        return run_git(self.tree, "rev-parse", "HEAD")


@pytest.fixture
def harness(database: Database, tmp_path: Path) -> JobHarness:
    harness = job_harness(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path / "data")}))
    harness.context.catalog = Catalog([an_agent("fixer"), an_agent("cve-fixer")])
    return harness


async def test_a_fix_of_an_open_pull_request_gets_no_job_and_is_linked(
    harness: JobHarness, tmp_path: Path
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "low")
    repo_id = await add_findings(harness, acme, REQUESTS, PYYAML)
    repository = Repository(harness, repo_id, tmp_path)
    await harness.db.transact(_set_head, repo_id, repository.head)
    reader = OpenPullReader(harness.db, harness.context.settings, None)
    await repository.open_pull(1, BASE + "six==1.16.0\n")
    await repository.open_pull(2, "requests==2.32.0\npyyaml==5.3.1\n")

    (job_id,) = await reconcile(harness.context, repo_id, reader)
    cause = (await harness.view(acme, job_id)).cause
    assert cause is not None
    # 5.3.1 is not enough.
    assert cause.package == "pyyaml"
    findings = await findings_of_repo(harness.db, repo_id)
    pulls = await pulls_for_findings(harness.db, findings)
    url = f"{harness.context.settings.effective_public_url}/acme/acme/shop/pulls/2"
    assert pulls == {
        finding.id: ProposingPull(2, url) for finding in findings if finding.name == "requests"
    }
    assert await reconcile(harness.context, repo_id, reader) == []

    await harness.db.transact(_close_pulls)
    (job_id,) = await reconcile(harness.context, repo_id, reader)
    cause = (await harness.view(acme, job_id)).cause
    assert cause is not None
    assert cause.package == "requests"
    assert await pulls_for_findings(harness.db, findings) == {}
    # Somebody proposes what the job did not.
    await cancel_job(harness.db, acme.organization_id, job_id)
    await repository.open_pull(3, "requests==2.31.0\npyyaml==5.3\n")
    assert await reconcile(harness.context, repo_id, reader) == []
    pulls = await pulls_for_findings(harness.db, findings)
    assert {pull.number for pull in pulls.values()} == {3}


async def test_what_was_known_counts_while_pull_requests_cannot_be_read(
    harness: JobHarness, tmp_path: Path
) -> None:
    acme = await harness.organization()
    repo_id = await add_findings(harness, acme, REQUESTS, PYYAML)
    repository = Repository(harness, repo_id, tmp_path)
    await repository.open_pull(1, "requests==2.31.0\npyyaml==5.3\n")
    reader = OpenPullReader(harness.db, harness.context.settings, None)
    # Without a threshold too, pages link the pull request.
    assert await reconcile(harness.context, repo_id, reader) == []

    repository.remove()
    reader = OpenPullReader(harness.db, harness.context.settings, None)
    await set_organization_threshold(harness.db, "acme", "low")
    (job_id,) = await reconcile(harness.context, repo_id, reader)
    cause = (await harness.view(acme, job_id)).cause
    assert cause is not None
    assert cause.package == "pyyaml"


async def test_what_an_unreadable_pull_request_proposed_still_counts(
    harness: JobHarness, tmp_path: Path
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "low")
    repo_id = await add_findings(harness, acme, REQUESTS, PYYAML)
    repository = Repository(harness, repo_id, tmp_path)
    await repository.open_pull(1, "requests==2.31.0\npyyaml==5.3\n")
    await repository.open_pull(2, "requests==2.25.0\npyyaml==5.4\n")
    reader = OpenPullReader(harness.db, harness.context.settings, None)
    assert await reconcile(harness.context, repo_id, reader) == []

    repository.remove_pull(1)
    reader = OpenPullReader(harness.db, harness.context.settings, None)
    assert await reconcile(harness.context, repo_id, reader) == []
    findings = await findings_of_repo(harness.db, repo_id)
    pulls = await pulls_for_findings(harness.db, findings)
    assert {finding.name: pulls[finding.id].number for finding in findings} == {
        "requests": 1,
        "pyyaml": 2,
    }
    await harness.db.transact(_close_pulls)
    assert len(await reconcile(harness.context, repo_id, reader)) == 2


async def test_a_pull_request_that_names_a_file_of_another_repository_learns_nothing_of_it(
    harness: JobHarness, tmp_path: Path
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "low")
    repo_id = await add_findings(harness, acme, REQUESTS)
    repository = Repository(harness, repo_id, tmp_path)
    await repository.open_pull(1, "requests==2.31.0\npyyaml==5.3\n")
    # The index of a repository that has the file caches what is in it, by its hash.
    other = repository.tree / ".git"
    head = run_git(repository.tree, "rev-parse", "HEAD")
    assert (await read_dependencies(other, head, harness.context.settings)).dependencies
    repository.remove_file_of_pull(1)
    reader = OpenPullReader(harness.db, harness.context.settings, None)
    assert len(await reconcile(harness.context, repo_id, reader)) == 1
    findings = await findings_of_repo(harness.db, repo_id)
    assert await pulls_for_findings(harness.db, findings) == {}


async def test_a_known_pull_request_counts_although_many_newer_ones_are_open(
    harness: JobHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_pulls, "MAX_PULLS", 2)
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "low")
    repo_id = await add_findings(harness, acme, REQUESTS)
    repository = Repository(harness, repo_id, tmp_path)
    reader = OpenPullReader(harness.db, harness.context.settings, None)
    await repository.open_pull(1, "requests==2.31.0\npyyaml==5.3\n")
    assert await reconcile(harness.context, repo_id, reader) == []
    for number in (2, 3):
        await repository.open_pull(number, BASE)
    assert await reconcile(harness.context, repo_id, reader) == []


async def test_a_pull_request_for_the_fix_of_a_queued_job_is_linked(
    harness: JobHarness, tmp_path: Path
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "low")
    repo_id = await add_findings(harness, acme, REQUESTS)
    repository = Repository(harness, repo_id, tmp_path)
    reader = OpenPullReader(harness.db, harness.context.settings, None)
    assert len(await reconcile(harness.context, repo_id, reader)) == 1
    await repository.open_pull(1, "requests==2.31.0\npyyaml==5.3\n")
    assert await reconcile(harness.context, repo_id, reader) == []
    findings = await findings_of_repo(harness.db, repo_id)
    pulls = await pulls_for_findings(harness.db, findings)
    assert {pull.number for pull in pulls.values()} == {1}


@asynccontextmanager
async def starting_job(
    harness: JobHarness, repository: Repository
) -> AsyncIterator[tuple[Any, Any]]:
    """The next job as its worker starts it, on a machine without the service's repositories."""
    job = await claim_job(harness.context, "wrk_a", ["cve-fixer"])
    assert job is not None
    settings = msgspec.structs.replace(
        harness.context.settings, repositories_dir=str(repository.tree.parent / "elsewhere")
    )
    notes: list[str] = []
    run = SimpleNamespace(
        db=harness.db,
        job=job,
        settings=settings,
        mirror=repository.mirror,
        log=SimpleNamespace(note=notes.append),
        tools=SimpleNamespace(platforms=None),
    )
    platform: Any = SimpleNamespace(db=harness.db, settings=harness.context.settings)
    async with serving(platform, repository.tree) as server:
        adapter = LocalPlatform(harness.db, server.url, "https://agentjobs.test", may_write_branch)
        address = RepoAddress("acme", "acme/shop", job.repo_id)
        yield run, SimpleNamespace(adapter=adapter, address=address)


def planned_fix(name: str, old: str, new: str, manifest: str = "requirements.txt") -> Fix:
    return Fix(
        ecosystem="PyPI",
        manifest=manifest,
        package=name,
        old=old,
        new=new,
        direct=True,
        parents=(),
        hashes=(),
        candidates=(),
        registry="",
        advisories=(),
        why="",
    )


FIX_REQUESTS = planned_fix("requests", "2.25.0", "2.31.0")
FIX_PYYAML = planned_fix("pyyaml", "5.3", "5.4")


async def test_a_queued_job_proposes_nothing_that_was_proposed_meanwhile(
    harness: JobHarness, tmp_path: Path
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "low")
    repo_id = await add_findings(harness, acme, REQUESTS)
    repository = Repository(harness, repo_id, tmp_path)
    assert len(await reconcile(harness.context, repo_id)) == 1
    await repository.open_pull(1, "requests==2.31.0\npyyaml==5.3\n")
    before = Exposure((), (), ())
    async with starting_job(harness, repository) as (run, repo):
        with pytest.raises(JobFailed, match=r"/acme/acme/shop/pulls/1 already proposes to upgrade"):
            await leave_out_proposed(
                run, repo, repository.head, (FIX_REQUESTS,), Exposure((), (), ())
            )
        findings = await findings_of_repo(harness.db, repo_id)
        assert {p.number for p in (await pulls_for_findings(harness.db, findings)).values()} == {1}

        # Other fixes of the job are proposed without it.
        fixes = (FIX_REQUESTS, FIX_PYYAML)
        left = await leave_out_proposed(run, repo, repository.head, fixes, before)
        assert left == (FIX_PYYAML,)

        # A closed pull request proposes nothing.
        await harness.db.transact(_close_pulls)
        left = await leave_out_proposed(run, repo, repository.head, fixes, before)
        assert left == fixes


async def test_a_job_starts_although_pull_requests_cannot_be_read(
    harness: JobHarness, tmp_path: Path
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, "acme", "low")
    repo_id = await add_findings(harness, acme, REQUESTS)
    repository = Repository(harness, repo_id, tmp_path)
    await reconcile(harness.context, repo_id)
    await repository.open_pull(1, "requests==2.31.0\npyyaml==5.3\n")
    repository.remove()
    async with starting_job(harness, repository) as (run, repo):
        before = Exposure((), (), ())
        left = await leave_out_proposed(run, repo, repository.head, (FIX_REQUESTS,), before)
    assert left == (FIX_REQUESTS,)


async def test_a_file_installed_together_with_an_unfixed_one_is_fixed_too() -> None:
    main, tests, docs = (
        planned_fix("requests", "2.25.0", "2.31.0", name)
        for name in ("main.txt", "tests.txt", "docs.txt")
    )
    before = Exposure((), (), (), installed_together=(("main.txt", "tests.txt"),))
    fixes = (main, tests, docs)
    assert remaining_fixes(fixes, [main.key, docs.key], before) == (main, tests)
    assert remaining_fixes(fixes, [main.key, tests.key], before) == (docs,)
    assert remaining_fixes(fixes, [fix.key for fix in fixes], before) == ()


async def _set_head(tx: Transaction, repo_id: str, commit: str) -> None:
    await tx.execute(
        "UPDATE repos SET head_commit = :commit WHERE id = :id", id=repo_id, commit=commit
    )


async def _close_pulls(tx: Transaction) -> None:
    await tx.execute("UPDATE pulls SET state = 'closed'")
