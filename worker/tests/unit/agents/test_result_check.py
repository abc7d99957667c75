"""JSON Schemas of agents, and results that must fit them."""

import re
from pathlib import Path
from typing import Any

import pytest

from agentjobs_worker.agents.result import MAX_SCHEMA_BYTES, load_schema
from agentjobs_worker.agents.result_check import CheckRequest, find_faults

SCHEMA = {
    "type": "object",
    "properties": {"risk": {"$ref": "#/$defs/risk"}, "files": {"type": "array"}},
    "required": ["risk"],
    "additionalProperties": False,
    "$defs": {"risk": {"enum": ["low", "high"]}},
}


def faults(content: bytes, schema: dict[str, Any] | None = None) -> list[str]:
    return find_faults(CheckRequest(SCHEMA if schema is None else schema, content))


def test_a_document_that_fits_has_no_faults() -> None:
    assert faults(b'{"risk": "low", "files": []}') == []


def test_the_first_faults_name_their_place() -> None:
    found = faults(b'{"risk": "none", "files": 3, "more": 1}')
    assert {fault.partition(":")[0] for fault in found} == {"$", "$.risk", "$.files"}
    assert len(faults(b"[" + b'"x",' * 50 + b"1]", {"items": {"type": "object"}})) == 5


def test_a_fault_does_not_repeat_a_long_document() -> None:
    (fault,) = faults(b'{"risk": "' + b"x" * 10_000 + b'"}')
    assert len(fault) == 300


@pytest.mark.parametrize(
    "content", [b"", b"{", b"{'risk': 1}", b"NaN", b"\xff", b'{"risk": "\\ud800"}', b"\0"]
)
def test_what_is_not_json_is_a_fault(content: bytes) -> None:
    (fault,) = faults(content, {})
    assert fault.startswith("it is not JSON: ")


def test_deep_nesting_is_a_fault() -> None:
    for levels in (65, 500, 5_000):
        for opening, closing in ((b"[", b"]"), (b'{"a":[', b"]}")):
            deep = opening * levels + closing * levels
            assert faults(deep, {"items": {"$ref": "#"}}) == ["it nests deeper than 64 levels"]
    for content in (b"[" * 64 + b"]" * 64, b"[" + b"[], " * 500 + b"[]]", b'"' + b"[" * 65 + b'"'):
        assert faults(content, {"items": {"$ref": "#"}}) == []


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "objekt"}, "is not a valid JSON Schema: $.type"),
        ({"properties": 3}, "is not a valid JSON Schema: $.properties"),
        ({"pattern": "("}, "is not a valid JSON Schema"),
        ({"$ref": "https://example.com/schema.json"}, "refers to `https://example.com"),
        ({"items": [{"$ref": "#/$defs/x"}]}, "is not a valid JSON Schema"),
        ({"anyOf": [{"$ref": "#/$defs/x"}]}, "refers to `#/$defs/x`"),
        ({"$ref": "other.json"}, "refers to `other.json`"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "must be a schema of https"),
        ({"title": "x" * MAX_SCHEMA_BYTES}, "must have at most 64 KiB"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        load_schema(schema)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"7"])
def test_a_file_without_a_schema_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "schema.json").write_bytes(content)
    with pytest.raises(ValueError, match="must"):
        load_schema(str(tmp_path / "schema.json"))


def test_a_directory_is_no_schema(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_schema(str(tmp_path))
