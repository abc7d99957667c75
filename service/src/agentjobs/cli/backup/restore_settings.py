"""The settings that a restore uses, and the settings file that it restores."""

import os
import tomllib
from pathlib import Path

from agentjobs.cli.backup.copy import SETTINGS_FILE
from agentjobs.cli.backup.restore_result import Restored
from agentjobs_runtime.settings import Settings, load

_CONFIG = "AGENTJOBS_CONFIG"
# Settings that belong to a machine; a restored file may have those of another one.
_OF_MACHINE = ("database_url", "public_url", "repositories_dir")


def settings_for(data_dir: Path | None, directory: Path) -> Settings:
    """Uses the settings file of the backup if there is none on this machine."""
    chosen = None if data_dir is None else str(data_dir)
    saved, named = directory / SETTINGS_FILE, os.environ.get(_CONFIG)
    if not saved.is_file() or (named and Path(named).exists()):
        return load(data_dir=chosen)
    if not named:
        settings = load(data_dir=chosen)
        if Path(settings.config_file).exists():
            return settings
    return load({**os.environ, _CONFIG: str(saved)}, data_dir=chosen)


def restore_settings_file(directory: Path, settings: Settings, result: Restored) -> None:
    saved = directory / SETTINGS_FILE
    file = Path(os.environ.get(_CONFIG) or settings.data_path / SETTINGS_FILE)
    if not saved.is_file():
        return
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        result.settings_file = "kept"
        if not file.exists():
            result.notes.append(f"Copy {saved} to {file}: {error.strerror}.")
        elif file.read_bytes() != saved.read_bytes():
            result.notes.append(f"{file} was kept; it differs from {saved}.")
        return
    with os.fdopen(descriptor, "wb") as written:
        written.write(saved.read_bytes())
    result.settings_file = "restored"
    values = tomllib.loads(saved.read_text(encoding="utf-8"))
    if names := [name for name in _OF_MACHINE if name in values]:
        result.notes.append(f"Check {', '.join(names)} in {file} if this is another machine.")
