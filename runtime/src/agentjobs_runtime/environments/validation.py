"""Converts a definition from plain values, as TOML and JSON have them, and bounds it.

Pure; the caller knows the file and finds the line of a `DefinitionError`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.environments.images.reference import parse_reference
from agentjobs_runtime.repo_files.patterns import parse_patterns
from agentjobs_runtime.sandboxes.slots import MAX_SERVICES
from agentjobs_runtime.toml_lines import ValuePath

MAX_COMMAND_BYTES = 16 * 1024
MAX_VARIABLES = 100
MAX_VARIABLE_BYTES = 16 * 1024
MAX_CACHE_PATTERNS = 100

OnUnknown = Callable[[ValuePath, tuple[str, ...]], None]

_SERVICE_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
# The sandbox sets them. PATH may be set: it has no effect outside of the sandbox.
_RESERVED_NAMES = ("HOME", "TMPDIR")
_RESERVED_PREFIX = "AGENTJOBS_"
_COMMANDS = ("setup", "start", "command", "ready")


class DefinitionError(ValueError):
    """The value at `path`, inside the definition, is invalid."""

    def __init__(self, path: ValuePath, reason: str) -> None:
        super().__init__(reason)
        self.path = path


def convert_definition(values: Mapping[str, Any], on_unknown: OnUnknown) -> EnvironmentDefinition:
    """Raises DefinitionError. `on_unknown` is called with each unknown key and the known ones."""
    fields = {key: value for key, value in values.items() if key != "services"}
    return EnvironmentDefinition(
        **_convert_fields(fields, EnvironmentDefinition, (), on_unknown),
        services=_convert_services(values.get("services", []), on_unknown),
    )


def variable_fault(name: str, value: str) -> str:
    """Why this variable cannot be set; empty if it can."""
    if not _VARIABLE_NAME.fullmatch(name):
        return "must have a name of 1 to 100 letters, digits and _, without a digit at the start"
    if name in _RESERVED_NAMES or name.startswith(_RESERVED_PREFIX):
        return "cannot be set: the service sets HOME, TMPDIR and names that start with AGENTJOBS_"
    if not _is_text(value, MAX_VARIABLE_BYTES):
        return f"must have a value of at most {MAX_VARIABLE_BYTES // 1024} KiB, without a NUL"
    return ""


def _convert_services(tables: Any, on_unknown: OnUnknown) -> tuple[ServiceDefinition, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise DefinitionError(("services",), "must be tables [[environment.services]]")
    if len(tables) > MAX_SERVICES:
        path = ("services", MAX_SERVICES)
        raise DefinitionError(path, f"must be at most {MAX_SERVICES} services")
    services: list[ServiceDefinition] = []
    for index, table in enumerate(tables):
        path = ("services", index)
        fields = _convert_fields(table, ServiceDefinition, path, on_unknown)
        if "name" not in fields:
            raise DefinitionError(path, "must have a name")
        service = ServiceDefinition(**fields)
        if any(service.name == other.name for other in services):
            raise DefinitionError((*path, "name"), "must be different from those of other services")
        if not service.image and not service.command:
            raise DefinitionError(path, "must have an image or a command")
        services.append(service)
    return tuple(services)


def _convert_fields(
    values: Mapping[str, Any],
    schema: type[EnvironmentDefinition | ServiceDefinition],
    path: ValuePath,
    on_unknown: OnUnknown,
) -> dict[str, Any]:
    types = {field.name: field.type for field in msgspec.structs.fields(schema)}
    converted = {}
    for key, value in values.items():
        if key not in types:
            on_unknown((*path, key), tuple(types))
        elif key == "variables":
            converted[key] = _convert_variables(value, (*path, key))
        else:
            converted[key] = _convert_value(key, value, types[key], (*path, key))
    return converted


def _convert_variables(value: Any, path: ValuePath) -> dict[str, str]:
    if not isinstance(value, dict):
        raise DefinitionError(path, "must be a table of variables")
    if len(value) > MAX_VARIABLES:
        raise DefinitionError(path, f"must be at most {MAX_VARIABLES} variables")
    for name, text in value.items():
        reason = variable_fault(name, text) if isinstance(text, str) else "must be a string"
        if reason:
            raise DefinitionError((*path, name), reason)
    return value


def _convert_value(key: str, value: Any, expected_type: Any, path: ValuePath) -> Any:
    try:
        converted = msgspec.convert(value, expected_type)
        if key == "cache":
            _check_cache(converted)
    except ValueError as error:
        raise DefinitionError(path, str(error).replace(" | null`", "`")) from None
    if reason := _text_fault(key, converted):
        raise DefinitionError(path, reason)
    return converted.strip() if isinstance(converted, str) else converted


def _check_cache(patterns: tuple[str, ...]) -> None:
    if len(patterns) > MAX_CACHE_PATTERNS:
        raise ValueError(f"must have at most {MAX_CACHE_PATTERNS} entries")
    parse_patterns(patterns)


def _text_fault(key: str, text: str) -> str:
    if key == "image":
        return _image_fault(text) if text else ""
    if key == "name" and not _SERVICE_NAME.fullmatch(text):
        return "must have 1 to 32 characters (a-z, 0-9, -) and start with a letter"
    if key in _COMMANDS and not _is_text(text, MAX_COMMAND_BYTES):
        return f"must be a shell command of at most {MAX_COMMAND_BYTES // 1024} KiB, without a NUL"
    return ""


def _image_fault(reference: str) -> str:
    try:
        parse_reference(reference)
    except ImageError as error:
        return str(error).removesuffix(".")
    return ""


def _is_text(value: str, max_bytes: int) -> bool:
    """JSON can have surrogates that cannot be encoded."""
    try:
        return "\0" not in value and len(value.encode()) <= max_bytes
    except UnicodeEncodeError:
        return False
