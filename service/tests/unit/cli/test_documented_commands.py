"""The commands and options in the documentation exist."""

import re
import shlex
from collections.abc import Iterator

from agentjobs.cli.commands import COMMANDS, load_command
from tests.support.documented_blocks import blocks_of, pages

_INLINE = re.compile(r"`(agentjobs [^`\n]+)`")
# At the start of a line, of a part of a pipe, or of a substitution.
_CALL = re.compile(r"(?:^|[|(]\s*)agentjobs ([a-z][^|#;)]*)")


def documented_calls() -> Iterator[list[str]]:
    for page in pages():
        text = page.read_text().replace("\\\n", " ")
        blocks = (block.text.replace("\\\n", " ") for block in blocks_of(page))
        lines = [line for block in blocks for line in block.splitlines()]
        for line in [*lines, *_INLINE.findall(text)]:
            for call in _CALL.findall(line):
                yield shlex.split(call)


def find_fault(words: list[str]) -> str | None:
    if words[0] not in COMMANDS:
        return words[0]
    command = load_command(words[0])
    rest = words[1:]
    while rest and (verb := getattr(command, "commands", {}).get(rest[0])) is not None:
        command, rest = verb, rest[1:]
    if rest and hasattr(command, "commands"):
        return rest[0]
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    options = (word.partition("=")[0] for word in rest if word.startswith("--"))
    return next((option for option in options if option not in {*known, "--help"}), None)


def test_every_call_in_the_documentation_can_be_made() -> None:
    calls = list(documented_calls())
    assert len(calls) > 150
    assert [(words, fault) for words in calls if (fault := find_fault(words))] == []


def test_a_command_or_option_that_does_not_exist_is_a_fault() -> None:
    assert find_fault(["jobs", "list", "--status", "queued"]) is None
    assert find_fault(["job", "list"]) == "job"
    assert find_fault(["jobs", "lst"]) == "lst"
    assert find_fault(["repos", "environment", "sho", "a/b"]) == "sho"
    assert find_fault(["jobs", "list", "--state=queued"]) == "--state"
