"""Labels and reviewers of a pull request on Gitea: what cannot be had becomes a note.

Refuses to fail: the pull request is there already, with them or without.
"""

from collections.abc import Iterable

from agentjobs.forges.gitea.pulls import numbered_pages
from agentjobs.forges.gitea.responses import Label, Pull
from agentjobs.forges.http.client import PlatformApi, path_of
from agentjobs.forges.protocol import ForgeError, PullRequestRequest
from agentjobs.forges.text import shown

READS_ISSUES = "read:issue"
WRITES_ISSUES = "write:issue"
MOST_REVIEWERS = 20
_COLOUR = "#ededed"


class PullExtras:
    """`repository` is a path of the API, `owner` whom its teams belong to, `account` ourselves."""

    def __init__(self, api: PlatformApi, repository: str, owner: str, account: str | None) -> None:
        self._api = api
        self._repository = repository
        self._owner = owner
        self._account = account

    async def fulfil(self, pull: Pull, request: PullRequestRequest) -> tuple[str, ...]:
        return (
            *await self._label(pull, request.labels),
            *await self._ask_reviewers(pull, request.reviewers),
        )

    async def _label(self, pull: Pull, wanted: Iterable[str]) -> list[str]:
        """Gitea takes identifiers of labels that exist."""
        there = {label.name.casefold() for label in pull.labels or ()}
        names = {shown(name).casefold(): shown(name) for name in wanted if shown(name)}
        missing = [name for key, name in names.items() if key not in there]
        if not missing:
            return []
        try:
            identifiers, notes = await self._identifiers(missing)
            if identifiers:
                path = f"{self._repository}/issues/{pull.number}/labels"
                await self._api.post(path, {"labels": identifiers}, needs=WRITES_ISSUES)
        except ForgeError as error:
            return [f"The labels {', '.join(missing)} were not set: {error}"]
        return notes

    async def _identifiers(self, names: list[str]) -> tuple[list[int], list[str]]:
        known = await self._known_labels(f"{self._repository}/labels")
        if any(name.casefold() not in known for name in names):
            known = {**await self._labels_of_owner(), **known}
        found, notes = [], []
        for name in names:
            try:
                found.append(known.get(name.casefold()) or await self._new_label(name))
            except ForgeError as error:
                notes.append(f"The label {name!r} was not set: {error}")
        return found, notes

    async def _known_labels(self, path: str) -> dict[str, int]:
        found: dict[str, int] = {}
        async for page in numbered_pages(self._api, list[Label], path, needs=READS_ISSUES):
            found |= {label.name.casefold(): label.id for label in page}
        return found

    async def _labels_of_owner(self) -> dict[str, int]:
        """None of a person's, and none without a permission that is not worth asking for."""
        try:
            return await self._known_labels(f"{path_of('orgs', self._owner)}/labels")
        except ForgeError:
            return {}

    async def _new_label(self, name: str) -> int:
        body = {"name": name, "color": _COLOUR}
        path = f"{self._repository}/labels"
        return (await self._api.send_as(Label, "POST", path, body, needs=WRITES_ISSUES)).id

    async def _ask_reviewers(self, pull: Pull, wanted: Iterable[str]) -> list[str]:
        ourselves = {self._account, pull.user.login if pull.user else None}
        left_out = pull.asked_reviewers | {login.casefold() for login in ourselves if login}
        names = {name.casefold(): name for name in (shown(one).removeprefix("@") for one in wanted)}
        asked = [name for key, name in names.items() if key and key not in left_out]
        notes = []
        # One by one: Gitea refuses all of them for one it does not know.
        for name in asked[:MOST_REVIEWERS]:
            note = await self._ask_reviewer(pull, name)
            notes += [note] if note else []
        if len(asked) > MOST_REVIEWERS:
            notes.append(f"Only the first {MOST_REVIEWERS} reviewers were asked.")
        return notes

    async def _ask_reviewer(self, pull: Pull, name: str) -> str | None:
        owner, _, team = name.rpartition("/")
        if owner and owner.casefold() != self._owner.casefold():
            return f"The team @{name} was not asked for a review: it is not one of {self._owner}."
        if f"/{team.casefold()}" in pull.asked_reviewers:
            return None
        body = {"team_reviewers": [team]} if owner else {"reviewers": [name]}
        path = f"{self._repository}/pulls/{pull.number}/requested_reviewers"
        try:
            # What Gitea does not find here is somebody, not a permission.
            answer = await self._api.post(path, body)
        except ForgeError as error:
            return f"@{name} was not asked for a review: {error}"
        # A person has no teams, about which Gitea says nothing; nor does it when one was asked
        # before, which an older version does not tell.
        if owner and not answer and pull.requested_reviewers_teams is not None:
            return f"@{name} was not asked for a review: Gitea knows no such team."
        return None
