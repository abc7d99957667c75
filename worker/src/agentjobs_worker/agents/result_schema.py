"""The JSON Schema that the JSON result of an agent must fit, as declared in `agentjobs.toml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

MAX_SCHEMA_BYTES = 64 * 1024


def load_schema(declared: str | Mapping[str, Any]) -> dict[str, Any] | None:
    """None for an empty string. Raises ValueError; the reason continues the field's name."""
    # An empty table is a schema that any JSON fits.
    if declared == "":
        return None
    text = _read_file(declared) if isinstance(declared, str) else msgspec.json.encode(declared)
    if len(text) > MAX_SCHEMA_BYTES:
        raise ValueError(f"must have at most {MAX_SCHEMA_BYTES // 1024} KiB")
    try:
        schema = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"must be a JSON object: {error}") from None
    # Takes long to import, and few deployments need it.
    from agentjobs_worker.agents.result_check import check_schema  # noqa: PLC0415 - see above

    check_schema(schema)
    return schema


def _read_file(path: str) -> bytes:
    if not path.startswith("/"):
        raise ValueError("must be a table, or the absolute path of a file")
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
