"""What tools and resources need of the REST API, wherever it runs, and how its errors arrive."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec


class RestRequest(NamedTuple):
    """`path` is relative to `/v1`; the API may take `wait_seconds` to respond."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Mapping[str, Any] | None = None
    accept: str = "application/json"
    wait_seconds: int = 0


class RestResponse(NamedTuple):
    """A successful response; names of headers are in lower case."""

    body: bytes
    headers: Mapping[str, str]


class RestError(Exception):
    """The API refused a request, or could not be reached."""

    def __init__(self, code: str, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        faults = self.details if isinstance(self.details, list) else []
        lines = [
            f"- {fault.get('field')}: {fault.get('message')}"
            for fault in faults
            if isinstance(fault, dict)
        ]
        return "\n".join((f"{self.message} ({self.code})", *lines))


class RestApi(Protocol):
    """The REST API as the holder of one API key sees it."""

    async def send(self, request: RestRequest) -> RestResponse:
        """Raises RestError."""
        ...

    async def is_read_only(self) -> bool:
        """Whether the key may only read."""
        ...


async def fetch_json(api: RestApi, request: RestRequest, *required: str) -> dict[str, Any]:
    """The document of a response, which must have the `required` fields."""
    response = await api.send(request)
    try:
        document = msgspec.json.decode(response.body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise unexpected_response(request, str(error)) from None
    missing = [name for name in required if name not in document]
    if missing:
        raise unexpected_response(request, f"it has no {missing[0]}")
    return document


async def fetch_job(
    api: RestApi, job_id: str, *action: str, method: str = "GET", wait_seconds: int = 0
) -> dict[str, Any]:
    query = {"wait_seconds": str(wait_seconds)} if wait_seconds else {}
    request = RestRequest(method, job_path(job_id, *action), query, wait_seconds=wait_seconds)
    return await fetch_json(api, request, "job_id", "status", "agent", "repo")


def unexpected_response(request: RestRequest, reason: str) -> RestError:
    return RestError(
        "unexpected_response",
        f"{request.path} returned an unexpected document: {reason}. Check that the address is the"
        " service's.",
    )


class _ErrorFields(msgspec.Struct):
    code: str
    message: str
    details: Any = None


class _ErrorBody(msgspec.Struct):
    error: _ErrorFields


def error_of(body: bytes) -> RestError:
    """The error of a response in the API's error shape."""
    fields = msgspec.json.decode(body, type=_ErrorBody).error
    return RestError(fields.code, fields.message, fields.details)


def job_path(job_id: str, *more: str) -> str:
    """For a well-formed job id, which needs no encoding."""
    return "/".join(("/jobs", job_id, *more))
