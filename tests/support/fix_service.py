"""The service's part of a fix, without its processes: index, match, choose, group, claim."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agentjobs.advisories import rows
from agentjobs.advisories.registries.registry import Registry
from agentjobs.advisories.scans import DueScan, scan_repository
from agentjobs.inventory.indexing import claim_due, index_repository, pom_fetcher
from agentjobs.inventory.published_poms import PomFetcher
from agentjobs.jobs.operations.auto_trigger import reconcile
from agentjobs.platforms.protocol import RepoAddress
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs.repos.thresholds import set_organization_threshold
from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database
from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.version_choice import RegistryVersionChooser
from agentjobs_runtime.agents.definitions import CVE_FIXER
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from agentjobs_runtime.settings import load
from agentjobs_worker.agents.catalog import Catalog
from tests.support.jobs import JobHarness, an_agent, claim_job, job_harness
from tests.support.repo_rows import update_repos

# Registries may have private addresses on the machine of the tests.
_ANY_ADDRESS = ("0.0.0.0/0", "::/0")


@asynccontextmanager
async def fix_runs(
    database_url: str, directory: Path, git_dir: Path, base: str, advisories: Sequence[Advisory]
) -> AsyncIterator[list[ServiceRun]]:
    """The claimed jobs that the advisories cause in the repository, the most severe first."""
    settings = load({"AGENTJOBS_DATA_DIR": str(directory / "data")})
    certificates = os.environ.get("SSL_CERT_FILE", "")
    db = await open_database(database_url, migrate=False)
    try:
        async with new_session(AllowList.parse(_ANY_ADDRESS), certificates) as session:
            registry = Registry(settings, session)
            chooser = RegistryVersionChooser(registry, settings.minimum_release_age_days)
            harness = job_harness(db, settings)
            harness.context.catalog = Catalog([an_agent(CVE_FIXER)])
            await db.transact(
                rows.put, "test", rows.FORMAT * rows.GENERATIONS_OF_A_FORMAT, advisories
            )
            poms = pom_fetcher(settings, registry)
            await _trigger_jobs(harness, chooser, poms, git_dir, base)
            tools: Any = SimpleNamespace(
                context=harness.context,
                chooser=chooser,
                poms=poms,
                platforms=None,
                mirrors=SimpleNamespace(path=lambda _repo_id: git_dir),
            )
            yield await _claim_all(harness, tools)
    finally:
        await db.close()


def repo_of(run: ServiceRun) -> HostedRepo:
    """On the platform `local`, where it has no pull requests."""
    adapter: Any = None
    address = RepoAddress(run.job.organization, run.job.repo, run.job.repo_id)
    return HostedRepo(run, adapter, address)


async def _trigger_jobs(
    harness: JobHarness,
    chooser: RegistryVersionChooser,
    poms: PomFetcher,
    git_dir: Path,
    base: str,
) -> None:
    acme = await harness.organization()
    await set_organization_threshold(harness.db, acme.organization, "low")
    await harness.db.transact(_make_due, base)
    repo = await claim_due(harness.db)
    assert repo is not None
    await index_repository(harness.db, repo, git_dir, harness.context.settings, poms=poms)
    scan = DueScan(repo.id, acme.organization_id, 0)
    count = await scan_repository(harness.db, scan, chooser)
    assert count, "no dependency in the index has an advisory"
    await reconcile(harness.context, repo.id)


async def _make_due(tx: Transaction, head_commit: str) -> None:
    await update_repos(tx, "index_due_at = 1, head_commit = :head", head=head_commit)


async def _claim_all(harness: JobHarness, tools: Any) -> list[ServiceRun]:
    log: Any = SimpleNamespace(note=print)
    runs = []
    while job := await claim_job(harness.context, "wrk_a", [CVE_FIXER]):
        runs.append(ServiceRun(job, tools, log))
    return runs
