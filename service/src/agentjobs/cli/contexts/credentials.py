"""The file of contexts: named services, each with an API key. Only its owner can read it."""

import fcntl
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from agentjobs_runtime.private_files import replace_private_file
from agentjobs_runtime.problems import Problem

FILE_NAME = "credentials.toml"
# Nothing that a shell or TOML would interpret; hosts, ports and IPv6 addresses are names.
_NAME = re.compile(r"[A-Za-z0-9_.:@/\[\]-]{1,128}")
_KEYS = ("url", "api_key", "ca_file")
_MAX_BYTES = 256 * 1024


class Context(NamedTuple):
    """`ca_file` has further certificates that its service may have."""

    name: str
    url: str
    api_key: str
    ca_file: str | None = None


class Credentials(NamedTuple):
    """`current` is the name of the context that commands use by default."""

    current: str | None
    contexts: Mapping[str, Context]

    def find(self, name: str) -> Context:
        context = self.contexts.get(name)
        if context is None:
            known = ", ".join(sorted(self.contexts)) or "none; run `agentjobs login`"
            raise Problem("context_not_found", f"There is no context {name!r} (known: {known}).")
        return context

    def with_context(self, context: Context) -> "Credentials":
        """Adds a context, which becomes the current one."""
        return Credentials(context.name, {**self.contexts, context.name: context})

    def without_context(self, name: str) -> "Credentials":
        self.find(name)
        others = {other: context for other, context in self.contexts.items() if other != name}
        return Credentials(None if self.current == name else self.current, others)


def credentials_path(environ: Mapping[str, str] | None = None) -> Path:
    """The file is in $XDG_CONFIG_HOME, which must be absolute, or ~/.config."""
    environ = os.environ if environ is None else environ
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / ".config"
        except RuntimeError:
            reason = "Your home directory is unknown: set HOME, or XDG_CONFIG_HOME."
            raise Problem("no_home_directory", reason) from None
    return base / "agentjobs" / FILE_NAME


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Problem(
            "invalid_context_name",
            f"{name!r} cannot name a context: use 1 to 128 letters, digits and . _ : @ / [ ] -",
        )
    return name


def load_credentials(path: Path) -> Credentials:
    """Empty if there is no such file. Refuses a file that other users can read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return Credentials(None, {})
    with os.fdopen(descriptor, "rb") as file:
        _check_privacy(path, os.fstat(file.fileno()))
        content = file.read(_MAX_BYTES)
    try:
        return _parse(tomllib.loads(content.decode()))
    except (ValueError, TypeError) as error:
        raise Problem(
            "invalid_credentials_file",
            f"{path} is not valid ({error}): correct it, or delete it and run `agentjobs login`.",
        ) from None


@contextmanager
def edit_credentials(path: Path) -> Iterator[tuple[Credentials, Callable[[Credentials], None]]]:
    """The credentials and a function that stores others, while no other process changes them."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield load_credentials(path), partial(_store, path)
    finally:
        os.close(directory)


def _store(path: Path, credentials: Credentials) -> None:
    # A link, such as of a collection of dotfiles, stays one.
    target = Path(os.path.realpath(path))
    replace_private_file(target, _format(credentials).encode())
    # Killed processes leave such files: their keys must not outlive a logout.
    for leftover in target.parent.glob(f".{target.name}.*"):
        leftover.unlink(missing_ok=True)


def _check_privacy(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Problem("invalid_credentials_file", f"{path} is not a regular file.")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise Problem(
            "credentials_not_private",
            f"Other users can access {path}, which contains API keys: run `chmod 600 {path}`, and "
            "revoke the keys if others may have read them.",
        )


def _parse(document: dict[str, Any]) -> Credentials:
    tables = document.get("contexts", {})
    if not isinstance(tables, dict):
        raise TypeError("contexts must be a table")
    contexts = {}
    for name, fields in tables.items():
        values = [fields.get(key) if isinstance(fields, dict) else None for key in _KEYS]
        url, api_key, ca_file = values
        if not isinstance(url, str) or not isinstance(api_key, str):
            raise TypeError(f"context {name} must have the strings url and api_key")
        if not isinstance(ca_file, str | None):
            raise TypeError(f"ca_file of context {name} must be a string")
        contexts[check_name(name)] = Context(name, url, api_key, ca_file)
    current = document.get("current")
    return Credentials(current if current in contexts else None, contexts)


def _format(credentials: Credentials) -> str:
    lines = ["# Written by `agentjobs login`."]
    if credentials.current is not None:
        lines.append(f"current = {_quote(credentials.current)}")
    for context in credentials.contexts.values():
        lines += [
            "",
            f"[contexts.{_quote(context.name)}]",
            f"url = {_quote(context.url)}",
            f"api_key = {_quote(context.api_key)}",
        ]
        if context.ca_file is not None:
            lines.append(f"ca_file = {_quote(context.ca_file)}")
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    """A string of JSON is one of TOML, too, except that DEL is escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
