"""The reference of settings: the table of docs/operating.md, with the program's names and types."""

import re
from typing import NamedTuple

import msgspec

from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.load import ENVIRONMENT_PREFIX

_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (.*) \| (.*) \|$", re.MULTILINE)
# Only in the file.
_TABLES = "tables"
_TYPES = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    list[str]: "list",
    tuple[str, ...]: "list",
    tuple[float, ...]: "list of numbers",
}

INTRODUCTION = """---
hide:
  - toc
---

# Settings

Every setting is an environment variable or a key in `agentjobs.toml`: its name without the prefix,
in lower case. The file is in the data directory, or where `AGENTJOBS_CONFIG` points. Flags override
the environment, and the environment overrides the file. In a variable, the items of a list are
separated by commas.

[Operating agentjobs](../operating.md) explains how the parts work together.
"""

CLIENT = """## Variables of clients

| variable | meaning |
|---|---|
| `AGENTJOBS_URL`, `AGENTJOBS_API_KEY` | the service and the key of a client |
| `AGENTJOBS_CONTEXT` | the [context](../command-line.md#log-in) that client commands use |
| `AGENTJOBS_TRACEBACK` | with `1`, errors of commands show a traceback |
"""


class Row(NamedTuple):
    names: list[str]
    default: str
    meaning: str


def rows_of(page: str) -> list[Row]:
    """The table of settings of docs/operating.md."""
    section = page.partition("\n## Settings\n")[2].partition("\n## ")[0]
    return [
        Row(re.findall(r"\w+", names), default, meaning)
        for names, default, meaning in _ROW.findall(section)
    ]


def render_settings(page: str) -> str:
    types = {
        field.name: _TYPES.get(field.type, _TABLES) for field in msgspec.structs.fields(Settings)
    }
    lines = [INTRODUCTION, "| setting | default | meaning |", "|---|---|---|"]
    for row in rows_of(page):
        names = "<br>".join(_name(name, types[name]) for name in row.names)
        lines.append(f"| {names} | {_relink(row.default)} | {_relink(row.meaning)} |")
    return "\n".join([*lines, "", CLIENT])


def _name(name: str, kind: str) -> str:
    if kind == _TABLES:
        return f"`{name}`<br>{kind}"
    variable = "AGENTJOBS_CONFIG" if name == "config_file" else ENVIRONMENT_PREFIX + name.upper()
    return f"`{variable}`<br>{kind}"


def _relink(text: str) -> str:
    """Links of a page in docs/, for a page one directory deeper."""
    text = re.sub(r"\]\(#", "](../operating.md#", text)
    return re.sub(r"\]\((?=[a-z-]+\.md)", "](../", text)
