"""A definition of an environment as text, as `.agentjobs.toml` has it: parsed and written."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.repo_configuration import FILE_NAME, ConfigurationError, parse_configuration

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def parse_environment(content: bytes, source: str) -> tuple[EnvironmentDefinition, tuple[str, ...]]:
    """The definition, and warnings. `source` names the text in messages. Raises Problem."""
    try:
        configuration = parse_configuration(content)
    except ConfigurationError as error:
        raise Problem("invalid_environment", f"{_name_source(str(error), source)}.") from None
    if configuration.environment is None:
        raise Problem(
            "invalid_environment",
            f"{source} has no table [environment]; write its keys below that line.",
        )
    warnings = tuple(_name_source(warning, source) for warning in configuration.warnings)
    return configuration.environment, warnings


def format_environment(definition: EnvironmentDefinition) -> str:
    lines = ["[environment]", *_fields(definition)]
    if definition.variables:
        lines += ["", "[environment.variables]", *_pairs(definition.variables)]
    for service in definition.services:
        lines += ["", "[[environment.services]]", *_fields(service)]
        if service.variables:
            lines += ["[environment.services.variables]", *_pairs(service.variables)]
    return "\n".join(lines) + "\n"


def _name_source(message: str, source: str) -> str:
    return source + message.removeprefix(FILE_NAME)


def _fields(definition: EnvironmentDefinition | ServiceDefinition) -> Iterator[str]:
    for field in msgspec.structs.fields(definition):
        value = getattr(definition, field.name)
        if field.name not in {"variables", "services"} and value != field.default:
            yield f"{field.name} = {_value(value)}"


def _pairs(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        yield f"{name if _BARE_KEY.fullmatch(name) else _line(name)} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_line, value))}]"
    if "\n" not in value:
        return _line(value)
    # The first line end of a multi-line string is not part of it.
    return '"""\n' + "\n".join(_line(line)[1:-1] for line in value.split("\n")) + '"""'


def _line(text: str) -> str:
    """JSON escapes as TOML does. Invisible characters are escaped too, so that readers see them."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08x}" for character in quoted
    )
