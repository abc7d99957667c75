"""The contract servers' own measure: what a description lets pass, and what it does not."""

import pytest

from tests.support.forge_servers import openapi
from tests.support.forge_servers.description import Description, Operation, parse_operations

_FACTS = [
    {
        "method": "POST",
        "path": "/projects/{id}/notes",
        "query": {"dry": "boolean", "page": "integer", "sort": {"type": "string", "enum": ["up"]}},
        "body": {
            "text": {"type": "string", "required": True},
            "labels": {"type": "array", "items": "string"},
            "place": {"type": "object", "nullable": True, "properties": {"line": "integer"}},
        },
        "response": {"id": "integer"},
    },
    {"method": "GET", "path": "/projects/own"},
    {
        "method": "GET",
        "path": "/projects/{id}",
        "query": {"q": {"type": "string", "required": True}},
    },
]
_SWAGGER = {
    "swagger": "2.0",
    "definitions": {
        "Note": {
            "type": "object",
            "required": ["text"],
            "properties": {"text": {"type": "string"}, "more": {"$ref": "#/definitions/Note"}},
        },
    },
    "paths": {
        "/notes": {
            "parameters": [{"in": "query", "name": "page", "type": "integer"}],
            "post": {
                "parameters": [
                    {"in": "body", "name": "body", "schema": {"$ref": "#/definitions/Note"}}
                ],
                "responses": {"201": {"schema": {"$ref": "#/definitions/Note"}}},
            },
        },
    },
}


def notes() -> Operation:
    match = Description(parse_operations(_FACTS)).match("POST", "/projects/a%2Fb/notes")
    assert match is not None
    assert match.values == {"id": "a/b"}
    return match.operation


def test_a_literal_path_matches_before_a_placeholder() -> None:
    description = Description(parse_operations(_FACTS))
    own, other = description.match("GET", "/projects/own"), description.match("GET", "/projects/x")
    assert own is not None
    assert own.operation.path == "/projects/own"
    assert other is not None
    assert other.operation.path == "/projects/{id}"
    assert description.match("GET", "/projects/a/b") is None
    assert description.match("DELETE", "/projects/own") is None
    assert list(other.operation.request_faults([], None)) == ["the query parameter 'q' is missing"]


@pytest.mark.parametrize(
    ("query", "body", "fault"),
    [
        ([("other", "1")], {"text": "a"}, "'other' is not described"),
        ([("page", "one")], {"text": "a"}, "whole number"),
        ([("dry", "1")], {"text": "a"}, "true or false"),
        ([("sort", "down")], {"text": "a"}, "one of"),
        ([], None, "the body is missing"),
        ([], [], "body should be object, not list"),
        ([], {}, "body.text is missing"),
        ([], {"text": 1}, "body.text should be string, not int"),
        ([], {"text": None}, "body.text should be string, not NoneType"),
        ([], {"text": "a", "labels": ["a", True]}, "body.labels[1] should be string, not bool"),
        ([], {"text": "a", "labels": "a,b"}, "body.labels should be array, not str"),
        ([], {"text": "a", "place": {"column": 1}}, "body.place.column is not described"),
        ([], {"text": "a", "title": "b"}, "body.title is not described"),
    ],
)
def test_the_faults_of_a_request_are_listed(
    query: list[tuple[str, str]], body: object, fault: str
) -> None:
    (message,) = notes().request_faults(query, body)
    assert fault in message


def test_valid_values_pass() -> None:
    query = [("dry", "true"), ("page", "2"), ("sort", "up")]
    body = {"text": "a", "labels": ["x"], "place": None}
    assert list(notes().request_faults(query, body)) == []
    assert list(notes().response_faults([{"id": 1}])) == []
    assert list(notes().response_faults({"id": 1, "secret": 2})) != []


def test_published_descriptions_are_read_with_their_references() -> None:
    (operation,) = openapi.operations(_SWAGGER, ["POST /notes"])
    assert list(operation.request_faults([("page", "1")], {"text": "", "more": {"text": ""}})) == []
    assert list(operation.request_faults([], {"text": "", "more": {}})) == [
        "body.more.text is missing"
    ]
    assert list(operation.response_faults({"more": {"text": 1}})) != []
    with pytest.raises(KeyError):
        list(openapi.operations(_SWAGGER, ["GET /notes"]))
