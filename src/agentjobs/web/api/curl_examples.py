"""The request of an operation as a command of curl, from the examples in the OpenAPI document."""

import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

URL = '"$AGENTJOBS_URL{path}"'
KEY = '-H "Authorization: Bearer $AGENTJOBS_API_KEY"'
_REPEATABLE = "Idempotency-Key"


def curl_example(method: str, path: str, operation: Mapping[str, Any]) -> str:
    """It runs in a shell that has AGENTJOBS_URL and AGENTJOBS_API_KEY."""
    arguments = []
    for parameter in operation.get("parameters", ()):
        name, example = parameter["name"], parameter.get("example")
        if parameter["in"] == "path":
            path = path.replace(f"{{{name}}}", str(example))
        elif name == _REPEATABLE:
            arguments.append(f"-H {shlex.quote(f'{name}: {example}')}")
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["example"]
        text = msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
        arguments += ['-H "Content-Type: application/json"', f"-d {shlex.quote(text)}"]
    elif method == "POST":
        arguments.append("-X POST")
    return " \\\n  ".join([f"curl -sS {URL.format(path=path)}", KEY, *arguments])
