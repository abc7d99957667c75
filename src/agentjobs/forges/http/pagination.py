"""How much of a list is read before it is taken for one without an end. Pure."""

from typing import Any, NamedTuple

from agentjobs.forges.http.responses import Answer, ApiError

# Asked for are a hundred at most.
MOST_ON_A_PAGE = 1_000


class Bounds(NamedTuple):
    pages: int = 50
    size_bytes: int = 32 * 2**20


# Of all repositories that a connection sees; who asks keeps only a few words of each.
ALL_REPOSITORIES = Bounds(1_000, 2**30)


class PagesRead:
    """Of one list, so far."""

    def __init__(self, platform: str, bounds: Bounds) -> None:
        self._platform = platform
        self._bounds = bounds
        self._pages = 0
        self._bytes = 0

    def note(self, answer: Answer) -> None:
        """Raises ApiError once it is too much."""
        self._pages += 1
        self._bytes += len(answer.body)
        if self._pages > self._bounds.pages or self._bytes > self._bounds.size_bytes:
            raise without_an_end(self._platform)

    def plausible(self, page: Any) -> None:
        if isinstance(page, list) and len(page) > MOST_ON_A_PAGE:
            raise without_an_end(self._platform)


def without_an_end(platform: str) -> ApiError:
    return ApiError(f"{platform} lists without an end.", "refused")
