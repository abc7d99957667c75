"""Loads the settings: flags override `AGENTJOBS_*` variables, which override `agentjobs.toml`."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentjobs_runtime.settings.checks import check
from agentjobs_runtime.settings.file_access import create_data_directory, explain_unreadable_file
from agentjobs_runtime.settings.locations import SettingsFileError, find_setting_line
from agentjobs_runtime.settings.model import Settings

ENVIRONMENT_PREFIX = "AGENTJOBS_"

_LISTS = (list[str], tuple[str, ...], tuple[float, ...])
# Variables with the prefix that are not settings of the service.
_OTHER_VARIABLES = frozenset({"CONFIG", "CONTEXT", "URL", "API_KEY", "TRACEBACK"})
_TABLES = frozenset({"plans", "agents", "prices"})
_NOT_ALLOWED_IN_FILE = {
    "data_dir": "--data-dir or AGENTJOBS_DATA_DIR",
    "config_file": "AGENTJOBS_CONFIG",
    # Backups include the file, and must not contain the key that decrypts them.
    "encryption_key": "AGENTJOBS_ENCRYPTION_KEY, or put it into the file encryption.key",
    "oidc_client_secret": "AGENTJOBS_OIDC_CLIENT_SECRET",
}


class SettingsError(Exception):
    """An invalid setting; the message names it and says what is accepted."""


def fault_at(settings: Settings, path: str, reason: str) -> SettingsError:
    """An error that a feature found in the file; `path` is like `agents[0].command`."""
    fault = SettingsFileError(path, reason)
    try:
        text = Path(settings.config_file).read_text(encoding="utf-8")
    except OSError:
        return SettingsError(fault.reason)
    return SettingsError(
        f"{settings.config_file}, line {find_setting_line(text, path)}: {fault.reason}"
    )


def load(environ: Mapping[str, str] | None = None, **flags: Any) -> Settings:
    """Load the settings. A flag that is None counts as not given."""
    environ = os.environ if environ is None else environ
    given = {name: value for name, value in flags.items() if value is not None}
    data_dir = Path(
        given.get("data_dir") or environ.get("AGENTJOBS_DATA_DIR") or _default_data_dir(environ)
    ).expanduser()
    named_file = environ.get("AGENTJOBS_CONFIG")
    path = Path(named_file) if named_file else data_dir / "agentjobs.toml"
    file_values = _from_file(path, must_exist=bool(named_file))
    values = {**file_values, **_from_environment(environ), **given}
    values["data_dir"] = str(data_dir.absolute())
    values["config_file"] = str(path.absolute())
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"a setting is invalid: {error}") from None
    try:
        check(settings)
    except SettingsFileError as error:
        name = error.path.partition("[")[0]
        if name in file_values and values[name] is file_values[name]:
            raise fault_at(settings, error.path, error.detail) from None
        raise SettingsError(error.reason) from None
    return settings


def prepare_data_directory(settings: Settings) -> None:
    """Create it if it does not exist; raises SettingsError if this user cannot use it."""
    if (problem := create_data_directory(settings.data_path)) is not None:
        raise SettingsError(problem)


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables with the prefix that are not settings, most likely misspelled."""
    known = {field.name.upper() for field in msgspec.structs.fields(Settings)} | _OTHER_VARIABLES
    ours = {name.removeprefix(ENVIRONMENT_PREFIX) for name in environ if _is_ours(name)}
    return sorted(ENVIRONMENT_PREFIX + name for name in ours - known)


def _is_ours(name: str) -> bool:
    return name.startswith(ENVIRONMENT_PREFIX) and not name.startswith("AGENTJOBS_TEST_")


def _default_data_dir(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_DATA_HOME") or "~/.local/share"
    return f"{base}/agentjobs"


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(Settings):
        text = environ.get(ENVIRONMENT_PREFIX + field.name.upper())
        if text is None or field.name in _TABLES:
            continue
        values[field.name] = _split_list(text) if field.type in _LISTS else text
    return values


def _split_list(text: str) -> list[str]:
    return text.split(",") if text.strip() else []


def _from_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if must_exist:
            raise SettingsError(
                f"AGENTJOBS_CONFIG names {path}, which does not exist: create it, or unset the"
                " variable"
            ) from None
        return {}
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not a text in UTF-8: save it as one") from None
    except OSError as error:
        raise SettingsError(explain_unreadable_file(path, error)) from None
    try:
        values = tomllib.loads(text)
        for name, flag in _NOT_ALLOWED_IN_FILE.items():
            if name in values:
                raise SettingsFileError(name, f"set it with {flag}")
        _convert_file(values)
    except RecursionError:
        raise SettingsError(f"{path} is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        end = f"at line {len(text.splitlines()) or 1}, the end of the document"
        reason = str(error).replace("at end of document", end)
        raise SettingsError(f"{path} is not valid TOML: {reason}") from None
    except SettingsFileError as error:
        line = find_setting_line(text, error.path)
        raise SettingsError(f"{path}, line {line}: {error.reason}") from None
    return values


def _convert_file(values: Mapping[str, Any]) -> None:
    try:
        msgspec.convert({**values, "data_dir": "."}, Settings, strict=True)
    except msgspec.ValidationError as error:
        raise SettingsFileError.from_msgspec(str(error)) from None
