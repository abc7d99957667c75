"""Finds the line of `.agentjobs.toml` a key is set in: the parser does not keep it."""

import re

_HEADER = re.compile(r"\s*\[\s*(?P<name>[^\[\]]+?)\s*\]\s*(#.*)?$")


def line_of(text: str, key: str, agent_id: str = "") -> int:
    """The 1-based line; the table's own, or 1, when the key is written in some unusual way."""
    table, of_table = "", 1
    setting = re.compile(rf"\s*(?:{_agent_prefix(agent_id)})?[\"']?{re.escape(key)}[\"']?\s*[=.]")
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _table_name(header["name"])
            if table in {f"agents.{agent_id}", key} or table.startswith(f"{key}."):
                of_table = number if of_table == 1 else of_table
        elif table in {"", f"agents.{agent_id}"} and setting.match(line):
            return number
    return of_table


def _table_name(written: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in written.split("."))


def _agent_prefix(agent_id: str) -> str:
    return rf"agents\s*\.\s*[\"']?{re.escape(agent_id)}[\"']?\s*\.\s*" if agent_id else ""
