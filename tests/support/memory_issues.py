"""Issues of platforms, in memory: a platform of which only the issues can be read."""

from typing import Any

from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import Issue, PlatformError


class MemoryIssues:
    """Issues in memory for every connection; implements only what trackers use."""

    def __init__(self) -> None:
        self.issues = {("acme/shop", 12): "The cart is empty", ("acme/notes", 1): "Elsewhere"}
        self.error: PlatformError | None = None
        self.comments: list[tuple[str, int, str]] = []
        self.requested_connections: list[str] = []

    async def adapter_for(self, connection_id: str, _: RetryBudget) -> Any:
        self.requested_connections.append(connection_id)
        return self

    async def issue(self, full_name: str, number: int) -> Issue:
        if self.error is not None:
            raise self.error
        title = self.issues.get((full_name, number))
        if title is None:
            raise PlatformError("no such thing", "gone")
        url = f"https://git.example.com/{full_name}/issues/{number}"
        return Issue(full_name, number, title, "Please\x00 mend it.", ("bug",), url)

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        self.comments.append((full_name, number, text))
