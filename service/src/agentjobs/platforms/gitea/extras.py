"""Labels and reviewers of a pull request on Gitea.

Errors become notes, because the pull request is open already.
"""

from collections.abc import Iterable

from agentjobs.platforms.gitea.pulls import PAGE
from agentjobs.platforms.gitea.responses import Label, Pull
from agentjobs.platforms.http.client import PlatformApi, build_path
from agentjobs.platforms.protocol import PlatformError, PullRequestRequest
from agentjobs.platforms.text import one_line

READ_ISSUES = "read:issue"
WRITE_ISSUES = "write:issue"
MAX_REVIEWERS = 20
_COLOUR = "#ededed"


class PullExtras:
    """`repository` is an API path, `owner` the owner of its teams, `account` the connection's."""

    def __init__(self, api: PlatformApi, repository: str, owner: str, account: str | None) -> None:
        self._api = api
        self._repository = repository
        self._owner = owner
        self._account = account

    async def apply(self, pull: Pull, request: PullRequestRequest) -> tuple[str, ...]:
        return (
            *await self._label(pull, request.labels),
            *await self._request_reviewers(pull, request.reviewers),
        )

    async def _label(self, pull: Pull, labels: Iterable[str]) -> list[str]:
        """Gitea accepts only IDs of existing labels."""
        existing = {label.name.casefold() for label in pull.labels or ()}
        names = {one_line(name).casefold(): one_line(name) for name in labels if one_line(name)}
        missing = [name for key, name in names.items() if key not in existing]
        if not missing:
            return []
        try:
            label_ids, notes = await self._label_ids(missing)
            if label_ids:
                path = f"{self._repository}/issues/{pull.number}/labels"
                await self._api.post(path, {"labels": label_ids}, needs=WRITE_ISSUES)
        except PlatformError as error:
            return [f"The labels {', '.join(missing)} were not set: {error}"]
        return notes

    async def _label_ids(self, names: list[str]) -> tuple[list[int], list[str]]:
        known = await self._known_labels(f"{self._repository}/labels")
        if any(name.casefold() not in known for name in names):
            known = {**await self._labels_of_owner(), **known}
        label_ids, notes = [], []
        for name in names:
            try:
                label_ids.append(known.get(name.casefold()) or await self._new_label(name))
            except PlatformError as error:
                notes.append(f"The label {name!r} was not set: {error}")
        return label_ids, notes

    async def _known_labels(self, path: str) -> dict[str, int]:
        labels = self._api.items(Label, path, needs=READ_ISSUES, limit=PAGE)
        return {label.name.casefold(): label.id async for label in labels}

    async def _labels_of_owner(self) -> dict[str, int]:
        """Empty for a person, or without a permission that is not worth requiring."""
        try:
            return await self._known_labels(f"{build_path('orgs', self._owner)}/labels")
        except PlatformError:
            return {}

    async def _new_label(self, name: str) -> int:
        body = {"name": name, "color": _COLOUR}
        path = f"{self._repository}/labels"
        return (await self._api.send_as(Label, "POST", path, body, needs=WRITE_ISSUES)).id

    async def _request_reviewers(self, pull: Pull, reviewers: Iterable[str]) -> list[str]:
        own_logins = {self._account, pull.user.login if pull.user else None}
        left_out = pull.requested_names | {login.casefold() for login in own_logins if login}
        names = {
            name.casefold(): name for name in (one_line(one).removeprefix("@") for one in reviewers)
        }
        requested = [name for key, name in names.items() if key and key not in left_out]
        notes = []
        # One request each: Gitea refuses all of them if one is unknown.
        for name in requested[:MAX_REVIEWERS]:
            note = await self._request_reviewer(pull, name)
            notes += [note] if note else []
        if len(requested) > MAX_REVIEWERS:
            notes.append(f"Only the first {MAX_REVIEWERS} reviewers were requested.")
        return notes

    async def _request_reviewer(self, pull: Pull, name: str) -> str | None:
        owner, _, team = name.rpartition("/")
        if owner and owner.casefold() != self._owner.casefold():
            return f"The team @{name} could not be requested: it does not belong to {self._owner}."
        if f"/{team.casefold()}" in pull.requested_names:
            return None
        body = {"team_reviewers": [team]} if owner else {"reviewers": [name]}
        path = f"{self._repository}/pulls/{pull.number}/requested_reviewers"
        try:
            # A 404 here means an unknown person, not a missing permission.
            response = await self._api.post(path, body)
        except PlatformError as error:
            return f"@{name} could not be requested as a reviewer: {error}"
        # Gitea silently ignores teams of a person. It also returns nothing for a team that was
        # requested before, which older versions do not list.
        is_empty = response.body.strip() in {b"", b"null", b"[]"}
        if owner and is_empty and pull.requested_reviewers_teams is not None:
            return f"@{name} could not be requested as a reviewer: Gitea has no such team."
        return None
