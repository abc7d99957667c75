"""Reports a job's result on GitHub: as a check run if an App may write checks, else as a status."""

from typing import Annotated

import msgspec

from agentjobs.platforms.adapter import commit_status
from agentjobs.platforms.github.access import GitHubAccess
from agentjobs.platforms.github.app import Scope, missing_permissions
from agentjobs.platforms.http.client import MAX_PAGE_LENGTH, PlatformApi, build_path
from agentjobs.platforms.http.urls import repo_path
from agentjobs.platforms.protocol import STATUS_NAME, CommitStatus, PlatformError

_CHECKS = "Checks: read and write"
_STATUSES = "Commit statuses: read and write"
_MAX_DESCRIPTION = 140


class CheckRun(msgspec.Struct, frozen=True):
    id: int


class CheckRunPage(msgspec.Struct, frozen=True):
    check_runs: Annotated[list[CheckRun], msgspec.Meta(max_length=MAX_PAGE_LENGTH)]


class StatusWriter:
    def __init__(self, access: GitHubAccess, scope: Scope, full_name: str) -> None:
        self._access = access
        self._scope = scope
        self._api: PlatformApi = access.api(scope)
        self._path = repo_path(full_name)

    async def write(self, status: CommitStatus) -> None:
        try:
            await self._write(status)
        except PlatformError as error:
            if error.fault != "denied" or not self._access.is_app:
                raise
            # The permission may have been granted after the token was issued.
            self._access.forget_permissions(self._scope)
            await self._write(status)

    async def _write(self, status: CommitStatus) -> None:
        if not self._access.is_app:
            await self._write_status(status)
            return
        granted = (await self._access.app_token(self._scope)).permissions
        if not missing_permissions(granted, {"checks": "write"}):
            await self._write_check_run(status)
        elif not missing_permissions(granted, {"statuses": "write"}):
            await self._write_status(status)
        else:
            raise PlatformError(
                f"The GitHub App needs the permission “{_CHECKS}” or “{_STATUSES}” to report the"
                " results of jobs.",
                "denied",
            )

    async def _write_status(self, status: CommitStatus) -> None:
        path = f"{self._path}{build_path('statuses', status.commit)}"
        await self._api.post(path, commit_status(status, _MAX_DESCRIPTION), needs=_STATUSES)

    async def _write_check_run(self, status: CommitStatus) -> None:
        body: dict[str, object] = {
            "name": STATUS_NAME,
            "details_url": status.url,
            "output": {"title": status.description, "summary": status.description},
        }
        if status.state == "pending":
            body["status"] = "in_progress"
        else:
            body |= {"status": "completed", "conclusion": status.state}
        page = await self._api.get_as(
            CheckRunPage,
            f"{self._path}{build_path('commits', status.commit, 'check-runs')}",
            needs=_CHECKS,
            check_name=STATUS_NAME,
            app_id=self._access.app_id,
            per_page=1,
        )
        runs = f"{self._path}/check-runs"
        if page.check_runs:
            path = f"{runs}/{page.check_runs[0].id}"
            await self._api.request("PATCH", path, body, needs=_CHECKS)
        else:
            await self._api.post(runs, {**body, "head_sha": status.commit}, needs=_CHECKS)
