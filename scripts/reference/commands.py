"""The reference of the command line, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

from agentjobs.cli.commands import COMMANDS, PROGRAM, load_command
from scripts.reference.markdown import cell, code_block, in_code

INTRODUCTION = """# Commands

Every command with its arguments and options, as `--help` shows them.
[The command line](../command-line.md) explains contexts, waiting and exit codes.
"""


def render_commands() -> str:
    parts = [INTRODUCTION]
    for name in sorted(COMMANDS):
        parts.extend(_sections([name], load_command(name)))
    return "\n".join(parts)


def _sections(path: list[str], command: Any) -> Iterator[str]:
    level = "#" * min(len(path) + 1, 4)
    yield f"{level} {PROGRAM} {' '.join(path)}\n"
    yield f"{_prose(command.help or '')}\n"
    verbs = getattr(command, "commands", None)
    if verbs is None:
        yield from _usage(path, command)
        return
    for name in sorted(verbs):
        yield from _sections([*path, name], verbs[name])


def _usage(path: list[str], command: Any) -> Iterator[str]:
    context = command.make_context(path[-1], [], resilient_parsing=True)
    yield code_block("text", " ".join([PROGRAM, *path, *command.collect_usage_pieces(context)]))
    records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [f"| {in_code(name)} | {cell(text)} |" for name, text in filter(None, records)]
    yield "\n".join(["", "| parameter | meaning |", "|---|---|", *rows, ""]) if rows else ""


def _prose(text: str) -> str:
    """Help as Markdown: paragraphs stay, and a tag is text."""
    return "\n\n".join(cell(part).replace("\\|", "|") for part in text.split("\n\n"))
