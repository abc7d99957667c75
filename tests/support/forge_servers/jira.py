"""Jira's contract server, as Cloud or as Data Center: issues that tests fill, links recorded."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tests.support.forge_servers.calls import Call, Refusal, Response, handles
from tests.support.forge_servers.contract_server import ContractServer
from tests.support.forge_servers.description import Description

ACCOUNT = "bot@example.com"
_UNKNOWN = "Issue does not exist or you do not have permission to see it."


@dataclass
class JiraIssue:
    key: str
    summary: str = "A ticket"
    description: str | None = None
    labels: list[str] = field(default_factory=list)
    former_keys: tuple[str, ...] = ()
    may_link: bool = True
    links: dict[str, dict[str, Any]] = field(default_factory=dict)


class JiraServer(ContractServer):
    platform: ClassVar[str] = "jira"

    def __init__(self, directory: Path, *, is_cloud: bool) -> None:
        super().__init__(Description.read("jira"), directory)
        self.is_cloud = is_cloud
        self.issues: list[JiraIssue] = []

    @property
    def jira_account(self) -> str | None:
        return ACCOUNT if self.is_cloud else None

    def add_issue(self, key: str, **fields: Any) -> JiraIssue:
        issue = JiraIssue(key, **fields)
        self.issues.append(issue)
        return issue

    def error(self, refusal: Refusal) -> Any:
        return {"errorMessages": [refusal.message], "errors": {}, **refusal.more}

    def header_faults(self, headers: Mapping[str, str]) -> list[str]:
        scheme = headers.get("Authorization", "").partition(" ")[0]
        expected_scheme = "Basic" if self.is_cloud else "Bearer"
        other = (
            []
            if scheme == expected_scheme
            else [f"the credential should be shown as {expected_scheme}"]
        )
        return [*super().header_faults(headers), *other]

    def admit(self, call: Call) -> None:
        """Cloud treats an unknown credential as anonymous, which sees no issue."""
        if self._is_known(call):
            return
        if self.is_cloud and "/issue/" in call.name:
            raise Refusal(404, _UNKNOWN, {"X-Seraph-LoginReason": "AUTHENTICATED_FAILED"})
        raise Refusal(401, "You are not authenticated.")

    @handles("GET /rest/api/2/serverInfo")
    async def server_info(self, _: Call) -> Response:
        return Response({"baseUrl": "https://acme.atlassian.net", "deploymentType": "Cloud"})

    @handles("GET /rest/api/2/myself")
    async def myself(self, _: Call) -> Response:
        if self.is_cloud:
            return Response({"accountId": "5b10", "emailAddress": ACCOUNT, "displayName": "Bot"})
        return Response({"key": "JIRAUSER1", "name": "bot", "displayName": "Bot"})

    @handles("GET /rest/api/2/issue/{issueIdOrKey}")
    async def issue(self, call: Call) -> Response:
        issue = self._issue(call)
        values = {
            "summary": issue.summary,
            "description": issue.description,
            "labels": issue.labels,
        }
        fields = call.query["fields"].split(",")
        return Response(
            {
                "id": "10002",
                "key": issue.key,
                "self": f"{self.url}{call.path}",
                "fields": {name: values[name] for name in fields},
            }
        )

    @handles("POST /rest/api/2/issue/{issueIdOrKey}/remotelink")
    async def link(self, call: Call) -> Response:
        issue = self._issue(call)
        if not issue.may_link:
            raise Refusal(403, "You do not have the permission to link issues.")
        is_new = call.body["globalId"] not in issue.links
        issue.links[call.body["globalId"]] = call.body
        return Response({"id": 1, "self": f"{self.url}{call.path}/1"}, 201 if is_new else 200)

    def _issue(self, call: Call) -> JiraIssue:
        key = call.values["issueIdOrKey"].upper()
        for issue in self.issues:
            if key in (issue.key, *issue.former_keys):
                return issue
        raise Refusal(404, _UNKNOWN)

    def _is_known(self, call: Call) -> bool:
        authorization = call.headers.get("Authorization", "")
        if not self.is_cloud:
            return authorization == f"Bearer {self.token}"
        coded = base64.b64encode(f"{ACCOUNT}:{self.token}".encode()).decode()
        return authorization == f"Basic {coded}"
