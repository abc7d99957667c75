"""`.agentjobs.toml`: the schema and parser of a repository's configuration file.

Does not know git or agents. The caller ensures that the file only narrows what a job may do.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec

from agentjobs_runtime.agents.definitions import OnVerifyFailure
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.validation import DefinitionError, convert_definition
from agentjobs_runtime.outbound.guard.host_patterns import parse_pattern
from agentjobs_runtime.repo_files.patterns import DEFAULT_FIXTURES, parse_patterns
from agentjobs_runtime.repo_files.rules import format_paths
from agentjobs_runtime.repo_files.service_files import ServiceFile
from agentjobs_runtime.toml_lines import ValuePath, find_line

(FILE_NAME,) = ServiceFile.CONFIGURATION.value
MAX_BYTES = 64 * 1024
MAX_ENTRIES = 100
MAX_SECONDS = 7 * 86_400
MAX_COST_USD = 1_000_000
MAX_NAME_CHARACTERS = 100
MAX_WARNINGS = 20
MAX_DOTS = 200

Severity = Literal["low", "medium", "high", "critical", "none"]
# What one pull request with fixes of vulnerable packages has: a package in all files, all packages
# of a directory or an ecosystem, or everything that reaches the threshold.
FixGrouping = Literal["package", "directory", "ecosystem", "severity"]
DEFAULT_GROUPING: FixGrouping = "package"


_CHOICES = {
    "on_verify_failure": get_args(OnVerifyFailure),
    "auto_trigger_on_cve_severity": get_args(Severity),
    "group": get_args(FixGrouping),
}
SEVERITY_ALIASES = {"moderate": "medium"}


class ConfigurationError(Exception):
    """The file is invalid; the message names the line and the accepted values."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        location = FILE_NAME if line is None else f"{FILE_NAME}, line {line}"
        super().__init__(f"{location}: {reason}")


class RunConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for a run of one agent. None means the file does not set the key.

    An empty `network` allows no hosts; an empty `verify` runs nothing.
    """

    verify: tuple[str, ...] | None = None
    on_verify_failure: OnVerifyFailure | None = None
    timeout_seconds: int | None = None
    max_cost_usd: float | None = None
    network: tuple[str, ...] | None = None


class FixConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[fixes]`, for fixes of vulnerable packages."""

    group: FixGrouping = DEFAULT_GROUPING


class InventoryConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[inventory]`. `fixtures` are patterns that replace the default."""

    fixtures: tuple[str, ...] = DEFAULT_FIXTURES


class Configuration(RunConfiguration, frozen=True, kw_only=True):
    """The whole file; `warnings` go to the job's log."""

    protected_paths: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    draft: bool | None = None
    auto_trigger_on_cve_severity: Severity | None = None
    agents: Mapping[str, RunConfiguration] = {}
    fixes: FixConfiguration = FixConfiguration()
    inventory: InventoryConfiguration = InventoryConfiguration()
    environment: EnvironmentDefinition | None = None
    warnings: tuple[str, ...] = ()

    def for_agent(self, agent_id: str) -> RunConfiguration:
        """`[agents.<id>]` overrides the top-level settings, key by key."""
        own = self.agents.get(agent_id, RunConfiguration())
        return RunConfiguration(
            **{
                name: getattr(self, name) if getattr(own, name) is None else getattr(own, name)
                for name in RunConfiguration.__struct_fields__
            }
        )


def parse_configuration(content: bytes) -> Configuration:
    """Raises ConfigurationError. Unknown keys only produce warnings."""
    text, values = _load(content)
    warnings: list[str] = []
    tables = values.pop("agents", {})
    if not isinstance(tables, dict) or not all(
        isinstance(table, dict) for table in tables.values()
    ):
        line = find_line(text, ("agents",))
        raise ConfigurationError("agents: must be tables [agents.<id>]", line)
    if len(tables) > MAX_ENTRIES:
        raise ConfigurationError(f"agents: must be at most {MAX_ENTRIES} tables")
    fixes = _pop_table(text, values, "fixes")
    inventory = _pop_table(text, values, "inventory")
    environment = _pop_table(text, values, "environment") if "environment" in values else None
    top_level = _convert_table(text, values, Configuration, (), warnings)
    agents = {
        agent_id: RunConfiguration(
            **_convert_table(text, table, RunConfiguration, ("agents", agent_id), warnings)
        )
        for agent_id, table in tables.items()
    }
    return Configuration(
        **top_level,
        agents=agents,
        fixes=FixConfiguration(
            **_convert_table(text, fixes, FixConfiguration, ("fixes",), warnings)
        ),
        inventory=InventoryConfiguration(
            **_convert_table(text, inventory, InventoryConfiguration, ("inventory",), warnings)
        ),
        environment=_convert_environment(text, environment, warnings),
        warnings=tuple(warnings),
    )


def _pop_table(text: str, values: dict[str, Any], name: str) -> dict[str, Any]:
    table = values.pop(name, {})
    if not isinstance(table, dict):
        raise ConfigurationError(f"{name}: must be a table [{name}]", find_line(text, (name,)))
    return table


def _load(content: bytes) -> tuple[str, dict[str, Any]]:
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = content.decode("utf-8-sig")
        _reject_deep_keys(text)
        return text, tomllib.loads(text)
    except UnicodeDecodeError:
        raise ConfigurationError("is not UTF-8") from None
    except RecursionError:
        raise ConfigurationError("is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        end = f"at line {len(text.splitlines()) or 1}, the end of the document"
        reason = str(error).replace("at end of document", end)
        raise ConfigurationError(f"is not valid TOML: {reason}") from None
    except ValueError:
        raise ConfigurationError("contains a number with too many digits") from None


def _reject_deep_keys(text: str) -> None:
    """tomllib takes time quadratic in the depth of a key: 20 seconds for 60 KB of dots."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MAX_DOTS:
            raise ConfigurationError(f"has more than {MAX_DOTS} dots", number)


def _convert_table(
    text: str,
    values: Mapping[str, Any],
    schema: type[RunConfiguration | FixConfiguration | InventoryConfiguration],
    table: ValuePath,
    warnings: list[str],
) -> dict[str, Any]:
    """Convert key by key, so that an error can name its line; `table` is empty for the top."""
    types = {field.name: field.type for field in msgspec.structs.fields(schema)}
    types.pop("warnings", None)
    converted = {}
    for key, value in values.items():
        if key not in types:
            _warn_of_unknown_key(text, (*table, key), types, warnings)
            continue
        try:
            converted[key] = _convert_value(key, value, types[key])
        except ValueError as error:
            reason = str(error).replace(" | null`", "`")
            raise ConfigurationError(f"{key}: {reason}", find_line(text, (*table, key))) from None
    return converted


def _convert_environment(
    text: str, table: Mapping[str, Any] | None, warnings: list[str]
) -> EnvironmentDefinition | None:
    if table is None:
        return None
    try:
        return convert_definition(
            table,
            lambda path, known: _warn_of_unknown_key(text, ("environment", *path), known, warnings),
        )
    except DefinitionError as error:
        path: ValuePath = ("environment", *error.path)
        key = next(str(part) for part in reversed(path) if isinstance(part, str))
        reason = f"{format_paths([key.encode()])}: {error}"
        raise ConfigurationError(reason, find_line(text, path)) from None


def _warn_of_unknown_key(
    text: str, path: ValuePath, known: Iterable[str], warnings: list[str]
) -> None:
    # Look up the line only for messages: a hostile file may have many keys and lines.
    if len(warnings) < MAX_WARNINGS:
        reason = _unknown_key_message(str(path[-1]), known)
        warnings.append(f"{FILE_NAME}, line {find_line(text, path)}: {reason}")


def _unknown_key_message(key: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(key[:MAX_NAME_CHARACTERS], known, n=1)
    suggestion = f", did you mean {close[0]}?" if close else ""
    return f"{format_paths([key.encode()])} is not a key of this file and has no effect{suggestion}"


def _convert_value(key: str, value: Any, expected_type: Any) -> Any:
    if key == "verify" and isinstance(value, str):
        value = ["sh", "-c", value] if value.strip() else []
    if key == "auto_trigger_on_cve_severity" and isinstance(value, str):
        value = SEVERITY_ALIASES.get(value.lower(), value.lower())
    if key in _CHOICES and value not in _CHOICES[key]:
        raise ValueError(f"must be one of {', '.join(_CHOICES[key])}")
    converted = msgspec.convert(value, expected_type)
    if isinstance(converted, tuple):
        _check_entries(key, converted)
    elif isinstance(converted, int | float) and not isinstance(converted, bool):
        _check_number(key, converted)
    return converted


def _check_entries(key: str, entries: tuple[str, ...]) -> None:
    if len(entries) > MAX_ENTRIES:
        raise ValueError(f"must have at most {MAX_ENTRIES} entries")
    for entry in entries:
        if "\0" in entry or not entry.strip():
            raise ValueError("must not contain an empty string or a NUL")
    if key in {"protected_paths", "fixtures"}:
        parse_patterns(entries)
    if key == "network":
        for entry in entries:
            parse_pattern(entry)
    if key in {"reviewers", "labels"} and not all(
        entry.isprintable() and len(entry) <= MAX_NAME_CHARACTERS for entry in entries
    ):
        raise ValueError(f"must contain names of at most {MAX_NAME_CHARACTERS} characters")


def _check_number(key: str, number: float) -> None:
    maximum = MAX_SECONDS if key == "timeout_seconds" else MAX_COST_USD
    if not 0 < number <= maximum:
        raise ValueError(f"must be above 0 and at most {maximum}")
