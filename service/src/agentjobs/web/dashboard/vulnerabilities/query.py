"""The query parameters of /vulnerabilities."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.web.dashboard.list_query import ListQuery
from agentjobs.web.dashboard.vulnerabilities.package_filters import FILES, Files
from agentjobs_dependencies.advisories.severity import Level
from agentjobs_dependencies.model import Imported

PATH = "/vulnerabilities"
# By query parameter: whether to list what was dismissed or snoozed; None for both.
STATES: Mapping[str, bool | None] = {"": False, "dismissed": True, "all": None}
STATE_OPTIONS = [("", "open"), ("dismissed", "dismissed"), ("all", "all")]


class Query(ListQuery, frozen=True, kw_only=True):
    """The empty string means any; of `group`, by package; of `state`, open."""

    q: str = ""
    severity: Literal[Level, ""] = ""
    repo: str = ""
    files: Files = ""
    imported: Literal[Imported, ""] = ""
    state: Literal["", "dismissed", "all"] = ""
    group: Literal["", "advisory"] = ""
    after: Annotated[str, Meta(pattern="^[0-9]{4}fnd_[0-9a-z]{26}$")] = ""

    def filter(self, repo_id: str | None) -> FindingFilter:
        return FindingFilter(
            repo_id=repo_id,
            severity=self.severity or None,
            search=self.q or None,
            fixture=FILES[self.files],
            imported=self.imported or None,
            decided=STATES[self.state],
        )
