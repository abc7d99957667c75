"""Reads an environment from `devcontainer.json`, as far as agents need it.

Pure. Names what is not supported, for the job's log.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.validation import (
    DefinitionError,
    convert_definition,
    variable_fault,
)
from agentjobs_runtime.json_with_comments import decode_json_with_comments
from agentjobs_runtime.repo_files.rules import format_paths
from agentjobs_runtime.repo_files.service_files import ServiceFile
from agentjobs_runtime.sandboxes.directories import WORKSPACE

MAX_BYTES = 64 * 1024

_COMMANDS = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
_SUPPORTED = frozenset({"image", "containerEnv", *_COMMANDS})
# They concern editors, and agents lack nothing without them.
_WITHOUT_EFFECT = frozenset({"$schema", "name", "customizations"})
_KEYS = {"setup": "the commands", "variables": "containerEnv"}
_VARIABLE = re.compile(
    r"\$\{(?:(?P<folder>(?:container|local)WorkspaceFolder(?P<base>Basename)?)"
    r"|(?P<unknown>devcontainerId|(?:localEnv|env):[^:{}]*+(?::(?P<default>[^{}]*+))?))\}"
)

OnNote = Callable[[str], None]


class DevcontainerError(Exception):
    """The file is invalid; the message names it and says what is expected."""


class Devcontainer(msgspec.Struct, frozen=True):
    """`definition` is None if the file only has what is not supported, such as a Dockerfile."""

    definition: EnvironmentDefinition | None
    notes: tuple[str, ...]


def parse_devcontainer(
    content: bytes, file_name: str = ServiceFile.DEVCONTAINER.value[0]
) -> Devcontainer:
    """Raises DevcontainerError."""
    notes: list[str] = []
    try:
        values = _load(content)
        _note_unsupported(values, notes.append)
        definition = _definition(values, notes.append) if values.get("image") else None
    except DefinitionError as error:
        key = str(error.path[0])
        raise DevcontainerError(f"{file_name}: {_KEYS.get(key, key)}: {error}") from None
    except ValueError as error:
        raise DevcontainerError(f"{file_name}: {error}") from None
    if definition is None:
        notes.append(
            "it names no image, so it is not used: name one, or add a table [environment] to"
            " .agentjobs.toml"
        )
    return Devcontainer(definition, tuple(f"{file_name}: {note}" for note in dict.fromkeys(notes)))


def _load(content: bytes) -> dict[str, Any]:
    if len(content) > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES // 1024} KiB")
    try:
        values = decode_json_with_comments(content)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if isinstance(values, dict):
        return values
    raise ValueError("must be a JSON object")


def _note_unsupported(values: Mapping[str, Any], on_note: OnNote) -> None:
    keys = [key.encode() for key in values if key not in _SUPPORTED | _WITHOUT_EFFECT]
    if keys:
        on_note(f"not supported and without effect: {format_paths(keys)}")


def _definition(values: Mapping[str, Any], on_note: OnNote) -> EnvironmentDefinition:
    """Raises ValueError."""
    image = values["image"]
    plain = {
        "image": _substitute(image, on_note) if isinstance(image, str) else image,
        "setup": _setup(values, on_note),
        "variables": _variables(values.get("containerEnv", {}), on_note),
    }
    return convert_definition(plain, lambda *_: None)


def _setup(values: Mapping[str, Any], on_note: OnNote) -> str:
    """All commands, one after the other, each in a shell of its own."""
    commands = [
        _substitute(command, on_note)
        for key in _COMMANDS
        for command in _commands(key, values.get(key))
    ]
    if len(commands) <= 1:
        return "".join(commands)
    return " && ".join(f"sh -c {shlex.quote(command)}" for command in commands)


def _commands(key: str, value: Any) -> list[str]:
    """A command is a text for a shell or a list of arguments; an object has several by name."""
    if isinstance(value, dict):
        return [command for item in value.values() for command in _commands(key, item or "")]
    if isinstance(value, list) and all(isinstance(argument, str) for argument in value):
        return [shlex.join(value)] if value else []
    if value is None or isinstance(value, str):
        return [value] if value and value.strip() else []
    raise ValueError(f"{key}: must be a string, a list of strings, or an object of these")


def _variables(value: Any, on_note: OnNote) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("containerEnv: must be an object of strings")
    variables = {}
    for name, text in value.items():
        if fault := variable_fault(name, text):
            on_note(f"containerEnv: {format_paths([name.encode()])} {fault}")
        else:
            variables[name] = _substitute(text, on_note)
    return variables


def _substitute(text: str, on_note: OnNote) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match["folder"]:
            return WORKSPACE.name if match["base"] else str(WORKSPACE)
        on_note(f"{format_paths([match[0].encode()])} is not known to the service")
        return match["default"] or ""

    return _VARIABLE.sub(replacement, text)
