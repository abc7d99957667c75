"""Who may read and write a `local` repository over git: keys of its organization, and its jobs."""

import msgspec
from starlette.requests import Request

from agentjobs.clock import now_ms
from agentjobs.organizations.tokens import JOB_CREDENTIAL_PREFIX, is_well_formed, token_hash
from agentjobs.problems import Problem
from agentjobs.store.database import Database
from agentjobs.web.basic_auth import caller_of, token_of, unauthorized
from agentjobs.web.context import WebContext
from agentjobs.web.git.push_commands import PushOpening, RefUpdate

_WRITABLE = ("refs/heads/", "refs/tags/")


class GitAccess(msgspec.Struct, frozen=True):
    """An opened door: the repository, who came in, and what they may write."""

    repo_id: str
    who: str
    may_write: bool
    only_branch: str | None = None

    def check_write(self) -> None:
        if not self.may_write:
            raise Problem(
                "insufficient_scope",
                "This key may clone but not push; `agentjobs keys create --git-write` makes one"
                " that may.",
            )

    def refusals(self, opening: PushOpening) -> dict[str, str]:
        """The updates that may not happen, each with its reason; empty when all may."""
        found = ((update.name, self._refusal(update)) for update in opening.updates)
        return {name: reason for name, reason in found if reason}

    def _refusal(self, update: RefUpdate) -> str | None:
        if self.only_branch is None:
            return (
                None
                if update.name.startswith(_WRITABLE)
                else "only branches and tags can be pushed"
            )
        if update.name != f"refs/heads/{self.only_branch}":
            return f"this job may write only refs/heads/{self.only_branch}"
        return "a job may not delete its branch" if update.deletes else None


async def open_door(request: Request) -> GitAccess:
    """Raises `unauthorized` without a good token, `not_found` for what the token cannot see."""
    context: WebContext = request.app.state.context
    token = token_of(request)
    if is_well_formed(token, JOB_CREDENTIAL_PREFIX):
        return await _door_for_job(request, context.db, token)
    caller = await caller_of(request)
    repo_id = await _repo_id(request, context.db, caller.organization_id)
    return GitAccess(repo_id, caller.key_id, caller.git_write)


async def _door_for_job(request: Request, db: Database, token: str) -> GitAccess:
    job = await db.fetch_one(
        "SELECT id, organization_id, repo_id, branch FROM jobs"
        " WHERE credential_hash = :hash AND status IN ('queued', 'running')"
        " AND lease_expires_at > /*sqlite :now */"
        "/*postgresql CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) */",
        hash=token_hash(token),
        now=now_ms(),
    )
    if job is None:
        raise unauthorized("This job credential is not valid, or no longer.")
    repo_id = await _repo_id(request, db, job["organization_id"])
    if repo_id != job["repo_id"]:
        raise _not_found()
    return GitAccess(repo_id, job["id"], job["branch"] is not None, job["branch"])


async def _repo_id(request: Request, db: Database, organization_id: str) -> str:
    """The same answer for what is not there and what is another organization's."""
    place = request.path_params
    full_name = f"{place['owner']}/{place['name']}"
    row = None
    if "\x00" not in full_name + place["org"]:
        row = await db.fetch_one(
            "SELECT r.id FROM repos r JOIN organizations o ON o.id = r.organization_id"
            " WHERE o.id = :organization_id AND o.name = :organization"
            " AND r.full_name = :full_name AND r.platform = 'local' AND r.disconnected_at IS NULL",
            organization_id=organization_id,
            organization=place["org"],
            full_name=full_name,
        )
    if row is None:
        raise _not_found()
    repo_id: str = row["id"]
    return repo_id


def _not_found() -> Problem:
    return Problem("not_found", "There is no such repository in this key's organization.")
