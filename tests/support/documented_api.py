"""A service that answers each request with the example of the OpenAPI document."""

import json
import re
from collections.abc import Mapping
from typing import Any

import httpx

from scripts.reference.examples import Operation, operations_of
from tests.support.paths import PROJECT

DOCUMENT: Mapping[str, Any] = json.loads((PROJECT / "docs" / "openapi.json").read_text())
OPERATIONS = operations_of(DOCUMENT)
BASE_URL = "http://service.example/v1"


class EnoughRequests(Exception):
    """Ends programs that follow something without end."""


def example_transport(
    requests: list[tuple[Operation, httpx.Request]], max_requests: int = 20
) -> httpx.MockTransport:
    def respond(request: httpx.Request) -> httpx.Response:
        if len(requests) == max_requests:
            raise EnoughRequests
        operation = operation_of(request)
        requests.append((operation, request))
        return _example_response(operation, request)

    return httpx.MockTransport(respond)


def operation_of(request: httpx.Request) -> Operation:
    path = request.url.path.removeprefix("/v1")
    matches = [
        each
        for each in OPERATIONS.values()
        if each.method == request.method and _pattern(each).fullmatch(path)
    ]
    # `/repos/{repo_id}` also matches the path of its dependencies.
    return max(matches, key=lambda each: each.path.count("/"))


def _pattern(operation: Operation) -> re.Pattern[str]:
    """A repository may be named by its full name, which has a slash."""
    segment = "[^/]+(?:/[^/]+)?" if operation.id == "getRepo" else "[^/]+"
    return re.compile(re.sub(r"\{\w+\}", segment, operation.path))


def _example_response(operation: Operation, request: httpx.Request) -> httpx.Response:
    """In the form that the request accepts."""
    status, response = operation.success
    content = response["content"]
    accepted = [media for media in content if media in request.headers["Accept"]]
    media_type = (accepted or list(content))[0]
    example = content[media_type].get("example", "")
    text = example if isinstance(example, str) else json.dumps(example)
    return httpx.Response(int(status), text=text, headers={"Content-Type": media_type})
