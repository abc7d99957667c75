"""Writes the OpenAPI document to docs/openapi.json; clients are generated from the file."""

import json
from pathlib import Path

from agentjobs.web.api.openapi import build_document
from agentjobs.web.api.operations import BASE, OPERATIONS

PATH = Path(__file__).parents[1] / "docs" / "openapi.json"


def render() -> str:
    """Sorted, so that the order of declarations does not matter."""
    document = build_document(OPERATIONS, base=BASE)
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
