"""The query parameters of /vulnerabilities."""

import re
from collections.abc import Callable, Mapping
from typing import Literal
from urllib.parse import urlencode

import msgspec

from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.web.dashboard.vulnerabilities.package_filters import FILES, read_imported
from agentjobs_dependencies.advisories.severity import LEVELS

PATH = "/vulnerabilities"
# By query parameter: whether to list what was dismissed or snoozed; None for both.
STATES: Mapping[str, bool | None] = {"": False, "dismissed": True, "all": None}
STATE_OPTIONS = [("", "open"), ("dismissed", "dismissed"), ("all", "all")]
_is_cursor = re.compile(r"[0-9]{4}fnd_[0-9a-z]{26}").fullmatch


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """The empty string means any; of `group`, by package; of `state`, open."""

    q: str = ""
    severity: str = ""
    repo: str = ""
    files: str = ""
    imported: str = ""
    state: str = ""
    group: Literal["", "advisory"] = ""
    after: str = ""

    @property
    def is_narrowed(self) -> bool:
        fields = msgspec.structs.asdict(self)
        return any(text for name, text in fields.items() if name not in ("after", "group"))

    def address(self, page_url: str, **changes: str) -> str:
        fields = {**msgspec.structs.asdict(self), **changes}
        query = urlencode({name: text for name, text in fields.items() if text})
        return f"{page_url}?{query}" if query else page_url

    def filter(self, repo_id: str | None) -> FindingFilter:
        return FindingFilter(
            repo_id=repo_id,
            severity=self.severity or None,
            search=self.q or None,
            fixture=FILES[self.files],
            imported=read_imported(self.imported),
            decided=STATES[self.state],
        )


def read_query(get: Callable[[str], str]) -> Query:
    """`get` returns a parameter, or the empty string."""
    severity, files, state, after = (get(name) for name in ("severity", "files", "state", "after"))
    return Query(
        q=get("q")[:300],
        severity=severity if severity in LEVELS else "",
        repo=get("repo")[:300],
        files=files if files in FILES else "",
        imported=read_imported(get("imported")) or "",
        state=state if state in STATES else "",
        group="advisory" if get("group") == "advisory" else "",
        after=after if _is_cursor(after) else "",
    )
