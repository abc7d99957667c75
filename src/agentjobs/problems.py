"""The one exception a feature raises when a caller asked for something it cannot have.

Knows codes and words, never HTTP statuses or exit codes: the edges translate.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Details = Sequence[Mapping[str, Any]] | Mapping[str, Any]


class Problem(Exception):
    """A refusal with a stable code and a message that says what to do next."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Details | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.retry_after_seconds = retry_after_seconds
