"""How much of a list of a platform is read; a list beyond that counts as endless."""

from typing import Any, NamedTuple

from agentjobs.platforms.http.responses import ApiError, Response

# Adapters ask for at most a hundred.
MAX_PAGE_LENGTH = 1_000


class ListBounds(NamedTuple):
    pages: int = 50
    size_bytes: int = 32 * 2**20


USUAL = ListBounds()
# Limit for listing a connection's repositories, of which the caller keeps only a few fields.
ALL_REPOSITORIES = ListBounds(1_000, 2**30)


class ListLimits:
    """Counts what was read of one list; a list beyond the bounds counts as endless."""

    def __init__(self, platform: str, bounds: ListBounds) -> None:
        self.items = 0
        self.page_length = 0
        self._platform = platform
        self._bounds = bounds
        self._pages = 0
        self._bytes = 0

    def count(self, response: Response, page: Any) -> None:
        """Raises ApiError beyond the bounds."""
        self.page_length = len(page) if isinstance(page, list) else 0
        self.items += self.page_length
        self._pages += 1
        self._bytes += len(response.body)
        is_beyond = self._pages > self._bounds.pages or self._bytes > self._bounds.size_bytes
        if is_beyond or self.page_length > MAX_PAGE_LENGTH:
            raise endless_list(self._platform)


def endless_list(platform: str) -> ApiError:
    return ApiError(f"{platform} returned an endless list.", "unusable")
