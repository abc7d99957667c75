"""The exception that every feature raises to refuse a request.

It has a code and a message. The HTTP and command line layers turn it into a status or an exit code.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from msgspec import Meta


class Fault(TypedDict):
    """Why one field of a request was refused."""

    field: Annotated[str, Meta(description="The field, such as `config_override.title`.")]
    message: Annotated[str, Meta(description="What is wrong with its value.")]


Details = Sequence[Fault] | Mapping[str, Any]


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
