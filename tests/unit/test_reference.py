"""The generated references name every operation, command and setting, and their examples work."""

import json
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec
import pytest

from agentjobs.cli.commands import COMMANDS, load_command
from agentjobs.web.api.error_codes import API_ERRORS
from agentjobs_client import Client
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.load import _OTHER_VARIABLES
from scripts.reference.api import render_api
from scripts.reference.commands import render_commands
from scripts.reference.curl_examples import curl_example
from scripts.reference.examples import (
    CALLS,
    Operation,
    curl,
    python,
    python_literal,
    typescript_literal,
)
from scripts.reference.settings import render_settings, rows_of
from tests.support.documented_api import BASE_URL, DOCUMENT, OPERATIONS, example_transport
from tests.support.paths import PROJECT


@pytest.fixture(params=sorted(OPERATIONS))
def operation(request: pytest.FixtureRequest) -> Operation:
    return OPERATIONS[request.param]


def path_of(operation: Operation) -> str:
    """With the examples of the document."""
    path = operation.path
    for parameter in operation.parameters("path"):
        path = path.replace(f"{{{parameter['name']}}}", parameter["example"])
    return f"/v1{path}"


def test_every_operation_has_examples() -> None:
    assert set(CALLS) == set(OPERATIONS)


def test_every_operation_is_in_the_api_reference(operation: Operation) -> None:
    pages = "\n".join(render_api(DOCUMENT).values())
    assert pages.count(f"\n`{operation.method} {operation.path}`\n") == 1
    assert curl(operation) in pages.replace("\n    ", "\n")


def test_every_object_and_error_code_is_in_the_api_reference() -> None:
    pages = render_api(DOCUMENT)
    names = re.findall(r"^## (\w+)$", pages["objects.md"], re.MULTILINE)
    assert names == list(DOCUMENT["components"]["schemas"])
    assert [code for code in API_ERRORS if f"`{code}`" not in pages["index.md"]] == []


def test_the_python_example_of_an_operation_sends_its_request(operation: Operation) -> None:
    requests: list[tuple[Operation, httpx.Request]] = []
    with Client(BASE_URL, "key", transport=example_transport(requests)) as client:
        exec(python(operation), {"client": client, "print": lambda *_, **__: None})
    assert {(sent.id, request.url.path) for sent, request in requests} == {
        (operation.id, path_of(operation))
    }
    if operation.body is not None:
        assert json.loads(requests[0][1].content) == operation.body


def test_the_curl_example_of_an_operation_sends_its_request(operation: Operation) -> None:
    words = shlex.split(curl(operation).replace("\\\n", " "))
    options = dict(pairwise(words))
    url = urlsplit(next(word for word in words if word.startswith("$AGENTJOBS_URL")))
    assert url.path.replace("$AGENTJOBS_URL", "/v1") == path_of(operation)
    names = {"label" if name.startswith("label.") else name for name, _ in parse_qsl(url.query)}
    assert names <= {parameter["name"] for parameter in operation.parameters("query")}
    assert options.get("-X", "POST" if "-d" in options else "GET") == operation.method
    assert (json.loads(options["-d"]) if "-d" in options else None) == operation.body


def test_curl_examples_quote_their_values() -> None:
    operation = {
        "parameters": [
            {"name": "name", "in": "path", "example": "a b"},
            {"name": "label", "in": "query", "example": {"label.team": "R&D"}},
            {"name": "draft", "in": "query", "example": True},
            {"name": "limit", "in": "query", "example": 5},
        ],
        "requestBody": {"content": {"application/json": {"example": {"prompt": "Don't `rm`"}}}},
    }
    words = shlex.split(curl_example("POST", "/x/{name}", operation, query=("label", "draft")))
    assert words[2] == "$AGENTJOBS_URL/x/a%20b?label.team=R%26D&draft=true"
    assert json.loads(words[-1]) == {"prompt": "Don't `rm`"}


def test_values_are_literals_of_their_language() -> None:
    value = {"a-b": [True, None, "x"], "c": {"d": 1.5}}
    assert python_literal(value) == '{"a-b": [True, None, "x"], "c": {"d": 1.5}}'
    assert typescript_literal(value) == '{ "a-b": [true, null, "x"], c: { d: 1.5 } }'


def leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    verbs = getattr(command, "commands", None)
    if verbs is None:
        yield path, command
    for name, verb in (verbs or {}).items():
        yield from leaves(f"{path} {name}", verb)


def test_every_command_and_option_is_in_the_command_reference() -> None:
    page = render_commands()
    section = re.compile(r"^#+ agentjobs ([\w -]+)\n(.*?)(?=^#+ |\Z)", re.MULTILINE | re.DOTALL)
    sections = dict(section.findall(page))
    commands = [leaf for name in COMMANDS for leaf in leaves(name, load_command(name))]
    assert len(commands) > 90
    for path, command in commands:
        for parameter in command.params:
            if not parameter.hidden:
                assert parameter.opts[0] in sections[path] or parameter.metavar in sections[path]


def test_the_table_of_settings_has_exactly_the_settings() -> None:
    rows = rows_of((PROJECT / "docs" / "operating.md").read_text())
    names = [name for row in rows for name in row.names]
    assert sorted(names) == sorted(field.name for field in msgspec.structs.fields(Settings))


def test_the_defaults_of_numbers_in_the_table_are_those_of_the_program() -> None:
    defaults = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    checked = 0
    for row in rows_of((PROJECT / "docs" / "operating.md").read_text()):
        stated = re.split(r", ?", row.default)
        numbers = [defaults[name] for name in row.names]
        if len(stated) == len(numbers) and all(re.fullmatch(r"[\d.]+", each) for each in stated):
            assert [float(each) for each in stated] == numbers, row.names
            checked += len(numbers)
    assert checked > 40


def test_the_settings_reference_names_every_variable() -> None:
    page = render_settings((PROJECT / "docs" / "operating.md").read_text())
    only_in_file = {"plans", "agents", "prices"}
    for field in msgspec.structs.fields(Settings):
        name = "config" if field.name == "config_file" else field.name
        expected = name if name in only_in_file else f"AGENTJOBS_{name.upper()}"
        assert f"`{expected}`" in page
    assert {name for name in _OTHER_VARIABLES if f"`AGENTJOBS_{name}`" not in page} == set()
