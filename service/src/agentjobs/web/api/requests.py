"""Reads a JSON body: checks content type, size, encoding and nesting, in this order.

Knows nothing about the fields.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from agentjobs.web.api.errors import HttpProblem
from agentjobs.web.api.headers import all_headers, header, media_type
from agentjobs.web.api.warnings import keep_body
from agentjobs.web.exchange import WHOLE_BODY
from agentjobs_runtime.json_nesting import MAX_NESTING, nests_too_deep
from agentjobs_runtime.problems import Fault, Problem
from agentjobs_runtime.safe_text import ellipsize

MAX_BODY_BYTES = 64 * 1024
# The rest of a body that is too large is read and discarded, so that the client gets the response.
MAX_DRAINED_BYTES = 1024 * 1024
MAX_NULL_FAULTS = 100
# Limit for each name in the path of a fault.
_MAX_NAME_CHARACTERS = 100
BODY_SECONDS = 60.0

_DECODER = msgspec.json.Decoder()
_CLOSE_CONNECTION = {"Connection": "close"}
_UTF8 = frozenset({"utf-8", "utf8", "us-ascii"})


async def read_object(scope: Scope, receive: Receive) -> dict[str, Any]:
    body = parse_object(await read_json(scope, receive))
    keep_body(scope, body)
    return body


async def read_optional_object(scope: Scope, receive: Receive) -> dict[str, Any]:
    """Empty without a body, which then needs no content type either."""
    content = await read_body(scope, receive)
    if not content:
        return {}
    check_content_type(scope)
    body = parse_object(content)
    keep_body(scope, body)
    return body


async def read_json(scope: Scope, receive: Receive) -> bytes:
    """The body as it was sent: its content type and size are checked, its content is not."""
    check_content_type(scope)
    return await read_body(scope, receive)


def check_content_type(scope: Scope) -> None:
    value = header(scope, b"content-type")
    if value == "application/json":
        return
    if media_type(value) == "application/json" and _charset(value or "") in _UTF8:
        return
    raise Problem(
        "unsupported_media_type",
        "Send the body as JSON in UTF-8, with `Content-Type: application/json`.",
    )


def check_content_encoding(scope: Scope) -> None:
    """A compressed body could expand without a limit, and nothing here needs one."""
    for value in all_headers(scope, b"content-encoding"):
        encodings = value.lower().split(b",")
        if any(encoding.strip() not in (b"", b"identity") for encoding in encodings):
            raise Problem("unsupported_media_type", "Send the body without compression.")


async def read_body(scope: Scope, receive: Receive, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    whole: bytearray | None = scope.get(WHOLE_BODY)
    if whole is not None:
        if len(whole) > max_bytes:
            raise _too_large(max_bytes, is_read=True)
        return bytes(whole)
    announced = header(scope, b"content-length") or ""
    if announced.isdecimal() and int(announced) > MAX_DRAINED_BYTES:
        raise _too_large(max_bytes, is_read=False)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _receive(receive, max_bytes)
    except TimeoutError:
        raise HttpProblem(
            "request_timeout",
            f"The body did not arrive within {BODY_SECONDS:.0f} seconds; send it again.",
            headers=_CLOSE_CONNECTION,
        ) from None


async def _receive(receive: Receive, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if size <= max_bytes:
            chunks.append(chunk)
        elif size > MAX_DRAINED_BYTES:
            break
    if size > max_bytes:
        raise _too_large(max_bytes, is_read=not more)
    return b"".join(chunks)


def parse_object(body: bytes) -> dict[str, Any]:
    if not body.strip():
        raise _invalid_json("The body is empty; send a JSON object.")
    try:
        value = _DECODER.decode(body)
    except UnicodeDecodeError:
        raise _invalid_json("The body is not valid UTF-8.") from None
    except msgspec.DecodeError as error:
        raise _invalid_json(f"The body is not valid JSON: {error}.") from None
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(value, dict):
        raise _invalid_json("The body must be a JSON object, like {…}.")
    if nests_too_deep(value, body):
        raise _too_deep()
    return value


def null_character_faults(body: dict[str, Any]) -> list[Fault]:
    """The paths of strings with a null character, which is valid JSON but cannot be stored."""
    faults: list[Fault] = list(islice(_null_character_faults("", body), MAX_NULL_FAULTS))
    return sorted(faults, key=lambda fault: fault["field"])


def _null_character_faults(path: str, value: Any) -> Iterator[Fault]:
    """Recursive, so that only the paths of one branch are in memory."""
    if isinstance(value, str) and "\x00" in value:
        yield {"field": path, "message": "must not contain null characters"}
    elif isinstance(value, dict):
        for name, inner in value.items():
            visible = ellipsize(name.replace("\x00", "\\0"), _MAX_NAME_CHARACTERS)
            inner_path = f"{path}.{visible}" if path else visible
            if "\x00" in name:
                yield {"field": inner_path, "message": "must not have null characters in its name"}
            yield from _null_character_faults(inner_path, inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _null_character_faults(f"{path}[{index}]", inner)


def _charset(content_type: str) -> str:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "charset":
            return value.strip('" ').lower()
    return "utf-8"


def _invalid_json(message: str) -> Problem:
    return Problem("invalid_json", message)


def _too_deep() -> Problem:
    return _invalid_json(f"The body nests deeper than {MAX_NESTING} levels.")


def _too_large(max_bytes: int, *, is_read: bool) -> Problem:
    return HttpProblem(
        "payload_too_large",
        f"The body is larger than {max_bytes:,} bytes.",
        # The client is still sending, so the connection cannot be reused.
        headers={} if is_read else _CLOSE_CONNECTION,
    )
