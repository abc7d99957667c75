"""How much of a list of a platform is read; a list beyond that counts as endless."""

from typing import Any, NamedTuple

from agentjobs.forges.http.responses import ApiError, Response

# Adapters ask for at most a hundred.
MAX_PAGE_LENGTH = 1_000


class ListBounds(NamedTuple):
    pages: int = 50
    size_bytes: int = 32 * 2**20


USUAL = ListBounds()
# For listing all repositories of a connection, of which the caller keeps only a few fields.
ALL_REPOSITORIES = ListBounds(1_000, 2**30)


class ListLimits:
    """Counts what was read of one list; a list beyond the bounds counts as endless."""

    def __init__(self, platform: str, bounds: ListBounds) -> None:
        self._platform = platform
        self._bounds = bounds
        self._pages = 0
        self._bytes = 0

    def count(self, response: Response) -> None:
        """Raises ApiError beyond the bounds."""
        self._pages += 1
        self._bytes += len(response.body)
        if self._pages > self._bounds.pages or self._bytes > self._bounds.size_bytes:
            raise endless_list(self._platform)

    def check_length(self, page: Any) -> None:
        if isinstance(page, list) and len(page) > MAX_PAGE_LENGTH:
            raise endless_list(self._platform)


def endless_list(platform: str) -> ApiError:
    return ApiError(f"{platform} returned an endless list.", "unusable")
