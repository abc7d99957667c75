"""Access to `local` repositories over git, by API keys and job credentials."""

import msgspec
from starlette.requests import Request

from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, is_well_formed, token_hash
from agentjobs.store.database import Database, Row
from agentjobs.store.database_clock import DATABASE_NOW
from agentjobs.web.basic_auth import authenticate_caller, read_token, unauthorized
from agentjobs.web.context import WebContext
from agentjobs.web.git.push_commands import PushOpening, RefUpdate
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.problems import Problem

_WRITABLE = ("refs/heads/", "refs/tags/")
# Its parts are directories, of which backups and deletions could not descend thousands.
_MAX_NAME_CHARACTERS = 1_000


class _Override(msgspec.Struct, frozen=True):
    """The part of a job's `config_override` that concerns git."""

    base_branch: str | None = None


class GitAccess(msgspec.Struct, frozen=True):
    """The repository of a request, who accesses it, and what they may write."""

    organization_id: str
    repo_id: str
    default_branch: str
    actor: str
    may_write: bool
    # For a job: the branch it may write, the one it started from, and the commit.
    only_branch: str | None = None
    base_branch: str | None = None
    base_commit: str | None = None

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
        if len(update.name) > _MAX_NAME_CHARACTERS and not update.deletes:
            return f"its name has more than {_MAX_NAME_CHARACTERS} characters"
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
    token = read_token(request)
    if is_well_formed(token, JOB_CREDENTIAL_PREFIX):
        return await _authorize_job(request, context.db, token)
    caller = await authenticate_caller(request)
    repo = await _repo(request, context.db, caller.organization_id)
    return GitAccess(
        caller.organization_id,
        repo["id"],
        repo["default_branch"],
        caller.key_id,
        caller.git_write,
    )


async def _authorize_job(request: Request, db: Database, token: str) -> GitAccess:
    job = await db.fetch_one(
        "SELECT j.id, j.organization_id, j.repo_id, j.branch, j.base_commit, j.config_override"
        " FROM job_queue q JOIN jobs j ON j.id = q.job_id"
        " WHERE q.credential_hash = :hash AND j.cancel_requested_at IS NULL"
        f" AND q.lease_expires_at > {DATABASE_NOW}",
        hash=token_hash(token),
        now=now_ms(),
    )
    if job is None:
        return await _authorize_build(request, db, token)
    repo = await _repo(request, db, job["organization_id"], job["repo_id"])
    return GitAccess(
        job["organization_id"],
        repo["id"],
        repo["default_branch"],
        job["id"],
        may_write=job["branch"] is not None,
        only_branch=job["branch"],
        base_branch=msgspec.json.decode(job["config_override"], type=_Override).base_branch,
        base_commit=job["base_commit"],
    )


async def _authorize_build(request: Request, db: Database, token: str) -> GitAccess:
    """The build of an environment may fetch its repository."""
    build = await db.fetch_one(
        "SELECT id, organization_id, repo_id FROM environment_builds"
        " WHERE credential_hash = :hash AND state = 'building'"
        f" AND lease_until > {DATABASE_NOW}",
        hash=token_hash(token),
        now=now_ms(),
    )
    if build is None:
        raise unauthorized("This job credential is not valid, or has expired.")
    repo = await _repo(request, db, build["organization_id"], build["repo_id"])
    return GitAccess(
        build["organization_id"],
        repo["id"],
        repo["default_branch"],
        build["id"],
        may_write=False,
    )


async def _repo(
    request: Request, db: Database, organization_id: str, only_id: str | None = None
) -> Row:
    """The same error for missing repositories, those of other organizations, and any but `only_id`
    if that is given."""
    params = request.path_params
    full_name = f"{params['owner']}/{params['name']}"
    row = None
    if "\x00" not in full_name + params["org"]:
        row = await db.fetch_one(
            "SELECT r.id, r.default_branch FROM repos r"
            " JOIN organizations o ON o.id = r.organization_id"
            " WHERE o.id = :organization_id AND o.name = :organization"
            " AND r.full_name = :full_name AND r.platform = 'local' AND r.disconnected_at IS NULL",
            organization_id=organization_id,
            organization=params["org"],
            full_name=full_name,
        )
    if row is None or only_id not in (None, row["id"]):
        raise Problem("not_found", "There is no such repository in this key's organization.")
    return row
