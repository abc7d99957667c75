"""Fixes that an open pull request has get no second one, on both databases."""

import shutil
from pathlib import Path

import pytest

from agentjobs.advisories.findings import findings_of_repo
from agentjobs.agents.catalog import Catalog
from agentjobs.forges.protocol import PullRequest, PullRequestRequest
from agentjobs.jobs.auto_trigger import reconcile
from agentjobs.jobs.cancel import cancel_job
from agentjobs.jobs.open_pulls import OpenPullReader
from agentjobs.jobs.proposed_fixes import ProposingPull, pulls_for_findings
from agentjobs.local_git import repositories
from agentjobs.pulls.platform_pulls import record_pull
from agentjobs.repos.thresholds import set_organization_threshold
from agentjobs.settings import load
from agentjobs.store.database import Database, Transaction
from tests.support.jobs import JobHarness, an_agent, job_harness
from tests.support.stored_findings import PYYAML, REQUESTS, add_findings
from tests.support.workspace import run_git

BASE = "requests==2.25.0\npyyaml==5.3\n"


class Repository:
    """The bare repository of `acme/shop`, and its open pull requests."""

    def __init__(self, harness: JobHarness, repo_id: str, directory: Path) -> None:
        self._db, self._repo_id = harness.db, repo_id
        root = harness.context.settings.repositories_path
        self._bare = repositories.path(root, repo_id)
        self._tree = directory / "tree"
        run_git(directory, "init", "-q", "-b", "main", str(self._tree))
        self.head = self._commit(BASE)
        root.mkdir(parents=True)
        run_git(directory, "clone", "-q", "--bare", str(self._tree), str(self._bare))

    async def open_pull(self, number: int, requirements: str) -> None:
        commit = self._commit(requirements)
        run_git(self._tree, "push", "-q", str(self._bare), f"{commit}:refs/heads/b{number}")
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

    def _commit(self, requirements: str) -> str:
        (self._tree / "requirements.txt").write_text(requirements)
        run_git(self._tree, "add", "-A")
        run_git(self._tree, "commit", "-q", "--allow-empty", "-m", "x")
        return run_git(self._tree, "rev-parse", "HEAD")


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
    await cancel_job(harness.context, acme.organization_id, job_id)
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


async def _set_head(tx: Transaction, repo_id: str, commit: str) -> None:
    await tx.execute(
        "UPDATE repos SET head_commit = :commit WHERE id = :id", id=repo_id, commit=commit
    )


async def _close_pulls(tx: Transaction) -> None:
    await tx.execute("UPDATE pulls SET state = 'closed'")
