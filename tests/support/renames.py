"""Commands and settings that were renamed since the acceptance tests were written.

The acceptance tests judge changes of the whole product, so they stay as they are: a rename is
listed here instead, and nothing else of it.
"""

from collections.abc import Mapping, Sequence

# The first words of a command line, and what replaces them.
COMMANDS: dict[tuple[str, ...], tuple[str, ...]] = {("forges",): ("platforms",)}
SETTINGS: dict[str, str] = {"AGENTJOBS_FORGE_POLL_SECONDS": "AGENTJOBS_PLATFORM_POLL_SECONDS"}


def rename_command(arguments: Sequence[str]) -> list[str]:
    for old, new in COMMANDS.items():
        if tuple(arguments[: len(old)]) == old:
            return [*new, *arguments[len(old) :]]
    return list(arguments)


def rename_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {SETTINGS.get(name, name): value for name, value in environment.items()}
