"""A connected repository of the platform `local` with branches, on real git."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentjobs.jobs.states import FINAL
from agentjobs.local_git.repositories import import_repository, path
from agentjobs.organizations.api_keys import create_key
from agentjobs.organizations.organizations import Organization, create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, new_token, token_hash
from agentjobs.platforms.protocol import PullRequestRequest, RepoAddress
from agentjobs.pulls.local_platform import LocalPlatform
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.settings import Settings, load
from tests.support.git_commands import commit_files, git_output, make_repository
from tests.support.repo_rows import SELECT, update_repos

PUBLIC_URL = "https://jobs.example"
CREDENTIAL = "ajt_the-one-that-is-valid"


async def holds_credential(tx: Transaction, repo_id: str, branch: str, credential: str) -> bool:
    """Replaces the check of a job's credential."""
    return credential == CREDENTIAL


@dataclass
class Platform:
    """An organization `acme` with the connected repository `acme/shop`."""

    db: Database
    settings: Settings
    organization: Organization
    repo: RepoAddress
    source: Path

    @property
    def git_dir(self) -> Path:
        return path(self.settings.repositories_path, self.repo.repo_id)

    @property
    def adapter(self) -> LocalPlatform:
        return LocalPlatform(self.db, "http://127.0.0.1:1", PUBLIC_URL, holds_credential)

    def head(self, ref: str = "main") -> str:
        return git_output("rev-parse", ref, cwd=self.git_dir)

    def propose(
        self, branch: str, files: Mapping[str, str | bytes], message: str = "change"
    ) -> str:
        """A commit on top of main in the repository itself, as if a job had pushed it."""
        git_output("fetch", "--quiet", str(self.git_dir), "main", cwd=self.source)
        git_output("checkout", "--quiet", "-B", branch, "FETCH_HEAD", cwd=self.source)
        commit = commit_files(self.source, files, message)
        git_output("push", "--quiet", "--force", str(self.git_dir), branch, cwd=self.source)
        return commit

    def request(self, branch: str, commit: str, **fields: object) -> PullRequestRequest:
        values = {
            "head_branch": branch,
            "base_branch": "main",
            "head_commit": commit,
            "base_commit": self.head(),
            "title": "Fix the price",
            "body": "It was wrong.",
            **fields,
        }
        return PullRequestRequest(**values)  # type: ignore[arg-type]

    async def open_pull(
        self, branch: str, files: Mapping[str, str | bytes], **fields: object
    ) -> int:
        commit = self.propose(branch, files)
        opened = await self.adapter.open_pull_request(
            self.repo, CREDENTIAL, self.request(branch, commit, **fields)
        )
        return opened.number

    async def key(self, organization: str = "acme", *, git_write: bool = False) -> str:
        return (await create_key(self.db, organization, git_write=git_write)).key

    async def job_credential(
        self, branch: str, *, status: str = "running", lease_ms: int = 60_000
    ) -> str:
        """The credential of a job on this repository that a worker has claimed."""
        credential = new_token(JOB_CREDENTIAL_PREFIX)
        await self.db.transact(_insert_job, self, branch, status, lease_ms, credential)
        return credential

    async def repo_row(self) -> dict[str, object]:
        row = await self.db.fetch_one(f"{SELECT} WHERE r.id = :id", id=self.repo.repo_id)
        assert row is not None
        return dict(row)


async def make_platform(db: Database, directory: Path, organization: str = "acme") -> Platform:
    settings = load(
        {"AGENTJOBS_DATA_DIR": str(directory / "data"), "AGENTJOBS_PUBLIC_URL": PUBLIC_URL}
    )
    owner = await create_organization(db, Plans(settings.plans), organization, "enterprise")
    source = make_repository(directory / f"source-{organization}")
    repo = RepoAddress(organization, f"{organization}/shop", new_id("repo"))
    target = path(settings.repositories_path, repo.repo_id)
    imported = await import_repository(str(source), target)
    await db.transact(_insert_repo, owner.id, repo, imported.default_branch, imported.head_commit)
    return Platform(db, settings, owner, repo, source)


async def _insert_repo(
    tx: Transaction, organization_id: str, repo: RepoAddress, branch: str, head: str
) -> None:
    await tx.execute(
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, created_at)"
        " VALUES (:id, :organization_id, :full_name, 'local', '', :branch, :head, :now)",
        id=repo.repo_id,
        organization_id=organization_id,
        full_name=repo.full_name,
        branch=branch,
        head=head,
        now=now_ms(),
    )
    await update_repos(tx, "index_status = 'ready'", "r.id = :id", id=repo.repo_id)


async def _insert_job(
    tx: Transaction, platform: Platform, branch: str, status: str, lease_ms: int, credential: str
) -> None:
    now, job_id = await tx.clock_ms(), new_id("job")
    await tx.execute(
        "INSERT INTO jobs (id, organization_id, repo_id, repo, agent, config_override, status,"
        " created_at, queued_at, branch)"
        " VALUES (:id, :organization_id, :repo_id, :repo, 'fixer', '{}', :status, :now, :now,"
        " :branch)",
        id=job_id,
        organization_id=platform.organization.id,
        repo_id=platform.repo.repo_id,
        repo=platform.repo.full_name,
        status=status,
        now=now,
        branch=branch,
    )
    if status in FINAL:
        return
    await tx.execute(
        "INSERT INTO job_queue (job_id, organization_id, repo_id, agent, queue_order, lease_owner,"
        " lease_expires_at, credential_hash)"
        " VALUES (:id, :organization_id, :repo_id, 'fixer', :now, 'wrk_1', :expires, :hash)",
        id=job_id,
        organization_id=platform.organization.id,
        repo_id=platform.repo.repo_id,
        now=now,
        expires=now + lease_ms,
        hash=token_hash(credential),
    )
