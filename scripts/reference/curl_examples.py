"""The request of an operation as a command of curl, from the examples in the OpenAPI document."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

URL = '"$AGENTJOBS_URL{path}"'
KEY = '-H "Authorization: Bearer $AGENTJOBS_API_KEY"'
_REPEATABLE = "Idempotency-Key"


def curl_example(
    method: str,
    path: str,
    operation: Mapping[str, Any],
    *,
    query: Collection[str] = (),
    options: str = "",
) -> str:
    """It runs in a shell that has AGENTJOBS_URL and AGENTJOBS_API_KEY.

    `query` names the query parameters that it sends, `options` are further ones of curl.
    """
    arguments = [options] if options else []
    pairs: list[tuple[str, str]] = []
    for parameter in operation.get("parameters", ()):
        name, example = parameter["name"], parameter.get("example")
        if parameter["in"] == "path":
            path = path.replace(f"{{{name}}}", quote(str(example)))
        elif parameter["in"] == "query" and name in query:
            pairs += _pairs(name, example)
        elif name == _REPEATABLE:
            arguments.append(f"-H {shlex.quote(f'{name}: {example}')}")
    if pairs:
        path = f"{path}?{urlencode(pairs)}"
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["example"]
        text = msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
        arguments += ['-H "Content-Type: application/json"', f"-d {shlex.quote(text)}"]
    elif method == "POST":
        arguments.append("-X POST")
    return " \\\n  ".join([f"curl -sS {URL.format(path=path)}", KEY, *arguments])


def _pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield name, ",".join(value)
    else:
        yield name, msgspec.json.encode(value).decode() if isinstance(value, bool) else str(value)
