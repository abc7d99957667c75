"""Access to `local` repositories over git, by API keys and job credentials."""

import msgspec
from starlette.requests import Request

from agentjobs.clock import now_ms
from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, is_well_formed, token_hash
from agentjobs.problems import Problem
from agentjobs.store.database import Database
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.web.basic_auth import caller_of, token_of, unauthorized
from agentjobs.web.context import WebContext
from agentjobs.web.git.push_commands import PushOpening, RefUpdate

_WRITABLE = ("refs/heads/", "refs/tags/")


class GitAccess(msgspec.Struct, frozen=True):
    """The repository of a request, who accesses it, and what they may write."""

    organization_id: str
    repo_id: str
    actor: str
    may_write: bool
    only_branch: str | None = None

    def check_write(self) -> None:
        if not self.may_write:
            raise Problem(
                "insufficient_scope",
                "This key can clone but not push. `agentjobs keys create --git-write` creates one"
                " that can push.",
            )

    def forbidden_updates(self, opening: PushOpening) -> dict[str, str]:
        """The reason for each forbidden update; empty if all are allowed."""
        reasons = ((update.name, self._reason_against(update)) for update in opening.updates)
        return {name: reason for name, reason in reasons if reason}

    def _reason_against(self, update: RefUpdate) -> str | None:
        if self.only_branch is None:
            return (
                None
                if update.name.startswith(_WRITABLE)
                else "only branches and tags can be pushed"
            )
        if update.name != f"refs/heads/{self.only_branch}":
            return f"this job may write only refs/heads/{self.only_branch}"
        return "a job may not delete its branch" if update.deletes else None


async def authorize(request: Request) -> GitAccess:
    """Raises `unauthorized` without a valid token, `not_found` for other repositories."""
    context: WebContext = request.app.state.context
    token = token_of(request)
    if is_well_formed(token, JOB_CREDENTIAL_PREFIX):
        return await _authorize_job(request, context.db, token)
    caller = await caller_of(request)
    repo_id = await _repo_id(request, context.db, caller.organization_id)
    return GitAccess(caller.organization_id, repo_id, caller.key_id, caller.git_write)


async def _authorize_job(request: Request, db: Database, token: str) -> GitAccess:
    job = await db.fetch_one(
        "SELECT id, organization_id, repo_id, branch FROM jobs"
        " WHERE credential_hash = :hash AND status IN ('queued', 'running')"
        f" AND lease_expires_at > {DATABASE_NOW}",
        hash=token_hash(token),
        now=now_ms(),
    )
    if job is None:
        raise unauthorized("This job credential is not valid, or has expired.")
    repo_id = await _repo_id(request, db, job["organization_id"])
    if repo_id != job["repo_id"]:
        raise _not_found()
    may_write = job["branch"] is not None
    return GitAccess(job["organization_id"], repo_id, job["id"], may_write, job["branch"])


async def _repo_id(request: Request, db: Database, organization_id: str) -> str:
    """The same error for missing repositories and those of other organizations."""
    params = request.path_params
    full_name = f"{params['owner']}/{params['name']}"
    row = None
    if "\x00" not in full_name + params["org"]:
        row = await db.fetch_one(
            "SELECT r.id FROM repos r JOIN organizations o ON o.id = r.organization_id"
            " WHERE o.id = :organization_id AND o.name = :organization"
            " AND r.full_name = :full_name AND r.platform = 'local' AND r.disconnected_at IS NULL",
            organization_id=organization_id,
            organization=params["org"],
            full_name=full_name,
        )
    if row is None:
        raise _not_found()
    repo_id: str = row["id"]
    return repo_id


def _not_found() -> Problem:
    return Problem("not_found", "There is no such repository in this key's organization.")
